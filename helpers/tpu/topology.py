"""How the chips of a slice are wired: places, hosts, links, and hops between chips.

A *slice* is a block of chips that are rented together. Each chip is linked to its
neighbours along two or three axes; where an axis spans the whole machine, the last chip
is linked to the first again, and the row is a ring. Places and hosts are those of the
TPU compiler's own description (`data/results/topologies.csv`, compared by a test).
"""

import dataclasses
import functools

import numpy as np


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


@dataclasses.dataclass(frozen=True)
class Slice:
    """A block of linked chips; `named` makes one.

    Attributes:
      chip: the kind of its chips.
      shape: chips along x, y and z; z is 1 in a flat slice.
    """

    chip: Generation
    shape: tuple[int, int, int]

    @property
    def name(self) -> str:
        """As the compiler takes it, such as "v5e:4x8" or "v5p:4x4x4"."""
        sizes = self.shape[:2] if self._flat else self.shape
        return f"{self.chip.name}:{'x'.join(map(str, sizes))}"

    @property
    def chips(self) -> int:
        """How many chips."""
        return int(np.prod(self.shape))

    @property
    def host(self) -> tuple[int, int, int]:
        """Chips of one host along x, y and z."""
        x, y, z = map(min, self.shape, self.chip.host)
        return x, y, z

    @property
    def hosts(self) -> int:
        """How many hosts, the computers that the chips are plugged into."""
        return self.chips // int(np.prod(self.host))

    @property
    def rings(self) -> tuple[bool, bool, bool]:
        """Along which axes the last chip is linked to the first.

        Flat kinds: an axis of 16, the whole machine. Others: all three axes, in blocks
        of whole 4×4×4 cubes, since the switches that close a ring sit between cubes.
        """
        x, y, z = (size % self.chip.wraps == 0 for size in self.shape)
        return (x, y, z) if self._flat else (x and y and z,) * 3

    @property
    def diameter(self) -> int:
        """Links between the two chips that are farthest apart: no chip is farther from
        another than from a corner."""
        return int(self.hops(0).max())

    @property
    def _flat(self):
        return self.chip.links == 4

    @functools.cached_property
    def coordinates(self) -> np.ndarray:
        """The place of each chip, (chips, 3) int, in the compiler's order.

        Host by host, x first; and within a host again x first.
        """
        grid = np.indices(self.shape).reshape(3, -1).T
        host = grid // self.host
        return grid[np.lexsort([*grid.T, *host.T])]

    @functools.cached_property
    def host_of(self) -> np.ndarray:
        """The host of each chip, (chips,) int."""
        return np.arange(self.chips) // (self.chips // self.hosts)

    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """All links: pairs of chips (links, 2), and which of them close a ring.

        A ring of two chips has one link, not two.
        """
        place = {tuple(at): i for i, at in enumerate(self.coordinates.tolist())}
        pairs, closing = [], []
        for at, i in place.items():
            for axis, size in enumerate(self.shape):
                is_last = at[axis] == size - 1
                if not is_last or self.rings[axis] and size > 2:
                    after = (*at[:axis], (at[axis] + 1) % size, *at[axis + 1 :])
                    pairs.append((i, place[after]))
                    closing.append(is_last)
        return np.array(pairs, int).reshape(-1, 2), np.array(closing, bool)

    def hops(self, chip: int) -> np.ndarray:
        """Links on the shortest way from one chip to each, (chips,) int.

        Along each axis the way goes straight, or round the ring if that is shorter.
        """
        away = np.abs(self.coordinates - self.coordinates[chip])
        around = np.where(self.rings, np.array(self.shape) - away, away)
        return np.minimum(away, around).sum(axis=1)


def named(name: str) -> Slice:
    """The slice called `name`, such as "v5e-8", "v5e:2x4" or "v5p:4x4x4".

    Raises:
      ValueError: there is no such kind of chip, or the chips are not those of whole
        hosts.
    """
    kind, _, shape = SLICES.get(name, name).partition(":")
    try:
        x, y, z = [*map(int, shape.split("x")), 1][:3]
        part = Slice(GENERATIONS[kind], (x, y, z))
        if any(np.mod(part.shape, part.host)):
            raise ValueError
    except (KeyError, ValueError):
        raise ValueError(
            f"No slice {name!r}. Name a kind of chip ({', '.join(GENERATIONS)}) and a "
            "block of whole hosts, such as v5e:2x4 or v5p:4x4x4."
        ) from None
    return part
