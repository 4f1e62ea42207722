"""The decoder: Gemma 3 and 4, Qwen2.5, Qwen3, Llama 3 in one small Flax NNX module.

Gemma 3 and 4 may have a tower that sees beside their decoder (`helpers.model.vision`).

All layers are one `Layer` whose weights carry a leading layer axis, walked by
`lax.scan`: compiling takes as long for 80 layers as for 4. (Decoding on TPUs walks them
one by one, which is faster: `helpers.model.fast.unrolled`, `ops.decodes`.) Gemma 4 has
several kinds of layer, and a stack of each (`helpers.model.gemma4`).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.model import ops, quantized
from helpers.model.attention import KV, Reach, visible
from helpers.model.config import ModelConfig
from helpers.model.gemma4 import Gemma4Layers, PerLayer
from helpers.model.layer import Layer
from helpers.model.logprobs import logits
from helpers.model.vision import Gemma4Vision, Vision, image_runs, put_in
from helpers.model.vision_config import Gemma4VisionConfig
from helpers.runtime.sharding import gathered, spread


class Transformer(nnx.Module):
    """A causal language model; `model(tokens, positions)` gives hidden states.

    Args:
      dtype: of the weights. Trained ones should be float32: in bfloat16, which has
        three digits, most updates are lost.
      activations: dtype of everything that flows between them; None: that of the
        weights. Norms, softmax and logits are float32 in any case. Where the two
        differ, a product takes both in the narrower one (`ops.matmul`).

    Attributes:
      remat: what the backward pass computes again instead of keeping it, one of
        `ops.REMAT`; set it before the trainer is made. It changes memory and time, not
        the result.
    """

    def __init__(
        self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32, activations=None
    ):
        self.config, self.remat = config, "layer"
        self.activations = jnp.dtype(activations or dtype).name
        V, D = config.vocab_size, config.width

        self.embed = ops.random_matrix(rngs, (V, D), dtype, D)
        if not config.tied:
            self.head = ops.random_matrix(rngs, (V, D), dtype, D)
        self.final_norm = ops.vector(D, 0.0 if config.norm_plus_one else 1.0, dtype)
        if config.gemma4:
            self.layers: Any = Gemma4Layers(config, rngs, dtype)
            if config.gemma4.per_layer:
                self.per_layer = PerLayer(config, rngs, dtype)
        else:
            self.layers = ops.stack(
                lambda rngs: Layer(config, rngs, dtype), config.layers, rngs
            )
        if config.vision:
            is_gemma4 = isinstance(config.vision, Gemma4VisionConfig)
            tower: Any = Gemma4Vision if is_gemma4 else Vision
            self.vision = tower(config.vision, D, rngs, dtype)

    def see(self, images):
        """Image embeddings for `__call__`, (P, N·M, D): N pictures, M tokens each.

        Args:
          images: uint8 (P, H, W, 3), or (P, N, H, W, 3): one row of pictures a prompt,
            as `batches.images.fit_for` makes them. Of Gemma 4 M is the most tokens of a
            picture, and a row's own come first.
        Raises:
          ValueError: pictures of another size or dtype, or a model without vision.
        """
        if self.config.vision is None:
            raise ValueError(
                "Pictures were given to a model without vision. Load one that has it, "
                "with weights.load(folder, vision=True), or leave the pictures out."
            )
        shape = self.config.vision.shape
        if images.shape[-3:] != shape or images.ndim > 5 or images.dtype != jnp.uint8:
            raise ValueError(
                f"Pictures are {images.dtype}{images.shape}: this model sees uint8 of "
                f"{shape}, and normalises it. Pass them through images.fit_for first."
            )
        return self.vision(images, self.activations, ops.rematerialised(self.remat))

    def __call__(
        self,
        tokens_PGT,
        positions_PGT,
        segments_PGT=None,
        earlier=(),
        images_PID=None,
        layers=None,
        only_last=False,
    ):
        """Runs new tokens, which see themselves (causally) and the earlier pieces.

        Args:
          tokens_PGT, positions_PGT: int32. Positions count from the start of the text,
            and rise by one within a segment.
          segments_PGT: int32; tokens see only their own segment, 0 is padding. None
            means one segment (1) without padding.
          earlier: KV pieces, e.g. a prompt shared by the group, then a cache.
          images_PID: from `see`; a row's i-th image token is its i-th embedding, and
            tokens of one image see each other in both directions (of Gemma 4 in local
            layers, and only if its config says so).
          layers: an `Unrolled` that goes through the layers instead; keys and values,
            given and returned, are lists of each layer's then.
          only_last: where layers share keys (Gemma 4), only the last token of each row
            goes on behind those that make them; a row has one segment then.
        Returns:
          hidden states after the final norm (P, G, T, D), or (P, G, 1, D) of what went
          on alone, and the KV of all new tokens.
        """
        c = self.config
        if segments_PGT is None:
            segments_PGT = jnp.ones_like(tokens_PGT)
        table = gathered({"embed": self.embed[...]}, self.activations)["embed"]
        x = spread(table[tokens_PGT].astype(self.activations))
        if c.is_gemma:
            x = x * jnp.asarray(c.width**0.5, x.dtype)
        # Keys and values come from the layers.
        new = KV(None, None, positions_PGT, segments_PGT)  # type: ignore[arg-type]
        seen = [visible(positions_PGT, segments_PGT, kv) for kv in earlier]
        runs, reach = None, Reach(segments=None if earlier else segments_PGT)
        if images_PID is not None:
            assert c.vision is not None, "such embeddings come from `see`"
            is_image = (tokens_PGT == c.vision.image_token) & (segments_PGT > 0)
            x = put_in(x, is_image, images_PID)
            if isinstance(c.vision, Gemma4VisionConfig):  # its vectors are of padding
                tokens_PGT = jnp.where(is_image, c.vision.pad_token, tokens_PGT)
            if getattr(c.vision, "both_ways", True):
                runs = image_runs(is_image)
                reach = reach._replace(ahead=images_PID.shape[1])
        seen.append(visible(positions_PGT, segments_PGT, new, runs))
        pieces = [(kv.keys, kv.values) for kv in earlier]
        if layers is not None:
            x, (keys, values) = layers(x, positions_PGT, seen, pieces, reach)
        elif c.gemma4:
            last_PG = None
            if only_last and c.gemma4.sharing:
                last_PG = (segments_PGT > 0).sum(axis=-1) - 1
            inputs = self.per_layer(tokens_PGT, x) if c.gemma4.per_layer else None
            given = x, inputs, positions_PGT, seen, pieces, reach
            x, (keys, values) = self.layers(
                *given, ops.rematerialised(self.remat), last_PG
            )
        else:
            x, (keys, values) = self._walk(x, positions_PGT, seen, pieces, reach)
        hidden = ops.rms_norm(x, self.final_norm[...], c.norm_eps, c.norm_plus_one)
        return hidden, new._replace(keys=keys, values=values)

    def _walk(self, x, positions_PGT, seen, pieces, reach):
        """All layers, one after the other: the new x, and their keys and values."""
        c = self.config
        ropes, window = ops.rotaries(positions_PGT, c), c.window if c.pattern > 1 else 0
        graph, weights = nnx.split(self.layers)

        @ops.rematerialised(self.remat)
        def one_layer(x, layer_inputs):
            weights, is_global, earlier = layer_inputs
            cos_sin, masks = ropes[0], [allowed for allowed, _ in seen]
            if c.pattern > 1:
                cos_sin = jax.tree.map(lambda a, b: jnp.where(is_global, a, b), *ropes)
                masks = [
                    allowed & (is_global | (distance < c.window))
                    for allowed, distance in seen
                ]
            layer = nnx.merge(graph, gathered(weights, x.dtype))
            here = reach._replace(back=window, whole=is_global)
            x, kv = layer(spread(x), cos_sin, earlier, masks, here)
            return spread(x), kv

        is_global = np.array([c.is_global(i) for i in range(c.layers)])
        in_few_bits = nnx.filter_state(weights, quantized.Quantized)
        layers = weights, is_global, pieces
        if in_few_bits and ops.decodes(x):
            return ops.one_by_one(one_layer, x, layers)
        return jax.lax.scan(one_layer, x, layers)

    def stacks(self) -> dict[tuple[str, ...], Layer]:
        """The stacks of like layers by their path: one, or one of each kind."""
        if self.config.gemma4 is None:
            return {("layers",): self.layers}
        names = self.config.gemma4.stacks
        return {("layers", name): getattr(self.layers, name) for name in names}

    def logits(self, hidden):
        """Scores of every vocabulary entry, (..., D) -> (..., V) float32."""
        return logits(hidden, self.table(), self.config.softcap)

    def table(self):
        """The vocabulary's vectors (V, D) that `logits` compares with, gathered."""
        name = "embed" if self.config.tied else "head"
        return gathered({name: getattr(self, name)[...]}, self.activations)[name]

    def reader(self):
        """The function `logits`, with its table gathered once: for use in a loop."""
        table, softcap = self.table(), self.config.softcap
        return lambda hidden: logits(hidden, table, softcap)


def weight_shapes(config: ModelConfig) -> dict:
    """{tree path: shape and dtype} of each weight of a plain model of this shape."""
    state = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return dict(named_arrays(state))


def named_arrays(state):
    """[(path of names, array or shape)] of all variables, without nnx wrappers."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(state))
    return [(tuple(key.key for key in path), leaf) for path, leaf in leaves]


def count_params(model: nnx.Module) -> int:
    """Numbers in a model's floats: its adapters' count, quantized matrices' do not."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
