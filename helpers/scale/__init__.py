"""Rollouts and updates in processes that come and go, past one machine."""

from helpers.scale.buffer import Buffer
from helpers.scale.source import FromWorkers
from helpers.scale.workers import RunStopped

__all__ = [
    "Buffer",  # where each piece is
    "FromWorkers",  # the batch source whose groups workers sample
    "RunStopped",  # the run cannot go on, everything is saved
]
