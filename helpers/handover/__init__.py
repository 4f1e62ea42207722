"""From here to the engines of clusters: rewards, commands and manifests."""

from helpers.handover.manifests import (
    Order,
    OrderRefused,
    as_text,
    jobset,
    pathways_command,
)

__all__ = [
    "Order",  # a row: model, slice, image, bucket, algorithm
    "OrderRefused",  # a value has no place in a command
    "as_text",  # a manifest as text
    "jobset",  # the manifest without Pathways
    "pathways_command",  # XPK's command
]
