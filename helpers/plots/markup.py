"""Answers and tokens as HTML in a notebook's output: black on white, escaped."""

import html
import sys
from collections.abc import Mapping, Sequence


def show_answers(samples: Sequence[Mapping], columns: Sequence[str]) -> None:
    """A table of sampled answers, one row each, as they are (line ends included).

    Args:
      samples: dicts such as the rollouts' `samples`: prompt, completion, reward.
      columns: the keys to show, left to right; numbers are set to three digits.
    """
    head = "".join(
        f"<th style='text-align:left'>{html.escape(c)}</th>" for c in columns
    )
    body = "".join(
        "<tr>" + "".join(_answer_cell(sample[c]) for c in columns) + "</tr>"
        for sample in samples
    )
    display(
        "<table style='color:black;background:white;border-collapse:collapse'>"
        f"<tr>{head}</tr>{body}</table>"
    )


def _answer_cell(value) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    style = "text-align:left;vertical-align:top;white-space:pre-wrap;max-width:32em"
    return f"<td style='{style}'>{html.escape(text)}</td>"


def show_tokens(
    tokens: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    limit: float | None = None,
) -> None:
    """Tokens of one answer, coloured by a value each, such as its advantage.

    Blue is positive, orange negative; the number under each token says it without
    colour: a sign and two digits, but for a mask of 0 and 1.

    Args:
      tokens: the text of each token.
      values: one number per token, same length.
      title: what the values are, and what they show.
      limit: the value of the full colour; defaults to the largest size of a value.
    Raises:
      ValueError: the lengths differ.
    """
    if len(tokens) != len(values):
        raise ValueError(f"{len(tokens)} tokens, but {len(values)} values.")
    limit = limit or max((abs(value) for value in values), default=0.0) or 1.0
    written = ".0f" if {*values} <= {0, 1} else "+.2f"
    boxes = "".join(
        token_box(token, float(value), limit, written)
        for token, value in zip(tokens, values, strict=True)
    )
    display(
        "<div style='color:black;background:white;padding:6px'>"
        f"<b>{html.escape(title)}</b><br>{boxes}</div>"
    )


def token_box(token: str, value: float, limit: float, written: str = "+.2f") -> str:
    """One token and its number below; blue above zero, orange below, full at limit."""
    strength = min(abs(value) / limit, 1.0)
    rgb = (0, 114, 178) if value > 0 else (213, 94, 0)
    shade = [round(255 - 0.6 * strength * (255 - channel)) for channel in rgb]
    visible = html.escape(token.replace("\n", "↵").replace(" ", "␣"))
    return (
        "<span style='display:inline-block;text-align:center;margin:1px;"
        f"padding:1px 3px;background:rgb({shade[0]},{shade[1]},{shade[2]})'>"
        f"<code style='color:black;background:none'>{visible}</code><br>"
        f"<small>{value:{written}}</small></span>"
    )


def in_notebook() -> bool:
    """Whether what is displayed is seen: a kernel runs this, and no script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def display(markup: str) -> None:
    """Put HTML into the notebook's output."""
    import IPython.display  # only notebooks have it

    IPython.display.display(IPython.display.HTML(markup))


def display_markdown(text: str) -> None:
    """Shows Markdown, such as a table, below a notebook's cell."""
    import IPython.display  # only notebooks have it

    IPython.display.display(IPython.display.Markdown(text))
