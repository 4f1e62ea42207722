"""The model of scaling: arithmetic by hand, and what a compiler sent."""

import math

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.model.known import KNOWN
from helpers.model.vision_config import UnsupportedModel
from helpers.tpu.abstract_programs import abstract_model
from helpers.tpu.scaling_model import Work, parameters, spread

QWEN, LLAMA = KNOWN["Qwen/Qwen3-0.6B"], KNOWN["meta-llama/Llama-3.1-70B-Instruct"]
FLAT = ("2x4", "4x4", "8x8", "16x16")


def test_parameters_are_those_of_the_model():
    for config in (QWEN, LLAMA, KNOWN["google/gemma-3-4b-it"]):
        leaves = jax.tree.leaves(abstract_model(config))
        count = sum(math.prod(x.shape) for x in leaves)
        assert parameters(config) == pytest.approx(count, rel=1e-3)


@pytest.mark.parametrize("model", [name for name in KNOWN if "gemma-4" in name])
def test_a_gemma_4_is_refused_and_not_counted_as_another(model):
    for work in (
        lambda: parameters(KNOWN[model]),
        lambda: spread(KNOWN[model], "v5e:2x4", Work(64)),
    ):
        with pytest.raises(UnsupportedModel, match="not Gemma 4's: take another"):
            work()


def test_llama_on_a_cube_of_64_by_hand():
    """70.55e9 weights, 8 bytes each, 63 of 64 parts, six links of 90 GB/s."""
    found = spread(LLAMA, "v5p:4x4x4", Work(64))
    assert found.gathers_ms == pytest.approx(1029, abs=1)
    # 6 FLOPs a weight and token and 2 for the second forward pass, at 459 TFLOP/s; the
    # table of embeddings multiplies nothing, and the head only what answers are.
    seen = 80 * (8192 * 128 * 144 + 3 * 8192 * 28672)
    scored = 8 * 256 * 8192 * 128256 * 6
    matrices = (2304 * seen * 8 + scored) / 459e12
    assert found.products_ms == pytest.approx(1e3 * matrices, rel=0.03)
    assert found.products_ms > 1e3 * matrices  # attention is a few percent
    assert found.state_percent == pytest.approx(
        100 * 16 * 70.55e9 / 64 / (95.74 * 2**30), rel=1e-3
    )


def test_tensor_parallel_on_a_ring_of_four_by_hand():
    """480 sums of 9,216 x 8,192 in bfloat16, each sent 1.5 times, on two links."""
    found = spread(LLAMA, "v5p:4x4x4", Work(64), model=4)
    sent = 480 * 1.5 * 9216 * 8192 * 2
    assert found.sums_ms == pytest.approx(1e3 * sent / (2 * 90e9), rel=1e-6)
    gathered = 8 * 70.55e9 / 4 * 15 / 16
    assert found.gathers_ms == pytest.approx(1e3 * gathered / (4 * 90e9), rel=1e-3)
    half = spread(LLAMA, "v5p:4x4x4", Work(64), model=2)  # no ring: one link each
    assert half.sums_ms == pytest.approx(1e3 * 480 * 4608 * 8192 * 2 / 90e9, rel=1e-6)


def test_a_row_of_chips_has_a_link_at_its_end_and_a_ring_two():
    """Two axes of 8 are open on v5e, two of 16 are closed."""
    open_ms, closed_ms = (
        spread(QWEN, f"v5e:{shape}", Work(n)).gathers_ms
        for shape, n in (("8x8", 64), ("16x16", 256))
    )
    assert open_ms / closed_ms == pytest.approx(2 * (63 / 64) / (255 / 256))


def test_the_compiler_sent_as_much_for_eight_chips():
    """What libtpu 0.0.42 made of this update for v5e-8, as read from its text.

    3.57 GiB of all-gathers bring 7/8 of what they hold, 0.66 GiB of all-reduces twice
    that.
    """
    sent = (3.57 + 2 * 0.66) * 7 / 8 * 2**30
    found = spread(QWEN, "v5e:2x4", Work(128))
    links = 2 * 45e9  # 2x4 has no ring
    assert found.gathers_ms * links / 1e3 == pytest.approx(sent, rel=0.2)


@given(st.sampled_from(FLAT), st.integers(1, 16), st.integers(1, 3))
def test_work_and_chips_together_leave_products_as_they_are(shape, each, times):
    chips = math.prod(map(int, shape.split("x")))
    one = spread(QWEN, "v5e:1x1", Work(each))
    many = spread(QWEN, f"v5e:{shape}", Work(each * chips))
    assert many.products_ms == pytest.approx(one.products_ms)
    assert one.gathers_ms == one.sums_ms == 0
    more = spread(QWEN, f"v5e:{shape}", Work(times * each * chips))
    assert more.products_ms == pytest.approx(times * many.products_ms)
    assert more.gathers_ms / more.pieces == pytest.approx(many.gathers_ms / many.pieces)
    assert many.step_ms <= many.in_turn_ms


def test_a_mesh_that_there_is_not_is_refused():
    for model in (3, 8):
        with pytest.raises(ValueError, match="must divide"):
            spread(LLAMA, "v5p:4x4x4", Work(64), model=model)
