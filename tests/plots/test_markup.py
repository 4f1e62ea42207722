"""Answers, tokens and conversations: in order, escaped, with the picture."""

import base64
import html
import io
import re

import numpy as np
import pytest
from PIL import Image

from helpers.plots import markup
from helpers.plots.markup import View, trace_html, trace_viewer, views
from helpers.text.tokenizer import train_tokenizer

QUESTION = "How many kcal?"
CALL, RESULT, ANSWER = "<<lookup pizza 50>>", " kcal 133 & more ", "#### 133"


@pytest.fixture
def shown(monkeypatch):
    """The HTML that was put into the notebook."""
    outputs = []
    monkeypatch.setattr(markup, "display", outputs.append)
    return outputs


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["How many kcal are in 50 g? kcal 133"] * 3, 300)


@pytest.fixture(scope="module")
def batch(tokenizer):
    """Two answers to one question; the first hears something, the second does not."""
    tokens, mask = np.zeros((1, 2, 90), np.int32), np.zeros((1, 2, 90), np.float32)
    pieces = [(0, CALL, 1), (0, RESULT, 0), (0, ANSWER, 1), (1, "#### no food", 1)]
    places = [0, 0]
    for answer, text, wrote in pieces:
        ids = tokenizer.encode(text)
        at = slice(places[answer], places[answer] + len(ids))
        tokens[0, answer, at], mask[0, answer, at] = ids, wrote
        places[answer] += len(ids)
    prompt = np.array([tokenizer.encode(QUESTION)])
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


def test_answers_are_escaped_and_rounded(shown):
    rows = [{"completion": "a < b\n#### 3", "reward": 0.123456}]
    markup.show_answers(rows, ["completion", "reward"])
    assert "a &lt; b\n#### 3" in shown[0] and ">0.123<" in shown[0]


def test_tokens_give_their_value_without_colour(shown):
    markup.show_tokens(["<b>", " x\n"], [0.5, -1.0], title="Advantages")
    assert "&lt;b&gt;" in shown[0] and "␣x↵" in shown[0]
    assert "+0.50" in shown[0] and "-1.00" in shown[0]
    colours = re.findall(r"rgb\((\d+),(\d+),(\d+)\)", shown[0])
    assert colours[0][2] > colours[0][0] and int(colours[1][0]) > int(colours[1][2])
    markup.show_tokens(["a", "b"], [0, 1], title="A mask")
    assert "<small>0<" in shown[1] and "<small>1<" in shown[1]
    markup.show_tokens(["a"], [0.0], title="Nothing")
    assert "rgb(255,255,255)" in shown[2]


def test_a_view_is_the_conversation_without_the_padding(batch, tokenizer):
    first, second = views(batch, tokenizer)
    assert "".join(text for text, _, _ in first.pieces) == CALL + RESULT + ANSWER
    assert "".join(text for text, wrote, _ in first.pieces if not wrote) == RESULT
    assert first.question == QUESTION and (first.reward, first.advantage) == (1.0, 0.5)
    assert all(wrote for _, wrote, _ in second.pieces)
    assert len(views(batch, tokenizer, most=1)) == 1


def test_a_trace_shows_everything_in_order_and_escaped(batch, tokenizer):
    first, second = views(batch, tokenizer)
    page = trace_html(first)
    assert "<<" not in page and "& more" not in page
    words = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("␣", " ")
    assert RESULT in words, "a result is one piece"
    words = re.sub(r"[+-]\d\.\d\d", "", words)  # the numbers below the tokens
    order = QUESTION, "lookup", "not trained", "#### "
    places = [words.index(text) for text in order]
    assert places == sorted(places)
    assert "+0.50" in page and "-0.50" in trace_html(second)
    wrote = sum(wrote for _, wrote, _ in first.pieces)
    by_token = trace_html(first, "log-probability")
    assert by_token.count("<small>-0.50</small>") == wrote
    hostile = trace_html(View("<script>alert(1)</script>", [("<b>", True, -1)], 0, 0))
    assert "<script>" not in hostile and "&lt;b&gt;" in hostile
    last = trace_html(View("q", [("a", True, 0.0), ("read last", False, 0.0)], 0, 0))
    assert "read last" in last


def test_the_picture_is_that_of_the_batch_with_its_alt_text(batch, tokenizer):
    (first, _) = views(batch, tokenizer)
    data = re.search(r'base64,([^"]+)"', trace_html(first))[1]
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    np.testing.assert_array_equal(picture, batch["images"][0, 0])
    assert 'alt="The picture' in trace_html(first)
    alts = {picture.tobytes(): 'a "pizza" <on a plate>'}
    (named, _) = views(batch, tokenizer, alts=alts)
    assert 'alt="a &quot;pizza&quot; &lt;on a plate&gt;"' in trace_html(named)


def test_the_widget_turns_pages_and_changes_colours(batch, tokenizer):
    shown = views(batch, tokenizer)
    controls, page = trace_viewer(shown).children
    which, shade = controls.children
    assert page.value == trace_html(shown[0])
    which.value, shade.value = 1, "log-probability"
    assert page.value == trace_html(shown[1], "log-probability")
