"""What a token of the rollouts takes, and what bandwidth asks, for docs/compiler.md."""

import math

from flax import nnx
from readme_compiler import _rows
from readme_left import grouped

from helpers.course import results
from helpers.model import KNOWN, weights
from helpers.model.families import SHARING
from helpers.model.gemma4 import config_of
from helpers.tpu import GENERATIONS, abstract_programs, ahead_of_time
from scripts import tpu_cases, tpu_check


def cases() -> list:
    """The rollouts of the presets, Food-101's too, and of the larger models."""
    asked = [*tpu_cases.few_rows(), *tpu_cases.shipped(), *tpu_cases.larger()]
    photos = [*tpu_cases.seeing(), *tpu_cases.students()]
    asked += [case for case in photos if case.pictures]
    return [case for case in asked if case.program == "rollout"]


def weights_gb(case) -> float:
    """GB on a chip of what every token reads: no per-layer table, no adapters."""
    model = abstract_programs.frozen_model(
        KNOWN[case.model], stored=case.stored, table_on_host=case.table_on_host
    )
    tables = weights.TABLE, weights.HOST_TABLE
    held = [
        x for path, x in weights.named_arrays(nnx.state(model)) if path not in tables
    ]
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in held) / case.cut / 1e9


def kept_of_token(config) -> int:
    """Numbers that a token leaves in the cache: keys and values of all layers."""
    layers = range(config.layers)
    shapes = [config] * config.layers
    if config.gemma4:
        stacks = [config.gemma4.stack_of(i) for i in layers]
        own = [stack for stack in stacks if not stack.startswith(SHARING)]
        shapes = [config_of(config, stack) for stack in own]
    return sum(2 * c.kv_heads * c.head_dim for c in shapes)


def least_ms(case, chips: int) -> float:
    """What bandwidth asks for each token.

    Every weight is read once, and keys and values of whole answers and of each question
    once, in bfloat16, though layers that share read them again.
    """
    questions = case.prompts / chips
    cached = questions * (case.group * case.completion_tokens + case.prompt_tokens)
    cache_gb = 2 * cached * kept_of_token(KNOWN[case.model]) / 1e9
    chip = GENERATIONS[ahead_of_time.SLICES[case.topology].partition(":")[0]]
    return 1e3 * (weights_gb(case) + cache_gb) / chip.gbytes


def decoding_table() -> str:
    """What a token of the rollouts takes, and what bandwidth alone would."""
    lines = [
        "| model | machine | answers a chip | a token | weights and cache alone "
        "| times that |",
        f"|---|---|{'--:|' * 4}",
    ]
    for case in cases():
        named = {name: str(x) for name, x in tpu_check.named(case).items()}
        for row in _rows(**named):
            chips = int(row["chips"])
            took = results.quoted_ms(row) / case.completion_tokens
            least = least_ms(case, chips)
            cells = (
                case.model.rpartition("/")[2] + (", int8" if case.stored else ""),
                case.topology,
                f"{case.prompts / chips * case.group:.0f}",
                f"{took:.1f} ms",
                f"{least:.1f} ms",
                f"{took / least:.1f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _where_it_goes()])


def _where_it_goes() -> str:
    """What attention and matrices are of the presets' rollouts, in a sentence."""
    said = []
    for preset, machine in (("v5e-1", "one chip"), ("v5e-8", "eight chips")):
        (row,) = _rows(preset=preset, program="rollout")
        parts, whole = grouped(row["places"]), float(row["modelled_ms"])
        (attention, least), (weights, _) = parts["attention"], parts["weights"]
        said.append(
            f"on {machine} at {attention:,.0f} ms of {whole:,.0f} "
            f"({attention / whole:.0%}; at least {least:,.0f} ms), and the layers' "
            f"matrices at {weights:,.0f} ({weights / whole:.0%})"
        )
    return f"In Qwen2.5 attention is priced {'; '.join(said)}."
