"""Small tokenizers with the control tokens of real families, saved without a template.

Every word of WORDS is one token, with the space before it or without; so is a row of
line ends, as Qwen and Llama have it. Hence the tests can write token lists by hand.
"""

import json
import re
from itertools import groupby

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

from helpers.text import chat, tokenizer

SPECIAL = {
    "gemma3_text": ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
    "gemma4": ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>")
    + ("<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>")
    + ('<|"|>', "<|channel>", "<channel|>", "<|think|>")
    + ("<|image>", "<|image|>", "<image|>"),
    "qwen2": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "qwen3": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "llama": ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>")
    + ("<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
}
# Added, but not special, as in the families' own files.
TAGS = {
    "gemma3_text": ("<table>",),
    "gemma4": (),
    "qwen2": ("<tool_call>", "</tool_call>"),
    "qwen3": ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    + ("<think>", "</think>"),
    "llama": (),
}
# What tokenizer_config.json of the instruct models calls the end.
EOS = {
    "gemma3_text": "<eos>",
    "gemma4": "<eos>",
    "qwen2": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama": "<|eot_id|>",
}
WORDS = """user model system assistant ipython tool Hi Yo Bye Ciao Be brief think I look
it up Milk has kcal Hmm easy call value thought name arguments parameters lookup food
milk response You are Qwen created by Alibaba Cloud a helpful""".split()
TEXTS = (" ".join(["", *WORDS]), "\n".join(WORDS), "\n\n")


def save(folder, family, special=None, **config):
    """Save a tokenizer of a family, and a config.json that names it."""
    core = Tokenizer(models.BPE())
    pieces = Regex(r"\s*\n+| ?[A-Za-z]+|\d|[^\sA-Za-z\d]|\s")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pieces, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    special = SPECIAL[family] if special is None else special
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(TEXTS, trainer)
    core.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS[family]])
    ends = {"eos_token": EOS[family], "bos_token": None}
    if "<bos>" in special:
        ends["bos_token"] = "<bos>"
    chat.save_tokenizer(
        tokenizer.tokenizer_class()(
            tokenizer_object=core, clean_up_tokenization_spaces=False, **ends
        ),
        folder,
    )
    config = config or {"model_type": family}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def text_of(tokenizer, ids):
    """The text of tokens, control tokens and tags included.

    Whoever compares it knows more than the letters: where it spells a control token or
    a tag, that is one token.
    """
    text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    added = map(re.escape, sorted(tokenizer.get_added_vocab(), key=len, reverse=True))
    assert controls(tokenizer, ids) == re.findall("|".join(added), text)
    return text


def controls(tokenizer, tokens):
    """Control tokens and tags among tokens, in their order."""
    added = tokenizer.added_tokens_decoder
    return [added[t].content for t in tokens if t in added]


# --- messages ---

TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {}}}]
CALL = {"function": {"name": "lookup", "arguments": {"food": "milk"}}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def tool(text):
    return {"role": "tool", "content": text}


def assert_turns(tokenizer, got, *parts):
    """The tokens are the texts `parts`; the mask is 1 on every second one."""
    tokens, mask = got
    pairs = zip(mask, tokens, strict=True)
    runs = [
        (one, [token for _, token in run])
        for one, run in groupby(pairs, lambda x: x[0])
    ]
    assert [text_of(tokenizer, run) for _, run in runs] == [*parts]
    assert [one for one, _ in runs] == [i % 2 for i in range(len(parts))]


# What Qwen reads before it answers `Hi`.
QWEN_HI = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
