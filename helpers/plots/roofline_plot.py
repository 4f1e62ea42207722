"""The roofline drawn: the roofs of machines, and measured products under them."""

from matplotlib.figure import Figure

from helpers.plots import plotting


def figure(machines, points, *, title: str) -> Figure:
    """Roofs of machines, and measured products under the first of them.

    Args:
      machines: one `Machine` a line.
      points: (label, intensity, FLOP/s) of each measured product.
      title: a sentence that states the finding.
    """
    fig, axes = plotting.figure(title, x="FLOPs per byte moved", y="FLOP/s", height=4.0)
    for machine, colour, dash in zip(
        machines, plotting.COLOURS, plotting.DASHES, strict=False
    ):
        at = [0.3, machine.ridge, 3000]
        roof = [machine.reach(x) for x in at]
        axes.plot(at, roof, color=colour, linestyle=dash, linewidth=2)
        axes.plot(machine.ridge, machine.flops, "o", color=colour)
        label = f"{machine.name}\nridge at {machine.ridge:.0f} FLOP/byte"
        axes.annotate(
            label,
            (machine.ridge, machine.flops),
            xytext=(4, 6),
            textcoords="offset points",
            color=colour,
            fontsize=9,
        )
    for label, intensity, flops in points:
        axes.plot(intensity, flops, "D", color=plotting.BLUE, fillstyle="none")
        axes.annotate(
            label,
            (intensity, flops),
            xytext=(5, -11),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    lowest = min((flops for _, _, flops in points), default=1e9)
    axes.set_ylim(lowest / 4, 8 * max(machine.flops for machine in machines))
    return fig
