"""What to do with a file or a table whose rows come in another form."""

import json
import os
import re
from collections.abc import Iterator, Mapping

from helpers.tasks.row_faults import Fault, parsed

SUCH = '{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\\n#### 5"}'
ASKED = f"One JSON object a line is asked for (JSON Lines), such as\n{SUCH}"
ARRAY = (
    "This file looks like one JSON array: pass what json.load reads of it to "
    "custom_rows.check, or write each of its objects on a line with json.dumps."
)
SEVERAL_LINES = "If an object takes several lines here: json.dumps(row) takes one."
PACKED = re.compile(rb"[\0-\x08\x0e-\x1f]")  # bytes that stand in no text


def of_file(lines: Iterator[bytes]) -> str:
    """What to do with a file that does not begin as JSON Lines; "" if it does.

    Args:
      lines: those that are not blank; only of what looks like CSV all are read.
    """
    line = next(lines, b"")
    if not line.strip():
        return f"\nThis file is empty, or all its lines are blank.\n{ASKED}"
    encoding = json.detect_encoding(line)
    is_text = line[:64].decode(encoding, "ignore").strip().isprintable()
    if is_text and encoding.startswith(("utf-16", "utf-32")):
        return (
            f"\nThis file looks like {encoding.upper()}: save it as UTF-8, for example "
            f'text = pathlib.Path(path).read_text("{encoding}"), then '
            'pathlib.Path(path).write_text(text, "utf-8").'
        )
    begins, fault = line.lstrip()[:1], ""
    try:
        if isinstance(parsed(line), Mapping):
            return ""
    except Fault as error:
        fault = str(error)
    if begins == b"[":
        return f"\n{ASKED}\n{ARRAY}"
    if begins == b"{":  # its fault says more, but for this one
        return f"\n{ASKED}\n{SEVERAL_LINES}" if fault == "no JSON" else ""
    return f"\n{ASKED}{_of_table(line, lines)}"


def _of_table(line, lines):
    """How a CSV file of this first line is read; "" if it looks like none."""
    mark = max((b",", b";", b"\t"), key=line.count)
    if mark not in line or PACKED.search(line):
        return ""
    try:
        for each in (line, *lines):
            each.decode("utf-8")
        encoding = "utf-8-sig"  # reads what has no mark at its beginning, too
    except UnicodeError:
        encoding = "cp1252"  # what Excel writes in the west
    by = "" if mark == b"," else f", delimiter={mark.decode()!r}"
    return (
        "\nThis file looks like CSV: "
        f'file = open(path, encoding="{encoding}", newline=""), then '
        f"custom_rows.check(csv.DictReader(file{by})) reads it; pass the limits, too."
    )


def of_table(records) -> str:
    """How to get records out of what has them in another form; "" if it is iterable so.

    Nothing is read of it but the first of a mapping's values.
    """
    if isinstance(records, str | bytes | os.PathLike):
        return "This is text or a path: custom_rows.read(path) reads a file."
    if isinstance(records, Mapping):
        return _of_mapping(records)
    for way in ("to_dicts", "to_pylist"):  # polars, pyarrow
        if hasattr(records, way):
            return f"This is a table by columns: pass table.{way}()."
    if hasattr(records, "to_dict") and hasattr(records, "columns"):  # pandas
        return "This is a table by columns: pass table.to_dict('records')."
    return ""


def _of_mapping(records):
    if not records:
        return ""
    values = records.values()
    name, first = next(iter(records.items()))
    if all(isinstance(x, Mapping) and _is_record(x) for x in values):
        return "These are records by their names: pass list(table.values())."
    if any(isinstance(x, str) or not hasattr(x, "__iter__") for x in values):
        lists = [n for n, x in records.items() if _has_records(x)]
        if len(lists) == 1:  # beside words about the table
            return f"The records are a part of this: pass table[{lists[0]!r}]."
        return "This is one record: pass a list of them, [record]."
    is_table = hasattr(first, "column_names") or of_table(first)  # datasets, pandas
    if is_table or _has_records(first):
        return f"This is a table of splits: take a split, table[{name!r}]."
    return (
        "This is a dict of columns: pass "
        "[dict(zip(table, row)) for row in zip(*table.values())]."
    )


def _is_record(mapping):
    """Whether some value is text or a number, and not a column or a table."""
    values = mapping.values()
    return any(isinstance(x, str) or not hasattr(x, "__iter__") for x in values)


def _has_records(value):
    """Whether it is a list of objects, and not of a conversation's messages."""
    first = next(iter(value), None) if isinstance(value, list | tuple) else None
    return isinstance(first, Mapping) and "role" not in first
