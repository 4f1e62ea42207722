"""Tokenizers: the course's own, and those of model folders, with their chat templates.

The course's own has the form of Gemma 3's at 1/256 of the size: the same special tokens
and the same chat template around a byte-level BPE (Sennrich et al., 1508.07909).

Folders of base models often have no template. The formats of known families are public
and written anew in `templates/`: Gemma 3 (ai.google.dev,
"Gemma formatting and system instructions"), Gemma 4 (ai.google.dev, "Gemma 4 prompt
formatting", and the template of google/gemma-4-E2B-it), Qwen2.5 and Qwen3
(qwen.readthedocs.io, "Function calling": ChatML with Hermes-style tools), Llama 3
(llama.com, "Model cards and prompt formats"; without the date that 3.1 writes into
every system turn). A folder's own template always wins.
"""

import json
import os
import re
from pathlib import Path

from helpers.text import rendering
from helpers.text.encoding import encode

SPECIAL_TOKENS = (
    "<pad> <eos> <bos> <unk> <start_of_turn> <end_of_turn> <start_of_image> "
    "<image_soft_token> <end_of_image>"
).split()

# Where byte pairs may merge: inside one word (with the space before it), inside one
# of GSM8K's markers, never across a digit, an operator or the end of a line.
PIECES = (
    r"<<|>>|####"
    r"|['’](?:s|t|re|ve|m|ll|d)(?!\p{L})"
    r"| ?\p{L}+"
    r"|\p{N}"
    r"| ?(?!<<|>>|####)[^\s\p{L}\p{N}]"
    r"|\s"
)
# The same, with numbers of several digits as one token where texts have them.
WHOLE_NUMBERS = r"\p{N}+|" + PIECES


TEMPLATES = Path(__file__).parent / "templates"
# What stands before `chatml.jinja` in the templates of the families that share it.
CHATML = {
    "qwen2": "{%- set thinks = false -%}{%- set default = 'You are Qwen, created by "
    "Alibaba Cloud. You are a helpful assistant.' -%}\n",
    "qwen3": "{%- set thinks = true -%}{%- set default = '' -%}\n",
}
CONTROL = re.compile(r"<[^<>\s]+>")


def read_template(family):
    """The chat template of a known family, Jinja source.

    Args:
      family: `model_type` of its config.json, such as "gemma3" or "gemma3_text".
    Raises:
      ValueError: the family has no template here.
    """
    name = "chatml" if family in CHATML else family.removesuffix("_text")
    path = TEMPLATES / f"{name}.jinja"
    if not path.is_file():
        raise ValueError(f"there is no template for {family!r}")
    return CHATML.get(family, "") + path.read_text("utf-8")


def train_tokenizer(texts, size=1024, pieces=PIECES):
    """Train a byte-level BPE tokenizer, with Gemma 3's special tokens and turns.

    Every text encodes (all 256 bytes are entries) and decodes to itself. With PIECES a
    digit is one token of its own, so that the model sees numbers digit by digit.

    Args:
      texts: list of str to learn merges from.
      size: number of entries, special tokens and bytes included; at least 300.
        Texts of few words stop earlier, when every word is one token.
      pieces: a pattern of what may become one token: PIECES or WHOLE_NUMBERS.
    Returns:
      A transformers.PreTrainedTokenizerFast with a chat template.
    Raises:
      ValueError: size leaves no room for merges, or there are no texts.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = list(texts)
    if size < 300 or not texts:
        raise ValueError(
            f"train_tokenizer got {len(texts)} texts and size={size}: it needs at "
            "least one text and 300 entries (bytes, special tokens, merges)."
        )
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The template's words and GSM8K's markers are entries whatever the texts are.
    always = ["user\nmodel\n<<>>####"] * len(texts)
    core.train_from_iterator(texts + always, trainer)
    return tokenizer_class()(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
        chat_template=read_template("gemma3"),
        clean_up_tokenization_spaces=False,
    )


def tokenizer_class():
    """transformers' tokenizer class.

    It is imported late because that takes seconds, and without the advice to install
    PyTorch, which this course does not need.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast


def load_tokenizer(folder):
    """Loads the tokenizer of a model folder, this course's or a real model's.

    Args:
      folder: path with tokenizer.json, tokenizer_config.json and a chat template; or,
        in place of a template, a config.json that names a known family.
    Returns:
      A transformers.PreTrainedTokenizerFast.
    Raises:
      FileNotFoundError: no tokenizer.json there.
      ValueError: a file of the tokenizer cannot be read; or there is no chat template,
        neither its own nor its family's; or it encodes the begin of a text differently
        from the same letters further on.
    """
    folder = Path(folder)
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no tokenizer.json: it is not the folder of a whole model. "
            "`make tiny` makes the course's own under data/tiny."
        )
    try:
        tokenizer = tokenizer_class().from_pretrained(folder, local_files_only=True)
    except Exception as error:  # tokenizers has no class of its own for its errors
        raise ValueError(
            f"The tokenizer of {folder} cannot be read ({error}). If a file is "
            "damaged, delete it and fetch or make the folder again."
        ) from error
    if not tokenizer.chat_template:
        _add_family_template(tokenizer, folder)
    whole, begin, end = encode(tokenizer, ["\nx", "\n", "x"])
    if whole != begin + end:  # prompt and answer are two texts
        raise ValueError(
            f"The tokenizer of {folder} puts a space before every text, as Llama 2's "
            "does: a model would begin every answer with one. Take another family."
        )
    return tokenizer


def _add_family_template(tokenizer, folder):
    """Gives the tokenizer the template of the family that config.json names."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
        family = str(config.get("model_type"))
        tokenizer.chat_template = read_template(family)
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(
            f"The tokenizer in {folder} has no chat template, and config.json names "
            f"no family that has one here ({error}). Use the instruct model's folder, "
            "or add a chat_template.jinja, such as one of helpers/text/templates."
        ) from error
    if tokenizer.bos_token is None and "<bos>" in tokenizer.get_added_vocab():
        tokenizer.bos_token = "<bos>"
    special = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
    prompt = rendering.render(tokenizer, [rendering.QUESTION])
    if missing := sorted(set(CONTROL.findall(prompt)) - special):
        raise ValueError(
            f"The tokenizer in {folder} has no chat template, nor {family}'s special "
            f"tokens {', '.join(missing)}. Use the instruct model's folder."
        )


def save_tokenizer(tokenizer, folder, image_tokens=None):
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      folder: path, made if missing. transformers 4 and 5, vLLM and others read it.
      image_tokens: of a model that sees, {"boi_token": id, …}: processors of pictures
        look these entries up by name. None: it sees nothing.
    Raises:
      ValueError: an image token is no entry of the tokenizer.
      OSError: a file cannot be written.
    """
    named = {}
    for name, index in (image_tokens or {}).items():
        # Models here never read sounds: of those a name of its own is left.
        sound = name in ("boa_token", "eoa_token") and getattr(tokenizer, name, None)
        named[name] = sound or tokenizer.convert_ids_to_tokens(index)
        if named[name] is None:
            raise ValueError(
                f"The model's {name} is {index}, which is no entry of the tokenizer: "
                "model and tokenizer do not belong together."
            )
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # tokenizers says "(os error 28)", in a bare Exception
        code = re.search(r"\(os error (\d+)\)$", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), str(error), str(folder)) from error
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
