"""Answers with a calculator in them: who writes what, token by token."""

import functools
import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scripted_model import Scripted
from tiny_models import model as make

from helpers.batches import prompt_batches
from helpers.evaluation.evaluator import evaluate
from helpers.generation import calculator_use
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import Dialogue, row_keys
from helpers.model.scoring import group_logprobs
from helpers.rewards.functions import annotations_hold
from helpers.text import chat, encoding, rendering, tokenizer
from helpers.tools import calculator

SUM = "She has 48/2 = <<48/2=24>>24 = 24."
SUMS = [SUM, "<<6*5=30>>30 in all == 7.\n#### 30", "6*5=\n =\n==\nIn all =\n"]


def greedy_tokenizer():
    """One whose entries run across digits and marks, such as "<<6*" and "=30"."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "PIECES", r"[^\n]+")
        return chat.train_tokenizer(SUMS * 9, size=340)


TOKENIZERS = {
    "digit by digit": chat.train_tokenizer(SUMS * 3, size=300),
    "greedy": greedy_tokenizer(),
}
every_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)

# What the model writes and what the machine writes, in turn.
ANSWERS = [
    ["#### 7"],
    ["She has <<48/2=", "24>>", "24.\n<<24+48=", "72>>", "72.\n#### 72"],
    ["<<1/0=", "?>>", " or <<1/4=", "0.25>>", " or <<x=", "?>>", ""],
    ["7 = 7, a >> b << c >>= d\n<< 7\n= 7 <<1"],
    ["<<=", "?>>", "==<<5=", "5>>", "<<5+<<6=", "6>>", "\n<<100/3=", "33.3333>>", "="],
    ["<<2=", "2>>", "3=<<<(1+2)*3=", "9>>", ">>é=é"],
]


def encoded(name, pieces):
    """(tokens, mask) of pieces in turn, each encoded by itself, and the end."""
    ids = encoding.encode_plain(TOKENIZERS[name], pieces)
    ids[-1] = ids[-1] + [chat.eos_ids(TOKENIZERS[name])[0]]
    mask = [1 - i % 2 for i, piece in enumerate(ids) for _ in piece]
    return list(itertools.chain(*ids)), mask


def scripted_answers(name, answers, max_tokens, use=None, pad=None, members=3):
    """The Answers of a model that writes so: (tokens, mask) of each, P × members.

    Where the mask is 0 its script holds nonsense: the machine must write there.
    """
    tokenizer, pad = TOKENIZERS[name], pad or max_tokens
    nonsense, P = len(tokenizer) - 1, len(answers) // members
    script = np.full((len(answers), pad), nonsense)
    for row, (tokens, mask) in zip(script, answers, strict=True):
        row[: len(tokens)] = np.where(mask, tokens, nonsense)[:pad]
    prompts = [chat.prompt_tokens(tokenizer, "?" * (p + 1)) for p in range(P)]
    prompt, mask = prompt_batches.pad_prompts(prompts, (24,))
    shape = P, members, pad
    model = Scripted(script.reshape(shape), mask.sum(axis=1), len(tokenizer))
    keys = row_keys(jax.random.key(0), 0, P, members)
    batch = {"prompt": prompt, "prompt_mask": mask}
    limits = {"max_tokens": max_tokens, "temperature": 0.0}
    return (use or CalculatorUse()).answers(model, tokenizer, batch, keys, **limits)


def assert_as_scripted(done, answers, max_tokens, members=3):
    for index, (tokens, mask) in enumerate(answers):
        place, count = divmod(index, members), min(len(tokens), max_tokens)
        for ours, expected in ((done.tokens, tokens), (done.mask, mask)):
            np.testing.assert_array_equal(ours[place][:count], expected[:count])
            assert not ours[place][count:].any()
        assert done.ended[place] == (len(tokens) <= max_tokens)
        assert not done.logprobs[place][done.mask[place] == 0].any()


@every_tokenizer
@pytest.mark.parametrize("stride", [1, 16])
def test_the_machine_writes_behind_open_calls_and_nowhere_else(name, stride):
    """Six answers with none to four calls; a stride may end in a result."""
    answers = [encoded(name, pieces) for pieces in ANSWERS]
    done = scripted_answers(name, answers, 64, CalculatorUse(stride=stride))
    assert_as_scripted(done, answers, 64)
    assert sum(done.texts, []) == ["".join(pieces) for pieces in ANSWERS]
    assert done.metrics == {"calls": 11 / 6, "refused": 3 / 6}


@pytest.mark.parametrize("before", [0, 1, 99])
def test_a_budget_may_end_anywhere(before):
    """In a call, before its result, in the midst of it, behind it, after the end."""
    answers = [encoded("digit by digit", ["So 9 <<48/2=", "24>>", "24."])]
    called = answers[0][1].index(0)
    budget = min(called + before, len(answers[0][0]))
    done = scripted_answers("digit by digit", answers, budget, pad=40, members=1)
    assert_as_scripted(done, answers, budget, members=1)
    assert done.metrics["calls"] == 1


# ------------------------------------------------------------ demonstrations and loop

FRAGMENTS = ["<<48/2=24>>", "<<1+2=9>>", "<<7=", "<<5/3=", "<<2*(1+1)=<<3=x>>", " = "]
FRAGMENTS += ["=", ">>", ">", "\n", "é", " 24", "She has ", "#### 7", "<", "="]
solutions = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)
solutions = solutions.filter(str.strip)  # an empty one is refused


def demonstration(name, text, use):
    """(tokens, mask) of an answer as it is trained, from its first token to its end."""
    tokenizer = TOKENIZERS[name]
    ((tokens, mask),) = use.examples_tokens(tokenizer, ["Hi"], [text])
    start = len(chat.prompt_tokens(tokenizer, "Hi"))
    after = len(rendering.turn_end(tokenizer)[1])
    assert not any(mask[:start]) and not any(mask[len(mask) - after :])
    answer = slice(start, len(tokens) - after)
    return tokens[answer], mask[answer]


@every_tokenizer
@settings(max_examples=12, deadline=None)
@given(texts=st.lists(solutions, min_size=6, max_size=6), calls=st.integers(1, 3))
def test_demonstrations_are_what_the_loop_makes_of_the_same_text(name, texts, calls):
    """Token for token, of a model that writes exactly what the author wrote."""
    use = CalculatorUse(calls=calls)
    try:
        answers = [demonstration(name, text, use) for text in texts]
    except ValueError:
        reject()
    assert_as_scripted(scripted_answers(name, answers, 160, use), answers, 160)


# ------------------------------------------------------------ a model that is a model

TOKENIZER = TOKENIZERS["digit by digit"]
ROWS = [{"question": f"How many are {n} and {n * n}?"} for n in range(4)]
GROUP, BUDGET = 4, 24


@functools.cache
def policy():
    return make("llama", vocab=len(TOKENIZER), layers=2)


@pytest.fixture
def often(monkeypatch):
    """A sixth of all tokens stop an answer, and every stop is a call: 48/2."""
    stops = tuple(range(20, len(TOKENIZER), 6))
    monkeypatch.setattr(calculator_use, "stop_ids", lambda tokenizer, vocab: stops)
    monkeypatch.setattr(calculator, "opened", lambda text: "48/2")


def rollouts(use, reward=None, rows=ROWS, seed=0, model=None):
    """Rollouts of random answers; all count, however they ended."""
    return Rollouts(
        model or policy(),
        prompt_batches.prompts(rows, TOKENIZER, batch=len(rows), buckets=(64,), seed=0),
        reward,
        TOKENIZER,
        group=GROUP,
        max_tokens=BUDGET,
        mask_truncated=False,
        seed=seed,
        environment=use,
    )


def test_log_probs_are_those_of_a_forward_pass_without_a_cache(often):
    source = rollouts(CalculatorUse(calls=3, stride=8))
    batch = next(source)
    theirs, _ = jax.jit(functools.partial(group_logprobs, policy()))(
        {name: batch[name] for name in ("prompt", "prompt_mask", "completion")}
    )
    sampled = batch["loss_mask"] > 0
    assert np.abs(np.where(sampled, batch["logprobs"] - theirs, 0)).max() < 1e-4
    assert np.all(batch["logprobs"][~sampled] == 0)
    assert source.metrics["calls"] > 1.5 and source.metrics["refused"] == 0
    result = encoding.encode_plain(TOKENIZER, ["24>>"])[0]
    results = 0
    for place in np.ndindex(len(ROWS), GROUP):
        tokens = batch["completion"][place]
        for start in np.flatnonzero(~sampled[place] & (tokens > 0))[:: len(result)]:
            end = min(start + len(result), BUDGET)
            assert tokens[start:end].tolist() == result[: end - start]
            assert not sampled[place][start:end].any()
            results += 1
    assert results == source.metrics["calls"] * len(ROWS) * GROUP


def test_an_answer_depends_on_no_other_and_not_on_the_stride(often):
    prompts = [chat.prompt_tokens(TOKENIZER, row["question"]) for row in ROWS]
    prompt, mask = prompt_batches.pad_prompts(prompts, (64,))
    keys = row_keys(jax.random.key(3), 0, len(ROWS), GROUP)

    def answers(rows, stride=8):
        batch = {"prompt": prompt[rows], "prompt_mask": mask[rows]}
        use = CalculatorUse(calls=3, stride=stride)
        return use.answers(policy(), TOKENIZER, batch, keys[rows], max_tokens=BUDGET)

    everyone, alone = answers(slice(None)), answers(slice(2, 3), stride=3)
    assert everyone.mask.sum(axis=-1).min() < everyone.mask.sum(axis=-1).max()
    np.testing.assert_array_equal(everyone.tokens[2:3], alone.tokens)
    np.testing.assert_array_equal(everyone.mask[2:3], alone.mask)
    np.testing.assert_allclose(everyone.logprobs[2:3], alone.logprobs, atol=1e-5)


def test_other_limits_are_another_run():
    state = rollouts(CalculatorUse(calls=3)).get_state()
    for other in (CalculatorUse(calls=2), None):
        with pytest.raises(ValueError, match="calls"):
            rollouts(other).set_state(state)


# --------------------------------------------------------------- rewards and measures

WRITTEN = "<<48/2=24>>24\n#### 24"  # the machine's 24; the model would write 99


def one_script(prompts):
    """A model that answers so, with 99 where the machine would write."""
    tokens, mask = demonstration("digit by digit", WRITTEN, CalculatorUse())
    nines = encoding.encode_plain(TOKENIZER, ["99>>"])[0]
    script = np.zeros((len(prompts), GROUP, BUDGET), int)
    script[..., : len(tokens)] = tokens
    script[..., np.flatnonzero(np.array(mask) == 0)] = nines
    return Scripted(script, [len(prompt) for prompt in prompts], len(TOKENIZER))


def test_rewards_read_the_results_and_evaluation_has_them_or_not():
    rows = [{"question": "Hi", "answer": "#### 24"}]
    model = one_script([chat.prompt_tokens(TOKENIZER, "Hi")])
    source = rollouts(CalculatorUse(), annotations_hold, rows, model=model)
    batch = next(source)
    assert batch["rewards"].tolist() == [[1.0] * GROUP]
    assert source.samples[0]["completion"] == WRITTEN
    assert source.metrics["calls"] == 1 and source.metrics["truncated"] == 0
    assert source.metrics["length"] == batch["loss_mask"][0, 0].sum()
    assert next(rollouts(None, annotations_hold, rows, model=model))[
        "rewards"
    ].tolist() == [[0.0] * GROUP]
    for use, text in (
        (CalculatorUse(), WRITTEN),
        (Dialogue(), WRITTEN.replace("24>", "99>")),
    ):
        limits = {"max_tokens": BUDGET, "samples": GROUP, "buckets": (64,)}
        report = evaluate(model, TOKENIZER, rows, environment=use, **limits)
        assert report.column("text") == [text] and report.greedy == 1
        assert report.column("right") == [GROUP] and report.column("ended") == [True]
