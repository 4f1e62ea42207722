"""An answer is the same whatever is answered beside it, and however often it waits."""

import jax
import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.batches.prompt_batches import pad_prompts
from helpers.generation import sampling
from helpers.model import lora
from helpers.serving import Engine, Request

MODEL = tiny_models.model("llama", sharpness=3.0)
EOS = (0, 3)
LONGEST = 24


def engine(model=MODEL, eos=EOS, **changes):
    """An engine; those of equal shapes share their compiled programs."""
    settings = {"blocks": 30, "size": 4, "places": 3, "longest": LONGEST, "chunk": 5}
    return Engine(model, eos, **settings | changes)


def alone(request):
    """The answer of an engine that has nothing else to do, and memory for all."""
    settings = request.max_tokens, request.seed, request.temperature
    one = engine()
    answered = one.submit(Request(request.prompt, *settings))
    one.run()
    return answered.answer


prompts = st.lists(st.integers(1, 4), min_size=1, max_size=12)
one_answer = st.tuples(
    st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7, 1.0])
)


@st.composite
def groups(draw):
    """One to three answers to a prompt: of other lengths, seeds and temperatures."""
    prompt, several = (
        draw(prompts),
        draw(st.lists(one_answer, min_size=1, max_size=3)),
    )
    return [Request(prompt, *each) for each in several]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(groups(), st.integers(0, 4)), min_size=1, max_size=8),
    st.sampled_from([6, 30]),
)
def test_company_changes_no_answer(arrivals, blocks):
    one = engine(blocks=blocks)
    requests = [request for group, _ in arrivals for request in group]
    for group, steps in arrivals:
        one.submit_group(group)
        for _ in range(steps):  # before the next one comes
            before = [len(request.answer) for request in requests]
            fresh = one.step()
            for request, length in zip(requests, before, strict=True):
                assert len(request.answer) == length + (request in fresh)
    one.run()
    assert one.pool.free == blocks, "every block was given back"
    for request in requests:
        assert request.ended and request.answer == alone(request)


MODELS = {
    "windows": lambda: tiny_models.model("gemma3_text", sharpness=3.0),
    "int8": lambda: lora.quantize(tiny_models.model("qwen3", sharpness=3.0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_greedy_answers_are_those_of_plain_sampling(name):
    rng, model = np.random.default_rng(2), MODELS[name]()
    lengths = [2, 7, 7, 10, 10]
    requests = [Request(list(rng.integers(1, 19, size=n)), 12) for n in lengths]
    one = engine(model)
    for request in requests:
        one.submit(request)
    one.run()
    rows = pad_prompts([request.prompt for request in requests], (10,))
    keys = sampling.row_keys(jax.random.key(0), 0, len(requests), 1)
    limits = {"max_tokens": 12, "eos_ids": EOS, "temperature": 0}
    plain = jax.device_get(sampling.generate(model, *rows, keys, **limits))
    for row, request in enumerate(requests):
        count = plain.mask[row, 0].sum()
        assert request.answer == plain.tokens[row, 0, :count].tolist()


def test_sampled_answers_are_the_models_distribution():
    requests = [Request([1, 2], 1, seed=i, temperature=1.0) for i in range(2_000)]
    one = engine(places=8)
    for request in requests:
        one.submit(request)
    one.run()
    counts = np.bincount([request.answer[0] for request in requests], minlength=19)
    tokens = np.array([[1, 2]])

    @nnx.jit
    def predicted(model):
        hidden, _ = model(tokens[:, None], np.arange(2)[None, None])
        return jax.nn.softmax(model.logits(hidden)[0, 0, -1])

    p = np.asarray(predicted(MODEL))
    off = np.abs(counts / 2_000 - p)
    assert (off < 4.5 * np.sqrt(p * (1 - p) / 2_000) + 1e-3).all()


def test_when_memory_runs_out_the_last_to_come_wait_and_the_first_goes_on():
    requests = [Request([1 + i, 2, 3, 4], 16, seed=i) for i in range(3)]
    one = engine(eos=(), blocks=6)
    for request in requests:
        one.submit(request)
    one.run()
    assert requests[0].preempted == 0 and requests[2].preempted >= 1
    assert all(len(request.answer) == 16 for request in requests)


def test_a_prompt_that_was_read_is_not_read_again():
    system = list(np.random.default_rng(0).integers(1, 19, size=12))
    first, second = (Request([*system, 5 + i], 3) for i in range(2))
    one = engine()
    for request in (first, second):
        one.submit(request)
        one.run()
    assert first.read == 13 and second.read == 1
    assert second.answer == alone(second)


def test_a_group_reads_its_prompt_once_and_shares_it_until_its_answers_part():
    prompt = [1, 2, 3, 4, 1]
    group = [Request(prompt, 4, seed=i, temperature=1.0) for i in range(3)]
    one = engine(eos=())
    one.submit_group(group)
    late = one.submit(Request([5], 1))
    assert one.step() == group and [r.read for r in group] == [5, 0, 0]
    assert 30 - one.pool.free == 2
    one.step()
    assert 30 - one.pool.free == 1 + 3, "the full one is shared still"
    assert not late.answer, "a group takes a place for each answer"
    one.run()
    assert late.ended


def test_an_engine_of_older_weights_is_refused_by_name():
    """Its blocks contain keys and values of the old weights."""
    model = tiny_models.model("llama", sharpness=3.0)
    one = engine(model)
    one.submit(Request([1, 2, 3, 4, 1, 2, 3, 4, 2], 4))
    one.step()
    nnx.update(model, jax.tree.map(lambda x: x * 1.1, nnx.state(model)))
    with pytest.raises(ValueError, match="trained since .* make another engine"):
        one.run()


@pytest.mark.parametrize(
    "group, why",
    [
        ([Request([], 3)], "one token or more"),
        ([Request([1], 0)], "has one or more"),
        ([Request([1, 99], 3)], "vocabulary of 19"),
        ([Request([1] * 20, 5)], "at most 24"),
        ([Request([1, 2], 3), Request([1, 3], 3)], "one prompt: these differ"),
        ([Request([1], 3) for _ in range(4)], "A group of 4: there are 3 places"),
    ],
)
def test_what_could_never_be_answered_is_refused_at_once(group, why):
    one = engine()
    with pytest.raises(ValueError, match=why):
        one.submit_group(group)
    assert not one.waiting
