"""What a chat template says around a question, unasked."""

from typing import NamedTuple

from jinja2 import TemplateError

from helpers.text import chat, chat_encoding

QUESTION, SYSTEM = "What is seven?", "Say it in verse."


class Frame(NamedTuple):
    """What stands around every question.

    Attributes:
      tokens: how many of a prompt are not the question's.
      system: the system turn that the template adds where none is given; None: none.
    """

    tokens: int
    system: str | None

    def __str__(self):
        turn = f", among them the system turn {self.system!r}" if self.system else ""
        return f"{self.tokens} tokens of template around every question{turn}"


def frame(tokenizer) -> Frame:
    """The frame of a tokenizer's chat template.

    Args:
      tokenizer: from `load_tokenizer`.
    """
    prompt = len(chat.prompt_tokens(tokenizer, QUESTION))
    own = len(chat_encoding.plain(tokenizer, [QUESTION])[0])
    return Frame(prompt - own, _system(tokenizer))


def _system(tokenizer):
    """The text between what comes before, and after, a system turn that is given."""
    asked = {"role": "user", "content": QUESTION}
    given = {"role": "system", "content": SYSTEM}
    alone = chat_encoding.render(tokenizer, [asked])
    try:
        before, after = chat_encoding.render(tokenizer, [given, asked]).split(SYSTEM)
    except (TemplateError, ValueError):
        return None  # a template without such turns
    if not (alone.startswith(before) and alone.endswith(after)):
        return None
    return alone[len(before) : len(alone) - len(after)] or None
