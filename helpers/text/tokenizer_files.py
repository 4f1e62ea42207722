"""Tokenizers from and to model folders; what is wrong with a folder is said."""

import json
import re
from pathlib import Path

from helpers.text import chat_encoding
from helpers.text.chat_templates import family_template
from helpers.text.tokenizer import tokenizer_class

# Which entries a tokenizer may know better than a model that hears nothing.
AROUND_SOUND = "boa_token", "eoa_token"


def load_tokenizer(folder):
    """Load the tokenizer of a model folder, this course's or a real model's.

    Args:
      folder: path with tokenizer.json, tokenizer_config.json and a chat template; or,
        in place of a template, a config.json that names a known family.
    Returns:
      A transformers.PreTrainedTokenizerFast.
    Raises:
      FileNotFoundError: no such folder, or no tokenizer.json in it.
      ValueError: a file of the tokenizer cannot be read, which one is said; or
        there is no chat template, its own or its family's; or a text's begin is
        encoded differently from the same letters further on.
      ImportError: the libraries that read it cannot be imported.
      RuntimeError: they fail on a folder whose files are whole.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Give the folder of a saved model; "
            "`make tiny` makes the course's own under data/tiny."
        )
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no tokenizer.json. Download the whole model folder, or "
            "save one there with tokenizer.save_pretrained(folder)."
        )
    tokenizer = _from_files(folder)
    if not tokenizer.chat_template:
        tokenizer.chat_template = family_template(tokenizer, folder)
    _require_pieces(tokenizer, folder)
    return tokenizer


def _require_pieces(tokenizer, folder):
    """Refuses what puts a space before every text: prompt and answer are two texts."""
    (whole, begin), (end,) = (
        chat_encoding.encode(tokenizer, ["\nx", "\n"]),
        chat_encoding.plain(tokenizer, ["x"]),
    )
    if whole != begin + end:
        raise ValueError(
            f"The tokenizer of {folder} encodes a text otherwise at its begin than "
            "further on, as those of Llama 2 and TinyLlama do, which put a space "
            "there: a model would learn to begin every answer with one. Take a model "
            "of another family, Llama 3, Qwen or Gemma, say."
        )


def save_tokenizer(tokenizer, folder, image_tokens=None):
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      folder: path, made if missing. transformers 4 and 5, vLLM and others read it.
      image_tokens: of a model that sees, {"boi_token": id, …}: processors of pictures
        look these entries up by name. None: it sees nothing.
    Raises:
      ValueError: an image token is no entry of the tokenizer.
      OSError: a file cannot be written.
    """
    named = _named(tokenizer, image_tokens or {})
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # tokenizers says "(os error 28)", in a bare Exception
        found = re.search(r"\(os error (\d+)\)$", str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), str(error), str(folder)) from error
    path = Path(folder) / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    # transformers 5 writes its own new name of this class, which 4 does not know.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    # By the class alone 4 would hand `generate` token_type_ids, which no decoder takes.
    config["model_input_names"] = ["input_ids", "attention_mask"]
    if named:  # under this name transformers 4 and 5 look for them
        again = {*named, "model_specific_special_tokens"}  # as 5 writes what it read
        config = {name: x for name, x in config.items() if name not in again}
        config["extra_special_tokens"] = named
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def _named(tokenizer, image_tokens):
    """{name: entry} of the image tokens, which must be there."""
    named = {}
    for name, index in image_tokens.items():
        known = 0 <= index < len(tokenizer)
        entry = tokenizer.convert_ids_to_tokens(index) if known else None
        if entry is None:
            raise ValueError(
                f"The model's {name} is {index}, which is no entry of the tokenizer: "
                "model and tokenizer do not belong together."
            )
        own = getattr(tokenizer, name, None) if name in AROUND_SOUND else None
        named[name] = own or entry
    return named


def _from_files(folder):
    """What transformers makes of a folder; an error says whether it or they failed."""
    try:
        loader = tokenizer_class()
    except Exception as error:  # transformers wraps a failed import in other classes
        raise _broken_installation(error) from error
    try:
        return loader.from_pretrained(folder, local_files_only=True)
    except ImportError as error:
        raise _broken_installation(error) from error
    except Exception as error:  # tokenizers has no class of its own for its errors
        if damaged := _damaged(folder):
            name, reason = damaged
            raise ValueError(
                f"{folder / name} cannot be read ({reason}). Cut off while it was "
                "written? Delete it, and fetch or make the model folder again."
            ) from error
        raise RuntimeError(
            f"transformers cannot load the tokenizer of {folder}, whose files are "
            f"whole: {error!r}. Install other versions of transformers and tokenizers, "
            "`pip install -U transformers tokenizers`, or see the error above."
        ) from error


def _broken_installation(error):
    reason = " ".join(str(error).split())
    return ImportError(
        f"transformers cannot be imported ({type(error).__name__}: {reason}). The "
        "installation is at fault, not the model's folder: install the course's "
        "packages again, `pip install -e .`, and restart."
    )


def _damaged(folder):
    """The name of a tokenizer file that cannot be parsed, and why; None: all can."""
    from tokenizers import Tokenizer

    for path in sorted(folder.glob("*token*.json")) + sorted(folder.glob("*.jinja")):
        try:
            text = path.read_text("utf-8")
            if path.suffix == ".json" and not isinstance(json.loads(text), dict):
                return path.name, "it holds no JSON object"
            if path.name == "tokenizer.json":
                Tokenizer.from_str(text)
        except Exception as error:  # a bare one from tokenizers
            return path.name, error
    return None
