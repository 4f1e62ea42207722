"""A batch that a model would read as something else is refused before it is learned."""

import types

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import VOCAB, Same, cached_model

from helpers.batches.images import ImageMismatch
from helpers.batches.sources import require_readable
from helpers.training import Trainer, objectives
from helpers.training.optimizers import adamw

CONFIG = types.SimpleNamespace(vocab_size=VOCAB, vision=None)
SEES = types.SimpleNamespace(
    vocab_size=VOCAB, vision=types.SimpleNamespace(image_token=7)
)


def rows():
    return {
        "tokens": np.array([[2, 3, 7, 5]], np.int32),
        "segment_ids": np.ones((1, 4), np.int32),
        "positions": np.arange(4, dtype=np.int32)[None],
        "loss_mask": np.array([[0, 1, 1, 0]], np.float32),
    }


def groups():
    return {
        "prompt": np.array([[2, 3, 4], [5, 0, 0]], np.int32),
        "prompt_mask": np.array([[1, 1, 1], [1, 0, 0]], np.int32),
        "completion": np.full((2, 2, 3), 7, np.int32),
        "loss_mask": np.ones((2, 2, 3), np.float32),
        "logprobs": np.zeros((2, 2, 3), np.float32),
        "advantages": np.ones((2, 2), np.float32),
    }


def test_what_is_right_passes():
    for batch in (rows(), groups(), {}, {"target": np.ones(3)}):
        require_readable(CONFIG, batch)
        require_readable(CONFIG, {name: jnp.asarray(x) for name, x in batch.items()})
        require_readable(None, batch)
    require_readable(CONFIG, rows() | {"loss_mask": rows()["loss_mask"] > 0})
    require_readable(SEES, rows() | {"images": np.zeros((1, 1, 2, 2, 3), np.uint8)})
    require_readable(SEES, groups())  # what a model says is no picture


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("token", [10**6, -1])
def test_foreign_tokens_are_refused_in_arrays_of_either_kind(kind, token):
    batch = rows()
    batch["tokens"][0, 1] = token
    with pytest.raises(ValueError, match=f"token {token} in 'tokens'"):
        require_readable(CONFIG, batch | {"tokens": kind(batch["tokens"])})


@pytest.mark.parametrize("share", [0.5, -1, 2, np.nan])
def test_a_loss_mask_of_shares_is_refused(share):
    """Every loss asks whether it is above 0: a share would count as all, or nothing."""
    batch = rows()
    batch["loss_mask"][0, 1] = share
    for config in (CONFIG, None):
        with pytest.raises(ValueError, match="loss mask has .*advantages"):
            require_readable(config, batch)


def test_padding_on_the_left_and_image_tokens_without_images_are_refused():
    batch = groups()
    for name in ("prompt", "prompt_mask"):
        batch[name] = batch[name][:, ::-1]
    with pytest.raises(ValueError, match="Prompt 1 is not padded on the right"):
        require_readable(CONFIG, batch)
    with pytest.raises(ImageMismatch, match="pictures= and vision="):
        require_readable(SEES, rows())


def test_the_trainer_refuses_them():
    trainer = Trainer(cached_model(), objectives.sft(), adamw(1e-3), log=False)
    with pytest.raises(ValueError, match="token 19"):
        trainer.fit(Same(rows() | {"tokens": jnp.full((1, 4), VOCAB)}), 1)
