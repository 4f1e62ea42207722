"""Schematics: each SVG is readable on a white card, and its PNG has the same shape."""

import json
import pathlib
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from helpers.plots import markup, plotting

FILES = sorted(plotting.DRAWINGS.glob("*.svg"))
NOTEBOOKS = plotting.ROOT / "notebooks"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_drawing_is_a_white_card_legible_on_a_phone(file):
    root = ElementTree.fromstring(file.read_bytes())
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    card = root.find("{*}rect")
    assert (card.get("width"), card.get("fill")) == (f"{width:g}", "#FFFFFF")
    texts = root.findall("{*}text")
    assert all(float(text.get("font-size")) * 343 / width > 11 for text in texts)
    with Image.open(file.with_suffix(".png")) as image:
        assert image.width / image.height == pytest.approx(width / height, rel=0.01)


def test_every_drawing_is_shown_by_a_notebook_with_its_words_as_alt_text(monkeypatch):
    sources = [
        "".join(cell["source"])
        for notebook in NOTEBOOKS.glob("*.ipynb")
        for cell in json.loads(pathlib.Path(notebook).read_text())["cells"]
    ]
    names = re.findall(r'plotting\.drawing\("(\w+)"\)', "\n".join(sources))
    assert sorted(names) == [file.stem for file in FILES]
    outputs = []
    monkeypatch.setattr(markup, "display", outputs.append)
    plotting.drawing("grpo_cycle")
    (shown,) = outputs
    assert 'alt="GRPO: an answer is compared with its own group. Six boxes' in shown
    assert "image/svg+xml" in shown and "base64,iVBOR" in shown
