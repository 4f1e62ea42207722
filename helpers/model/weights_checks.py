"""What a folder of weights must not hold, or lack: each check says what to do."""

import json
import pathlib
import re

import numpy as np

from helpers.model import names
from helpers.model.folder import ADAPTERS, INDEX, MODEL, WeightsError, recover

WHOLE = "model.safetensors"  # all weights in one file
FLOATS = ("F64", "F32", "F16", "BF16")
ROWS = 4096  # of a vocabulary's vectors, compared at once
# Of RoPE, which older files hold, and config.json says.
FREQUENCIES = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


def in_place_of(folder: pathlib.Path) -> str:
    """What to do with a place that is no model folder."""
    if folder.suffix == ".gguf" or any(folder.glob("*.gguf")):
        return "Make one of a GGUF file: gguf.to_folder(file, folder)."
    if (folder / ADAPTERS).is_file():
        return (
            f"It holds adapters: load the model that {ADAPTERS} names, and put them on "
            "it with lora.load(model, folder)."
        )
    return "Pass the folder that holds config.json and model.safetensors."


def check_place(path, found, listed):
    """Refuses a file with tensors that its index does not list there.

    Files of two downloads may hold a tensor twice, and only the index knows.
    """
    if listed is not None and (strange := sorted(set(found) - listed)):
        raise WeightsError(
            f"{path} holds {strange[0]}, which {INDEX} does not list there: they do "
            "not belong together. Fetch the whole folder again."
        )


def check_one_model(folder, listed):
    """Refuses a whole file beside an index of others: transformers would read it.

    Args:
      listed: the names of the files in the index.
    """
    alone = pathlib.Path(folder) / WHOLE
    if WHOLE not in listed and alone.is_file():
        raise WeightsError(
            f"{folder} has {WHOLE} and {INDEX}, which lists "
            f"{min(listed, default='nothing')}: they may be two models. Delete that "
            "file, or the index and what it lists, whichever you do not mean."
        )


def check_tensor(name, tensor, before, path):
    """Refuses numbers that mean nothing alone, and a tensor that is there twice."""
    kind = tensor.get_dtype()
    if kind not in FLOATS:
        raise WeightsError(
            f"{path} has {name} in {kind}: a quantized model. Fetch one in bfloat16."
        )
    if names.ours(name) in before:
        raise WeightsError(
            f"{path} has {name} under another name, too. Fetch the whole folder again."
        )


def require_finite(array, name):
    """Refuses a weight with an infinite number in it, or with none.

    A bound of Gemma 4's tower may be infinite: it bounds nothing, as all do at first.

    Args:
      array: of NumPy.
      name: of it, in a folder or in the model.
    """
    bound = name.endswith(names.BOUNDS)
    widest = -np.inf if name.endswith("min") else np.inf
    rows = array.reshape(-1, *array.shape[-1:])
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        if not (np.isfinite(part) | (bound & (part == widest))).all():
            raise WeightsError(
                f"{name} has numbers that are not finite, in {array.dtype}. Fetch it or"
                " make it again; or take bfloat16 or float32, which hold larger ones "
                "than float16."
            )


def check_tokenizer(folder, config, tokenizer):
    """Refuses a tokenizer that makes tokens which the model does not have.

    Args:
      folder: where both are saved. It may hold another model's tokenizer.
      tokenizer: of this model; None: none is saved.
    """
    recover(folder)  # what a killed save had moved aside is of the folder, too
    if tokenizer is not None:
        check_room(tokenizer, config)
    if tokenizer is None and (before := _saved_before(folder)):
        text = before.get("text_config", before)
        has = text.get("vocab_size") if isinstance(text, dict) else None
        if has != config.vocab_size:
            raise WeightsError(
                f"{folder} holds a tokenizer beside a model of {has} tokens, and this "
                f"one has {config.vocab_size}: pass its own tokenizer=, too, or choose "
                "another folder."
            )


def check_room(tokenizer, config):
    """Refuses a vocabulary that is larger than the model's.

    Tokens that were added to it may be more: Gemma 3's text models have no embedding of
    the image token that their tokenizer knows.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise WeightsError(
            f"The tokenizer has {tokenizer.vocab_size} tokens, and the model "
            f"{config.vocab_size}: it is another model's."
        )
    for name in ("bos", "eos", "pad", "unk"):
        number = getattr(tokenizer, f"{name}_token_id", None)
        if number is not None and number >= config.vocab_size:
            raise WeightsError(
                f"The tokenizer's {name} token {getattr(tokenizer, name + '_token')!r} "
                f"is number {number}, and the model has {config.vocab_size} tokens: no "
                "reader would open the two. Choose a token that the model has, such as "
                f"tokenizer.{name}_token = tokenizer.convert_ids_to_tokens(0)."
            )


def _saved_before(folder):
    """config.json of the model in a folder that has a tokenizer, if there is one."""
    config = pathlib.Path(folder) / MODEL
    if not (config.with_name("tokenizer.json").is_file() and config.is_file()):
        return {}
    try:
        found = json.loads(config.read_text("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def check_names(found, config, folder):
    """Refuses a folder without some of a config's tensors, or with others."""
    found, expected = set(found), names.of_model(config)
    if missing := sorted(expected - found):
        raise WeightsError(
            f"The weights in {folder} lack {len(missing)} tensors that config.json "
            f"asks for, first {missing[0]}."
        )
    extra = found - expected - names.needless(config)
    if extra := sorted(name for name in extra if not FREQUENCIES.fullmatch(name)):
        raise WeightsError(
            f"The weights in {folder} have {len(extra)} tensors this model has no "
            f"place for, first {extra[0]}: config.json and weights do not belong "
            "together."
        )


def check_tied(tensors, config, folder):
    """Refuses a head of its own where config.json says that there is none.

    Args:
      tensors: {our name: slice of a safetensors file}.
    """
    embed, head = (tensors.get(names.OUTSIDE[name]) for name in ("embed", "head"))
    if not config.tied or head is None:
        return
    same = head.get_shape() == embed.get_shape()
    size = embed.get_shape()[0]
    for start in range(0, size, ROWS) if same else ():
        rows = slice(start, min(start + ROWS, size))
        same = same and np.array_equal(embed[rows], head[rows])
    if not same:
        raise WeightsError(
            f"{folder} has a head of its own ({names.OUTSIDE['head']} is not "
            f"{names.OUTSIDE['embed']}), and config.json says that the two are one: "
            'write "tie_word_embeddings": false there (in the outermost braces), or '
            "delete the head if it is a leftover."
        )
