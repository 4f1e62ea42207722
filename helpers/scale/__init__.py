"""Past one machine: rollouts and updates in processes that come and go."""

from helpers.scale.buffer import Buffer, stale
from helpers.scale.crew import RunStopped, WorkerLost
from helpers.scale.judge import Judge, judged_elsewhere
from helpers.scale.pieces import BrokenPiece, Piece
from helpers.scale.source import FromWorkers
from helpers.scale.worker import Worker

__all__ = [
    "BrokenPiece",  # a worker sent what no update may learn from
    "Buffer",  # who has which groups
    "FromWorkers",  # the batch source whose groups others sample
    "Judge",  # rewards and tools in a process of their own
    "Piece",  # what a worker sends back
    "RunStopped",  # the run cannot go on, all is saved
    "Worker",  # answers what it is asked
    "WorkerLost",  # a worker is gone
    "judged_elsewhere",  # a worker's rollouts ask it
    "stale",  # the rule: too old to learn from
]
