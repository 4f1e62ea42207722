"""The roofline: what a machine can reach at most, given how much it computes per byte.

*Arithmetic intensity* is FLOPs per byte moved from memory. Below the machine's *ridge*
its memory is the limit, above it its arithmetic units are (Williams, Waterman and
Patterson, 2009). Numbers of a machine are published ones, or measured by `measure`.
"""

import dataclasses
import time

import jax
import jax.numpy as jnp

from helpers.tpu.generations import GENERATIONS


@dataclasses.dataclass(frozen=True)
class Machine:
    """One chip or computer.

    Attributes:
      name: as on its line in figures.
      flops: peak of matrix products, in FLOP/s.
      bandwidth: of its memory, in bytes/s.
    """

    name: str
    flops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP/byte, from which on arithmetic is the limit."""
        return self.flops / self.bandwidth

    def reach(self, intensity: float) -> float:
        """The most FLOP/s at this intensity: the roof, as high as it is there."""
        return min(self.flops, intensity * self.bandwidth)


def published(kind: str) -> Machine:
    """A TPU chip as its makers describe it, in bfloat16, such as "v5e"."""
    chip = GENERATIONS[kind]
    return Machine(f"{kind}, published", chip.tflops * 1e12, chip.gbytes * 1e9)


def matmul(B: int, D: int, F: int, size: int = 2) -> tuple[int, int]:
    """FLOPs and bytes of (B, D) @ (D, F): each matrix is moved once.

    Args:
      size: bytes of a number, 2 in bfloat16.
    """
    return 2 * B * D * F, size * (B * D + D * F + B * F)


def best_seconds(call, tries: int = 5) -> float:
    """The shortest of several calls, each waited for; a first one compiles."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(tries):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(dtype, side: int = 2048, numbers: int = 2**26) -> Machine:
    """The machine this runs on: its best large product, and its best stream.

    The stream adds 1 to `numbers` numbers in place: each is read once and written once.

    Args:
      dtype: of the product's numbers.
      side: of the square matrices.
      numbers: far more than the caches hold.
    """
    square = jnp.ones((side, side), dtype)
    product = jax.jit(jnp.matmul)
    flops = 2 * side**3 / best_seconds(lambda: product(square, square))
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    held = [jnp.zeros(numbers, jnp.float32)]

    def stream():
        held.append(add(held.pop()))
        return held[0]

    bandwidth = 2 * held[0].nbytes / best_seconds(stream)
    return Machine(f"this machine ({jax.devices()[0].device_kind})", flops, bandwidth)
