"""How near a real model on a CPU comes to what the machine can do (`make bench-real`).

SmolLM2-135M in float32, and (…_bfloat16) with its frozen weights in bfloat16, as the
recipe holds them where the processor multiplies that; in processes of their own, into
`data/results/real_speed.csv`:

- copy: bytes a second that a plain copy moves, read and written.
- decode_1: answering one question; the share of that bandwidth which the weights'
  bytes take, each read once a token. decode_64: 64 answers at once, whose products
  weigh more than the bytes; tokens a second.
- update: LoRA GRPO, 8 prompts × 8 answers × 64 tokens, cut as the preset laptop-real
  cuts it; its CPU-seconds over those of its matrix products alone, in float32 in both
  cases, and the most memory its process held.
- step: sampling those answers to generated problems, grading them and that update, in
  the recipe's own formats; answers a second, and the most memory.

The rows with bfloat16 are measured on processors that multiply it, and left elsewhere.

The machine should have nothing else to do.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from helpers.runtime.devices import multiplies_bfloat16  # noqa: E402

TABLE = ROOT / "data" / "results" / "real_speed.csv"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROMPTS, GROUP, PROMPT, ANSWER = 8, 8, 72, 64
FIELDS = ("what", "value", "unit", "cpu_s", "wall_s", "peak_mb", "load", "date")


def clocked(work, times=3):
    """(CPU-seconds, seconds) of the quickest of a few calls, after one to warm up."""
    work()
    found = []
    for _ in range(times):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(found)


def model(dtype, rank=0):
    """The real model, frozen base and adapters."""
    from helpers.model import hub, lora, weights

    loaded = weights.load(hub.fetch(MODEL), dtype=dtype, activations="float32")
    return lora.add(loaded, rank) if rank else loaded


def copy():
    """Gigabytes a second of a copy of half a gigabyte."""
    import numpy as np

    source = np.ones(2**27, np.float32)
    target = np.empty_like(source)
    cpu, wall = clocked(lambda: np.copyto(target, source), 5)
    return {"value": 2 * source.nbytes / 1e9 / wall, "unit": "GB/s", "cpu_s": cpu}


def decode(rows, tokens=48, dtype="float32"):
    """Tokens a second of `rows` answers at once, and the bytes of weights they need."""
    import jax
    import numpy as np

    from helpers.generation import generate
    from helpers.generation.sampling import row_keys
    from helpers.model import count_params

    policy = model(dtype)
    prompt = np.random.default_rng(0).integers(20, 40_000, (rows, PROMPT))
    keys = row_keys(jax.random.key(0), 0, rows, 1)
    prompt = prompt.astype(np.int32)

    def answer(count):
        settings = {"max_tokens": count, "eos_ids": (policy.config.vocab_size - 1,)}
        done = generate(policy, prompt, np.ones_like(prompt), keys, **settings)
        return jax.block_until_ready(done)

    short = clocked(lambda: answer(8))  # what prefill takes is in both
    long = clocked(lambda: answer(8 + tokens))
    wall = (long[1] - short[1]) / tokens
    size = policy.embed.dtype.itemsize * count_params(policy)
    bandwidth = size / 1e9 / wall
    return {
        "value": rows / wall,
        "unit": f"tokens/s; weights {bandwidth:.2f} GB/s",
        "cpu_s": (long[0] - short[0]) / tokens,
        "wall_s": wall,
    }


def batch(vocab):
    """A batch as rollouts give it, of random tokens and no padding."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = PROMPTS, GROUP, ANSWER
    return {
        "prompt": rng.integers(20, vocab, (PROMPTS, PROMPT)).astype(np.int32),
        "prompt_mask": np.ones((PROMPTS, PROMPT), np.int32),
        "completion": rng.integers(20, vocab, shape).astype(np.int32),
        "loss_mask": np.ones(shape, np.float32),
        "logprobs": np.full(shape, -5.0, np.float32),
        "advantages": rng.normal(size=shape[:2]).astype(np.float32),
    }


def update(dtype="float32"):
    """One update of GRPO with adapters, as the last section of notebook 07 does it."""
    from helpers.recipes import presets
    from helpers.training import Trainer, objectives, optimizers

    preset = presets.preset("laptop-real")
    policy = model(dtype, rank=preset.lora_rank)
    policy.remat = preset.remat
    rows = batch(policy.config.vocab_size)

    class Same:
        """A batch source: the same one again and again."""

        samples, metrics = [], {}

        def __next__(self):
            return rows

        def get_state(self):
            return {}

        def set_state(self, state):
            pass

    trainer = Trainer(
        policy,
        objectives.policy_gradient(chunk=preset.chunk),
        optimizers.adamw(1e-4),
        accumulate=PROMPTS * preset.pieces // preset.prompts,
        log=False,
    )
    source, done = Same(), [0]

    def step():
        done[0] += 1
        trainer.fit(source, done[0])

    cpu, wall = clocked(step)
    return {"value": cpu / products(policy.config), "unit": "× its products"} | {
        "cpu_s": cpu,
        "wall_s": wall,
    }


def step():
    """A whole step of GRPO: answers are sampled and graded, and one update made."""
    import dataclasses
    import tempfile

    from helpers.model import lora
    from helpers.recipes import maths, presets
    from helpers.rewards.functions import correct
    from helpers.training import Trainer, objectives, optimizers

    preset = presets.preset("laptop-real")
    pieces = PROMPTS * preset.pieces // preset.prompts
    preset = dataclasses.replace(preset, prompts=PROMPTS, group=GROUP, pieces=pieces)
    with tempfile.TemporaryDirectory() as os.environ["COURSE_BUILD"]:
        there = maths.recipe(preset)
    trainer = Trainer(
        there.policy,
        objectives.policy_gradient(chunk=preset.chunk),
        optimizers.adamw(1e-6),
        accumulate=preset.pieces,
        wrt=lora.Adapter,
        log=False,
    )
    source, done = there.rollouts(correct, 0), [0]

    def once():
        done[0] += 1
        trainer.fit(source, done[0])

    cpu, wall = clocked(once, 2)
    value = PROMPTS * GROUP / wall
    return {"value": value, "unit": "answers/s", "cpu_s": cpu, "wall_s": wall}


def products(config):
    """CPU-seconds of an update's matrix products alone: forward, and to the input."""
    import jax
    import jax.numpy as jnp

    tokens = PROMPTS * (PROMPT + GROUP * ANSWER)
    heads, kept = (n * config.head_dim for n in (config.heads, config.kv_heads))
    shapes = [(config.width, heads), (heads, config.width)]
    shapes += 2 * [(config.width, kept)] + 2 * [(config.width, config.ff)]
    shapes += [(config.ff, config.width)]
    counted = [(tokens, shape, config.layers) for shape in shapes]
    counted += [(PROMPTS * GROUP * ANSWER, (config.width, config.vocab_size), 1)]
    multiply, total = jax.jit(jnp.dot), 0.0
    for rows, (inner, outer), times in counted:
        for left, right in ((inner, outer), (outer, inner)):
            x, w = jnp.ones((rows, left)), jnp.ones((left, right))
            cpu, _ = clocked(lambda x=x, w=w: multiply(x, w).block_until_ready())
            total += cpu * times
    return total


MEASURES = {
    "copy": copy,
    "decode_1": lambda: decode(1),
    "decode_64": lambda: decode(64, tokens=16),
    "update": update,
    "step": step,
    "decode_1_bfloat16": lambda: decode(1, dtype="bfloat16"),
    "decode_64_bfloat16": lambda: decode(64, tokens=16, dtype="bfloat16"),
    "update_bfloat16": lambda: update("bfloat16"),
}


def measured(what):
    """One row of the table, from a process of its own."""
    command = [sys.executable, __file__, "--one", what]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Measures all of it, one after the other, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", choices=MEASURES)
    if what := parser.parse_args().one:
        found = MEASURES[what]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        found |= {"what": what, "peak_mb": peak, "load": os.getloadavg()[0]}
        print(json.dumps(found))
        return
    able = multiplies_bfloat16()
    if not able:
        print("this processor does not multiply bfloat16: no rows of it")
    rows = [measured(x) for x in MEASURES if able or not x.endswith("_bfloat16")]
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {k: round(v, 3) for k, v in row.items() if isinstance(v, float)}
            row |= numbers | {"date": datetime.date.today().isoformat()}
            writer.writerow({name: row.get(name, "") for name in FIELDS})
            print(row)


if __name__ == "__main__":
    main()
