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


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts
    ]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_drawing_is_legible_in_any_theme_and_on_a_phone(file):
    root = ElementTree.fromstring(file.read_bytes())
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    card, *shapes = root.findall("{*}rect")
    assert (card.get("width"), card.get("fill")) == (f"{width:g}", "#FFFFFF")
    texts = root.findall("{*}text")
    assert all(float(text.get("font-size")) * 343 / width > 11 for text in texts)
    # Each text is dark on the darkest fill that there is.
    fills = {shape.get("fill") for shape in shapes} - {s.get("stroke") for s in shapes}
    lightest_text = max(luminance(text.get("fill")) for text in texts)
    darkest_fill = min(map(luminance, fills or {"#FFFFFF"}))
    assert (darkest_fill + 0.05) / (lightest_text + 0.05) >= 4.5
    assert not root.findall(".//{*}script") and not root.findall(".//{*}style")
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
