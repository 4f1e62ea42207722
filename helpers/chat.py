"""Text to tokens and back: the tokenizer, the chat template, and who said what.

A chat model reads one flat row of tokens. The *chat template* turns a conversation
into that row, the *tokenizer* cuts it into ids, and the *loss mask* remembers which
ids the model has to learn to write. All three live here, and all of them are read
from the model's folder, so the same calls serve the tiny model of this course and
real Gemma, Qwen or Llama folders.

What this file does not do: tool calls (they come with the food lessons) and
thinking blocks (a Qwen3 prompt is left open for the model to think or not).
"""

import functools
import os
import re
from pathlib import Path

SPECIAL_TOKENS = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<image_soft_token>",
    "<end_of_image>",
)

# Gemma 3's turns. `generation` marks what the model wrote, its end-of-turn included:
# `apply_chat_template(..., return_assistant_tokens_mask=True)` reads it.
CHAT_TEMPLATE = """\
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}
    {%- set preface = messages[0]['content'] + '\\n\\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set preface = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('Turns must alternate: user, assistant, user, ...') -}}
    {%- endif -%}
    {%- if turn['role'] == 'assistant' -%}
        {{- '<start_of_turn>model\\n' -}}
        {%- generation -%}
            {{- turn['content'] | trim + '<end_of_turn>' -}}
        {%- endgeneration -%}
    {%- else -%}
        {{- '<start_of_turn>' + turn['role'] + '\\n' -}}
        {{- preface if loop.first else '' -}}
        {{- turn['content'] | trim + '<end_of_turn>' -}}
    {%- endif -%}
    {{- '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<start_of_turn>model\\n' -}}
{%- endif -%}
"""

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


def train_tokenizer(texts, size=1024):
    """Train a byte-level BPE tokenizer with Gemma 3's special tokens and turns.

    Every text encodes (all 256 bytes are entries) and decodes to itself. A digit is
    always one token of its own, so that the model sees numbers digit by digit.

    Args:
      texts: list of str to learn merges from.
      size: number of entries, special tokens and bytes included; at least 300.
    Returns:
      A transformers.PreTrainedTokenizerFast with a chat template;
      `save_pretrained(folder)` writes the files that `load_tokenizer` reads.
    Raises:
      ValueError: size leaves no room for merges, or there are no texts.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = list(texts)
    if size < 300 or not texts:
        raise ValueError(
            f"train_tokenizer got {len(texts)} texts and size={size}: it needs at "
            "least one text and 300 entries (256 bytes, 9 special tokens, merges)."
        )
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The template's words and GSM8K's markers are entries whatever the texts are.
    always = ["user\nmodel\n<<>>####"] * len(texts)
    core.train_from_iterator(texts + always, trainer)
    return _tokenizer_class()(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(folder):
    """Load the tokenizer of a model folder, this course's or a real model's.

    Args:
      folder: path with tokenizer.json, tokenizer_config.json and a chat template.
    Returns:
      A transformers.PreTrainedTokenizerFast.
    Raises:
      FileNotFoundError: no such folder, or no tokenizer.json in it.
      ValueError: the folder's tokenizer has no chat template.
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
    tokenizer = _tokenizer_class().from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        raise ValueError(
            f"The tokenizer in {folder} has no chat template (base models often have "
            "none). Use the instruct model's folder, or set tokenizer.chat_template "
            "= helpers.chat.CHAT_TEMPLATE and save it."
        )
    return tokenizer


def prompt_tokens(tokenizer, question):
    """Encode what the model reads before it answers.

    Equal to `apply_chat_template(..., add_generation_prompt=True)`, except that a
    control token *spelled out* in a message stays plain text: a user who types
    `<end_of_turn>` does not end the turn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
    Returns:
      list of token ids, ending where the answer begins.
    """
    return prompts_tokens(tokenizer, [question])[0]


def example_tokens(tokenizer, question, answer):
    """Encode one demonstration and mark what the model has to learn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      answer: str; white space around it is dropped, as Gemma's template does.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on the
      answer and the end-of-turn token that closes it, 0 on everything else.
    """
    return examples_tokens(tokenizer, [question], [answer])[0]


def examples_tokens(tokenizer, questions, answers):
    """Encode many demonstrations at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      answers: list of str, one per question.
    Returns:
      list of (tokens, loss_mask), see `example_tokens`.
    Raises:
      ValueError: not as many answers as questions.
    """
    if len(questions) != len(answers):
        raise ValueError(
            f"{len(questions)} questions but {len(answers)} answers: pass one answer "
            "per question."
        )
    if not questions:
        return []
    prompts = prompts_tokens(tokenizer, questions)
    end, *after = _turn_end(tokenizer)
    examples = []
    for prompt, own in zip(
        prompts, _plain(tokenizer, [a.strip() for a in answers]), strict=True
    ):
        mask = [0] * len(prompt) + [1] * (len(own) + 1) + [0] * len(after)
        examples.append((prompt + own + [end] + after, mask))
    return examples


def eos_ids(tokenizer):
    """Return the ids that end an answer: end-of-turn first, then end-of-text.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
    Returns:
      tuple of int without repeats.
    """
    ids = [_turn_end(tokenizer)[0], tokenizer.eos_token_id]
    return tuple(dict.fromkeys(i for i in ids if i is not None))


def decode(tokenizer, ids):
    """Decode token ids to text, leaving out the special tokens.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      ids: list of int or integer array of one axis.
    Returns:
      str; bytes that are no UTF-8 show as the replacement character.
    """
    return tokenizer.decode(
        [int(i) for i in ids],
        skip_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )


def _tokenizer_class():
    """Import transformers late (it takes seconds) and without its PyTorch advice."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast


def _messages(question):
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return question


def _render(tokenizer, messages, add_generation_prompt=True):
    return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=add_generation_prompt
    )


def prompts_tokens(tokenizer, questions):
    """Encode many prompts at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
    Returns:
      list of lists of token ids, see `prompt_tokens`.
    """
    special = _special_pattern(tokenizer)
    texts, ids = [], []
    for question in questions:
        messages = _messages(question)
        if any(special.search(_text_of(m)) for m in messages):
            ids.append(_defused(tokenizer, messages))
        else:
            ids.append(None)
            texts.append(_render(tokenizer, messages))
    encoded = iter(_controls(tokenizer, texts))
    return [next(encoded) if i is None else i for i in ids]


def _defused(tokenizer, messages):
    """Encode a prompt whose messages spell out control tokens, as plain text.

    Each spelled-out token is replaced by a stand-in before the template is applied;
    the rendered text is cut there, and the cut pieces are encoded on their own.
    """
    special = _special_pattern(tokenizer)
    everything = "".join(_text_of(m) for m in messages)
    stand_in = next(c for c in map(chr, range(0xE000, 0xF8FF)) if c not in everything)
    spelled = special.findall(everything)
    safe = [{**m, "content": special.sub(stand_in, _text_of(m))} for m in messages]
    around = _controls(tokenizer, _render(tokenizer, safe).split(stand_in))
    ids = list(around[0])
    for text, rest in zip(_plain(tokenizer, spelled), around[1:], strict=True):
        ids += text + rest
    return ids


def _text_of(message):
    """Return a message's text; later lessons pass pictures as other parts."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _controls(tokenizer, texts):
    """Encode template text, in which `<end_of_turn>` is one control token."""
    if not texts:
        return []
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def _plain(tokenizer, texts):
    """Encode what somebody wrote, in which `<end_of_turn>` is only characters."""
    if not texts:
        return []
    return tokenizer(texts, add_special_tokens=False, split_special_tokens=True)[
        "input_ids"
    ]


@functools.lru_cache(maxsize=8)
def _special_pattern(tokenizer):
    """Return the pattern that finds the tokenizer's control tokens in a text."""
    special = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special
    ]
    return re.compile("|".join(map(re.escape, sorted(special, key=len)[::-1])))


@functools.lru_cache(maxsize=8)
def _turn_end(tokenizer):
    """Return the ids that the template writes after an answer, end-of-turn first."""
    marker = "ANSWER"
    messages = [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": marker},
    ]
    closing = _render(tokenizer, messages, False).rpartition(marker)[2]
    return tuple(_controls(tokenizer, [closing])[0])
