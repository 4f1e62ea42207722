"""Answers, tokens and conversations as HTML in a notebook: black on white, escaped."""

import base64
import html
import io
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

SHADES = ("advantage", "log-probability")
ALT = "The picture that the question is about"


def display(markup: str) -> None:
    """Puts HTML into the notebook's output."""
    import IPython.display  # only notebooks have it

    IPython.display.display(IPython.display.HTML(markup))


def display_markdown(text: str) -> None:
    """Puts Markdown, such as a table, into the notebook's output."""
    import IPython.display  # only notebooks have it

    IPython.display.display(IPython.display.Markdown(text))


def image(data: bytes, alt: str, width: int, style="max-width:100%;background:white"):
    """A PNG file as an `<img>` element.

    Raises:
      ValueError: there is no alt text.
    """
    if not alt.strip():
        raise ValueError("A figure needs alt text: say what it shows and finds.")
    text = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt)}" width="{width}" '
        f'style="{style}" src="data:image/png;base64,{text}">'
    )


def in_notebook() -> bool:
    """Whether output is displayed: a kernel runs this, and not a script."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def show_answers(samples: Sequence[Mapping], columns: Sequence[str]) -> None:
    """A table of sampled answers, one row each, line ends included.

    Args:
      samples: dicts such as the rollouts' `samples`: prompt, completion, reward.
      columns: the keys to show, left to right; floats are set to three digits.
    """
    cell = "text-align:left;vertical-align:top;white-space:pre-wrap;max-width:32em"
    head = [f"<th style='text-align:left'>{html.escape(name)}</th>" for name in columns]
    body = ""
    for sample in samples:
        values = [sample[name] for name in columns]
        texts = [f"{x:.3g}" if isinstance(x, float) else str(x) for x in values]
        cells = [f"<td style='{cell}'>{html.escape(text)}</td>" for text in texts]
        body += f"<tr>{''.join(cells)}</tr>"
    display(
        "<table style='color:black;background:white;border-collapse:collapse'>"
        f"<tr>{''.join(head)}</tr>{body}</table>"
    )


def show_tokens(tokens, values, *, title: str, limit: float | None = None) -> None:
    """Tokens of one answer, coloured by a number each, such as their advantage.

    Blue is positive, orange negative. The number under each token says it without
    colour, with a sign and two digits unless all are 0 or 1.

    Args:
      title: what the values are, and what they show.
      limit: the value of the full colour; defaults to the largest absolute value.
    """
    limit = limit or max((abs(value) for value in values), default=0.0) or 1.0
    written = ".0f" if {*values} <= {0, 1} else "+.2f"
    pairs = zip(tokens, values, strict=True)
    boxes = [token_box(token, float(x), limit, written) for token, x in pairs]
    display(
        "<div style='color:black;background:white;padding:6px'>"
        f"<b>{html.escape(title)}</b><br>{''.join(boxes)}</div>"
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


class View(NamedTuple):
    """One conversation of a rollout, ready to be shown.

    Attributes:
      question: the prompt as text.
      pieces: (text, whether the model wrote it, log-probability) of each token.
      reward, advantage: of the whole answer.
      picture: uint8 (H, W, 3), or None.
      alt: what the picture shows, for those who do not see it.
    """

    question: str
    pieces: list
    reward: float
    advantage: float
    picture: np.ndarray | None = None
    alt: str = ALT


def views(
    batch: dict, tokenizer, most: int = 8, alts: Mapping[bytes, str] | None = None
) -> list[View]:
    """The first `most` answers of a batch of rollouts, one group after the other.

    Padding is left out. Of a truncated answer that is left out of the loss, no token
    counts as written by the model.

    Args:
      batch: from `Rollouts`, rewards included.
      alts: what pictures show, by their bytes, as from `food_traces.alts`.
    """
    shown = []
    for p, g in list(np.ndindex(batch["completion"].shape[:2]))[:most]:
        names = ("completion", "loss_mask", "logprobs")
        tokens, mask, logprobs = (np.asarray(batch[name][p, g]) for name in names)
        used = np.flatnonzero((mask > 0) | (tokens != 0))
        end = used[-1] + 1 if len(used) else 0
        texts = [tokenizer.decode([token]) for token in tokens[:end].tolist()]
        wrote = (mask[:end] > 0).tolist()
        prompt = batch["prompt"][p][np.asarray(batch["prompt_mask"][p]) > 0].tolist()
        picture = batch["images"][p] if "images" in batch else None
        if picture is not None and picture.ndim == 4:
            picture = picture[0]
        shown.append(
            View(
                question=tokenizer.decode(prompt, skip_special_tokens=True).strip(),
                pieces=list(zip(texts, wrote, logprobs[:end].tolist(), strict=True)),
                reward=float(batch["rewards"][p, g]),
                advantage=float(batch["advantages"][p, g]),
                picture=picture,
                alt=ALT
                if picture is None
                else (alts or {}).get(picture.tobytes(), ALT),
            )
        )
    return shown


def trace_html(view: View, shade: str = "advantage") -> str:
    """A conversation token by token, beside its picture.

    Trained tokens are coloured by `shade`, one of `SHADES`. A grey box holds tokens
    without a loss, which are tool results or a whole truncated answer.
    """
    parts = []
    for wrote, group in itertools.groupby(view.pieces, key=lambda piece: piece[1]):
        pieces = list(group)
        if wrote and shade == SHADES[0]:
            parts += [token_box(text, view.advantage, 1.0) for text, _, _ in pieces]
        elif wrote:
            parts += [token_box(text, logprob, 3.0) for text, _, logprob in pieces]
        else:
            text = html.escape("".join(text for text, _, _ in pieces))
            parts.append(
                "<span style='display:inline-block;border:1px solid #595959;margin:1px;"
                "padding:1px 5px;background:#eeeeee;white-space:pre-wrap'><small>"
                "not trained</small> <code style='color:black;background:none'>"
                f"{text}</code></span>"
            )
    picture = ""
    if view.picture is not None:
        file = io.BytesIO()
        Image.fromarray(np.asarray(view.picture)).save(file, "PNG")
        picture = image(file.getvalue(), view.alt, 160, "image-rendering:pixelated")
    return (
        "<div style='color:black;background:white;padding:8px;max-width:48em'>"
        f"{picture}<p><b>{html.escape(view.question)}</b></p>"
        f"<p>reward {view.reward:.2f}, advantage {view.advantage:+.2f}; "
        f"coloured by {shade}</p>{''.join(parts)}</div>"
    )


def show_trace(view: View, shade: str = "advantage") -> None:
    """Puts one conversation into the notebook's output, as it stays in the file."""
    display(trace_html(view, shade))


def trace_viewer(shown: Sequence[View]):
    """An ipywidgets box to choose one of the conversations, and what colours it."""
    import ipywidgets  # only notebooks have it

    names = [f"{i + 1}: reward {view.reward:.2f}" for i, view in enumerate(shown)]
    which = ipywidgets.Dropdown(
        options=list(zip(names, range(len(shown)), strict=True)), description="answer"
    )
    shade = ipywidgets.Dropdown(options=SHADES, description="colour")
    page = ipywidgets.HTML()

    def draw(_=None):
        page.value = trace_html(shown[which.value], shade.value)

    which.observe(draw, "value")
    shade.observe(draw, "value")
    draw()
    return ipywidgets.VBox([ipywidgets.HBox([which, shade]), page])
