"""The KV cache: one column a token, and the same in pages."""

from helpers.model import KNOWN
from helpers.model.vision_config import UnsupportedModel
from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import EMPTY, HEARD, OTHER, SAID

PROMPT = ("What", "is", "2", "+", "6", "?")
ANSWER = ("It", "is", "8")
CELL = 37


def kv_cache(model: str = "Qwen/Qwen2.5-0.5B-Instruct") -> Picture:
    """The cache as it fills: the prompt at once, then one column a token.

    Args:
      model: of `helpers.model.KNOWN`, whose column is counted.
    Raises:
      UnsupportedModel: it is a Gemma 4, whose layers keep columns of several sizes.
    """
    config = KNOWN[model]
    if config.gemma4:
        raise UnsupportedModel(
            f"{model} keeps columns of several sizes, and some layers none: this draws "
            "models whose layers are alike. training_memory.cache_column counts it."
        )
    numbers = config.layers * 2 * config.kv_heads * config.head_dim
    size = (
        f"One column of {model.split('/')[1]}: {config.layers}\u00a0layers × 2 × "
        f"{config.kv_heads} heads × {config.head_dim} = {numbers:,} numbers"
    )
    rows = [f"Prefill: {len(PROMPT)} columns at once"]
    for i, token in enumerate(ANSWER):
        have = len(PROMPT) + i
        rows.append(f"“{token}”: reads {have} columns, writes 1")
    picture = Picture(
        "The KV cache: the prompt at once, then one column a token",
        f"Nine tokens side by side: prompt, {' '.join(PROMPT)}; answer, "
        f"{' '.join(ANSWER)}. Below, four rows of nine cells, each “new”, “kept” or "
        f"empty. {'; '.join(rows)}: columns to its left are kept, those to its right "
        f"empty. A column holds a “key” and a “value” in each of “layer 1”, "
        f"“layer 2” and all others, “…”. {size}.",
    )
    y = _tokens(picture)
    for i, text in enumerate(rows):
        words = picture.label(14, y, text)
        _strip(picture, words.bottom + 3, first=0 if i == 0 else 5 + i, last=5 + i)
        y = words.bottom + 3 + 24 + 8
    _column(picture, y + 4, size)
    return picture


def _tokens(picture):
    """The tokens under their brackets; gives where the next row begins."""
    split = 14 + CELL * len(PROMPT)
    bracket = picture.bracket(14, split - 3, picture.top, "prompt")
    picture.bracket(split, split + CELL * len(ANSWER) - 3, picture.top, "answer")
    for i, token in enumerate((*PROMPT, *ANSWER)):
        x = 14 + CELL * i + (CELL - 3) / 2
        picture.label(x, bracket.bottom + 1, token, mono=True, anchor="middle")
    return bracket.bottom + 26


def _strip(picture, y, first, last):
    for i in range(len(PROMPT) + len(ANSWER)):
        word, style = "kept", HEARD
        if i >= first:
            word, style = "new", SAID
        if i > last:
            word, style = "", EMPTY
        picture.cell(14 + CELL * i, y, CELL - 3, 24, word, style)


def _column(picture, y, size):
    words = picture.label(14, y, size, bold=True)
    y = words.bottom + 8
    for i, layer in enumerate(("layer 1", "layer 2", "…")):
        top = y + 27 * i
        picture.label(70, top + 4, layer, anchor="end")
        for x, name in ((78, "key"), (213, "value")):
            picture.cell(x, top, 131, 24, name if layer != "…" else "", SAID)


PAGE = 4  # tokens of a page
TABLES = {"A": (0, 3, 4), "B": (1, 5)}  # pages of each answer, in order
LENGTHS = {"A": 10, "B": 7}
LONGEST = 16


def paged_cache() -> Picture:
    """Two answers whose columns lie in pages, taken from one pool as they grow."""
    pages = sum(map(len, TABLES.values()))
    used = sum(LENGTHS.values())
    reserved = len(TABLES) * LONGEST
    lists = [
        f"answer {name}, of {LENGTHS[name]} tokens, has pages {table}"
        for name, table in TABLES.items()
    ]
    sums = (
        f"{used} tokens take {pages} pages of {PAGE}: {pages * PAGE} places. "
        f"Room for the longest would take {len(TABLES)} × {LONGEST} = {reserved}."
    )
    picture = Picture(
        "A paged KV cache: room is taken as an answer grows",
        f"Left, two lists: {'; '.join(lists)}. From each entry, “tokens 0–3”, “4–7” "
        "and “8–9” of A, “tokens 0–3” and “4–6” of B, an arrow leads to a page of the "
        "pool at right: page 0, page 1, page 3, page 4, page 5, and two that are free. "
        f"Each has four places, marked A or B where there is a token. {sums}",
    )
    pool = {}
    top = picture.label(216, picture.top, "the pool", bold=True).bottom + 5
    for page in range(7):
        pool[page] = _page(picture, 216, top + 33 * page, page)
    y = picture.top
    for name, style in (("A", SAID), ("B", OTHER)):
        y = _page_list(picture, y, name, style, pool)
    picture.label(12, top + 33 * 7 + 6, sums)
    return picture


def _owner(page):
    """Whose a page is, and how many of its places are taken."""
    for name, table in TABLES.items():
        if page in table:
            return name, min(PAGE, LENGTHS[name] - PAGE * table.index(page))
    return "", 0


def _page(picture, x, y, page):
    name, taken = _owner(page)
    picture.label(x, y + 6, f"page {page}" if name else "free")
    style = {"A": SAID, "B": OTHER, "": EMPTY}[name]
    for place in range(PAGE):
        filled = place < taken
        picture.cell(
            x + 48 + 21 * place,
            y,
            19,
            27,
            name if filled else "",
            style if filled else EMPTY,
        )
    return x, y + 13.5


def _page_list(picture, y, name, style, pool):
    head = picture.label(12, y, f"answer {name}", bold=True)
    y = head.bottom + 5
    for i, page in enumerate(TABLES[name]):
        last = min(PAGE * (i + 1), LENGTHS[name]) - 1
        words = "tokens " if i == 0 else ""
        entry = picture.cell(12, y, 92, 27, f"{words}{PAGE * i}–{last}", style)
        x, middle = pool[page]
        picture.arrow((entry.right + 1, entry.cy), (x - 4, middle), colour=style.edge)
        y = entry.bottom + 4
    return y + 12
