"""What `llama_cpp.py` shows to llama.cpp: models, tokenizers, questions and texts.

A real model, the same with a random adapter, and small random ones of every family,
whose tokenizers have the control tokens and the turns of it. Gemma's is one of pieces;
its decoder runs with one of GPT-2's cut, too.
"""

import contextlib
import functools
import pathlib
import random
import sys
import unicodedata
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import family_tokenizers  # noqa: E402
import numpy as np  # noqa: E402
import small_gguf  # noqa: E402
import tiny_models  # noqa: E402

from helpers.model import gguf, gguf_config, hub, weights  # noqa: E402
from helpers.model.ops import Stretch  # noqa: E402
from helpers.tasks.maths import word_problems  # noqa: E402
from helpers.text import chat, gguf_tokenizer  # noqa: E402
from helpers.text.tokenizer import read_template  # noqa: E402

REAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
KINDS = ("F32", "F16", "Q8_0")
NOISE = 0.04  # of a random adapter: other answers, and still sentences
QUESTIONS = (
    *(row["question"] for row in word_problems.generate(5, seed=5, split="test")),
    "What is the capital of France?",
    "Für 4 kg: 12 × 7 = ?\n\n  Don't guess.",
    "Write a poem about the sea.",
    [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "Name a colour."},
        {"role": "assistant", "content": "Blue."},
        {"role": "user", "content": "Name two others, please."},
    ],
)
FIRST = {
    family: {"first": token, "bos_token": token}
    for family, token in (("llama", "<|begin_of_text|>"), ("gemma3_text", "<bos>"))
}
# Turns whose control tokens llama.cpp knows by no name; texts begin with <s>, and they
# do not.
OWN_TURNS = {
    "special": ("</s>", "[turn]", "[/turn]", "<s>"),
    "eos_token": "</s>",
    "bos_token": "<s>",
    "first": "<s>",
    "template": (
        "{% for m in messages %}[turn]{{ m.role }}: {{ m.content }}[/turn]"
        "{% endfor %}{% if add_generation_prompt %}[turn]assistant:{% endif %}"
    ),
}


class Case(NamedTuple):
    """A model and how its file is written.

    make: gives (model, tokenizer). kinds: of matrices, as `gguf.save` has them. under:
    the context in which the file is written and read.
    """

    name: str
    make: Callable
    kinds: tuple = KINDS
    under: Callable = contextlib.nullcontext


fetched = functools.cache(hub.fetch)


def real(adapter=False):
    """The real model; with a random adapter beside each of its matrices."""
    folder = fetched(REAL)
    model = weights.load(folder)
    model = tiny_models.adapted(model, NOISE) if adapter else model
    return model, chat.load_tokenizer(folder)


def small(family, cut, *, turns=None, **changes):
    """A small random model with a tokenizer of 256 bytes and some words.

    Args:
      cut: the name of its tokenizer's; None: it is one of pieces, as Gemma's.
    """
    kind = family.removesuffix("_text") if family == "gemma4_text" else family
    turns = turns or {
        "special": family_tokenizers.SPECIAL[kind],
        "tags": family_tokenizers.TAGS[kind],
        "template": read_template(family),
        "eos_token": family_tokenizers.EOS[kind],
    } | FIRST.get(family, {})
    if cut:
        tokenizer = small_gguf.byte_pairs(cut, **turns)
    else:
        parts = {name: turns[name] for name in ("template", "eos_token")}
        special = (*turns["special"], "<unk>")
        tokenizer = small_gguf.gemma_pieces(special=special, **parts)
    tokenizer = chat.without_thinking(tokenizer)
    model = small_gguf.made(
        family, vocab=len(tokenizer), sharpness=4.0, seed=3, **changes
    )
    return model, tokenizer


def _small(name, *arguments, **changes):
    return Case(name, functools.partial(small, *arguments, **changes))


LLAMA = _small("llama", "llama", "gpt-2", turns=OWN_TURNS, tied=True)
LLAMA3 = _small(
    "llama, Llama 3.1's rope",
    *("llama", "llama-bpe"),
    stretch=Stretch("llama3", 8.0),
    rope_theta=5e5,
)
GEMMA3 = _small("gemma3", "gemma3_text", "gpt-2")
GEMMA4 = _small(  # in fewer layers, what E2B has
    "gemma4, as E2B",
    *("gemma4_text", None),
    kinds="llfllfllf",
    sharing=6,
    double_wide=True,
    per_layer=32,
)
CASES = (
    Case("SmolLM2-135M-Instruct", real),
    Case("SmolLM2-135M-Instruct, adapted", functools.partial(real, adapter=True)),
    LLAMA,
    LLAMA3,
    _small("llama, linear rope", "llama", "smollm", stretch=Stretch("linear", 4.0)),
    _small("qwen2", "qwen2", "qwen2", tied=False),
    _small("qwen3", "qwen3", "qwen2"),
    GEMMA3,
    _small(
        "gemma3, linear rope",
        *("gemma3_text", "smollm"),
        stretch=Stretch("linear", 8.0),
    ),
    _small("gemma3, Gemma's own tokenizer", "gemma3_text", None),
    GEMMA4,
    _small(
        "gemma4, keys are values as in 31B",
        *("gemma4_text", None),
        keys_are_values=True,
        full_kv_heads=1,
    ),
    _small(
        "gemma4, slower rope, whole heads",
        *("gemma4_text", None),
        turned=(1.0, 8.0),
        full_head_dim=32,
        softcap=0.0,
    ),
)


def mutants():
    """Cases whose files are wrong, by what is wrong with them.

    Each is wrong in what we write and in what we read alike, so that a file still
    comes back as it was: only somebody else can tell.
    """
    swapped = {"gpt-2": gguf_tokenizer.SPLITS["llama-bpe"]}
    unturned = _wrong(gguf, "_paired_heads", lambda *_: 0)
    without_one = _wrong(gguf, "_has_one", lambda *_: False)
    endless = _wrong(gguf_tokenizer, "_turn_end", lambda _: None)
    with_one = _wrong(gguf, "_has_one", _is_norm)
    splits = gguf_tokenizer.SPLITS
    renamed = functools.partial(mock.patch.dict, splits, swapped, clear=True)
    wrong = {
        "queries and keys of the real model not in pairs": (CASES[0], "F16", unturned),
        "queries and keys not in pairs": (LLAMA, "Q8_0", unturned),
        "Gemma's norms without their 1": (GEMMA3, "F16", without_one),
        "Gemma 4's norms with a 1": (GEMMA4, "F32", with_one),
        "Gemma 4's full layers turn whole heads": (GEMMA4, "F32", wholly_turned),
        "another cut's name": (LLAMA3, "F32", renamed),
        "no word of what ends a turn": (LLAMA, "F32", endless),
    }
    return [
        case._replace(name=name, kinds=(kind,), under=under)
        for name, (case, kind, under) in wrong.items()
    ]


def _is_norm(name, _):
    return name.endswith("norm.weight")


@contextlib.contextmanager
def wholly_turned():
    """Proportional rope is left out of the file, and put in when it is read."""
    pairs = small_gguf.GEMMA4["full_head_dim"] // 2
    whole, part = np.ones(pairs, np.float32), Stretch("proportional", 1.0, share=0.25)
    with (
        mock.patch.object(gguf_config, "rope_divisors", lambda _: whole),
        mock.patch.object(gguf_config, "_read_proportional", lambda *_: part),
    ):
        yield


def _wrong(module, name, instead):
    return functools.partial(mock.patch.object, module, name, instead)


def texts(tokenizer, count=400, seed=0):
    """Texts of many scripts with control tokens in them, composed (NFC)."""
    rng = random.Random(seed)
    alphabets = (
        "etaoin shrdlu ETAOIN'",
        "0123456789 .,+-*/=<>()[]{}\"'`~@#$%^&_|\\",
        " \n\t\r\u00a0\u3000",
        "äöüßéèñçøå ¿¡«»–—…€",
        "абвгдежз ΑΒΓαβγ אבגד عربي",
        "三个苹果ひらがなカタカナ한국어",
        "٣४๕½²Ⅷ①",
        "🍎👩‍🍳🇫🇷👍🏽",
        "e\u0301a\u0308n\u0303\u200b\ufeff",
    )
    pieces = ["'s", "'LL", " can't", "\n\n", "   ", "##", "<|im_end|>", " 1234567 "]
    pieces += tokenizer.get_added_vocab()
    made = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 6)):
            word = "".join(rng.choices(rng.choice(alphabets), k=rng.randint(1, 6)))
            parts.append(rng.choice(pieces) if rng.random() < 0.25 else word)
        made.append(unicodedata.normalize("NFC", "".join(parts)))
    return [*small_gguf.TEXTS, *made]
