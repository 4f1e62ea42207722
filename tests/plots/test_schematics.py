"""Schematics: read back from their SVG, as a reader's browser gets it."""

import csv
import dataclasses
import html
import io
import itertools
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest
from PIL import Image

from helpers.model import KNOWN
from helpers.model.vision_config import UnsupportedModel
from helpers.plots import schematics
from helpers.plots.schematics import groups, prompts, rendered, shapes, training_memory
from helpers.plots.schematics.pieces import Picture
from helpers.tools import nutrition

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHONE, SMALLEST = 343, 11  # pixels
CONTRAST, EDGE_CONTRAST = 4.5, 3.0
TAG = "{http://www.w3.org/2000/svg}"


@dataclasses.dataclass(frozen=True)
class Area:
    """A rectangle of the drawing; `what` is its text or its fill."""

    left: float
    top: float
    right: float
    bottom: float
    what: str
    edge: str = ""

    def holds(self, other, gap=0.0):
        return (
            self.left + gap <= other.left
            and self.top + gap <= other.top
            and other.right <= self.right - gap
            and other.bottom <= self.bottom - gap
        )

    def meets(self, other):
        across = min(self.right, other.right) - max(self.left, other.left)
        return (
            across > 0.01
            and min(self.bottom, other.bottom) - max(self.top, other.top) > 0.01
        )

    @property
    def size(self):
        return (self.right - self.left) * (self.bottom - self.top)


class Drawn:
    """What stands in an SVG: areas of boxes and texts, segments of lines."""

    def __init__(self, svg):
        self.root = ET.fromstring(svg)
        _, _, self.width, self.height = map(float, self.root.get("viewBox").split())
        self.card, *self.boxes = map(_box, self.root.iter(f"{TAG}rect"))
        self.texts = [_text(tag) for tag in self.root.iter(f"{TAG}text")]
        self.boxes_before = []  # how many boxes are drawn before each text
        boxes = -1  # the card is none
        for tag in self.root.iter():
            boxes += tag.tag == f"{TAG}rect"
            if tag.tag == f"{TAG}text":
                self.boxes_before.append(boxes)
        self.sizes = [float(t.get("font-size")) for t in self.root.iter(f"{TAG}text")]
        self.inks = [tag.get("fill") for tag in self.root.iter(f"{TAG}text")]
        self.lines = [_points(tag) for tag in self.root.iter(f"{TAG}polyline")]
        self.heads = [_points(tag) for tag in self.root.iter(f"{TAG}polygon")]

    def under(self, area):
        """The smallest box around an area, else the card."""
        around = [box for box in self.boxes if box.holds(area)]
        return min(around, key=lambda box: box.size, default=self.card)


def _box(tag):
    x, y, w, h = (float(tag.get(name, 0)) for name in ("x", "y", "width", "height"))
    return Area(x, y, x + w, y + h, tag.get("fill"), tag.get("stroke", ""))


def _text(tag):
    size, mono = float(tag.get("font-size")), "monospace" in tag.get("font-family")
    w = shapes.text_width(tag.text, size, tag.get("font-weight") == "bold", mono)
    left = (
        float(tag.get("x"))
        - w * {"start": 0, "middle": 0.5, "end": 1}[tag.get("text-anchor")]
    )
    y = float(tag.get("y"))
    return Area(left, y - 0.76 * size, left + w, y + 0.24 * size, tag.text)


def _points(tag):
    return [tuple(map(float, point.split(","))) for point in tag.get("points").split()]


def fits(drawn):
    """Texts are inside of the picture, and each inside of a box or outside of it."""
    for text in drawn.texts:
        assert drawn.card.holds(text, gap=4), f"{text.what!r} leaves the picture"
        for box in drawn.boxes:
            whole = box.holds(text, gap=0.5)
            assert whole or not box.meets(text), f"{text.what!r} crosses an edge"


def overlaps_nothing(drawn):
    """No two texts meet; two boxes do only where one lies inside of the other."""
    for a, b in itertools.combinations(drawn.texts, 2):
        assert not a.meets(b), f"{a.what!r} lies on {b.what!r}"
    for a, b in itertools.combinations(drawn.boxes, 2):
        assert a.holds(b) or b.holds(a) or not a.meets(b), f"{a} lies on {b}"
    for text, before in zip(drawn.texts, drawn.boxes_before, strict=True):
        later = drawn.boxes[before:]
        assert not any(box.meets(text) for box in later), f"{text.what!r} is covered"


def lines_keep_clear(drawn):
    """No line crosses a text or runs through a box, and each head points at a thing."""
    for line in drawn.lines:
        for point in _along(line):
            for text in drawn.texts:
                assert not _inside(point, text), f"a line crosses {text.what!r}"
            for box in drawn.boxes:
                assert not _inside(point, box), f"a line runs through {box}"
    for tip, *_ in drawn.heads:
        near = [*drawn.boxes, *drawn.texts, *map(_extent, drawn.lines)]
        assert any(_near(tip, area) for area in near), f"a head at {tip} points nowhere"


def _along(line):
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        steps = int(max(abs(x1 - x0), abs(y1 - y0))) + 1
        for i in range(steps + 1):
            yield x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps


def _inside(point, area):
    return area.left < point[0] < area.right and area.top < point[1] < area.bottom


def _extent(line):
    xs, ys = zip(*line, strict=True)
    return Area(min(xs), min(ys), max(xs), max(ys), "line")


def _near(tip, area, gap=6):
    x, y = tip
    return (
        area.left - gap <= x <= area.right + gap
        and area.top - gap <= y <= area.bottom + gap
    )


def is_large_enough(drawn):
    """The smallest text on a phone, where the picture is 343 pixels wide."""
    for text, size in zip(drawn.texts, drawn.sizes, strict=True):
        shown = size * PHONE / drawn.width
        assert shown >= SMALLEST, f"{text.what!r} is {shown:.1f} px on a phone"


def is_legible(drawn):
    """Contrast of texts with what lies under them, and of boxes with what is around.

    The card is white and opaque, so that this holds in dark mode.
    """
    assert drawn.card.what == "#FFFFFF"
    assert drawn.card.holds(Area(0, 0, drawn.width, drawn.height, ""))
    for text, ink in zip(drawn.texts, drawn.inks, strict=True):
        found = contrast(ink, drawn.under(text).what)
        assert found >= CONTRAST, f"{text.what!r} has a contrast of {found:.1f}"
    for box in drawn.boxes:
        assert contrast(box.edge, "#FFFFFF") >= EDGE_CONTRAST, box


def luminance(colour):
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    """Contrast ratio of two colours, WCAG 2.2, from 1 to 21."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def is_told(drawn):
    """An image with a title and a description in which every label is named."""
    assert drawn.root.get("role") == "img"
    title, desc = (drawn.root.find(f"{TAG}{name}") for name in ("title", "desc"))
    named = drawn.root.get("aria-labelledby").split()
    assert named == [title.get("id"), desc.get("id")]
    words = f" {_plain(f'{title.text}. {desc.text}')} "
    assert len(desc.text.split()) >= 20
    for text in drawn.texts:
        assert f" {_plain(text.what)} " in words, (
            f"{text.what!r} is not in the alt text"
        )


def _plain(text):
    return re.sub(r"[^\w+−/×=%#<>?…]+", " ", text).strip()


PROPERTIES = (
    fits,
    overlaps_nothing,
    lines_keep_clear,
    is_large_enough,
    is_legible,
    is_told,
)


@pytest.fixture(scope="module")
def pictures():
    return {name: getattr(schematics, name)() for name in schematics.__all__}


@pytest.mark.parametrize("holds", PROPERTIES)
@pytest.mark.parametrize("name", schematics.__all__)
def test_a_schematic(pictures, name, holds):
    holds(Drawn(rendered.svg(pictures[name])))


def test_there_are_at_least_ten_and_none_is_wider_than_a_phone_shows(pictures):
    assert len(pictures) >= 10
    for picture in pictures.values():
        assert Drawn(rendered.svg(picture)).height < 2 * shapes.WIDTH


def broken():
    """A picture to be spoilt, which names what a rule asks for."""
    words = (
        "A box and an arrow, drawn so that one thing is wrong; here are enough words"
    )
    return Picture("One thing is wrong", f"{words}, and all that is told, for a rule.")


def misplaced():
    """(property, a picture with something at the wrong place)."""
    crossing, outside, doubled, stacked, covered, struck, through, lost = (
        broken() for _ in range(8)
    )
    crossing.box(20, 60, 100, "", "", h=30)
    crossing.label(100, 65, "told")
    outside.shapes.append(
        shapes.Text(350, 60, "told", 12, False, False, "start", "#000000")
    )
    doubled.label(20, 60, "told")
    doubled.label(30, 66, "told")
    stacked.box(20, 60, 100, "", "", h=30)
    stacked.box(80, 70, 100, "", "", h=30)
    covered.label(30, 65, "told")
    covered.box(20, 60, 100, "", "", h=30)
    struck.label(100, 60, "told")
    struck.arrow((20, 68), (300, 68))
    through.box(100, 60, 50, "", "", h=30)
    through.line((20, 75), (300, 75))
    head = ((200, 200), (196, 190), (204, 190))
    lost.shapes.append(shapes.Path(head, "#000000", filled=True))
    return [
        (fits, crossing),
        (fits, outside),
        (overlaps_nothing, doubled),
        (overlaps_nothing, stacked),
        (overlaps_nothing, covered),
        (lines_keep_clear, struck),
        (lines_keep_clear, through),
        (lines_keep_clear, lost),
    ]


def illegible():
    """(property, a picture that some cannot read)."""
    small, pale, dark, faint, untold = (broken() for _ in range(5))
    small.label(20, 60, "told", size=11)
    pale.label(20, 60, "told", colour="#909090")
    dark.box(20, 60, 100, "", "told", shapes.Style("#0072B2", "#0072B2"))
    faint.box(20, 60, 100, "", "", shapes.Style("#FFFFFF", "#E0A0C0"), h=20)
    untold.label(20, 60, "kept quiet")
    return [
        (is_large_enough, small),
        (is_legible, pale),
        (is_legible, dark),
        (is_legible, faint),
        (is_told, untold),
    ]


MUTANTS = [*misplaced(), *illegible()]


@pytest.mark.parametrize("holds, picture", MUTANTS)
def test_a_mutant_is_found_and_by_no_other_rule(holds, picture):
    drawn = Drawn(rendered.svg(picture))
    with pytest.raises(AssertionError):
        holds(drawn)
    if holds is not overlaps_nothing:  # what lies on another may cross its edge, too
        for other in set(PROPERTIES) - {holds}:
            other(drawn)


@pytest.mark.parametrize("lost", ["role", "title", "desc"])
def test_a_picture_that_is_not_told_is_found(pictures, lost):
    svg = rendered.svg(pictures["walk"])
    if lost == "role":
        svg = svg.replace('role="img"', "")
    svg = re.sub(f"<{lost} id.*?</{lost}>", f"<{lost}>x</{lost}>", svg)
    with pytest.raises(AssertionError):
        is_told(Drawn(svg))


def test_a_text_that_does_not_fit_is_refused_by_name():
    picture = Picture("A title", "Words.")
    with pytest.raises(shapes.DoesNotFit, match="incomprehensibilities"):
        picture.box(12, 60, 60, "", "incomprehensibilities")
    with pytest.raises(shapes.DoesNotFit, match="three words here"):
        picture.box(12, 60, 60, "", "three words here", h=20)
    with pytest.raises(shapes.DoesNotFit, match="near the edge"):
        picture.label(320, 60, "near the edge")


def test_nothing_of_the_svg_is_taken_out_by_those_who_show_it(pictures):
    """No style sheet, script, link or foreign element: attributes only."""
    allowed = {"svg", "title", "desc", "rect", "text", "polyline", "polygon"}
    for picture in pictures.values():
        root = Drawn(rendered.svg(picture)).root
        assert {tag.tag.removeprefix(TAG) for tag in root.iter()} <= allowed
        assert not any(
            name.startswith("on") for tag in root.iter() for name in tag.keys()
        )


def test_a_notebook_gets_svg_and_png_of_one_shape_with_alt_text(pictures):
    for picture in pictures.values():
        shown = picture._repr_html_()
        alt = re.search(r'<img alt="([^"]*)"', shown).group(1)
        assert html.unescape(alt) == picture.alt
        assert 'srcset="data:image/svg+xml;base64,' in shown
        image = Image.open(io.BytesIO(rendered.png(picture)))
        assert image.size[0] == 2 * shapes.WIDTH
        assert image.size[1] == pytest.approx(2 * picture.height, abs=2)
        assert len(shown) < 60_000, "a notebook stays below 1 MB"


def test_text_is_measured_as_it_is_drawn():
    """Against the ink of a PNG: a row of letters is as wide as it was measured."""
    picture = Picture("x", "Words.")
    picture.shapes.clear()
    picture.shapes.append(
        shapes.Text(20, 40, "minimum MM", 30, False, False, "start", "#000000")
    )
    pixels = Image.open(io.BytesIO(rendered.png(picture))).convert("L")
    left, _, right, _ = pixels.point(lambda v: 255 * (v < 128)).getbbox()
    measured = shapes.text_width("minimum MM", 30)
    assert (right - left) / 2 == pytest.approx(measured, abs=6)


def test_lines_are_few_balanced_and_hold_all_words():
    words = "a text that is to be wrapped into lines of about one length"
    lines = shapes.wrapped(words, 150, 12)
    assert " ".join(lines) == words
    widths = [shapes.text_width(line, 12) for line in lines]
    assert max(widths) <= 150 and len(lines) == -(-sum(widths) // 150)
    assert min(widths) > 0.6 * max(widths)


def test_memory_of_adapters_is_what_the_compiler_is_handed():
    """Weights and moments are the arguments of the update in tpu_fit.csv."""
    rows = csv.DictReader((ROOT / "data" / "results" / "tpu_fit.csv").open(newline=""))
    row = next(
        row
        for row in rows
        if (row["model"], row["program"], row["preset"], row["trained"])
        == ("Qwen/Qwen2.5-0.5B-Instruct", "grpo", "v5e-1", "LoRA 32")
        and row["places"]  # of today's preset
    )
    sizes = training_memory.training_bytes(KNOWN[row["model"]], 32, int(row["tokens"]))
    handed = (sizes["weights"] + sizes["Adam's moments"]) / training_memory.GIB
    assert handed == pytest.approx(float(row["arguments_gb"]), rel=0.01)
    piece = int(row["tokens"]) // int(row["pieces"])
    assert f"{piece:,} tokens at once" in schematics.memory().words


def test_memory_of_all_weights_by_hand():
    """A decoder of one layer, its numbers counted on paper."""
    config = dataclasses.replace(
        KNOWN["HuggingFaceTB/SmolLM2-135M-Instruct"],
        vocab_size=10,
        width=4,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=2,
        ff=8,
    )
    numbers = 10 * 4 + (4 * 4 + 2 * 4 * 2 + 4 * 4) + 3 * 4 * 8 + 2 * 4 + 4
    assert training_memory.training_bytes(config, 0, tokens=5) == {
        "weights": 4 * numbers,
        "gradients": 4 * numbers,
        "Adam's moments": 8 * numbers,
        "activations": 2 * 5 * 4,
        training_memory.CACHE: 2 * 5 * 2 * 2,
    }


@pytest.mark.parametrize(
    "model, column",
    [
        # 15 layers of E2B have keys of their own, three of them full: one head each.
        ("google/gemma-4-E2B-it", 2 * (12 * 256 + 3 * 512)),
        ("google/gemma-4-31B-it", 2 * (50 * 16 * 256 + 10 * 4 * 512)),
        ("google/gemma-3-4b-it", 2 * 34 * 4 * 256),
    ],
)
def test_a_column_of_the_cache_is_what_the_models_layers_keep(model, column):
    assert training_memory.cache_column(KNOWN[model]) == column
    if "gemma-4" in model:
        with pytest.raises(UnsupportedModel, match=f"{model} keeps columns of several"):
            schematics.kv_cache(model)


def test_numbers_in_the_pictures_are_true(pictures):
    kcal = nutrition.lookup_nutrition("pizza", 150)["kcal"]
    twice = nutrition.lookup_nutrition("pizza", 300)["kcal"]
    words = pictures["app_conversation"].words
    assert f"{kcal} kcal" in words and f"300 g, {twice} kcal" in words
    assert f"kcal {kcal}" in pictures["who_wrote"].words
    assert "a mean over 8 of 19 tokens" in pictures["who_wrote"].words
    assert 4 * (48 + 72) == 480 and 48 + 4 * 72 == 336
    for count in ("480", "336"):
        assert f"{count} tokens" in pictures["shared_prompt"].words
    assert prompts.shared_prompt(48, 72, 8).title.endswith("1.5 times fewer tokens")
    assert sum(groups.ADVANTAGES) == 0
    assert "= 6,144 numbers" in pictures["kv_cache"].words
    assert "32 hosts (the blocks), 256 chips" in pictures["chip_to_network"].words
    assert "(0.51 nats at this token" in pictures["teacher_and_student"].words
    words = pictures["trainer_and_workers"].words
    assert "at most η + 1 = 3 pieces under way; dropped if over η = 2" in words
    for piece, version in ((7, 5), (8, 6), (9, 7)):  # out with the update before it
        assert re.search(rf"piece {piece}(, | with )version {version}\b", words)
    assert "version 5: 2 old" in words and "7 updates are done" in words


@pytest.mark.parametrize("model", ["google/gemma-3-1b-it", "Qwen/Qwen3-1.7B"])
def test_pictures_of_other_sizes_keep_to_the_rules(model):
    for picture in (
        schematics.kv_cache(model),
        schematics.memory(model, rank=64, prompts=64),
        schematics.shared_prompt(256, 64, 8),
        schematics.chip_to_network("v6e:16x16"),
    ):
        for holds in PROPERTIES:
            holds(Drawn(rendered.svg(picture)))
