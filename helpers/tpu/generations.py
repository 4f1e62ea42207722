"""TPU chips, as their makers describe them, and the slices of them that have names."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Generation:
    """One kind of TPU chip, from its makers' pages.

    Attributes:
      name: as in the name of a slice, "v5e:2x4".
      hbm_gb: memory of a chip in GB, as published.
      usable_gb: GiB of it that the compiler (libtpu 0.0.42) gives a program on one
        device; it says so when a program does not fit.
      gbytes: memory bandwidth of a chip in GB/s.
      tflops: peak of bfloat16 products in TFLOP/s of a chip.
      ghz: clock, so that cycles are seconds.
      devices: devices of JAX on one chip.
      host: largest block of chips on one host.
      wraps: a ring closes along an axis of this many chips (full torus).
      links: to neighbouring chips, each `link_gbytes` GB/s one way, as How to scale
        your model has them: nine tenths of the published sum of a chip, by its links.
        That sum is 1,200 GB/s both ways for v5p and for tpu7x.
    """

    name: str
    hbm_gb: float
    usable_gb: float
    gbytes: float
    tflops: float
    ghz: float
    devices: int
    host: tuple[int, int, int]
    wraps: int
    links: int
    link_gbytes: float


GENERATIONS = {
    row.name: row
    for row in (
        Generation("v4", 32, 15.25, 1200, 275, 1.05, 2, (2, 2, 1), 4, 6, 45),
        Generation("v5e", 16, 15.75, 819, 197, 1.5, 1, (2, 4, 1), 16, 4, 45),
        Generation("v5p", 95, 95.74, 2765, 459, 1.75, 1, (2, 2, 1), 4, 6, 90),
        Generation("v6e", 32, 31.25, 1638, 918, 1.75, 1, (2, 4, 1), 16, 4, 90),
        Generation("tpu7x", 192, 94.75, 7380, 2307, 2.2, 2, (2, 2, 1), 4, 6, 90),
    )
}
SLICES = {"v5e-1": "v5e:1x1", "v5e-8": "v5e:2x4"}
