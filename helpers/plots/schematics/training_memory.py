"""Where the memory of a chip goes when a model is trained."""

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import KNOWN, Transformer, count_params, lora
from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import OTHER, SAID, Frame

GIB = 2**30
WIDEST = 236  # of a bar, in units
STYLES = (SAID, OTHER)
CACHE = "KV cache, while sampling"


def training_bytes(config, rank: int, tokens: int) -> dict[str, int]:
    """Bytes of what is kept during an update, and of the cache before it, by name.

    Trained numbers are float32: weight, gradient and two moments take 4 bytes each. A
    frozen base, activations and the cache are bfloat16. Of activations the input of
    each layer is kept; the rest is computed again in the backward pass.

    Args:
      config: of the model.
      rank: of the adapters; 0 trains all weights.
      tokens: of prompts and answers in a batch, padding included.
    """
    base = count_params(nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0))))
    trained, frozen = base, 0
    if rank:
        adapted = nnx.eval_shape(
            lambda: lora.add(Transformer(config, nnx.Rngs(0)), rank)
        )
        trained, frozen = count_params(adapted) - base, base
    return {
        "weights": 4 * trained + 2 * frozen,
        "gradients": 4 * trained,
        "Adam's moments": 8 * trained,
        "activations": 2 * tokens * config.layers * config.width,
        CACHE: 2 * tokens * cache_column(config),
    }


def cache_column(config) -> int:
    """Numbers that the KV cache keeps of one token, of a decoder without a tower.

    Of Gemma 4 some layers keep nothing, and others have wider heads.
    """
    graph, state = nnx.split(nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0))))

    def run(state, tokens):
        _, cache = nnx.merge(graph, state)(tokens, tokens)
        return cache.keys, cache.values

    made = jax.eval_shape(run, state, jax.ShapeDtypeStruct((1, 1, 1), jnp.int32))
    return sum(x.size for x in jax.tree.leaves(made))


def memory(
    model: str = "Qwen/Qwen2.5-0.5B-Instruct",
    *,
    rank: int = 32,
    prompts: int = 8,
    group: int = 8,
    prompt_tokens: int = 256,
    answer_tokens: int = 256,
) -> Picture:
    """Where the memory goes: all weights trained, and adapters alone.

    Args:
      model: of `helpers.model.KNOWN`.
      rank: of the adapters.
      prompts, group, prompt_tokens, answer_tokens: the sizes of what is computed at
        once, its prompts once for their group; the defaults are a piece of the batch of
        the preset v5e-1.
    """
    tokens = prompts * (prompt_tokens + group * answer_tokens)
    tables = [training_bytes(KNOWN[model], r, tokens) for r in (0, rank)]
    names = ("all weights", f"LoRA, rank {rank}")
    parts = list(zip(tables[0], *(table.values() for table in tables), strict=True))
    update = [(full, thin) for part, full, thin in parts if part != CACHE]
    parts.insert(-1, ("an update, together", *map(sum, zip(*update, strict=True))))
    note = (
        f"In GiB, for {model.split('/')[1]} and {tokens:,} tokens at once. A frozen "
        "weight has 2 bytes, a trained one 4. What a layer needs for a moment comes on "
        "top."
    )
    rows = "; ".join(
        f"{part}, {_gib(full)} and {_gib(thin)}" for part, full, thin in parts
    )
    picture = Picture(
        "LoRA saves gradients and moments, not activations",
        f"Pairs of bars, “{names[0]}” and “{names[1]}”: {rows}. {note}",
    )
    _draw(picture, names, parts, note)
    return picture


def _draw(picture, names, parts, note):
    x, y = 12, picture.top
    for name, style in zip(names, STYLES, strict=True):
        x = picture.box(x, y, 130, "", name, style, h=24).right + 8
    y += 36
    scale = WIDEST / max(full for _, full, _ in parts)
    for part, *sizes in parts:
        y = picture.label(12, y, part, bold=True).bottom + 2
        for size, style in zip(sizes, STYLES, strict=True):
            bar = Frame(12, y, max(size * scale, 2), 15, style)
            picture.shapes.append(bar)
            picture.label(bar.right + 6, y, _gib(size))
            y += 17
        y += 9
    picture.label(12, y + 2, note)


def _gib(size):
    return f"{size / GIB:.2f}"
