"""`make scale`: asynchronous GRPO on this machine, killed and undisturbed.

    python -m tests.scale.cluster [--seeds 0] [--runs undisturbed killed …]

A Ray cluster of this machine alone, in an environment of its own (build/scale: 90 MB to
fetch), a trainer and two workers; the model and the task are notebook 07's. In `killed`
ten workers get a SIGKILL, one a SIGSTOP (it hangs), and the trainer two SIGKILLs. Then
the head of the cluster is killed once, and everything is started again. `lockstep` is
one worker that never runs ahead, and equals `synchronous`. Rows go to
data/results/async.csv: kills of workers, mean staleness in updates, dropped pieces,
share of greedy answers that are right with its 95% interval, and CPU-seconds of trainer
and workers. `--quick` trains 8 steps, asserts the same, and writes no row.
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from helpers import recipes
from helpers.batches import prompts
from helpers.evaluation.evaluator import evaluate
from helpers.generation.rollouts import Rollouts
from helpers.model import weights
from helpers.rewards import RewardSet, correct, format_reward
from helpers.scale import FromWorkers, RunStopped
from helpers.tasks import word_problems
from helpers.text import chat
from helpers.training import Callback, Trainer, objectives, optimizers
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "data" / "results" / "async.csv"
FIELDS = "run seed workers kills staleness dropped greedy low high n seconds".split()
SFT, SIZES = ROOT / "data" / "tiny" / "sft", recipes.PRESETS["laptop"]
NEEDS = ["ray==2.60.0", "simpy==4.1.2"]
ATTEMPTS = 6  # to start Ray, which gives up if its parts are not up in 15 seconds
PAUSE = 0.2  # seconds between two looks at the processes
STOPPED = 3  # the exit status of a run that cannot go on, and says why
RUNS = {  # run: workers, limit, kills of workers, of the trainer, hangs, of the head
    "synchronous": (0, 0, 0, 0, 0, 0),
    "lockstep": (1, 0, 0, 0, 0, 0),
    "undisturbed": (2, 2, 0, 0, 0, 0),
    "killed": (2, 2, 10, 2, 1, 1),
}


def say(text: str) -> None:
    """Prints a line with the time, at once."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# The trainer: a process that may be killed, and started again.


def rollouts(seed: int, pids: pathlib.Path | None = None) -> Rollouts:
    """Notebook 07's rollouts, for the trainer and for workers.

    Args:
      seed: of questions, their order and all noise.
      pids: folder where a worker notes its process, so that it can be killed.
    """
    tokenizer = chat.load_tokenizer(SFT)
    rows = word_problems.generate(20_000, seed=11 + 100 * seed, levels=(3,))
    batch, buckets = SIZES.prompts, (SIZES.prompt_tokens,)
    source = prompts(rows, tokenizer, batch=batch, buckets=buckets, seed=seed)
    reward = RewardSet({correct: 1.0, format_reward: 0.1})
    settings = {"group": SIZES.group, "max_tokens": SIZES.completion_tokens}
    made = Rollouts(weights.load(SFT), source, reward, tokenizer, seed=seed, **settings)
    if pids is not None:
        pids.mkdir(parents=True, exist_ok=True)
        (pids / str(os.getpid())).touch()
    return made


class PieceLog(Callback):
    """Writes down after every step which pieces it learned from."""

    def __init__(self, path, source):
        self.path, self.source = path, source

    def on_step(self, trainer, row):
        """Appends a line."""
        line = {"step": row["step"], "pieces": self.source.learned[-1:]}
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


def train(folder, seed: int, workers: int, limit: int, steps: int, questions: int):
    """Trains in a folder, measures, and writes `result.json`.

    Workers are those of the cluster that RAY_ADDRESS names; 0 of them are the
    synchronous loop, without Ray.
    """
    batches = rollouts(seed)
    optimizer = optimizers.adamw(SIZES.rl.rate, steps=steps, warmup=3, final=0.3)
    trainer = functools.partial(
        Trainer,
        batches.model,
        objectives.policy_gradient(sampler_cap=2.0),
        optimizer,
        minibatches=4,
        folder=folder,
        save_every=4,
        log=False,
    )
    say(f"trainer {os.getpid()} starts")
    if workers:
        from helpers.scale.workers import RayWorkerPool
        from tests.scale import cluster  # importable, as `__main__` is not, for workers

        make = functools.partial(cluster.rollouts, seed, folder / "pids")
        pool = RayWorkerPool(make, workers, cpus=0.5)
        source = FromWorkers(batches, pool, limit=limit, deadline=90.0, say=say)
        with source:
            log = PieceLog(folder / "pieces.jsonl", source)
            table = trainer(callbacks=[log]).fit(source, steps)
    else:
        table = trainer().fit(batches, steps)
    report = evaluate(
        batches.model,
        batches.tokenizer,
        word_problems.generate(questions, seed=99, levels=(3,), split="test"),
        max_tokens=SIZES.completion_tokens,
        samples=0,
        buckets=(SIZES.prompt_tokens,),
        log=False,
    )
    result = {name: getattr(report, name) for name in ("greedy", "low", "high", "n")}
    result["staleness"] = sum(r.get("staleness", 0) for r in table) / len(table)
    result |= {name: int(table[-1].get(name, 0)) for name in ("dropped", "returned")}
    (folder / "result.json").write_text(json.dumps(result))


# The cluster.


def environment(home=ROOT / "build" / "scale") -> pathlib.Path:
    """The Python of an environment with Ray, on top of this one; made if not there."""
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


def process_environment() -> dict:
    """Environment variables of trainer and workers: one thread each, our programs."""
    ours = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    # Ray's workers yield to all other work, unless they are told otherwise.
    ours |= {"RAY_raylet_start_wait_time_s": "60", "RAY_worker_niceness": "5"}
    ours |= dict.fromkeys(("NPROC", "PJRT_NPROC", "OMP_NUM_THREADS"), "1")
    return os.environ | ours


class Head:
    """The head of a Ray cluster of this machine, on a port of its own."""

    def __init__(self, python: pathlib.Path, log: pathlib.Path):
        self.ray, self.log = python.parent / "ray", log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        # The names of sockets may have 107 characters.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))

    def start(self) -> None:
        """Starts it, and waits until it is up; tries again where Ray is too slow."""
        for _ in range(ATTEMPTS):
            if self._started():
                return
            say("Ray was not up in time, as on a busy machine; once more")
        raise SystemExit(f"Ray did not start:\n{self.log.read_text()[-2000:]}")

    def _started(self):
        flags = [f"--port={self.port}", "--num-cpus=2", f"--temp-dir={self.folder}"]
        flags += ["--include-dashboard=false", "--disable-usage-stats"]
        flags += ["--node-ip-address=127.0.0.1", "--object-store-memory=200000000"]
        before = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [str(self.ray), "start", "--head", "--block", *flags],
                env=process_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while "Ray runtime started" not in self.log.read_text()[before:]:
            if self.process.poll() is not None:
                self.kill()
                return False
            time.sleep(PAUSE)
        return True

    def fail(self) -> None:
        """Ends the head's service alone, as if its machine went and this one stayed."""
        os.kill(self.process.pid, signal.SIGSTOP)  # it would end its other parts
        for pid in self._processes():
            if b"gcs_server" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends everything that belongs to it."""
        for pid in [self.process.pid, *self._processes()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _processes(self):
        """Those that were started with its folder on their command line."""
        pids = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in (path / "cmdline").read_bytes():
                    pids.append(int(path.name))
        return pids


# A run, and what happens to its processes.


class Run:
    """One row of the table: a trainer, its workers, and what happens to them."""

    def __init__(self, name, seed, python, folder, steps, questions):
        self.name, self.seed, self.steps, self.folder = name, seed, steps, folder
        self.workers, self.limit, kills, self.ends, hangs, self.falls = RUNS[name]
        # After the last kill more steps follow than pieces may be waiting already.
        at = [round((k + 0.5) / kills * (steps - 4)) for k in range(kills)]
        self.due = [(step, signal.SIGKILL) for step in at]
        self.due = sorted(self.due + [(steps * 5 // 8, signal.SIGSTOP)] * hangs)
        self.random, self.kills = random.Random(seed), kills
        self.command = [
            str(python),
            "-m",
            "tests.scale.cluster",
            "--train",
            str(folder),
        ]
        for flag in ("workers", "limit", "steps"):
            self.command += [f"--{flag}", str(getattr(self, flag))]
        self.command += ["--seeds", str(seed), "--questions", str(questions)]
        self.seconds: dict[int, float] = {}
        self.trainers: list[int] = []

    def train(self, head) -> dict:
        """Runs it to its end, however often it must be started; its row."""
        todo = ["trainer"] * self.ends + ["head"] * self.falls
        marks = [(k + 1) / (len(todo) + 1) * self.steps for k in range(len(todo))]
        env = process_environment() | {"RAY_ADDRESS": head.address}
        while True:
            process = subprocess.Popen(["nice", "-n", "5", *self.command], env=env)
            self.trainers.append(process.pid)
            while process.poll() is None:
                time.sleep(PAUSE)
                self.hit_workers()
                self.count_seconds()
                if todo and self.done() >= marks[-len(todo)]:
                    say(f"the {todo[0]} is killed, {self.done()} steps are done")
                    if todo.pop(0) == "trainer":
                        process.kill()
                        process.wait()
                    else:
                        head.fail()
                        assert process.wait(120) == STOPPED, "no clear stop"
                        head.kill()
                        head.start()
                    break
            else:
                if process.returncode:
                    raise SystemExit(f"the trainer ended with {process.returncode}")
                return self.row()

    def done(self) -> int:
        """How many steps the trainer has logged."""
        path = self.folder / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def worker_pids(self) -> list[int]:
        """The processes of workers that live."""
        pids = []
        for path in sorted((self.folder / "pids").glob("*")):
            with contextlib.suppress(OSError):
                command = pathlib.Path(f"/proc/{path.name}/cmdline").read_bytes()
                if command.startswith(b"ray::"):
                    pids.append(int(path.name))
        return pids

    def hit_workers(self) -> None:
        """Kills or stops a worker once its step is done."""
        while self.due and self.done() >= self.due[0][0]:
            if not (pids := self.worker_pids()):
                return
            (_, what), pid = self.due.pop(0), self.random.choice(pids)
            os.kill(pid, what)
            say(f"{what.name} to worker process {pid}")
            while what == signal.SIGKILL and pid in self.worker_pids():
                time.sleep(PAUSE / 10)

    def count_seconds(self) -> None:
        """CPU-seconds of trainers and workers, those that have ended as last seen."""
        for pid in [*self.trainers, *self.worker_pids()]:
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
                ticks = sum(map(int, text.split()[11:13]))
                self.seconds[pid] = ticks / os.sysconf("SC_CLK_TCK")

    def row(self) -> dict:
        """A row of the table, once all was hit and every piece was learned once."""
        result = json.loads((self.folder / "result.json").read_text())
        assert not self.due, f"not all workers were hit: {self.due} is left"
        if self.workers:
            self.require_once(result)
        columns = {"run": self.name, "seed": self.seed, "workers": self.workers}
        columns |= {"kills": self.kills, "seconds": sum(self.seconds.values())}
        return {name: {**result, **columns}[name] for name in FIELDS}

    def require_once(self, result) -> None:
        """Every piece was learned once or is yet due."""
        lines = map(json.loads, (self.folder / "pieces.jsonl").read_text().splitlines())
        # A step that is done again after a kill replaces the first.
        learned = {line["step"]: line["pieces"] for line in lines}
        numbers = [n for step in sorted(learned) for n in learned[step]]
        assert len(numbers) == self.steps, "a step has not its piece"
        last = max(self.folder.glob("checkpoints/*/checkpoint.json"))
        (state,) = json.loads(last.read_text())["record"]["batches"]
        due = [number for number, _ in state["buffer"]["due"]]
        whole = sorted(numbers + due) == list(range(state["buffer"]["drawn"]))
        assert whole, f"twice or lost: {numbers} are learned, {due} are due"
        say(
            f"{len(numbers)} pieces learned once each; {result['returned']} came back"
            f" unanswered and were asked again, {result['dropped']} were too old"
        )


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--runs", nargs="+", choices=RUNS, default=["undisturbed", "killed"]
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--train", type=pathlib.Path, help=argparse.SUPPRESS)
    for flag in ("workers", "limit", "steps", "questions"):
        parser.add_argument(f"--{flag}", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        settings = given.workers, given.limit, given.steps, given.questions
        try:
            train(given.train, given.seeds[0], *settings)
        except RunStopped as error:
            say(str(error))
            sys.exit(STOPPED)
        return
    python = environment()
    steps, questions = (8, 60) if given.quick else (48, 500)
    for seed in given.seeds:
        for name in given.runs:
            folder = ROOT / "build" / "scale-runs" / str(seed) / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            head = Head(python, folder / "ray.log")
            try:
                head.start()
                run = Run(name, seed, python, folder, steps, questions)
                row = run.train(head)
            finally:
                head.kill()
                shutil.rmtree(head.folder, ignore_errors=True)
            say(", ".join(f"{n} {x}" for n, x in row.items()))
            if not given.quick:
                row = {n: f"{x:.4g}" if type(x) is float else x for n, x in row.items()}
                tables.put(TABLE, [row], ("run", "seed"), FIELDS)


if __name__ == "__main__":
    main()
