"""The same folders give the same logits here and in transformers.

tests/golden holds small random models that transformers saved and ran, and how
make_golden.py made them; nothing here imports torch.
"""

import json
import pathlib

import naive_decoder
import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file
from test_model import forward

from helpers.model import weights
from helpers.model.config import ModelConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
FAMILIES = sorted(path.parent.name for path in GOLDEN.glob("*/reference.npz"))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family):
    """From the files as transformers wrote them; text longer than the window."""
    reference = np.load(GOLDEN / family / "reference.npz")
    _, logits, _ = forward(
        weights.load(GOLDEN / family), reference["tokens"][:, None].astype(np.int32)
    )
    np.testing.assert_allclose(logits[:, 0], reference["logits"], atol=1e-4)
    assert reference["logits"].std() > 0.5


@pytest.mark.parametrize("family", ["gemma3_text", "gemma4_e2b", "llama"])
def test_greedy_answers_are_those_of_transformers(family):
    """64 tokens, far past the window; prompts of one batch, one of them padded."""
    reference = np.load(GOLDEN / family / "reference.npz")
    greedy = reference["greedy"]
    prompts = reference["tokens"][:, : reference["tokens"].shape[1] - 16].astype(
        np.int32
    )
    padded = np.pad(prompts, [(0, 0), (0, 3)], constant_values=9)
    mask = np.pad(np.ones_like(prompts), [(0, 0), (0, 3)])
    model = weights.load(GOLDEN / family)
    ours = tiny_models.greedy(model, padded, mask, greedy.shape[1])
    np.testing.assert_array_equal(ours, greedy)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_transcription_that_other_tests_trust_agrees_with_transformers(family):
    reference = np.load(GOLDEN / family / "reference.npz")
    tensors = load_file(GOLDEN / family / "model.safetensors")
    hf = weights.read_config(GOLDEN / family)
    for tokens, logits in zip(reference["tokens"], reference["logits"], strict=True):
        ours = naive_decoder.logits(tensors, hf, tokens.tolist())
        np.testing.assert_allclose(ours, logits, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_here_is_what_transformers_was_seen_to_read(family, tmp_path):
    """The same tensors, and the config.json with which it computed the same logits."""
    weights.save(weights.load(GOLDEN / family), tmp_path)
    ours = load_file(tmp_path / "model.safetensors")
    theirs = load_file(GOLDEN / family / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        np.testing.assert_array_equal(x, theirs[name], err_msg=name)
    read = json.loads((GOLDEN / family / "resaved_config.json").read_text())
    assert weights.read_config(tmp_path) == read


SHIPPED = pathlib.Path(__file__).parents[2] / "data" / "tiny"


@pytest.mark.parametrize("folder", sorted(SHIPPED.glob("*/config.json")), ids=str)
def test_shipped_models_have_the_config_that_is_written_here(folder):
    """Type for type: transformers 5 refuses 32.0 where it expects 32."""
    stored = weights.read_config(folder.parent)
    sees = "vision_config" in stored
    written = ModelConfig.from_hf(stored, vision=sees).to_hf()
    assert json.dumps({name: stored.get(name) for name in written}) == json.dumps(
        written
    )
