"""Slides hold what a teacher shows: card, figures, predictions, exercises; offline."""

import functools
import html.parser
import re

import course_notebooks as course
import nbformat
import pytest

from scripts import slide_deck, slide_html, slides

VOID = {"img", "meta", "br", "hr"}


class Reader(html.parser.HTMLParser):
    """Reads a page: alt texts, addresses that it fetches, whether tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.alts, self.fetched, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if tag == "img":
            self.alts.append(told.get("alt", ""))
        self.fetched += [told["src"]] if "src" in told else []
        self.fetched += [told["href"]] if tag == "link" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def cell(kind, source, *tags, shows=None):
    """A cell of a made-up notebook, with what it printed."""
    made = nbformat.v4.new_markdown_cell(source)
    if kind == "code":
        made = nbformat.v4.new_code_cell(source)
        if shows:
            made.outputs = [nbformat.v4.new_output("stream", text=shows)]
    made.metadata["tags"] = list(tags)
    return made


MADE = nbformat.v4.new_notebook(
    cells=[
        cell("markdown", "badges", "badges"),
        cell("markdown", "# 07 · Toy\n\nWhat it is."),
        cell("markdown", "- **Time:** 3 min", "card"),
        cell(
            "markdown",
            "## 1. One idea\n\nIt is *this*.\n\nSimple. **Predict.** 1 or 2?",
        ),
        cell("code", "x = 1"),
        cell("code", "print(x)", shows="1\n"),
        cell(
            "markdown", "**Explain.** It is $x < 2$.\n\n### Exercise 1 · do\n\nDo it."
        ),
        cell("code", "y = None", "exercise"),
        cell("code", "check(y)", "check", shows="Not written yet"),
        cell(
            "markdown",
            "<details><summary>Solution</summary>\n\n```python\ny = 1\n```\n\n"
            "</details>\n\nThen $$y = x^2$$ holds.\n\n## Summary\n\n- all",
        ),
    ]
)


FEW = ("00", "04", "10")  # the others run with the slow tests
EACH = [
    pytest.param(number, marks=[] if number in FEW else [pytest.mark.slow])
    for number in course.NUMBERS
]
made_once = functools.cache(lambda n: slide_deck.slides(course.read(n)))


def test_a_notebook_becomes_steps():
    made = slide_deck.slides(MADE)
    assert [(slide.kind, slide.title) for slide in made] == [
        ("title", "07 · Toy"),
        ("section", "1. One idea"),
        ("predict", "1. One idea"),
        ("run", "1. One idea"),
        ("explain", "1. One idea"),
        ("exercise", "Exercise 1 · do"),
        ("section", "Summary"),
    ]
    title, section, predict, run, explain, exercise, _ = (slide.body for slide in made)
    assert "What it is." in title and "3 min" in title
    assert "It is <em>this</em>" in section and "Predict" not in section
    assert "1 or 2?" in predict
    assert "<pre>1</pre>" in run and "x = 1" in run.split("The code")[1]
    assert 'alt="x &lt; 2"' in explain
    assert "Do it." in exercise and "y = None" in exercise and "y = 1" in exercise
    assert not any("badges" in slide.body or "check(" in slide.body for slide in made)


def test_long_prose_is_cut_at_a_paragraph_and_long_prints_in_the_middle():
    words = "word " * 60
    prose = nbformat.v4.new_notebook(
        cells=[cell("markdown", f"# 07 · Toy\n\n{words}\n\n{words}\n\nlast")]
    )
    (slide,) = slide_deck.slides(prose)
    assert slide.body.count("word") == 60 and "last" not in slide.body
    shown = slide_html.outputs(cell("code", "", shows="\n".join(map(str, range(99)))))
    assert "0\n1\n" in shown and "\n…\n" in shown and "97\n98" in shown
    assert "\n50\n" not in shown


def test_a_dollar_in_code_is_no_formula_and_an_unknown_formula_is_told():
    assert slide_html.markdown("`$a$` costs $18 or so") == (
        "<p><code>$a$</code> costs $18 or so</p>\n"
    )
    with pytest.raises(ValueError):
        slide_html.formula(r"\nonsense{x}")


@pytest.mark.parametrize("number", EACH)
def test_slides_of_a_notebook_hold_all_that_is_to_be_shown(number):
    notebook, made = course.read(number), made_once(number)
    kinds = [slide.kind for slide in made]
    assert kinds[0] == "title" and "You will be able to" in made[0].body
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert kinds.count("predict") == text.count("**Predict")
    asked = {}
    for slide in made:
        if slide.kind == "exercise":
            asked[slide.title] = asked.get(slide.title, "") + slide.body
    assert len(asked) == len(course.exercises(notebook))
    for body in asked.values():
        assert "class='code'" in body and "<details>" in body
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    shown = {slide.title for slide in made}
    assert {re.sub(r"[*`]", "", h) for h in headings} - shown <= {"Set-up"}


@pytest.mark.parametrize("number", EACH)
def test_a_page_needs_no_network_and_shows_every_figure(number):
    text = slides.page(number, made_once(number))
    page = Reader(text)
    assert page.open == [], "a tag is not closed"
    assert all(address.startswith("data:image/") for address in page.fetched)
    assert not re.search(r"@import|url\(|<iframe|<script src|srcset=(?!\"data:)", text)
    assert "default-src 'none'" in text, "the browser refuses what would be fetched"
    assert all(alt.strip() for alt in page.alts)
    saved = "".join(
        str(output.get("data", {}).get("text/html", ""))
        for each in course.code_cells(course.read(number))
        for output in each.outputs
    )
    for alt in Reader(saved).alts:
        assert alt in page.alts


def test_the_list_of_all_links_each():
    text = slides.contents(course.NUMBERS)
    for number in course.NUMBERS:
        assert f'href="{course.path(number).stem}.html"' in text
