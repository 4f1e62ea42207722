"""What a TPU would make of a program, asked of its compiler on a machine without one.

`libtpu` from PyPI compiles for any slice and says what the program needs: memory on
every chip, FLOPs, collectives, and its own estimate of cycles. Nothing here is measured
on a TPU; times are the compiler's model, and are called so.
"""

import contextlib
import dataclasses
import math
import os

import jax
import numpy as np
from jax.sharding import Mesh

from helpers.runtime.sharding import make_mesh, using
from helpers.tpu import where_time_goes
from helpers.tpu.generations import GENERATIONS, SLICES
from helpers.tpu.hlo import GB, collectives, modelled_cycles, out_of_memory

CACHED_FROM = "jax_persistent_cache_min_compile_time_secs"


def devices(topology: str):
    """The devices of a slice that is not here, for meshes to compile on.

    Args:
      topology: "v5e-1", "v5e-8", or a name such as "v5p:4x4x4".
    Raises:
      LookupError: libtpu is not installed, or knows no such slice.
    """
    from jax.experimental import topologies

    name = SLICES.get(topology, topology)
    kind, _, shape = name.partition(":")
    sizes = [int(size) for size in shape.split("x") if size.isdigit()]
    if kind not in GENERATIONS or len(sizes) not in (2, 3):
        raise LookupError(f"No slice {topology!r}: try v5e-1, v5e-8 or v5p:4x4x4.")
    sizes += [1] * (3 - len(sizes))
    host = tuple(map(min, sizes, GENERATIONS[kind].host))
    with _quiet():
        try:
            found = topologies.get_topology_desc(
                name, platform="tpu", chips_per_host_bounds=host
            )
        except Exception as error:  # of the plugin, which has no class of its own
            raise LookupError(
                f"The TPU compiler cannot make {topology} ({error}). It comes with "
                "libtpu: `make tpu-check` installs the release that fits this jax."
            ) from error
    return found.devices


def mesh(topology: str, model: int = 1) -> Mesh:
    """A mesh with axes ("data", "model") over a slice that is not here."""
    return make_mesh(devices(topology), model)


@dataclasses.dataclass(frozen=True)
class Report:
    """What one compiled program asks of every chip of a slice.

    Memory is in GiB a chip, FLOPs in TFLOP a chip. `hbm_gb` is the most that is in use
    at once, arguments included: what the compiler holds against the chip's memory.
    Temporaries reuse the places of arguments, so it can be less than their sum.
    `tflop` and `gbytes` are counted by hand: useful products, and GB that a chip must
    move at least, its arguments read and its new results written once. The compiler's
    own counts see the body of a loop once, however often it runs.
    `modelled_ms` adds up the compiler's cycle estimates, loops times their trips. It
    has none for collectives, asynchronous copies and kernels of Pallas: `unpriced` says
    how often which of them run. `by_kind` splits the sum: products, reductions,
    elementwise passes, moves; `by_place`, a list of `where_time_goes.Share`, by the
    course's functions. `kernels_ms` is what kernels of Pallas take at least, and
    `roofline_ms` what all of the program's products and bytes do
    (`where_time_goes.roofline_ms`). `quoted_ms` is the sum with the kernels, or the
    roofline if that is longer, and `modelled_peak_percent` the useful FLOPs in that
    time, of the chip's peak.
    `collectives` gives (number, GiB) by kind: what a chip's results hold, loops counted
    too. `links_ms` is what they take at least, over all links of a chip at once; a part
    of it hides behind other work.
    `verdict` is empty if it fits.
    """

    topology: str
    chips: int
    arguments_gb: float = 0.0
    temporaries_gb: float = 0.0
    hbm_gb: float = 0.0
    usable_gb: float = 0.0
    tflop: float = 0.0
    compiler_tflop: float = 0.0
    gbytes: float = 0.0
    compiler_gbytes: float = 0.0
    modelled_ms: float = 0.0
    by_kind: dict = dataclasses.field(default_factory=dict)
    by_place: list = dataclasses.field(default_factory=list)
    kernels_ms: float = 0.0
    roofline_ms: float = 0.0
    unpriced: dict = dataclasses.field(default_factory=dict)
    modelled_peak_percent: float = 0.0
    links_ms: float = 0.0
    collectives: dict = dataclasses.field(default_factory=dict)
    verdict: str = ""

    @property
    def quoted_ms(self) -> float:
        """The compiler's sum and kernels, or the roofline where that is longer."""
        return max(self.modelled_ms + self.kernels_ms, self.roofline_ms)

    @property
    def unpriced_calls(self) -> int:
        """How many instructions run that `modelled_ms` has no time for."""
        return sum(self.unpriced.values())

    @property
    def pallas_calls(self) -> int:
        """How many kernels of Pallas run."""
        return self.unpriced.get("tpu_custom_call", 0)

    @property
    def hbm_percent(self) -> float:
        """Share of the usable memory of a chip, in percent."""
        return 100 * self.hbm_gb / self.usable_gb

    def __str__(self):
        if self.verdict:
            return self.verdict
        kinds = ", ".join(
            f"{count} {kind} ({size:.2f} GiB)"
            for kind, (count, size) in self.collectives.items()
        )
        missing = ", ".join(f"{n} {opcode}" for opcode, n in self.unpriced.items())
        return (
            f"{self.topology}: {self.hbm_gb:.2f} of {self.usable_gb:.2f} GiB a chip "
            f"({self.hbm_percent:.0f}%: arguments {self.arguments_gb:.2f}, temporaries "
            f"{self.temporaries_gb:.2f}); {self.tflop:.2f} TFLOP a chip (the compiler, "
            f"loops once: {self.compiler_tflop:.2f}), at least {self.gbytes:.2f} GB "
            f"moved ({self.compiler_gbytes:.2f}); modelled by the compiler, not "
            f"measured: {self.modelled_ms:.1f} ms, without {missing or 'nothing'}; "
            f"kernels at least {self.kernels_ms:.1f} ms; the roofline: "
            f"{self.roofline_ms:.1f} ms; by the longer of the two "
            f"{self.modelled_peak_percent:.0f}% of peak; collectives: {kinds or 'none'}"
        )


def compile_for(topology, function, *arguments, donate=(), flops=None) -> Report:
    """Compiles a function for a slice and reports what it needs.

    Args:
      topology: its name; the arguments' shardings are over `mesh(topology)`.
      function: what `jax.jit` takes; or a jitted function.
      arguments: pytrees of `jax.ShapeDtypeStruct` with shardings.
      donate: numbers of arguments whose memory the results may take.
      flops: of one call on all chips, counted by hand; None takes the compiler's count,
        which sees a loop's body once.
    Returns:
      A Report; if it does not fit, one with a verdict and nothing else.
    """
    if not hasattr(function, "lower"):
        function = jax.jit(function, donate_argnums=donate)
    count = max(1, len(jax.tree.leaves(arguments)[0].sharding.device_set))
    return report(topology, count, lower(function, *arguments), flops)


def lower(jitted, *arguments):
    """The program of a jitted function on its arguments' mesh, not yet compiled."""
    with _quiet(), using(arguments):
        return jitted.lower(*arguments)


def text(jitted, *arguments) -> str:
    """The optimised program that the compiler makes for its arguments' devices."""
    with _quiet():
        return lower(jitted, *arguments).compile().as_text()


def report(topology, count, lowered, flops=None) -> Report:
    """Compiles a lowered program for `count` devices of a slice; see `compile_for`."""
    chip = GENERATIONS[SLICES.get(topology, topology).partition(":")[0]]
    with _quiet():
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return Report(topology, count, verdict=out_of_memory(str(error)))
    memory, text = compiled.memory_analysis(), compiled.as_text()
    cost = compiled.cost_analysis()
    found = where_time_goes.instructions(text)
    modelled_ms = modelled_cycles(text) / (chip.ghz * 1e6)
    roofline_ms = where_time_goes.roofline_ms(found, chip)
    kernels_ms = where_time_goes.kernels_ms(found, chip)
    seconds = max(modelled_ms + kernels_ms, roofline_ms) / 1e3
    one = flops / count if flops else cost.get("flops", 0.0)
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    peak = chip.tflops / chip.devices * 1e12
    kinds = collectives(text)
    return Report(
        topology=topology,
        chips=count,
        arguments_gb=memory.argument_size_in_bytes / GB,
        temporaries_gb=memory.temp_size_in_bytes / GB,
        hbm_gb=in_use(memory) / GB,
        usable_gb=chip.usable_gb,
        tflop=one / 1e12,
        compiler_tflop=cost.get("flops", 0.0) / 1e12,
        gbytes=(memory.argument_size_in_bytes + new) / 1e9,
        compiler_gbytes=cost.get("bytes accessed", 0.0) / 1e9,
        modelled_ms=modelled_ms,
        by_kind=_by_kind(found, chip),
        by_place=where_time_goes.shares(found, chip),
        kernels_ms=kernels_ms,
        roofline_ms=roofline_ms,
        unpriced=where_time_goes.unpriced(found),
        modelled_peak_percent=100 * one / peak / seconds if seconds else math.nan,
        links_ms=_links_ms(kinds, chip),
        collectives=kinds,
    )


def in_use(memory) -> int:
    """Bytes of a chip's memory that are in use at once, of a compiled program.

    The compiler's peak also counts arguments that lie in the host's memory. What is on
    the chip is never more than its arguments, temporaries and new results together.

    Args:
      memory: what `memory_analysis()` of the program gives.
    """
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    together = memory.argument_size_in_bytes + memory.temp_size_in_bytes + new
    return min(memory.peak_memory_in_bytes, together)


def _by_kind(found, chip):
    """Modelled milliseconds of each kind of instruction."""
    rows = where_time_goes.shares(found, chip, lambda one: one.kind)
    return {row.label: row.modelled_ms for row in rows}


def _links_ms(kinds, chip):
    """Least time for a chip to receive what its collectives bring, all links busy.

    An all-reduce is a reduce-scatter and an all-gather, so it counts twice.
    """
    gib = sum(2 * g if kind == "all-reduce" else g for kind, (_, g) in kinds.items())
    rate = chip.links * chip.link_gbytes * 1e9
    return 1e3 * gib * GB / rate if rate else math.nan


@contextlib.contextmanager
def _quiet():
    """Keeps libtpu from looking for a TPU host, and its log off the page.

    Nothing is written into JAX's compilation cache: it could not be read again, as
    there is no chip to load it on.
    """
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
    # No chip is held, so several processes may compile at once.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    cached_from: float = getattr(jax.config, CACHED_FROM)
    jax.config.update(CACHED_FROM, math.inf)
    saved = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            jax.config.update(CACHED_FROM, cached_from)


def coordinates(topology: str) -> np.ndarray:
    """The place of each device of a slice in the chip grid, (devices, 3) int."""
    return np.array([device.coords for device in devices(topology)])
