"""An answer is the same whatever is answered beside it, and however often it waits."""

import jax
import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.generation import sampling
from helpers.model import lora
from helpers.serving import Engine, Request

MODEL = tiny_models.model("llama", sharpness=3.0)
EOS = (0, 3)
LONGEST = 24


def engine(**changes):
    settings = {"blocks": 30, "size": 4, "places": 3, "longest": LONGEST, "chunk": 5}
    return Engine(MODEL, EOS, **settings | changes)


def alone(request):
    """The answer of an engine that has nothing else to do, and memory for all."""
    own = Request(request.prompt, request.max_tokens, request.seed, request.temperature)
    one = engine()
    one.submit(own)
    one.run()
    return own.answer


prompts = st.lists(st.integers(1, 4), min_size=1, max_size=12)
said = st.tuples(
    st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7, 1.0])
)


@st.composite
def groups(draw):
    """One to three answers to a prompt: of other lengths, seeds and temperatures."""
    prompt, several = draw(prompts), draw(st.lists(said, min_size=1, max_size=3))
    return [Request(prompt, *each) for each in several]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(groups(), st.integers(0, 4)), min_size=1, max_size=8),
    st.sampled_from([6, 11]),
    st.sampled_from([2, 5]),
)
def test_company_changes_no_answer(arrivals, blocks, chunk):
    one = engine(blocks=blocks, chunk=chunk)
    asked = [request for group, _ in arrivals for request in group]
    for group, steps in arrivals:
        one.submit_group(group)
        for _ in range(steps):  # before the next one comes
            before = [len(request.answer) for request in asked]
            fresh = one.step()
            for request, length in zip(asked, before, strict=True):
                assert len(request.answer) == length + (request in fresh)
    one.run()
    assert one.pool.free == blocks, "every block was given back"
    for request in asked:
        assert request.ended and request.answer == alone(request)


MODELS = {
    "llama": lambda: MODEL,
    "windows": lambda: tiny_models.model("gemma3_text", sharpness=3.0),
    "biases": lambda: tiny_models.model("qwen2", sharpness=3.0),
    "adapters": lambda: tiny_models.adapted(MODEL),
    "int8": lambda: lora.quantize(tiny_models.model("qwen3", sharpness=3.0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_greedy_answers_are_those_of_plain_sampling(name):
    rng, model = np.random.default_rng(2), MODELS[name]()
    lengths = rng.integers(2, 11, size=6)
    asked = [Request(list(rng.integers(1, 19, size=n)), 12) for n in lengths]
    one = Engine(model, EOS, blocks=30, size=4, places=3, longest=LONGEST, chunk=5)
    for request in asked:
        one.submit(request)
    one.run()
    for request in asked:
        tokens = np.array([request.prompt])
        key = sampling.row_keys(jax.random.key(0), 0, 1, 1)
        plain = sampling.generate(
            model,
            tokens,
            np.ones_like(tokens),
            key,
            max_tokens=12,
            eos_ids=EOS,
            temperature=0,
        )
        count = int(plain.mask.sum())
        assert request.answer == [int(x) for x in plain.tokens[0, 0, :count]]


def test_sampled_answers_are_the_models_distribution():
    asked = [Request([1, 2], 1, seed=i, temperature=1.0) for i in range(3_000)]
    one = engine(places=8)
    for request in asked:
        one.submit(request)
    one.run()
    counts = np.bincount([request.answer[0] for request in asked], minlength=19)
    tokens = np.array([[1, 2]])
    hidden, _ = MODEL(tokens[:, None], np.arange(2)[None, None])
    p = np.asarray(jax.nn.softmax(MODEL.logits(hidden)[0, 0, -1]))
    off = np.abs(counts / 3_000 - p)
    assert (off < 4.5 * np.sqrt(p * (1 - p) / 3_000) + 1e-3).all()


def test_when_memory_runs_out_the_last_to_come_wait_and_the_first_goes_on():
    asked = [Request([1 + i, 2, 3, 4], 16, seed=i) for i in range(3)]
    one = Engine(MODEL, (), blocks=8, size=4, places=3, longest=24, chunk=4)
    for request in asked:
        one.submit(request)
    one.run()
    assert asked[0].preempted == 0 and asked[2].preempted >= 1
    assert all(len(request.answer) == 16 for request in asked)


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
    prompt = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    group = [Request(prompt, 4, seed=i, temperature=1.0) for i in range(3)]
    one = Engine(MODEL, (), blocks=30, size=4, places=3, longest=LONGEST, chunk=16)
    one.submit_group(group)
    late = one.submit(Request([5], 1))
    assert one.step() == group and [r.read for r in group] == [10, 0, 0]
    assert 30 - one.pool.free == 3
    one.step()
    assert 30 - one.pool.free == 2 + 3, "the full ones are shared still"
    assert not late.answer, "a group takes a place for each answer"
    one.run()
    assert late.ended


def test_groups_that_could_not_share_are_refused():
    one = engine()
    for group, why in (
        ([Request([1, 2], 3), Request([1, 3], 3)], "one prompt: these differ"),
        ([Request([1], 3) for _ in range(4)], "A group of 4: there are 3 places"),
        ([], "A group of 0"),
    ):
        with pytest.raises(ValueError, match=why):
            one.submit_group(group)
    assert not one.waiting


def test_an_engine_of_older_weights_is_refused_by_name():
    """Its blocks contain keys and values of the old weights."""
    model = tiny_models.model("llama", sharpness=3.0)
    one = Engine(model, EOS, blocks=30, size=4, longest=LONGEST)
    one.submit(Request([1, 2, 3, 4, 1, 2, 3, 4, 2], 4))
    one.step()
    nnx.update(model, jax.tree.map(lambda x: x * 1.1, nnx.state(model)))
    with pytest.raises(ValueError, match="trained since .* make another engine"):
        one.run()


def test_a_place_is_filled_as_soon_as_it_is_empty():
    long, short, late = (Request([i + 1], n) for i, n in enumerate((12, 2, 2)))
    one = Engine(MODEL, (), blocks=20, size=4, places=2, longest=24)
    for request in (long, short, late):
        one.submit(request)
    while not late.ended:
        one.step()
    assert short.ended and not long.ended


@pytest.mark.parametrize(
    "request_, why",
    [
        (Request([], 3), "one token or more"),
        (Request([1], 0), "max_tokens of 1 or more"),
        (Request([1, 99], 3), "vocabulary of 19"),
        (Request([1], 3, temperature=-0.5), "temperature of 0 or more"),
        (Request([1], 3, answer=[2]), "no answer yet"),
        (Request([1] * 20, 5), "over the 24"),
    ],
)
def test_what_could_never_be_answered_is_refused_at_once(request_, why):
    one = engine()
    with pytest.raises(ValueError, match=why):
        one.submit(request_)
    assert not one.waiting


def test_a_text_longer_than_the_cache_is_refused():
    with pytest.raises(ValueError, match="over the 8 that a text"):
        engine(blocks=2).submit(Request([1] * 6, 3))
