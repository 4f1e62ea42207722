"""Markdown, formulas and outputs of a notebook as HTML, with nothing from outside."""

import base64
import functools
import html
import io
import re

import mistune  # comes with JupyterLab
from matplotlib import mathtext

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n](?:[^$]*?[^$\s])?)\$", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
# What matplotlib writes otherwise, or not at all.
REWRITTEN = (
    (r"\\text\{([^}]*)\}", lambda m: rf"\mathrm{{{m[1]}}}".replace(" ", r"\ ")),
    (r"\\sqrt (\d)", r"\\sqrt{\1}"),
    (r"\\[tb]?ig\b|\\Big\b|\\!", ""),
    (r"\\tfrac", r"\\frac"),
    (r"\\([gl])e\b(?!q)", r"\\\1eq"),
)
LINES = 18  # of a printed output; the middle of a longer one is left out


@functools.cache
def formula(tex: str) -> str:
    """A formula as an image, as high as the text around it asks for.

    Raises:
      ValueError: matplotlib cannot read it.
    """
    known = " ".join(tex.split())
    for pattern, better in REWRITTEN:
        known = re.sub(pattern, better, known)
    picture = io.BytesIO()
    depth = mathtext.math_to_image(f"${known}$", picture, format="svg", dpi=72)
    svg = picture.getvalue().decode()
    height = float(re.search(r'height="([\d.]+)pt"', svg)[1])
    data = base64.b64encode(svg[svg.index("<svg") :].encode()).decode()
    # matplotlib draws in 10 points: the text's size.
    style = f"height:{height / 10:.2f}em;vertical-align:{-depth / 10:.2f}em"
    alt = html.escape(" ".join(tex.split()))
    return (
        f'<img class="formula" alt="{alt}" style="{style}" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def markdown(text: str) -> str:
    """Markdown as HTML; code in it is left as it is, formulas become images."""
    held: list[str] = []

    def hold(match):
        whole = match[1] is not None
        picture = formula(match[1] or match[2])
        held.append(f'<span class="display">{picture}</span>' if whole else picture)
        return f"FORMULA{len(held) - 1}HELD"

    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [FORMULA.sub(hold, text[end : code.start()]), code[0]]
        end = code.end()
    parts.append(FORMULA.sub(hold, text[end:]))
    made = _markdown()("".join(parts))
    return re.sub(r"FORMULA(\d+)HELD", lambda m: held[int(m[1])], made)


@functools.cache
def _markdown():
    return mistune.create_markdown(escape=False, plugins=["table"])


def code(source: str) -> str:
    """Python as HTML, its comments set apart."""
    lines = []
    for line in html.escape(source, quote=False).splitlines():
        lines.append(re.sub(r"(^|\s)(# .*)$", r"\1<i>\2</i>", line))
    return f"<pre class='code'>{chr(10).join(lines)}</pre>"


def outputs(cell) -> str:
    """What a cell shows, as HTML; "" where it shows nothing."""
    shown = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if output.output_type == "stream":
            shown.append(_printed(output.text))
        elif "text/html" in data:
            shown.append(f"<div class='shown'>{data['text/html']}</div>")
        elif "text/markdown" in data:
            shown.append(f"<div class='shown'>{markdown(data['text/markdown'])}</div>")
        elif output.output_type == "execute_result":
            shown.append(_printed(data.get("text/plain", "")))
    return "\n".join(filter(None, shown))


def _printed(text):
    lines = text.strip("\n").splitlines()
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "…", *lines[-LINES // 2 :]]
    return f"<pre>{html.escape(chr(10).join(lines), quote=False)}</pre>" * bool(lines)
