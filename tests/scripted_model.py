"""A model that says what stands in a script, whatever it has read."""

import jax
import jax.numpy as jnp
import numpy as np
import tiny_models
from flax import nnx

from helpers.generation import sessions
from helpers.generation.sampling import Completions
from helpers.model.attention import KV


class Scripted(nnx.Module):
    """Token t of an answer is token t of its script, by the position alone.

    Args:
      script_PGT: int, for every prompt and member.
      lengths_P: of the prompts, in tokens.
      vocab: of the tokenizer.
    """

    def __init__(self, script_PGT, lengths_P, vocab):
        self.config, self.activations = tiny_models.config(vocab=vocab), "float32"
        self.script = nnx.Param(jnp.asarray(np.asarray(script_PGT), jnp.float32))
        self.lengths = nnx.Param(jnp.asarray(lengths_P, jnp.float32))

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
        """The hidden state (P, g, T, G) holds the next token of all members."""
        assert layers is None, "a script has none"
        script_PTG = self.script[...].swapaxes(1, 2)
        next_PGT = (
            positions_PGT + 1 - self.lengths[...].astype(jnp.int32)[:, None, None]
        )
        place_PGT = jnp.clip(next_PGT, 0, script_PTG.shape[1] - 1)
        hidden = jax.vmap(lambda script, place: script[place])(script_PTG, place_PGT)
        P, G, T = tokens_PGT.shape
        keys = jnp.zeros((1, P, G, 1, 1, T))
        return hidden, KV(keys, keys.swapaxes(4, 5), positions_PGT, segments_PGT)

    def reader(self):
        """Logits of hidden states (P, G, G): each member reads its own token."""

        def read(hidden_PGG):
            members = jnp.arange(hidden_PGG.shape[1])
            token_PG = hidden_PGG[:, members, members].astype(jnp.int32)
            return 1e3 * jax.nn.one_hot(token_PG, self.config.vocab_size)

        return read


class ScriptedSessions:
    """In the place of `sessions`: every answer says the same turns."""

    def __init__(self, turns):
        self.turns, self.replies = iter(turns), []

    columns = staticmethod(sessions.columns)

    def prefill(self, model, prompt, mask, group, size, images=None):
        self.shape = len(prompt), group

    def generate(self, model, session, keys, active, *, max_tokens, **_):
        ids = np.array(next(self.turns))
        tokens = np.zeros((*self.shape, max_tokens), np.int32)
        tokens[..., : len(ids)] = ids
        mask = (np.arange(max_tokens) < len(ids)) * np.ones_like(tokens)
        ended = np.ones(self.shape, bool)
        return session, Completions(tokens, mask, mask * -0.5, ended)

    def append_tokens(self, model, session, tokens, mask):
        self.replies.append(tokens[mask > 0].reshape(2, -1))
