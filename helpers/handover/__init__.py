"""From here to the engines of clusters: rewards, commands and manifests."""

from helpers.handover.manifests import (
    Order,
    OrderRefused,
    as_text,
    jobset,
    pathways_command,
)

__all__ = ["Order", "OrderRefused", "as_text", "jobset", "pathways_command"]
