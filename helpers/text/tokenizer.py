"""The course's own tokenizer: what its entries are, and how its turns are written.

It has the form of Gemma 3's at 1/256 of the size: the same special tokens and the same
chat template around a byte-level BPE (Sennrich et al., 1508.07909). `helpers.text.chat`
uses it, and the tokenizers of real models, through one set of calls.
"""

import os

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
        {%- if turn['content'] is string -%}
            {{- turn['content'] | trim -}}
        {%- else -%}
            {%- for part in turn['content'] -%}
                {%- if part['type'] == 'image' -%}
                    {{- '<start_of_image>' -}}
                {%- else -%}
                    {{- part['text'] | trim -}}
                {%- endif -%}
            {%- endfor -%}
        {%- endif -%}
        {{- '<end_of_turn>' -}}
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


def train_tokenizer(texts, size=1024, special=SPECIAL_TOKENS, template=CHAT_TEMPLATE):
    """Train a byte-level BPE tokenizer, with Gemma 3's special tokens and turns.

    Every text encodes (all 256 bytes are entries) and decodes to itself. A digit is
    always one token of its own, so that the model sees numbers digit by digit.

    Args:
      texts: list of str to learn merges from.
      size: number of entries, special tokens and bytes included; at least 300.
        Texts of few words stop earlier, when every word is one token.
      special, template: another family's; <pad>, <eos>, <bos> and <unk> are among the
        tokens of all.
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
            f"least one text and 300 entries (256 bytes, {len(special)} special "
            "tokens, merges)."
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
        special_tokens=list(special),
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
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def tokenizer_class():
    """Return transformers' tokenizer class.

    It is imported late because that takes seconds, and without the advice to install
    PyTorch, which this course does without.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast
