"""How full and how busy each chip is right now.

tpu-info asks the TPU runtime; where it cannot, JAX knows at least its own memory; on a
machine without a TPU both know nothing, and the table says so.
"""

import html
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax

GIB = 2**30


class Usage(NamedTuple):
    """A chip: memory in use and in all, GiB; busy in percent, None if unknown."""

    chip: int
    used: float
    total: float
    busy: float | None = None


Reader = Callable[[], list[Usage]]


def from_tpu_info() -> list[Usage]:
    """What tpu-info reads from the runtime of this process, chip by chip.

    Raises:
      LookupError: no tpu-info, no TPU, or its runtime does not answer yet.
    """
    try:
        from tpu_info import device, metrics
    except ImportError as error:
        raise LookupError("tpu-info is not installed: pip install tpu-info") from error
    kind, count = device.get_local_chips()
    if not count:
        raise LookupError("tpu-info finds no TPU on this machine")
    try:
        found = metrics.get_chip_usage(kind)
    except Exception as error:  # gRPC's: the server starts with the first computation
        raise LookupError(f"the TPU's runtime does not answer ({error})") from error
    return [
        Usage(x.device_id, x.memory_usage / GIB, x.total_memory / GIB, x.duty_cycle_pct)
        for x in found
    ]


def from_jax() -> list[Usage]:
    """What JAX knows of its own memory on each device.

    Raises:
      LookupError: it does not count, as on a CPU.
    """
    found = [(device.id, device.memory_stats()) for device in jax.local_devices()]
    if not all(stats and "bytes_limit" in stats for _, stats in found):
        raise LookupError(f"no TPU here: JAX runs on {jax.default_backend()}")
    return [
        Usage(chip, stats["bytes_in_use"] / GIB, stats["bytes_limit"] / GIB)
        for chip, stats in found
    ]


def usage(readers: Sequence[Reader] = (from_tpu_info, from_jax)) -> list[Usage]:
    """The answer of the first reader that has one.

    Raises:
      LookupError: none has; the message is what each of them said.
    """
    said = []
    for reader in readers:
        try:
            return reader()
        except LookupError as error:
            said.append(str(error))
    raise LookupError("; ".join(said))


def table(reader: Reader = usage) -> str:
    """One line a chip, with a bar for its memory; or why there is nothing to show."""
    try:
        chips = reader()
    except LookupError as error:
        return f"No chip to show: {error}."
    lines = ["chip  memory" + " " * 34 + "busy"]
    for chip, used, total, busy in chips:
        share = used / total if total else 0.0
        bar = "█" * round(20 * share)
        known = "?" if busy is None else f"{busy:.0f}%"
        lines.append(f"{chip:4}  {bar:·<20} {used:6.2f} of {total:6.2f} GiB {known:>5}")
    return "\n".join(lines)


def watch(seconds: float = 2.0, reader: Reader = usage):
    """A widget with the table, read anew every so often until its button is pressed.

    Args:
      seconds: between two readings.
      reader: where the numbers come from.
    Returns:
      An ipywidgets box; `box.stop()` ends the reading as the button does.
    """
    import ipywidgets

    shown = ipywidgets.HTML()
    button = ipywidgets.Button(description="stop", tooltip="Stop reading the chips")
    box, ended = ipywidgets.VBox([shown, button]), threading.Event()

    def read():
        shown.value = (
            "<pre style='color:black;background:white'>"
            f"{html.escape(table(reader))}</pre>"
        )

    def again():
        while not ended.wait(seconds):
            read()

    def stop(_=None):
        ended.set()
        button.disabled = True

    read()
    button.on_click(stop)
    box.stop = stop
    threading.Thread(target=again, daemon=True).start()
    return box
