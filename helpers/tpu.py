"""What a TPU would make of a program, asked of its compiler on a machine without one.

`libtpu` from PyPI compiles for any slice and says what the program needs: memory on
every chip, FLOPs, collectives, and its own estimate of cycles. Nothing here is measured
on a TPU; times are the compiler's model, and are called so.
"""

import contextlib
import dataclasses
import math
import os
import re

import jax
import numpy as np
from jax.sharding import Mesh

from helpers.runtime import make_mesh

GB = 2**30


@dataclasses.dataclass(frozen=True)
class Generation:
    """One kind of TPU chip, from its makers' pages.

    Attributes:
      name: as in the name of a slice, "v5e:2x4".
      hbm_gb: memory of a chip in GiB; of it the compiler gives programs `usable_gb`.
      gbytes: memory bandwidth of a chip in GB/s.
      tflops: peak of bfloat16 products in TFLOP/s of a chip.
      ghz: clock, so that cycles are seconds.
      devices: devices of JAX on one chip.
      host: largest block of chips on one host.
      wraps: a ring closes along an axis of this many chips (full torus).
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


GENERATIONS = {
    row.name: row
    for row in (
        Generation("v4", 32, 31.75, 1200, 275, 1.05, 2, (2, 2, 1), 4),
        Generation("v5e", 16, 15.75, 819, 197, 1.5, 1, (2, 4, 1), 16),
        Generation("v5p", 95, 94.75, 2765, 459, 1.75, 1, (2, 2, 1), 4),
        Generation("v6e", 32, 31.25, 1638, 918, 1.75, 1, (2, 4, 1), 16),
        Generation("tpu7x", 192, 94.75, 7380, 2307, 2.2, 2, (2, 2, 1), 4),
    )
}
SLICES = {"v5e-1": "v5e:1x1", "v5e-8": "v5e:2x4"}


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

    Memory is in GiB a chip, FLOPs in TFLOP a chip. `modelled_ms` adds up the compiler's
    cycle estimates, loops times their trips; collectives and copies without an estimate
    are not in it, so it is a lower bound. `collectives` gives (number, GiB) by kind:
    what a chip's results hold, loops counted too. `verdict` is empty if it fits.
    """

    topology: str
    chips: int
    arguments_gb: float = 0.0
    temporaries_gb: float = 0.0
    outputs_gb: float = 0.0
    usable_gb: float = 0.0
    tflop: float = 0.0
    modelled_ms: float = 0.0
    modelled_peak_percent: float = 0.0
    collectives: dict = dataclasses.field(default_factory=dict)
    verdict: str = ""

    @property
    def hbm_gb(self) -> float:
        """Arguments, new results and temporaries together, GiB a chip."""
        return self.arguments_gb + self.outputs_gb + self.temporaries_gb

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
        return (
            f"{self.topology}: {self.hbm_gb:.2f} of {self.usable_gb:.2f} GiB a chip "
            f"({self.hbm_percent:.0f}%: arguments {self.arguments_gb:.2f}, temporaries "
            f"{self.temporaries_gb:.2f}); {self.tflop:.2f} TFLOP a chip; modelled by "
            f"the compiler, not measured: {self.modelled_ms:.1f} ms, "
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
    kind = SLICES.get(topology, topology).partition(":")[0]
    chip = GENERATIONS[kind]
    count = max(1, len(jax.tree.leaves(arguments)[0].sharding.device_set))
    jitted = function
    if not hasattr(function, "lower"):
        jitted = jax.jit(function, donate_argnums=donate)
    with _quiet():
        try:
            compiled = jitted.lower(*arguments).compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return Report(topology, count, verdict=out_of_memory(str(error)))
    memory, text = compiled.memory_analysis(), compiled.as_text()
    cycles = modelled_cycles(text)
    seconds = cycles / (chip.ghz * 1e9)
    one = flops / count if flops else compiled.cost_analysis().get("flops", 0.0)
    return Report(
        topology=topology,
        chips=count,
        arguments_gb=memory.argument_size_in_bytes / GB,
        temporaries_gb=memory.temp_size_in_bytes / GB,
        outputs_gb=(memory.output_size_in_bytes - memory.alias_size_in_bytes) / GB,
        usable_gb=chip.usable_gb / (1 if chip.devices == 1 else 2),
        tflop=one / 1e12,
        modelled_ms=1e3 * seconds,
        modelled_peak_percent=100 * one / (chip.tflops / chip.devices * 1e12) / seconds
        if seconds
        else math.nan,
        collectives=collectives(text),
    )


class _Program:
    """The computations of a compiled program's text, and how often each one runs."""

    def __init__(self, text):
        self.lines, self.entry, name = {}, None, None
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line):
                name = head[2]
                self.lines[name] = []
                self.entry = name if head[1] else self.entry
            elif name is not None:
                self.lines[name].append(line)

    def trips(self, condition):
        """How often a loop runs: the largest constant its condition compares with."""
        text = "\n".join(self.lines.get(condition, ()))
        found = re.findall(r"s32\[\][^=]*constant\((\d+)\)", text)
        return max(map(int, found), default=1)

    def walk(self, name=None, times=1):
        """(line, how often it runs) of the program, loops' bodies included."""
        for line in self.lines[name or self.entry]:
            yield line, times
            loop = re.search(
                r" while\(.*condition=%?([\w.\-]+), body=%?([\w.\-]+)", line
            )
            if loop:
                yield from self.walk(loop[2], times * self.trips(loop[1]))
            # Overlapped with products, a collective is cut into fusions: a start, some
            # products that carry it, a done. The start alone is followed.
            if begun := re.search(r"%async-collective-start.* calls=%([\w.\-]+)", line):
                yield from self.walk(begun[1], times)


def modelled_cycles(text: str) -> int:
    """Cycles of a compiled program by the compiler's own estimates, loops included."""
    total = 0
    for line, times in _Program(text).walk():
        if found := re.search(r'"estimated_cycles":"(\d+)"', line):
            total += times * int(found[1])
    return total


KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4}


def collectives(text: str) -> dict:
    """{kind: (how many run, GiB their results hold on one chip)} of a program."""
    found = {}
    for line, times in _Program(text).walk():
        match = re.search(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\(", line)
        if not match:
            continue
        count, size = found.get(match[2], (0, 0.0))
        shapes = re.findall(r"(\w+)\[([\d,]*)\]", match[1])
        if match[3]:  # asynchronous: its result is (operand, result, …)
            shapes = shapes[1:2] or shapes
        size += (
            times
            * sum(
                BYTES.get(kind, 4) * math.prod(map(int, filter(None, dims.split(","))))
                for kind, dims in shapes
            )
            / GB
        )
        found[match[2]] = (count + times, size)
    return found


def out_of_memory(message: str) -> str:
    """The compiler's complaint in three lines: how much too much, what is largest."""
    need = re.search(r"(?:Used|required[^()]*\()\s*([\d.]+[KMGT])", message)
    have = re.search(r"(?:of|exceeds available HBM \()\s*([\d.]+[KMGT])", message)
    largest = re.findall(r"Size: ([\d.]+[KMGT]).*?\n(?:.*\n)*?.*?Shape: (\S+)", message)
    lines = [
        f"Does not fit: needs {need[1] if need else 'more'} of "
        f"{have[1] if have else 'the'} HBM on a chip."
    ]
    if largest:
        shown = ", ".join(f"{size} {shape}" for size, shape in largest[:3])
        lines.append(f"Largest buffers: {shown}.")
    lines.append(
        "Fewer prompts or shorter answers a step, more `accumulate` pieces, a smaller "
        "token chunk, LoRA or an int8 base make it smaller; more chips share it."
    )
    return "\n".join(lines)


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
    cached_from = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", math.inf)
    saved = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", cached_from)


def coordinates(topology: str) -> np.ndarray:
    """The place of each device of a slice in the chip grid, (devices, 3) int."""
    return np.array([device.coords for device in devices(topology)])
