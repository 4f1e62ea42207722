"""Figures and tables, in one style."""

from helpers.plots import (
    blocks,
    live,
    markup,
    plotting,
    roofline_plot,
    schematics,
    timeline,
    topology_plot,
    trace_view,
    widgets,
)

__all__ = [
    "blocks",  # which chip holds what
    "live",  # a run while it trains
    "markup",  # answers and tokens as HTML
    "plotting",  # lines, bars, curves; show
    "roofline_plot",  # roofs of machines, and points under them
    "schematics",  # ideas that have a shape
    "timeline",  # what ran when
    "topology_plot",  # a slice of a pod
    "trace_view",  # a conversation, token by token
    "widgets",  # explorers
]
