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
    import simpy

    env, noise = simpy.Environment(), random.Random(seed)
    buffer = Buffer(itertools.count().__next__, pieces, limit)
    # What idle workers wait for, and what the trainer waits for.
    events = {"a piece is free": env.event(), "a piece is back": env.event()}
    ends: list[float] = []  # of updates

    def announce(name):
        events[name].succeed()
        events[name] = env.event()

    def duration():
        """Seconds of one piece."""
        if times.spread == 0:
            return times.sample
        shape = times.spread**-2
        return noise.gammavariate(shape, times.sample / shape)

    def next_preemption():
        """When a worker that is up from now on will be preempted."""
        rate = preemptions / 3600
        return env.now + (noise.expovariate(rate) if rate else math.inf)

    def worker():
        end = next_preemption()
        while True:
            lease = buffer.issue()
            if lease is None and preemptions:
                yield events["a piece is free"] | env.timeout(end - env.now)
            elif lease is None:
                yield events["a piece is free"]
            else:
                version, done = buffer.version, env.now + duration()
                yield env.timeout(min(done, end) - env.now)
                if done > end:
                    buffer.give_back(lease)
                    announce("a piece is free")
                elif buffer.push(lease, version, None):
                    announce("a piece is back")
                else:  # it is too old, and due again
                    announce("a piece is free")
            if env.now >= end:
                yield env.timeout(times.restart)
                end = next_preemption()

    def trainer():
        for _ in range(updates):
            while buffer.take() is None:
                yield events["a piece is back"]
            yield env.timeout(times.update)
            buffer.learned()
            ends.append(env.now)
            announce("a piece is free")

    for _ in range(workers):
        env.process(worker())
    env.run(until=env.process(trainer()))
    first = len(ends) // 10
    rate = (len(ends) - 1 - first) / (ends[-1] - ends[first])
    return Prediction(rate, buffer.returned / (updates * pieces))
