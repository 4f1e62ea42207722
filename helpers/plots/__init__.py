"""Figures and tables, in one style."""

from helpers.plots import (
    blocks,  # which chip holds what
    live,  # a run while it trains
    markup,  # answers, tokens and conversations as HTML
    plotting,  # lines, bars, curves, drawings; show
    topology_plot,  # a slice of a pod
)
