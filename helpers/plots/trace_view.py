"""The trace viewer: conversations of a rollout, token by token, beside their pictures.

What the model said is coloured by a number per token; what it heard (tool results, the
turns between) is grey: no loss is on it.
"""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from helpers.plots import markup

SHADES = ("advantage", "log-probability")
UNTOLD = "The picture that the question is about"


class View(NamedTuple):
    """One conversation, ready to be shown.

    question: the prompt as text. pieces: (text, said by the model, log-probability) of
    each token. reward, advantage: of the whole answer. picture: uint8 (H, W, 3), or
    None. alt: what it shows, for those who do not see it.
    """

    question: str
    pieces: list
    reward: float
    advantage: float
    picture: np.ndarray | None = None
    alt: str = UNTOLD


def views(
    batch: dict, tokenizer, most: int = 8, alts: Mapping[bytes, str] | None = None
) -> list[View]:
    """The first answers of a batch of rollouts, one group after the other.

    Args:
      batch: from `Rollouts`, rewards included.
      tokenizer: its tokenizer.
      most: how many at most.
      alts: what pictures show, by their bytes, as from `food_traces.alts`.
    Returns:
      Views, without the padding. An answer that ran out of budget and is left out of
      the loss counts as said by nobody.
    """
    shape = batch["completion"].shape[:2]
    at = list(np.ndindex(shape))[:most]
    return [_view(batch, tokenizer, p, g, alts or {}) for p, g in at]


def _view(batch, tokenizer, p, g, alts):
    tokens, mask, logprobs = (
        np.asarray(batch[name][p, g])
        for name in ("completion", "loss_mask", "logprobs")
    )
    used = np.flatnonzero((mask > 0) | (tokens != 0))
    end = used[-1] + 1 if len(used) else 0
    texts = [tokenizer.decode([token]) for token in tokens[:end].tolist()]
    said = (mask[:end] > 0).tolist()
    pieces = list(zip(texts, said, logprobs[:end].tolist(), strict=True))
    asked = batch["prompt"][p][np.asarray(batch["prompt_mask"][p]) > 0]
    picture = batch["images"][p] if "images" in batch else None
    if picture is not None and picture.ndim == 4:
        picture = picture[0]
    alt = UNTOLD if picture is None else alts.get(picture.tobytes(), UNTOLD)
    return View(
        tokenizer.decode(asked.tolist(), skip_special_tokens=True).strip(),
        pieces,
        float(batch["rewards"][p, g]),
        float(batch["advantages"][p, g]),
        picture,
        alt,
    )


def trace_html(view: View, shade: str = "advantage") -> str:
    """One conversation as HTML that needs nothing else: black on white, escaped.

    Args:
      shade: of SHADES, what colours the tokens that were said.
    Raises:
      ValueError: another one.
    """
    if shade not in SHADES:
        raise ValueError(f"Tokens are coloured by one of {SHADES}, not by {shade!r}.")
    parts, heard = [], ""
    for text, said, logprob in view.pieces:
        if not said:
            heard += text
            continue
        parts += [_heard(heard)] if heard else []
        heard = ""
        value, limit = (view.advantage, 1.0) if shade == SHADES[0] else (logprob, 3.0)
        parts.append(markup.token_box(text, value, limit))
    parts += [_heard(heard)] if heard else []
    return (
        "<div style='color:black;background:white;padding:8px;max-width:48em'>"
        f"{_picture(view)}<p><b>{html.escape(view.question)}</b></p>"
        f"<p>reward {view.reward:.2f}, advantage {view.advantage:+.2f}; "
        f"coloured by {shade}</p>{''.join(parts)}</div>"
    )


def _heard(text):
    return (
        "<span style='display:inline-block;border:1px solid #595959;margin:1px;"
        "padding:1px 5px;background:#eeeeee;white-space:pre-wrap'><small>heard</small> "
        f"<code style='color:black;background:none'>{html.escape(text)}</code></span>"
    )


def _picture(view):
    if view.picture is None:
        return ""
    file = io.BytesIO()
    Image.fromarray(np.asarray(view.picture)).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'<img alt="{html.escape(view.alt)}" width="160" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
    )


def show_trace(view: View, shade: str = "advantage") -> None:
    """Puts one conversation into the notebook's output, as it stays in the file."""
    markup.display(trace_html(view, shade))


def trace_viewer(shown: Sequence[View]):
    """A widget that turns the pages of several conversations.

    Args:
      shown: at least one, from `views`.
    Returns:
      An ipywidgets box: which conversation, what colours it, the conversation.
    Raises:
      ValueError: there is none.
    """
    import ipywidgets  # only notebooks have it

    if not shown:
        raise ValueError("There is no conversation to show: sample a batch first.")
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
