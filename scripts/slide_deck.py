"""A notebook as a list of slides: headings, figures, the card, predict, run, explain.

A slide keeps what is looked at together. Of the prose it keeps the first paragraphs of
a section; the notebook has the rest.
"""

import dataclasses
import re

from scripts import slide_html

WORDS = 110  # of prose on a slide; the paragraph that goes beyond is the first left out
STEPS = ("predict", "run", "explain")
SKIPPED = {"badges", "road", "setup", "imports", "check"}
LISTED = ("Summary", "Further reading")  # shown whole
LEFT_OUT = ("Set-up",)


@dataclasses.dataclass
class Slide:
    """One slide: `kind` is title, section, exercise, or one of STEPS.

    `title` is plain text, `body` HTML.
    """

    kind: str
    title: str
    body: str


def slides(notebook) -> list[Slide]:
    """The slides of a notebook of the course, in order."""
    deck = _Deck()
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if tags & SKIPPED:
            continue
        if "card" in tags:
            deck.close()
            deck.made[-1].body += slide_html.markdown(cell.source)
        elif cell.cell_type == "markdown":
            for paragraph in paragraphs(cell.source):
                deck.read(paragraph)
        elif "exercise" in tags:
            deck.ask(cell)
        else:
            deck.run(cell)
    deck.close()
    kept = [slide for slide in deck.made if slide.title not in LEFT_OUT]
    return [slide for slide in kept if slide.body or slide.kind == "section"]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of some Markdown; a fence and what is folded are one each.

    A prediction in the middle of a paragraph begins one of its own.
    """
    whole = r"```.*?^```|<details>.*?</details>(?:\s*<details>.*?</details>)*"
    parts, end = [], 0
    for match in re.finditer(whole, text, re.DOTALL | re.MULTILINE):
        parts += re.split(r"\n\s*\n", text[end : match.start()]) + [match[0]]
        end = match.end()
    parts += re.split(r"\n\s*\n", text[end:])
    found = []
    for part in parts:
        if part.startswith(("```", "<details>")):
            found.append(part)
        else:
            found += re.split(r"(?<=\S)\s+(?=\*\*Predict)", part)
    return [part.strip("\n") for part in found if part.strip()]


class _Deck:
    """Slides in the making: what was read last decides where the next thing goes."""

    def __init__(self):
        self.made: list[Slide] = []
        self.prose: list[str] | None = None  # of the slide that is being written
        self.pending: list[str] = []  # code that has shown nothing yet
        self.heading = ""

    def read(self, paragraph: str) -> None:
        """Takes the next paragraph."""
        marks = re.match(r"(#+) (.*)", paragraph)
        step = re.match(r"\*\*(Predict|Explain)", paragraph)
        if marks:
            self._begin(len(marks[1]), _plain(marks[2]))
            _, _, rest = paragraph.partition("\n")
            if rest.strip():
                self.read(rest.strip())
        elif step:
            self.close()
            self.made.append(Slide(step[1].lower(), self.heading, ""))
            self.prose = [paragraph]
        elif paragraph.startswith("<details>"):
            if self.made[-1].kind == "exercise":
                self.close()
                self.made[-1].body += slide_html.markdown(paragraph)
        elif self.prose is not None:
            self.prose.append(paragraph)

    def _begin(self, level, title):
        self.close()
        kind = "title" if level == 1 else "section"
        if title.startswith("Exercise"):
            kind = "exercise"
        else:
            self.heading = title
        self.made.append(Slide(kind, title, ""))
        self.prose, self.pending = [], []

    def ask(self, cell) -> None:
        """Takes the stub of an exercise; what is read before it may have shown more."""
        self.close()
        if self.made[-1].kind != "exercise":
            asked = [slide for slide in self.made if slide.kind == "exercise"]
            self.made.append(Slide("exercise", asked[-1].title, ""))
        self.made[-1].body += slide_html.code(cell.source)
        self.pending = []

    def run(self, cell) -> None:
        """Takes the next code cell; one that shows something is a slide."""
        self.close()
        self.pending.append(cell.source)
        shown = slide_html.outputs(cell)
        if not shown:
            return
        sources = "\n\n\n".join(self.pending)
        code = slide_html.code(sources)
        folded = f"<details><summary>The code</summary>{code}</details>"
        self.made.append(Slide("run", self.heading, shown + folded))
        self.pending = []

    def close(self) -> None:
        """Writes the prose that was read onto its slide, as much as it takes."""
        kept, words = [], 0
        for paragraph in self.prose or []:
            words += len(paragraph.split())
            if kept and words > WORDS and self.heading not in LISTED:
                break
            kept.append(paragraph)
        if kept:
            self.made[-1].body += slide_html.markdown("\n\n".join(kept))
        self.prose = None


def _plain(text):
    return re.sub(r"[*`]", "", text)
