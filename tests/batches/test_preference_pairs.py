"""Pairs as batches: each pair once an epoch, the chosen answer first, resumable."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.batches import pairs, preference_pairs
from helpers.batches.packing import ExampleTooLong
from helpers.batches.prompt_batches import PromptTooLong
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["Mia has two apples and nine pears."], 300)
WORDS = "Mia has two apples and nine pears".split()
ENDS = set(chat.eos_ids(TOKENIZER))
SETTINGS = {"batch": 2, "max_tokens": 40, "buckets": (32, 64), "seed": 0}


def made(count, seed=0):
    """Rows whose questions and answers are all different."""
    rng = np.random.default_rng(seed)

    def words():
        return " ".join(rng.choice(WORDS, rng.integers(1, 5)))

    return [
        {
            "question": f"{i} {words()}?",
            "chosen": f"{i} {words()}.",
            "rejected": words(),
        }
        for i in range(count)
    ]


def texts(batch):
    """(prompt, chosen, rejected) of each pair of a batch, by its masks."""
    pairs = []
    for p, mask in enumerate(batch["prompt_mask"]):
        both = zip(batch["completion"][p], batch["loss_mask"][p], strict=True)
        answers = [ids[mask > 0] for ids, mask in both]
        assert all(ids[-1] in ENDS and not ENDS & {*ids[:-1]} for ids in answers)
        prompt = tuple(batch["prompt"][p][mask > 0])
        pairs.append((prompt, *(chat.decode(TOKENIZER, ids) for ids in answers)))
    return pairs


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 2), st.integers(0, 99))
def test_every_pair_comes_once_an_epoch_and_the_chosen_answer_first(
    count, batch, epochs, seed
):
    rows = made(count, seed)
    source = pairs(rows, TOKENIZER, **SETTINGS | {"batch": batch}, epochs=epochs)
    seen = [pair for packed in source for pair in texts(packed)]
    prompts = chat.prompts_tokens(TOKENIZER, [row["question"] for row in rows])
    expected = [
        (tuple(prompt), row["chosen"], row["rejected"])
        for prompt, row in zip(prompts, rows, strict=True)
    ]
    assert sorted(seen) == sorted(expected * epochs)
    assert source.metrics["epoch"] == epochs


def test_a_run_does_not_go_on_with_other_pairs():
    rows = made(7)
    state = json.loads(json.dumps(pairs(rows, TOKENIZER, **SETTINGS).get_state()))
    turned = [
        row | {"chosen": row["rejected"], "rejected": row["chosen"]} for row in rows
    ]
    with pytest.raises(ValueError, match="chosen"):
        pairs(turned, TOKENIZER, **SETTINGS).set_state(state)
    with pytest.raises(ValueError, match="max_tokens was 40, here it is 50"):
        pairs(rows, TOKENIZER, **SETTINGS | {"max_tokens": 50}).set_state(state)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"chosen": "  "}, ValueError, "Pair 1: .* are the same, or one is empty"),
        ({"chosen": "Mia ", "rejected": "Mia"}, ValueError, "Pair 1: .* the same"),
        ({"rejected": "Mia has " * 30}, ExampleTooLong, "answer of pair 1 has"),
        ({"question": "Mia has " * 60}, PromptTooLong, "Prompt 1"),
    ],
)
def test_a_pair_that_compares_nothing_or_does_not_fit_is_named(changes, error, message):
    rows = made(3)
    rows[1] |= changes
    with pytest.raises(error, match=message):
        pairs(rows, TOKENIZER, **SETTINGS)


def test_rows_in_trls_forms_are_the_same_pairs():
    """Texts or messages, with a prompt or without; a null is an error that names it."""
    user, (good, bad) = (
        {"role": "user", "content": "Mia has"},
        [
            {"role": "assistant", "content": text}
            for text in ("two apples", "nine pears")
        ],
    )
    plain = {"prompt": "Mia has", "chosen": "two apples", "rejected": "nine pears"}
    forms = [
        {"question": "Mia has"} | plain,
        plain,
        {"prompt": [user], "chosen": [good], "rejected": [bad]},
        {"question": "Mia has", "chosen": [good], "rejected": [bad]},
        {"chosen": [user, good], "rejected": [user, bad]},
        plain | {"chosen": [user, good], "rejected": [user, bad]},
        {"chosen": "Mia has two apples", "rejected": "Mia has nine pears"},
    ]
    batch = {"batch": len(forms), "buckets": (64,)}
    first, *others = texts(next(pairs(forms, TOKENIZER, **SETTINGS | batch)))
    assert first[1:] == ("two apples", "nine pears") and set(others) == {first}
    for wrong, message in (
        ({"chosen": None}, "Pair 0: .* are the same, or one is empty"),
        ({"prompt": None, "ask": "Who?"}, "Pair 0: There is no prompt. Rename"),
        ({"prompt": "", "chosen": "two"}, "Pair 0: There is no prompt. Rename"),
        ({"chosen": [good, user]}, "Pair 0: After what both have in common"),
    ):
        with pytest.raises(ValueError, match=message):
            pairs([plain | wrong], TOKENIZER, **SETTINGS)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=6))
def test_matched_pairs_are_equally_bare_and_the_first_has_fewer_slips(judged):
    answers = [
        {"text": str(i), "slips": slips, "bare": bare}
        for i, (slips, bare) in enumerate(judged)
    ]
    expected = {
        (str(i), str(j))
        for i, (few, one) in enumerate(judged)
        for j, (many, other) in enumerate(judged)
        if few < many and one == other
    }
    matched = preference_pairs.matched(answers)
    assert len(matched) == len(expected) and set(matched) == expected
