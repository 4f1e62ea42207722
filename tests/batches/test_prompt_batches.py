"""Batches hold every example once per epoch, and a run continues where it stopped."""

import json
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.batches import prompt_batches
from helpers.model.vision_config import VisionConfig
from helpers.runtime import distributed
from helpers.text import chat


def make_examples(lengths, seed=0):
    """Examples with distinct tokens, so that a segment names the example it is."""
    rng = np.random.default_rng(seed)
    return [
        ([index + 1, *rng.integers(1, 1000, size - 1)], rng.integers(0, 2, size))
        for index, size in enumerate(lengths)
    ]


def packed_rows(examples, **settings):
    settings = {"batch": 2, "length": 16, "seed": 0} | settings
    return prompt_batches.packed_rows(examples, **settings)


def as_key(tokens, mask):
    """An example as packed: nothing of its own predicts its first token."""
    return tuple(map(int, tokens)), (0, *map(int, mask[1:]))


def segments(batch):
    """Cut a batch into its examples by walking its tokens one at a time."""
    examples = []
    for row in range(batch["tokens"].shape[0]):
        current = {}
        for t, segment in enumerate(batch["segment_ids"][row]):
            if segment:
                tokens, mask = current.setdefault(int(segment), ([], []))
                assert batch["positions"][row, t] == len(tokens)
                tokens.append(int(batch["tokens"][row, t]))
                mask.append(int(batch["loss_mask"][row, t]))
        examples += [(tuple(tokens), tuple(mask)) for tokens, mask in current.values()]
    return examples


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


unhurried = settings(deadline=None, max_examples=25)

lengths = st.lists(st.integers(1, 16), min_size=1, max_size=40)


# --- packing ---


@unhurried
@given(lengths, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_every_example_appears_exactly_once_per_epoch(lengths, batch, epochs, seed):
    examples = make_examples(lengths)
    source = packed_rows(examples, batch=batch, seed=seed, epochs=epochs)
    seen = Counter(example for packed in source for example in segments(packed))
    assert seen == Counter({as_key(*example): epochs for example in examples})
    assert source.metrics["epoch"] == epochs


@unhurried
@given(lengths, st.integers(1, 4))
def test_rows_are_whole_segments_then_padding(lengths, batch):
    """And no target is predicted from another example."""
    names = "tokens", "segment_ids", "positions", "loss_mask"
    for packed in packed_rows(make_examples(lengths), batch=batch, epochs=1):
        assert {name: a.shape for name, a in packed.items()} == dict.fromkeys(
            names, (batch, 16)
        )
        kinds = {name: a.dtype.name for name, a in packed.items()}
        assert kinds.pop("loss_mask") == "float32" and set(kinds.values()) == {"int32"}
        for ids in packed["segment_ids"]:
            used = ids[ids > 0]
            assert np.array_equal(ids[: len(used)], used)  # padding only at the end
            assert set(np.diff(used)) <= {0, 1} and (used[:1] == 1).all()
        padding = packed["segment_ids"] == 0
        assert not any(a[padding].any() for a in packed.values())
        segments, targets = packed["segment_ids"], packed["loss_mask"] == 1
        assert not targets[:, 0].any()
        assert (segments[:, 1:] == segments[:, :-1])[targets[:, 1:]].all()


@pytest.mark.parametrize(
    "examples, message",
    [
        ([], "no data"),
        ([([1, 2], [1, 1]), ([], [])], "Example 1 begins with .*at least one"),
        ([([1, 2], [1])], "as many"),
        ([([0, 1, 1], [5, 9, 6])], "tokens, mask.*this order"),
        ([([3, 4], [0, 0.5])], "zeros and ones"),
        ([([3, -4], [0, 1])], "whole numbers"),
        ([(["3", "4"], [0, 1])], "whole numbers"),
        ([(np.array([3, 2**31]), [0, 1])], "whole numbers"),
    ],
)
def test_broken_examples_are_named(examples, message):
    with pytest.raises(ValueError, match=message):
        packed_rows(examples)


# --- exact resume ---


@unhurried
@given(
    lengths,
    st.integers(1, 3),
    st.integers(0, 12),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([(0, 1), (0, 2), (1, 2)]),
)
def test_a_new_source_continues_exactly_after_any_batch(
    lengths, batch, taken, epochs, shard
):
    def new():
        settings = {"batch": batch, "seed": 3, "epochs": epochs}
        with mock.patch.object(distributed, "share", lambda: shard):
            return packed_rows(make_examples(lengths), **settings)

    source = new()
    for _ in range(taken):
        next(source, None)
    state = source.get_state()
    text = json.dumps(state)
    wanted = [(next(source, None), source.metrics) for _ in range(8)]
    assert json.dumps(state) == text  # a saved state does not move on

    later = new()
    for _ in range(2):  # wherever the new source happens to stand
        next(later, None)
    for again in (later, source):
        again.set_state(json.loads(text))
        for packed, metrics in wanted:
            other = next(again, None)
            if packed is None:
                assert other is None
            else:
                assert same(other, packed) and again.metrics == metrics


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"batch": 3}, "batch was 2, here it is 3"),
        ({"length": 32}, "length was 16, here it is 32"),
        ({"seed": 1}, "seed was 0, here it is 1"),
        ({"examples": make_examples([4] * 9, seed=1)}, "data: tokens changed"),
    ],
)
def test_a_state_of_another_run_is_refused(changed, message):
    examples = make_examples([4] * 9)
    state = packed_rows(examples).get_state()
    other = packed_rows(**{"examples": examples} | changed)
    with pytest.raises(ValueError, match=message):
        other.set_state(state)


# --- several processes ---


@unhurried
@given(
    lengths,
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3]),
)
def test_when_the_number_of_processes_changes_no_example_is_lost(lengths, taken, later):
    """Even if one of them was batches ahead, as a lone share may be at the end."""
    examples, epochs = make_examples(lengths), 2

    def share(index, count):
        settings = {"batch": 12 // count, "seed": 5, "epochs": epochs}
        with mock.patch.object(distributed, "share", lambda: (index, count)):
            return packed_rows(examples, **settings)

    seen = Counter()
    before = [share(index, len(taken)) for index in range(len(taken))]
    for source, batches in zip(before, taken, strict=True):
        for _, packed in zip(range(batches), source, strict=False):
            seen.update(segments(packed))
    states = json.loads(json.dumps([source.get_state() for source in before]))
    for index in range(later):
        source = share(index, later)
        source.set_states(states)
        seen.update(example for packed in source for example in segments(packed))
    assert seen == Counter({as_key(*example): epochs for example in examples})


# --- prompts ---


@pytest.fixture(scope="module")
def tokenizer():
    return chat.train_tokenizer(["What is 1+1? It is 2. user model"] * 5, 320)


def make_rows(count):
    return [
        {"question": f"What is {i}+1?", "answer": f"#### {i + 1}"} for i in range(count)
    ]


def test_prompts_carry_their_rows_and_their_tokens(tokenizer):
    rows = make_rows(10)
    source = prompt_batches.prompts(rows, tokenizer, batch=4, seed=0, epochs=1)
    batches = list(source)
    assert [len(batch["rows"]) for batch in batches] == [4, 4, 2]
    for batch in batches:
        for row, ids, mask in zip(
            batch["rows"], batch["prompt"], batch["prompt_mask"], strict=True
        ):
            wanted = chat.prompt_tokens(tokenizer, row["question"])
            assert ids[mask == 1].tolist() == wanted
            assert mask[: len(wanted)].all() and not ids[mask == 0].any()
    drawn = [row["answer"] for batch in batches for row in batch["rows"]]
    assert sorted(drawn) == sorted(row["answer"] for row in rows)
    assert drawn != [row["answer"] for row in rows]
    assert source.metrics["epoch"] == 1 and source.samples == []


@unhurried
@given(st.lists(st.integers(1, 64), min_size=1, max_size=6))
def test_the_smallest_bucket_that_holds_the_batch_is_used(lengths):
    lists = [list(range(1, size + 1)) for size in lengths]
    prompt, mask = prompt_batches.pad_prompts(lists, buckets=(64, 8, 32))
    width = 8 if max(lengths) <= 8 else 32 if max(lengths) <= 32 else 64
    assert prompt.shape == mask.shape == (len(lists), width)
    assert prompt.dtype == mask.dtype == np.int32
    for tokens, row, one in zip(lists, prompt, mask, strict=True):
        assert row.tolist() == tokens + [0] * (width - len(tokens))
        assert one.tolist() == [1] * len(tokens) + [0] * (width - len(tokens))


# --- rows with pictures ---

PLACE = VisionConfig(
    width=8, layers=1, heads=1, ff=8, patch=2, size=4, tokens=4,
    image_token=7, begin_token=8, end_token=9,
)  # fmt: skip


def seen(i):
    """The pictures of example i: none, one or two, each of another colour."""
    return [np.full((4, 4, 3), 8 * i + n, np.uint8) for n in range(1, 1 + i % 3)]


def shown(count):
    """Examples that begin with their own number, and have a place for each picture."""
    return [
        (tokens, [1] * len(tokens))
        for i in range(count)
        for tokens in [[100 + i, *[8, 7, 7, 7, 7, 9] * (i % 3), *[1] * (i % 5)]]
    ]


def rows_with_pictures(examples, pictures=seen, **settings):
    settings = {"batch": 3, "length": 24, "slots": 2, "seed": 5} | settings
    return packed_rows(examples, pictures=pictures, vision=PLACE, **settings)


def test_packed_rows_come_with_the_pictures_of_their_examples_in_order():
    packed = Counter()
    for batch in rows_with_pictures(shown(30), epochs=1):
        assert batch["images"].shape == (3, 2, 4, 4, 3)
        for row, images in zip(batch["tokens"], batch["images"], strict=True):
            inside = [int(token) - 100 for token in row if token >= 100]
            expected = [picture for i in inside for picture in seen(i)]
            assert len(expected) <= 2 and not images[len(expected) :].any()
            assert all(map(np.array_equal, images, expected))
            packed.update(inside)
    assert packed == Counter(range(30))


def test_a_prompt_longer_than_the_largest_bucket_is_an_error(tokenizer):
    rows = [*make_rows(3), {"question": "1" * 300}]
    message = (
        r"Prompt 3 has \d+ tokens, the largest bucket is 256.*"
        r"buckets=\(64, 128, 256, 512\)"
    )
    with pytest.raises(prompt_batches.PromptTooLong, match=message):
        prompt_batches.prompts(rows, tokenizer, batch=2, seed=0)
    with pytest.raises(prompt_batches.PromptTooLong, match="Prompt 1 has 9 tokens"):
        prompt_batches.pad_prompts([[1], [1] * 9], buckets=(4, 8))


def test_a_curriculum_asks_what_is_sometimes_right_and_resumes(tokenizer):
    rows, asked = make_rows(40), []
    number = {row["question"]: i for i, row in enumerate(rows)}
    chances = np.repeat([0.0, 1.0, 0.5], (20, 10, 10))  # of a right answer

    def make(**settings):
        return prompt_batches.prompts(rows, tokenizer, batch=8, seed=0, **settings)

    source = make(curriculum=True)
    for _ in range(60):
        state = json.loads(json.dumps(source.get_state()))
        asked.append([number[row["question"]] for row in next(source)["rows"]])
        source.record(np.repeat(chances[asked[-1]][:, None], 4, axis=1))
    assert 0.5 < np.mean(np.array(asked[30:]) >= 30) < 0.99
    again = make(curriculum=True)
    again.set_state(state)
    assert [number[row["question"]] for row in next(again)["rows"]] == asked[-1]
    with pytest.raises(ValueError, match="curriculum"):
        make().set_state(state)


def test_a_curriculum_draws_by_the_spread_of_rewards(tokenizer):
    """How often it draws each kind of row, beside a transcription of its rule."""
    rows, rates = make_rows(40), np.full(40, 0.5)
    number = {row["question"]: i for i, row in enumerate(rows)}
    right = np.repeat([0.0, 1.0, 0.5], (20, 10, 10))
    source = prompt_batches.prompts(rows, tokenizer, batch=1, seed=0, curriculum=True)
    drawn, expected = np.zeros((2, 3))
    for _ in range(600):
        spread = 0.02 + rates * (1 - rates)
        expected += np.add.reduceat(spread / spread.sum(), (0, 20, 30))
        i = number[next(source)["rows"][0]["question"]]
        drawn[np.digitize(i, (20, 30))] += 1
        rates[i] = (rates[i] + right[i]) / 2
        source.record(right[[i]][:, None])
    np.testing.assert_allclose(drawn, expected, atol=3 * 600**0.5 / 2)
