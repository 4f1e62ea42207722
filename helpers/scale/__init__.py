"""Rollouts and updates in processes that come and go, past one machine."""

from helpers.scale.buffer import Buffer  # where each piece is
from helpers.scale.source import FromWorkers  # batches that workers sample
from helpers.scale.workers import RunStopped  # it cannot go on, all is saved
