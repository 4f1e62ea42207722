"""Explorers: a few controls and the picture they choose, as HTML with alt text.

Only what ipywidgets 7.7 (Colab) and 8 share is used, and a picture is an `<img>` inside
an HTML widget, as wide as the screen allows.
"""

import base64
import html

from helpers.plots import plotting, topology_plot
from helpers.tpu import topology


def topology_explorer(start: str = "v5e:2x4"):
    """Choose a kind of chip, a slice and a chip; see its wiring, totals and hops.

    Args:
      start: the slice shown first.
    Returns:
      An ipywidgets box: dropdown, two sliders, picture.
    Raises:
      ValueError: there is no slice called `start`.
    """
    import ipywidgets

    part = topology.named(start)
    kind, shape = start.split(":")
    kinds = ipywidgets.Dropdown(
        options=list(topology.SHAPES), value=kind, description="chip"
    )
    shapes = ipywidgets.SelectionSlider(
        options=topology.SHAPES[kind],
        value=shape,
        description="slice",
        continuous_update=False,
    )
    chips = ipywidgets.IntSlider(
        0, 0, part.chips - 1, description="from chip", continuous_update=False
    )
    shown = ipywidgets.HTML()

    def draw(_=None):
        part = topology.named(f"{kinds.value}:{shapes.value}")
        if chips.value >= part.chips:
            chips.value = 0  # which draws
        chips.max = part.chips - 1
        shown.value = _image(
            topology_plot.picture(part, chips.value),
            topology_plot.caption(part, chips.value),
        )

    def offer(_):
        before, known = shapes.value, topology.SHAPES[kinds.value]
        shapes.options = known  # selects the first
        shapes.value = before if before in known else known[0]
        draw()

    kinds.observe(offer, "value")
    shapes.observe(draw, "value")
    chips.observe(draw, "value")
    draw()
    return ipywidgets.VBox([kinds, shapes, chips, shown])


def _image(fig, text):
    data = base64.b64encode(plotting.png(fig)).decode()
    return (
        f'<img alt="{html.escape(text, quote=True)}" style="max-width:100%;'
        f'background:white" src="data:image/png;base64,{data}">'
        f"<p style='color:black;background:white'>{html.escape(text)}</p>"
    )
