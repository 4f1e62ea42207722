"""`make slides`: slides of the notebooks, made from them as they are committed.

    python -m scripts.slides           all, into build/slides
    python -m scripts.slides 03 07     only these

Each is one HTML file that needs no network: a formula is an image, a figure stands in
the file. The arrow keys go on; the code of a slide is folded; printing makes a PDF.
"""

import argparse
import html
import pathlib

import nbformat

from helpers.course.syllabus import LESSONS
from scripts import slide_deck

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "slides"
PAGE = pathlib.Path(__file__).with_name("slides_page.html")


def page(title: str, slides: list[slide_deck.Slide]) -> str:
    """One HTML file of some slides."""
    sections = [_section(slide) for slide in slides]
    made = PAGE.read_text().replace("{{title}}", html.escape(title))
    return made.replace("{{slides}}", "\n".join(sections))


def _section(slide):
    steps = ""
    if slide.kind in slide_deck.STEPS:
        names = [
            f"<b>{step}</b>" if step == slide.kind else step
            for step in slide_deck.STEPS
        ]
        steps = f'<span class="steps">{" → ".join(names)}</span>'
    level = "h1" if slide.kind == "title" else "h2"
    return (
        f'<section class="{slide.kind}"><{level}>{steps}{html.escape(slide.title)}'
        f'</{level}><div class="body">{slide.body}</div></section>'
    )


def made(number: str) -> str:
    """The page of one notebook."""
    lesson = LESSONS[number]
    path = ROOT / "notebooks" / f"{lesson.file}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    return page(f"{number} · {lesson.title}", slide_deck.slides(notebook))


def contents(numbers) -> str:
    """The page that lists the others."""
    links = ""
    for number in numbers:
        lesson = LESSONS[number]
        link = (
            f'<a href="{lesson.file}.html">{number} · {html.escape(lesson.title)}</a>'
        )
        links += f"<li>{link}</li>"
    return page("Slides", [slide_deck.Slide("section", "Slides", f"<ul>{links}</ul>")])


def main(arguments: list[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", metavar="07")
    numbers = parser.parse_args(arguments).numbers or list(LESSONS)
    if strangers := set(numbers) - set(LESSONS):
        parser.error(
            f"no notebook {', '.join(sorted(strangers))}: {', '.join(LESSONS)}"
        )
    BUILD.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (BUILD / f"{LESSONS[number].file}.html").write_text(made(number))
    (BUILD / "index.html").write_text(contents(numbers))
    print(f"{len(numbers)} notebooks: open {BUILD / 'index.html'}")


if __name__ == "__main__":
    main()
