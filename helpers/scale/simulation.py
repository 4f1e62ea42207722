"""A discrete-event simulation: how fast, and how stale, with many workers.

Workers and a trainer are SimPy processes with measured times, around the `Buffer` that
real runs use. Needs the extra `scale`.
"""

import dataclasses
import itertools
import math
import random

from helpers.scale.buffer import Buffer


@dataclasses.dataclass(frozen=True)
class Times:
    """Durations in seconds.

    Attributes:
      sample: to sample and score a piece, on average.
      update: of the trainer.
      spread: standard deviation of a piece's time over its mean (a gamma
        distribution); 0: all take the same.
      restart: from the end of a worker until another is up.
    """

    sample: float
    update: float
    spread: float = 0.0
    restart: float = 60.0


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The results of a simulated run.

    Attributes:
      updates: per second, without the first tenth of the run.
      lost: pieces that went with their worker, for each one that was learned.
    """

    updates: float
    lost: float


def simulate(
    times: Times,
    workers: int,
    *,
    pieces: int = 1,
    limit: int = 0,
    preemptions: float = 0.0,
    updates: int = 200,
    seed: int = 0,
) -> Prediction:
    """Runs so many updates of a trainer and its workers, in simulated time.

    Args:
      times: of this model on these machines.
      workers: how many sample.
      pieces, limit: of the `Buffer`; limit 0 is the synchronous loop.
      preemptions: of each worker, per hour; at random moments (a Poisson process).
      updates: of the trainer.
      seed: of all that is random.
    """
    run = _Run(times, pieces, limit, preemptions / 3600, seed)
    for _ in range(workers):
        run.env.process(run.worker())
    run.env.run(until=run.env.process(run.trainer(updates)))
    return run.prediction()


class _Run:
    def __init__(self, times, pieces, limit, rate, seed):
        import simpy

        self.env, self.times, self.rate = simpy.Environment(), times, rate
        self.random = random.Random(seed)
        self.buffer = Buffer(itertools.count().__next__, pieces, limit)
        self.free = self.env.event()  # a worker may begin a piece again
        self.back = self.env.event()  # a piece is back
        self.ends: list[float] = []

    def wake(self, name):
        """Wakes those who wait for `free` or `back`."""
        getattr(self, name).succeed()
        setattr(self, name, self.env.event())

    def duration(self):
        """Seconds of one piece."""
        mean, spread = self.times.sample, self.times.spread
        if spread == 0:
            return mean
        shape = spread**-2
        return self.random.gammavariate(shape, mean / shape)

    def alive_until(self):
        """When a worker that is up from now on will be preempted."""
        lives = self.random.expovariate(self.rate) if self.rate else math.inf
        return self.env.now + lives

    def worker(self):
        end = self.alive_until()
        while True:
            lease = self.buffer.issue()
            if lease is None and self.rate:
                yield self.free | self.env.timeout(end - self.env.now)
            elif lease is None:
                yield self.free
            else:
                version, done = self.buffer.version, self.env.now + self.duration()
                yield self.env.timeout(min(done, end) - self.env.now)
                if done <= end:
                    accepted = self.buffer.push(lease, version, None)
                    self.wake("back" if accepted else "free")
                else:
                    self.buffer.give_back(lease)
                    self.wake("free")
            if self.env.now >= end:
                yield self.env.timeout(self.times.restart)
                end = self.alive_until()

    def trainer(self, updates):
        for _ in range(updates):
            while self.buffer.take() is None:
                yield self.back
            yield self.env.timeout(self.times.update)
            self.buffer.learned()
            self.ends.append(self.env.now)
            self.wake("free")

    def prediction(self):
        """Rates after the first tenth, shares of the whole run."""
        first = len(self.ends) // 10
        rate = (len(self.ends) - 1 - first) / (self.ends[-1] - self.ends[first])
        learned = len(self.ends) * self.buffer.pieces
        return Prediction(updates=rate, lost=self.buffer.returned / learned)
