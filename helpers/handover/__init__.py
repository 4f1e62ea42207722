"""From here to the engines of clusters: rewards, commands and manifests."""

from helpers.handover.jobset import as_text, jobset
from helpers.handover.orders import Order, OrderRefused
from helpers.handover.xpk import pathways_command

__all__ = [
    "Order",  # a row: model, slice, image, bucket, algorithm
    "OrderRefused",  # a value has no place in a command
    "as_text",  # a manifest as text
    "jobset",  # the manifest without Pathways
    "pathways_command",  # XPK's command
]
