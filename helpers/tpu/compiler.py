"""Compiles programs for TPUs that are not here, and reports what they need.

`libtpu` from PyPI compiles for any slice on any machine. It gives the memory on every
chip, FLOPs, messages, and its own estimate of cycles. Times are the compiler's model;
nothing is measured on a TPU.

libtpu is installed beside the environment, in build/tpu, by `make tpu-check`. In the
environment itself JAX would look for a TPU at every start.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import re
import sys
from importlib import metadata, util

import jax
from jax.sharding import Mesh

from helpers.runtime.platform import ROOT
from helpers.runtime.sharding import make_mesh, using
from helpers.tpu import where_time_goes
from helpers.tpu.hlo import GB, collectives, modelled_cycles
from helpers.tpu.topology import GENERATIONS, SLICES


def requirement() -> str:
    """The libtpu that the installed jax names, such as "libtpu==0.0.42.*"."""
    needed = metadata.requires("jax") or []
    return next(x for x in needed if x.startswith("libtpu")).split(";")[0].strip()


def folder() -> pathlib.Path:
    """Where `make tpu-check` installs libtpu."""
    return ROOT / "build" / "tpu" / requirement().replace("*", "x")


def find_compiler() -> bool:
    """Whether programs can be compiled for TPUs here; makes libtpu importable if so.

    A libtpu of the environment, as on Colab and Kaggle, comes first.
    """
    if util.find_spec("libtpu") is None and (folder() / "libtpu").is_dir():
        sys.path.append(str(folder()))
    return util.find_spec("libtpu") is not None


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
        except Exception as error:  # the plugin has no class of its own
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
    """What one compiled program needs on every chip of a slice.

    Attributes:
      hbm_gb: the most GiB in use at once, arguments included. Temporaries reuse the
        memory of arguments, so it can be less than their sum.
      usable_gb: GiB that the compiler gives a program.
      tflop: useful TFLOP on a chip, counted by hand. The compiler's own counts,
        `compiler_tflop` and `compiler_gbytes`, see a loop's body once.
      modelled_ms: the compiler's cycle estimates, loops times their trips. It has none
        for messages, asynchronous copies and Pallas kernels: `unpriced` counts them.
      kernels_ms: what kernels of Pallas take at least.
      roofline_ms: what all matmuls and bytes of the program take at least.
      links_ms: what the messages take at least, over all links of a chip at once; part
        of it hides behind other work.
      modelled_peak_percent: useful FLOPs in `quoted_ms`, of the chip's peak.
      collectives: (number, GiB on a chip) by kind, loops counted too.
      verdict: why it does not fit; empty if it does.
    """

    topology: str
    chips: int
    arguments_gb: float = 0.0
    temporaries_gb: float = 0.0
    hbm_gb: float = 0.0
    usable_gb: float = 0.0
    tflop: float = 0.0
    compiler_tflop: float = 0.0
    compiler_gbytes: float = 0.0
    modelled_ms: float = 0.0
    kernels_ms: float = 0.0
    roofline_ms: float = 0.0
    unpriced: dict = dataclasses.field(default_factory=dict)
    modelled_peak_percent: float = 0.0
    links_ms: float = 0.0
    collectives: dict = dataclasses.field(default_factory=dict)
    verdict: str = ""

    @property
    def quoted_ms(self) -> float:
        """The compiler's sum with kernels, or the roofline where that is longer."""
        return max(self.modelled_ms + self.kernels_ms, self.roofline_ms)

    @property
    def hbm_percent(self) -> float:
        """Share of the usable memory of a chip, in percent."""
        return 100 * self.hbm_gb / self.usable_gb


def compile_for(topology, function, *arguments, flops=None) -> Report:
    """Compiles a function for a slice and reports what it needs.

    Args:
      topology: its name; the arguments' shardings are over `mesh(topology)`.
      function: anything that `jax.jit` takes, or a jitted function.
      arguments: pytrees of `jax.ShapeDtypeStruct` with shardings.
      flops: useful FLOPs of one call on all chips; None takes the compiler's count,
        which sees a loop's body once.
    """
    if not hasattr(function, "lower"):
        function = jax.jit(function)
    count = len(jax.tree.leaves(arguments)[0].sharding.device_set)
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
    memory, cost, text = (
        compiled.memory_analysis(),
        compiled.cost_analysis(),
        compiled.as_text(),
    )
    found = where_time_goes.instructions(text)
    kinds = collectives(text)
    useful = flops / count if flops else cost.get("flops", 0.0)
    # An all-reduce is a reduce-scatter and an all-gather, so it counts twice.
    sent = sum(gb * (1 + (kind == "all-reduce")) for kind, (_, gb) in kinds.items())
    made = Report(
        topology=topology,
        chips=count,
        arguments_gb=memory.argument_size_in_bytes / GB,
        temporaries_gb=memory.temp_size_in_bytes / GB,
        hbm_gb=bytes_in_use(memory) / GB,
        usable_gb=chip.usable_gb,
        tflop=useful / 1e12,
        compiler_tflop=cost.get("flops", 0.0) / 1e12,
        compiler_gbytes=cost.get("bytes accessed", 0.0) / 1e9,
        modelled_ms=modelled_cycles(text) / (chip.ghz * 1e6),
        kernels_ms=where_time_goes.kernels_ms(found, chip),
        roofline_ms=where_time_goes.roofline_ms(found, chip),
        unpriced=where_time_goes.unpriced(found),
        links_ms=1e3 * sent * GB / (chip.links * chip.link_gbytes * 1e9),
        collectives=kinds,
    )
    in_time = chip.tflops / chip.devices * made.quoted_ms / 1e3  # TFLOP at the peak
    percent = 100 * made.tflop / in_time if in_time else math.nan
    return dataclasses.replace(made, modelled_peak_percent=percent)


def bytes_in_use(memory) -> int:
    """The most bytes of a chip's memory in use at once, by `memory_analysis()`.

    The compiler's peak also counts arguments in the host's memory. On the chip there is
    never more than its arguments, temporaries and new results together.
    """
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    together = memory.argument_size_in_bytes + memory.temp_size_in_bytes + new
    return min(memory.peak_memory_in_bytes, together)


def out_of_memory(message: str) -> str:
    """The compiler's error in three lines: how much too much, what is largest."""
    need = re.search(r"(?:Used|required[^()]*\()\s*([\d.]+[KMGT])", message)
    have = re.search(r"(?:of|exceeds available HBM \()\s*([\d.]+[KMGT])", message)
    largest = re.findall(r"Size: ([\d.]+[KMGT]).*?\n(?:.*\n)*?.*?Shape: (\S+)", message)
    shown = ", ".join(f"{size} {shape}" for size, shape in largest[:3])
    return (
        f"Does not fit: needs {need[1] if need else 'more'} of "
        f"{have[1] if have else 'the'} HBM on a chip.\n"
        + (f"Largest buffers: {shown}.\n" if shown else "")
        + "Fewer prompts or shorter answers a step, more `accumulate` pieces, a "
        "smaller token chunk, LoRA or an int8 base make it smaller; more chips share "
        "it."
    )


@contextlib.contextmanager
def _quiet():
    """Keeps libtpu from looking for a TPU, and its log off the page.

    Nothing is written into JAX's compilation cache: without a chip to load it on, it
    could not be read again.
    """
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
    # No chip is in use, so several processes may compile at once.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    setting = "jax_persistent_cache_min_compile_time_secs"
    before: float = getattr(jax.config, setting)
    jax.config.update(setting, math.inf)
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            jax.config.update(setting, before)
