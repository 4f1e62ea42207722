"""What happens to the processes of `make scale`: kills, hangs, and the head's end."""

import json
import os
import pathlib
import random
import signal
import time

GRACE = 0.2  # seconds between two looks
STOPPED = 3  # the exit status of a run that cannot go on, and says why


def say(text: str) -> None:
    """A line with the time, at once."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def alive(pid: int) -> bool:
    """Whether a process runs, and is one of Ray's workers."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False


def workers(folder: pathlib.Path, kind: str = "pids") -> list[int]:
    """The processes of workers, or "judges", that a run's folder has a note of."""
    noted = sorted(int(path.name) for path in (folder / kind).glob("*"))
    return [pid for pid in noted if alive(pid)]


def steps_done(folder: pathlib.Path) -> int:
    """How many steps the trainer of a folder has logged."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def saved(folder: pathlib.Path) -> list[dict]:
    """Where the batches of each process stood at the last checkpoint of a folder."""
    last = max(folder.glob("checkpoints/*/checkpoint.json"))
    return json.loads(last.read_text())["record"]["batches"]


class Chaos:
    """Kills workers when certain steps are done, and stops one without a word.

    With the middle one of the killed workers goes the judge.

    Args:
      folder: of the run.
      kills: of workers, spread over the run.
      steps: of the run.
      hangs: steps after which a worker is stopped (SIGSTOP), and hangs.
      seed: who is hit.
    """

    def __init__(self, folder, kills, steps, hangs=(), seed=0):
        self.folder, self.random, self.kills = folder, random.Random(seed), kills
        # After the last of them more steps follow than may be waiting already.
        at = [round((k + 0.5) / kills * (steps - 4)) for k in range(kills)]
        self.due = sorted([(s, signal.SIGKILL) for s in at])
        self.due = sorted([*self.due, *((s, signal.SIGSTOP) for s in hangs)])
        self.killed = self.stopped = self.judges = 0
        self.middle = (kills + 1) // 2

    def look(self, say) -> None:
        """Does what is due by now."""
        while self.due and steps_done(self.folder) >= self.due[0][0]:
            there, judge = workers(self.folder), workers(self.folder, "judges")
            if not there or not judge:
                return
            _, what = self.due.pop(0)
            pid = self.random.choice(there)
            os.kill(pid, what)
            self.killed += what == signal.SIGKILL
            if what == signal.SIGKILL and self.killed == self.middle:
                os.kill(judge[0], what)
                self.judges += 1
                say(f"{what.name} to the judge, process {judge[0]}")
            self.stopped += what == signal.SIGSTOP
            say(f"{what.name} to worker process {pid}")
            while what == signal.SIGKILL and alive(pid):
                time.sleep(GRACE / 10)


def cpu_seconds(pids, seen: dict[int, float]) -> float:
    """CPU-seconds of processes, those that have ended as last seen.

    Args:
      pids: to look at.
      seen: by process, what was seen before; it is brought up to date.
    """
    tick = os.sysconf("SC_CLK_TCK")
    for pid in pids:
        try:
            text = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
        except OSError:
            continue
        user, system = text.split()[11:13]
        seen[pid] = (int(user) + int(system)) / tick
    return sum(seen.values())
