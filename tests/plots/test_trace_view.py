"""The trace viewer: what was said and heard, in order, harmless, with the picture."""

import base64
import html
import io
import re

import numpy as np
import pytest
from PIL import Image

from helpers.plots.trace_view import View, trace_html, trace_viewer, views
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["How many kcal are in 50 g? kcal 133"] * 3, 300)
QUESTION = "How many kcal?"
SAID, TOLD, ANSWER = "<<lookup pizza 50>>", " kcal 133 & more ", "#### 133"


def batch():
    """Two answers to one question; the first hears something, the second does not."""
    encode = TOKENIZER.encode
    first = [(encode(text), said) for text, said in
             ((SAID, 1), (TOLD, 0), (ANSWER, 1))]  # fmt: skip
    tokens = np.zeros((1, 2, 90), np.int32)
    mask = np.zeros((1, 2, 90), np.float32)
    place = 0
    for ids, said in first:
        tokens[0, 0, place : place + len(ids)] = ids
        mask[0, 0, place : place + len(ids)] = said
        place += len(ids)
    own = encode("#### no food")
    tokens[0, 1, : len(own)], mask[0, 1, : len(own)] = own, 1
    prompt = np.array([encode(QUESTION)])
    picture = np.zeros((1, 1, 8, 8, 3), np.uint8)
    picture[..., 0] = 200
    return {
        "prompt": prompt,
        "prompt_mask": np.ones_like(prompt),
        "completion": tokens,
        "loss_mask": mask,
        "logprobs": -0.5 * mask,
        "rewards": np.array([[1.0, 0.0]]),
        "advantages": np.array([[0.5, -0.5]]),
        "images": picture,
    }


def words(page):
    """The text of a page, tags taken off, line ends and spaces as they were."""
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    return text.replace("␣", " ").replace("↵", "\n")


def test_a_view_is_what_was_said_and_heard_without_the_padding():
    first, second = views(batch(), TOKENIZER)
    assert "".join(text for text, _, _ in first.pieces) == SAID + TOLD + ANSWER
    heard = "".join(text for text, said, _ in first.pieces if not said)
    assert heard == TOLD and first.question == QUESTION
    assert (first.reward, first.advantage) == (1.0, 0.5)
    assert all(said for _, said, _ in second.pieces)
    assert len(views(batch(), TOKENIZER, most=1)) == 1


def test_the_page_shows_everything_in_order_and_escapes_it():
    first, _ = views(batch(), TOKENIZER)
    page = trace_html(first)
    assert "<<" not in page and "& more" not in page
    shown = re.sub(r"[+-]\d\.\d\d", "", words(page))  # the numbers below the tokens
    places = [shown.index(text) for text in (QUESTION, "lookup", "heard", "#### ")]
    assert places == sorted(places)
    assert TOLD in words(page), "what is heard is one piece"


def test_colours_are_the_advantage_or_the_log_probability():
    first, second = views(batch(), TOKENIZER)
    assert "+0.50" in trace_html(first) and "-0.50" in trace_html(second)
    by_token = trace_html(first, "log-probability")
    tokens = sum(said for _, said, _ in first.pieces)
    assert by_token.count("<small>-0.50</small>") == tokens
    with pytest.raises(ValueError, match="advantage"):
        trace_html(first, "reward")


def test_the_picture_is_the_batchs_own_with_an_alt_text():
    first, _ = views(batch(), TOKENIZER)
    page = trace_html(first)
    data = re.search(r'base64,([^"]+)"', page).group(1)
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    np.testing.assert_array_equal(picture, batch()["images"][0, 0])
    assert 'alt="The picture' in page
    alts = {picture.tobytes(): 'a "pizza" <on a plate>'}
    told, _ = views(batch(), TOKENIZER, alts=alts)
    assert 'alt="a &quot;pizza&quot; &lt;on a plate&gt;"' in trace_html(told)
    other, _ = views(batch(), TOKENIZER, alts={b"another": "soup"})
    assert 'alt="The picture' in trace_html(other)
    assert "<img" not in trace_html(first._replace(picture=None))


def test_the_widget_turns_pages_and_changes_colours():
    shown = views(batch(), TOKENIZER)
    controls, page = trace_viewer(shown).children
    which, shade = controls.children
    assert page.value == trace_html(shown[0])
    which.value = 1
    assert page.value == trace_html(shown[1])
    shade.value = "log-probability"
    assert page.value == trace_html(shown[1], "log-probability")
    with pytest.raises(ValueError, match="sample a batch"):
        trace_viewer([])


def test_hostile_text_stays_text():
    view = View("<script>alert(1)</script>", [("<b>", True, -1.0)], 0.0, 0.0)
    page = trace_html(view)
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "&lt;b&gt;" in page
