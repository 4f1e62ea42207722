"""Compiles programs for TPUs that are not here, and reports what they need.

`libtpu` from PyPI compiles for any slice on any machine. It gives the memory on every
chip, FLOPs, messages, and an estimate of cycles. Times are the compiler's model;
nothing is measured on a TPU.

libtpu is installed beside the environment, in build/tpu, by `make tpu-check`. In the
environment itself JAX would look for a TPU at every start.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import sys
from importlib import metadata, util

import jax
from jax.sharding import Mesh

from helpers.runtime.platform import ROOT
from helpers.runtime.sharding import make_mesh, using
from helpers.tpu import topology as slices
from helpers.tpu import where_time_goes
from helpers.tpu.hlo import GB, collectives


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
      ValueError: there is no such slice.
      RuntimeError: libtpu is not here (`find_compiler`).
    """
    from jax.experimental import topologies

    part = slices.named(topology)
    with quiet():
        return topologies.get_topology_desc(
            part.name, platform="tpu", chips_per_host_bounds=part.host
        ).devices


def mesh(topology: str, model: int = 1) -> Mesh:
    """A mesh with axes ("data", "model") over a slice that is not here."""
    return make_mesh(devices(topology), model)


@dataclasses.dataclass(frozen=True)
class Report:
    """What one compiled program needs on every chip of a slice.

    Attributes:
      hbm_gb: the most GiB in use at once, arguments included. Temporaries reuse the
        memory of arguments, so it can be less than their sum.
      tflop: useful TFLOP on a chip, counted by hand. The compiler's counts,
        `compiler_tflop` and `compiler_gbytes`, see a loop's body once.
      modelled_ms: the compiler's cycle estimates, loops times their trips. It has none
        for messages, asynchronous copies and Pallas kernels: `unpriced` counts them.
      kernels_ms: what kernels of Pallas take at least.
      roofline_ms: what all matmuls and bytes of the program take at least.
      links_ms: what the messages take at least, over all links of a chip at once; part
        of it hides behind other work.
      collectives: (number, GiB on a chip) by kind, loops counted too.
      verdict: why it does not fit; empty if it does.
    """

    topology: str
    chips: int
    arguments_gb: float = 0.0
    temporaries_gb: float = 0.0
    hbm_gb: float = 0.0
    tflop: float = 0.0
    compiler_tflop: float = 0.0
    compiler_gbytes: float = 0.0
    modelled_ms: float = 0.0
    kernels_ms: float = 0.0
    roofline_ms: float = 0.0
    links_ms: float = 0.0
    unpriced: dict = dataclasses.field(default_factory=dict)
    collectives: dict = dataclasses.field(default_factory=dict)
    verdict: str = ""

    @property
    def quoted_ms(self) -> float:
        """The compiler's sum with kernels, or the roofline where that is longer."""
        return max(self.modelled_ms + self.kernels_ms, self.roofline_ms)

    def peak_percent(self, ms: float) -> float:
        """Useful FLOPs in so many milliseconds, of the chip's peak."""
        chip = slices.named(self.topology).chip
        at_the_peak = chip.tflops / chip.devices * ms / 1e3
        return 100 * self.tflop / at_the_peak if ms else math.nan


def compile_for(topology, jitted, *arguments, flops=None) -> Report:
    """Compiles a jitted function for a slice and reports what it needs.

    Args:
      topology: its name; the arguments' shardings are over `mesh(topology)`.
      arguments: pytrees of `jax.ShapeDtypeStruct` with shardings.
      flops: useful FLOPs of one call on all chips; None takes the compiler's count,
        which sees a loop's body once.
    """
    return report(topology, lower(jitted, *arguments), flops)


def lower(jitted, *arguments):
    """The program of a jitted function on its arguments' mesh, not yet compiled."""
    with quiet(), using(arguments):
        return jitted.lower(*arguments)


def report(topology, lowered, flops=None) -> Report:
    """Compiles a lowered program for all devices of a slice; see `compile_for`."""
    part = slices.named(topology)
    chip, count = part.chip, part.chips * part.chip.devices
    try:
        with quiet():
            compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        first, *_ = str(error).splitlines()
        smaller = "Take fewer or shorter answers, LoRA, an int8 base, or more chips."
        return Report(topology, count, verdict=f"Does not fit: {first}\n{smaller}")
    memory, text = compiled.memory_analysis(), compiled.as_text()
    cost = compiled.cost_analysis()
    listed, kinds = where_time_goes.instructions(text), collectives(text)
    by_opcode = where_time_goes.shares(listed, chip, lambda one: one.opcode)
    useful = flops / count if flops else cost.get("flops", 0.0)
    # An all-reduce is a reduce-scatter and an all-gather, so it counts twice.
    sent = sum(gb * (1 + (kind == "all-reduce")) for kind, (_, gb) in kinds.items())
    return Report(
        topology=topology,
        chips=count,
        arguments_gb=memory.argument_size_in_bytes / GB,
        temporaries_gb=memory.temp_size_in_bytes / GB,
        hbm_gb=bytes_in_use(memory) / GB,
        tflop=useful / 1e12,
        compiler_tflop=cost.get("flops", 0.0) / 1e12,
        compiler_gbytes=cost.get("bytes accessed", 0.0) / 1e9,
        modelled_ms=sum(row.modelled_ms for row in by_opcode),
        kernels_ms=sum(x.bound_ms for x in by_opcode if x.label == "tpu_custom_call"),
        roofline_ms=where_time_goes.roofline_ms(listed, chip),
        links_ms=1e3 * sent * GB / (chip.links * chip.link_gbytes * 1e9),
        unpriced=where_time_goes.unpriced(listed),
        collectives=kinds,
    )


def bytes_in_use(memory) -> int:
    """The most bytes of a chip's memory in use at once, by `memory_analysis()`.

    The compiler's peak also counts arguments in the host's memory. On the chip there is
    never more than its arguments, temporaries and new results together.
    """
    new = memory.output_size_in_bytes - memory.alias_size_in_bytes
    together = memory.argument_size_in_bytes + memory.temp_size_in_bytes + new
    return min(memory.peak_memory_in_bytes, together)


@contextlib.contextmanager
def quiet():
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
