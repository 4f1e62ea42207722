"""How fast, and how stale, with more workers than are here: a discrete-event model.

Workers and a trainer as SimPy's processes, with measured times, around the very
`Buffer` that real runs use. Needs the extra `scale`.
"""

import dataclasses
import itertools
import math
import random

from helpers.scale.buffer import Buffer

MOST_SPREAD = 10.0  # a gamma distribution of hardly anything but 0 and one huge number
MOST_KILLS = 3.0  # one piece of exp(3) = 20 is then answered at all


@dataclasses.dataclass(frozen=True)
class Times:
    """What things take, in seconds on the clock.

    Attributes:
      sample: to sample and score a piece, on average.
      update: of the trainer.
      publish: to hand new weights out, while no update runs.
      spread: standard deviation of a piece's time over its mean (a gamma
        distribution); 0: all take the same.
      restart: from the end of a worker until another is up.
    """

    sample: float
    update: float
    publish: float = 0.0
    spread: float = 0.0
    restart: float = 60.0


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a simulated run came to.

    Attributes:
      updates: per second, without the first tenth of the run.
      staleness: updates between sampling and learning, mean over the pieces.
      dropped: share of the answered pieces that were too old.
      busy: share of the workers' time in which they sample what is then learned from.
      lost: pieces that went with their worker, for each one that was learned.
    """

    updates: float
    staleness: float
    dropped: float
    busy: float
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
    Raises:
      ValueError: a number that makes no sense, such as no worker or a negative time.
    """
    _require_possible(times, workers, preemptions, updates)
    run = _Run(times, pieces, limit, preemptions / 3600, seed)
    for _ in range(workers):
        run.env.process(run.worker())
    run.env.run(until=run.env.process(run.trainer(updates)))
    return run.prediction(workers)


def _require_possible(times, workers, preemptions, updates):
    numbers = (*dataclasses.astuple(times), preemptions)
    possible = all(math.isfinite(x) and 0 <= x < 1e9 for x in numbers)
    least = min(times.sample, times.update + times.publish)
    if workers < 1 or updates < 2 or not possible or least < 1e-6:
        raise ValueError(
            f"workers={workers}, updates={updates}, preemptions={preemptions}, {times}:"
            " there is at least one worker, there are two updates or more, sampling and"
            " updating take a microsecond at least, and no time or rate is negative,"
            " infinite or absurd."
        )
    if times.spread > MOST_SPREAD or preemptions / 3600 * times.sample > MOST_KILLS:
        raise ValueError(
            f"preemptions={preemptions} an hour, {times}: a spread of at most"
            f" {MOST_SPREAD:.0f}, and at most {MOST_KILLS:.0f} preemptions in the time"
            " of a piece. With more hardly any piece is ever answered."
        )


class _Run:
    def __init__(self, times, pieces, limit, rate, seed):
        import simpy

        self.env, self.times, self.rate = simpy.Environment(), times, rate
        self.random = random.Random(seed)
        self.buffer = Buffer(itertools.count().__next__, pieces, limit)
        self.free = self.env.event()  # somebody may run ahead again
        self.back = self.env.event()  # a piece is answered
        self.ages: list[int] = []
        self.ends: list[float] = []
        self.answered = 0

    def tell(self, name):
        """Wakes those who wait for `free` or `back`."""
        getattr(self, name).succeed()
        setattr(self, name, self.env.event())

    def lasts(self):
        """Seconds of one piece."""
        mean, spread = self.times.sample, self.times.spread
        if spread == 0 or mean == 0:
            return mean
        shape = spread**-2
        return self.random.gammavariate(shape, mean / shape)

    def alive_until(self):
        """When a worker that is up from now on will be preempted."""
        if not self.rate:
            return math.inf
        return self.env.now + self.random.expovariate(self.rate)

    def worker(self):
        end = self.alive_until()
        while True:
            lease = self.buffer.issue()
            if lease is None and self.rate:
                yield self.free | self.env.timeout(end - self.env.now)
            elif lease is None:
                yield self.free
            else:
                version, done = self.buffer.version, self.env.now + self.lasts()
                yield self.env.timeout(min(done, end) - self.env.now)
                if done <= end:
                    self.answered += 1
                    kept = self.buffer.push(lease, version, None)
                    self.tell("back" if kept else "free")
                else:
                    self.buffer.give_back(lease)
                    self.tell("free")
            if self.env.now >= end:
                yield self.env.timeout(self.times.restart)
                end = self.alive_until()

    def trainer(self, updates):
        for _ in range(updates):
            while (taken := self.buffer.take()) is None:
                yield self.back
            self.ages += [self.buffer.version - a.version for a in taken]
            yield self.env.timeout(self.times.update + self.times.publish)
            self.buffer.learned()
            self.ends.append(self.env.now)
            self.tell("free")

    def prediction(self, workers):
        first = len(self.ends) // 10
        rate = (len(self.ends) - 1 - first) / (self.ends[-1] - self.ends[first])
        learned = len(self.ages)
        return Prediction(
            updates=rate,
            staleness=sum(self.ages) / learned,
            dropped=self.buffer.dropped / max(self.answered, 1),
            busy=learned * self.times.sample / (workers * self.env.now),
            lost=self.buffer.returned / learned,
        )
