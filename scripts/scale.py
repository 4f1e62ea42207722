"""`make scale`: asynchronous GRPO on this machine, killed and undisturbed.

    python -m scripts.scale [--seeds 0] [--runs synchronous lockstep undisturbed killed]

A Ray cluster of this machine alone, in an environment of its own (build/scale: 90 MB to
fetch), a trainer, two workers and a judge that scores for them; the model and the task
are notebook 07's. In `killed` ten workers get a SIGKILL, one a SIGSTOP (it hangs), the
judge one SIGKILL and the trainer two; then the head of the cluster is killed once, and
everything is started again. `lockstep` is one worker that never runs ahead, and equals
`synchronous`. Rows go to data/results/async.csv: kills of workers, mean staleness in
updates, dropped pieces, share of greedy answers that are right with its 95% interval,
and CPU-seconds of trainer, workers and judge. `--quick` trains 8 steps, asserts the
same, and writes no row.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from scripts import scale_chaos
from scripts.scale_chaos import STOPPED, say

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "async.csv"
FIELDS = "run seed workers kills staleness dropped greedy low high n seconds".split()
NEEDS = ["ray==2.60.0", "simpy==4.1.2"]
ATTEMPTS = 6  # to start Ray, which gives up if its parts are not up in 15 seconds
RUNS = {  # run: workers, limit, kills of workers, of the trainer, hangs, of the head
    "synchronous": (0, 0, 0, 0, 0, 0),
    "lockstep": (1, 0, 0, 0, 0, 0),
    "undisturbed": (2, 2, 0, 0, 0, 0),
    "killed": (2, 2, 10, 2, 1, 1),
}


def environment(home=ROOT / "build" / "scale") -> pathlib.Path:
    """The Python of an environment with Ray, on top of this one; made if not there.

    Raises:
      CalledProcessError: pip failed; its words stand above.
    """
    python, done = home / "bin" / "python", home / "installed.json"
    if done.exists() and json.loads(done.read_text()) == NEEDS:
        return python
    say(f"installing Ray into {home}: 90 MB to fetch …")
    version = ".".join(map(str, sys.version_info[:2]))
    base = f"{sys.base_prefix}/bin/python{version}"
    subprocess.run([base, "-m", "venv", "--clear", str(home)], check=True)
    ours = [p for p in sys.path if p.endswith("site-packages")]
    (below,) = home.glob("lib/python*/site-packages")
    (below / "course.pth").write_text("\n".join(ours))
    subprocess.run([str(python), "-m", "pip", "install", "-q", *NEEDS], check=True)
    done.write_text(json.dumps(NEEDS))
    return python


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Head:
    """The head of a Ray cluster of this machine, on a port of its own."""

    def __init__(self, python: pathlib.Path, log: pathlib.Path):
        self.ray, self.log, self.process = python.parent / "ray", log, None
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        # The names of sockets may have 107 characters.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))

    def start(self) -> None:
        """Starts it, and waits until it is up.

        Raises:
          SystemExit: it does not start, even when it is tried again.
        """
        for _ in range(ATTEMPTS):
            if self._started():
                return
            say("Ray was not up in time, as on a busy machine; once more")
        raise SystemExit(f"Ray did not start:\n{self.log.read_text()[-2000:]}")

    def _started(self):
        settings = {
            "port": self.port,
            "num-cpus": 2,
            "object-store-memory": 200_000_000,
        }
        flags = [f"--{name}={value}" for name, value in settings.items()]
        flags += ["--include-dashboard=false", "--disable-usage-stats"]
        flags += [f"--temp-dir={self.folder}", "--node-ip-address=127.0.0.1"]
        before = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [str(self.ray), "start", "--head", "--block", *flags],
                env=settings_of_workers(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while "Ray runtime started" not in self.log.read_text()[before:]:
            if self.process.poll() is not None:
                self.kill()
                return False
            time.sleep(0.2)
        return True

    def fail(self) -> None:
        """Ends the head's service alone, as if its machine went and this one stayed."""
        os.kill(self.process.pid, signal.SIGSTOP)  # it would end its other parts
        for pid in self._processes():
            if b"gcs_server" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends all that belongs to it."""
        for pid in [self.process.pid, *self._processes()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _processes(self):
        """Those that were started with its folder on their command line."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return found

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def settings_of_workers() -> dict:
    """The environment of trainer and workers: one thread each, and our programs."""
    own = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    # Ray's workers yield to all other work, unless they are told otherwise.
    own |= {"RAY_raylet_start_wait_time_s": "60", "RAY_worker_niceness": "5"}
    own |= dict.fromkeys(("NPROC", "PJRT_NPROC", "OMP_NUM_THREADS"), "1")
    return os.environ | own


class Run:
    """One row of the table: a trainer, its workers, and what happens to them."""

    def __init__(self, name, seed, python, folder, steps, questions):
        self.name, self.seed, self.steps, self.folder = name, seed, steps, folder
        self.workers, self.limit, kills, self.ends, hangs, self.falls = RUNS[name]
        hung = [steps * 5 // 8] * hangs  # while the trainer lives, who is to notice
        self.chaos = scale_chaos.Chaos(folder, kills, steps, hung, seed)
        self.command = [str(python), "-m", "scripts.scale_trainer", str(folder)]
        for flag in ("seed", "workers", "limit", "steps"):
            self.command += [f"--{flag}", str(getattr(self, flag))]
        self.command += ["--questions", str(questions)]
        self.seen, self.trainers, self.clear_stop = {}, [], True

    def train(self, head) -> dict:
        """Runs it to its end, however often it must be started; its row."""
        marks = [(k + 1) / (self.ends + self.falls + 1) for k in range(10)]
        todo = ["trainer"] * self.ends + ["head"] * self.falls
        env = settings_of_workers() | {"RAY_ADDRESS": head.address if head else ""}
        while True:
            process = subprocess.Popen(["nice", "-n", "5", *self.command], env=env)
            self.trainers.append(process.pid)
            while process.poll() is None:
                time.sleep(scale_chaos.GRACE)
                self.chaos.look(say)
                self.spent()
                done = scale_chaos.steps_done(self.folder)
                if todo and done >= marks[len(self.trainers) - 1] * self.steps:
                    if todo.pop(0) == "trainer":
                        say(f"SIGKILL to the trainer, {done} steps are done")
                        process.kill()
                    else:
                        say(f"the head is killed, {done} steps are done")
                        head.fail()
                        self.clear_stop = process.wait(120) == STOPPED
                        head.kill()
                        head.start()
                    process.wait()
                    break
            else:
                if process.returncode:
                    raise SystemExit(f"the trainer ended with {process.returncode}")
                return self.row()

    def spent(self) -> float:
        """CPU-seconds of trainers and workers so far."""
        pids = [*self.trainers, *scale_chaos.workers(self.folder)]
        pids += scale_chaos.workers(self.folder, "judges")
        return scale_chaos.cpu_seconds(pids, self.seen)

    def row(self) -> dict:
        """What is written down of it."""
        assert self.clear_stop, "the end of the head was no clear stop"
        result = json.loads((self.folder / "result.json").read_text())
        self.require_once(result)
        own = {"run": self.name, "seed": self.seed, "workers": self.workers}
        own |= {"kills": self.chaos.killed, "seconds": sum(self.seen.values())}
        return {name: {**result, **own}[name] for name in FIELDS}

    def require_once(self, result) -> None:
        """All that was to happen did; every piece was learned once or is yet due."""
        chaos = self.chaos
        assert not chaos.due, f"not all workers were hit: {chaos.due} is left"
        assert len(self.trainers) == 1 + self.ends + self.falls, self.trainers
        assert chaos.judges == bool(chaos.kills), "the judge was not hit"
        if not self.limit + self.workers:
            return
        lines = map(json.loads, (self.folder / "pieces.jsonl").read_text().splitlines())
        # A step that is done again after a kill stands in the place of the first.
        learned = {line["step"]: line["pieces"] for line in lines}
        numbers = [n for step in sorted(learned) for n in learned[step]]
        assert len(numbers) == self.steps, "a step has not its piece"
        (buffer,) = (state["buffer"] for state in scale_chaos.saved(self.folder))
        due = [number for number, _ in buffer["due"]]
        whole = sorted(numbers + due) == list(range(buffer["drawn"]))
        assert whole, f"twice or lost: {numbers} are learned, {due} are due"
        say(
            f"{len(numbers)} pieces learned once each; {result['returned']} came back"
            f" unanswered and were asked again, {result['dropped']} were too old"
        )


def add(row: dict) -> None:
    """Puts a row into the table, in the place of an older one of its run and seed."""
    kept = []
    if TABLE.exists():
        with open(TABLE, newline="") as file:
            kept = list(csv.DictReader(file))
    text = {n: f"{x:.4g}" if isinstance(x, float) else str(x) for n, x in row.items()}
    here = text["run"], text["seed"]
    kept = [row for row in kept if (row["run"], row["seed"]) != here]
    table = sorted([*kept, text], key=lambda r: (list(RUNS).index(r["run"]), r["seed"]))
    aside = TABLE.with_suffix(".partial")
    with open(aside, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    os.replace(aside, TABLE)


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--runs", nargs="+", choices=RUNS, default=["undisturbed", "killed"]
    )
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    python = environment()
    steps, questions = (8, 60) if asked.quick else (48, 500)
    for seed in asked.seeds:
        for name in asked.runs:
            folder = ROOT / "build" / "scale-runs" / str(seed) / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            run = Run(name, seed, python, folder, steps, questions)
            with Head(python, folder / "ray.log") as head:
                row = run.train(head)
            say(", ".join(f"{n} {x}" for n, x in row.items()))
            if not asked.quick:
                add(row)


if __name__ == "__main__":
    main()
