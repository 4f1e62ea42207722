"""Rollouts and updates in processes that come and go, past one machine."""

from helpers.scale.buffer import Buffer, stale
from helpers.scale.source import BrokenPiece, FromWorkers
from helpers.scale.workers import Piece, RunStopped, Worker, WorkerLost

__all__ = [
    "BrokenPiece",  # a worker sent what no update may learn from
    "Buffer",  # where each piece is
    "FromWorkers",  # the batch source whose groups workers sample
    "Piece",  # what a worker sends back
    "RunStopped",  # the run cannot go on, everything is saved
    "Worker",  # samples what it is asked for
    "WorkerLost",  # a worker is gone
    "stale",  # the rule: too old to learn from
]
