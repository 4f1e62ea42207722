"""What a pass over several tokens costs beside a pass over one, into a table.

    python -m scripts.pass_cost [--only laptop v5e-1]

Decoding reads every weight for one token of each text; a pass that checks drafted
tokens reads them once for several. The cost of such a pass decides whether drafting
pays. Each text has 256 tokens in its cache already; 256 new ones of one text are what
reading a prompt costs.

On this machine, the tiny GRPO model and SmolLM2-135M in float32: processor milliseconds
of the quickest of several passes, one thread. For a v5e chip, Qwen2.5's target and
drafter in bfloat16: milliseconds as its compiler models them, not measured (run with
libtpu on the path, see `make tpu-check`): what each pass of a loop adds, as a copy of
the weights that is made once before it serves hundreds. `weights_mb` and `cache_mb` are
what a pass has to read. The table is `data/results/pass_cost.csv`.
"""

import argparse
import functools
import os
import pathlib
import time

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.course import stages
from helpers.model import hub, weights
from helpers.model.attention import KV
from helpers.model.fast.unrolled import for_decoding, stacked
from helpers.model.known import KNOWN
from helpers.runtime.sharding import shardings
from helpers.serving.drafters import only_before, write
from helpers.tpu import abstract_programs, ahead_of_time
from scripts import tables

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "results"
TABLE /= "pass_cost.csv"
SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct"
SEEN, ROOM, CHIP = 256, 32, "v5e-1"
TOKENS, ROWS, PROMPT = (1, 2, 3, 5, 9, 17), (1, 8, 64), 256
ROUNDS, LEAST = 12, 0.2  # of measuring; processor seconds that passes in a row take
FEW, MORE = 2, 6  # passes of two loops, whose difference is what a pass costs
MODELLED = ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
FIELDS = ("machine", "model", "rows", "tokens", "ms", "weights_mb", "cache_mb", "load")


def widths(rows):
    """How many tokens of each text passes are over."""
    return (*TOKENS, PROMPT) if rows == 1 else TOKENS


def empty(config, rows, dtype, count) -> KV:
    """A cache of `rows` texts that have read 256 tokens, and room for `count` more."""
    c, columns = config, SEEN + max(ROOM, count)
    keys = jnp.zeros((c.layers, rows, 1, c.kv_heads, c.head_dim, columns), dtype)
    place = jnp.broadcast_to(jnp.arange(columns), (rows, 1, columns))
    segments = (place < SEEN).astype(jnp.int32)
    return KV(keys, keys.swapaxes(4, 5).copy(), place.astype(jnp.int32), segments)


def program(graph, steps=1):
    """Passes in a row: weights, cache, tokens (rows, 1, n) -> next tokens, cache."""

    @functools.partial(jax.jit, donate_argnums=1)
    def passes(state, cache, tokens):
        model = nnx.merge(graph, state)
        layers, (cache,) = for_decoding(model, cache)
        column = jnp.full(tokens.shape[:2], SEEN)
        at = column[..., None] + jnp.arange(tokens.shape[-1])

        def one_pass(_, carry):
            tokens, cache = carry
            cache = only_before(cache, column)
            hidden, new = model(tokens, at, earlier=(cache,), layers=layers)
            tokens = model.logits(hidden).argmax(axis=-1).astype(jnp.int32)
            return tokens, write(cache, new, column)

        tokens, cache = jax.lax.fori_loop(0, steps, one_pass, (tokens, cache))
        return tokens, stacked(cache) if layers else cache

    return passes


def measured(name, model, rows):
    """Rows of the table for a model that is here.

    All widths are measured in turn, again and again: what slows this machine for a
    second slows them all.
    """
    graph, state = nnx.split(model)
    one_pass, caches, passes = program(graph), {}, {}

    def cost(count, passes):
        """Processor seconds of a pass, of so many in a row."""
        tokens, start = jnp.ones((rows, 1, count), jnp.int32), time.process_time()
        for _ in range(passes):
            said, caches[count] = one_pass(state, caches[count], tokens)
            jax.block_until_ready((said, caches[count]))
        return (time.process_time() - start) / passes

    for count in widths(rows):
        caches[count] = empty(model.config, rows, "float32", count)
        cost(count, 1)  # compiles it
        # A thread's time is booked a tick late: of one short pass it says little.
        passes[count] = max(1, round(LEAST / cost(count, 3)))
    quickest = dict.fromkeys(passes, float("inf"))
    for _ in range(ROUNDS):
        for count in passes:
            quickest[count] = min(quickest[count], cost(count, passes[count]))
    for count, cache in caches.items():
        yield _row("laptop", name, state, cache, rows, count, 1e3 * quickest[count])


def modelled(name, rows):
    """Rows of the table for a model that the TPU's compiler alone has seen."""
    mesh = ahead_of_time.mesh(CHIP)
    model = abstract_programs.frozen_model(KNOWN[name])
    graph, state = nnx.split(model)
    placed = functools.partial(jax.tree.map, _placed)
    state = placed(state, shardings(state, mesh))
    for count in widths(rows):
        cache = functools.partial(empty, KNOWN[name], rows, jnp.bfloat16, count)
        cache = jax.eval_shape(cache)
        cache = placed(cache, shardings(cache, mesh))
        tokens = jax.ShapeDtypeStruct((rows, 1, count), jnp.int32)
        tokens = _placed(tokens, shardings(tokens, mesh))
        ms = {}
        for steps in (FEW, MORE):
            passes = program(graph, steps)
            found = ahead_of_time.compile_for(CHIP, passes, state, cache, tokens)
            if found.verdict:
                raise MemoryError(f"{name}, {rows} rows: {found.verdict}")
            ms[steps] = found.modelled_ms
        a_pass = (ms[MORE] - ms[FEW]) / (MORE - FEW)
        yield _row(CHIP, name, state, cache, rows, count, a_pass)


def _placed(x, place):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)


def _row(machine, name, state, cache, rows, count, ms):
    def mb(tree):
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) / 1e6

    figures = {"ms": ms, "weights_mb": mb(state), "cache_mb": mb(cache[:2])}
    row = {"machine": machine, "model": name.split("/")[-1], "rows": rows}
    row |= {"tokens": count} | {key: round(x, 4) for key, x in figures.items()}
    return row | {"load": round(os.getloadavg()[0], 1)}


def rows_of(machine):
    """All rows of one machine."""
    for rows in ROWS:
        if machine == CHIP:
            for name in MODELLED:
                yield from modelled(name, rows)
        else:
            tiny = weights.load(stages.stage_folder("grpo"))
            yield from measured("tiny GRPO model", tiny, rows)
            if rows <= 8:
                yield from measured(SMOL, weights.load(hub.fetch(SMOL)), rows)


def main():
    """Measures, and keeps what the table says of other machines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=("laptop", CHIP))
    asked = parser.parse_args().only
    kept = [row for row in tables.read(TABLE) if row["machine"] not in asked]
    for machine in asked:
        for row in rows_of(machine):
            print(row, flush=True)
            kept.append(row)
            tables.write(TABLE, kept, FIELDS)


if __name__ == "__main__":
    main()
