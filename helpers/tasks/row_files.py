"""Files and tables of rows to plain records; the libraries do the reading.

What a file holds is told by its first bytes where it has any (gzip, parquet, Arrow),
else by its ending.
"""

import gzip
import io
import json
import pathlib
import re
import warnings
from collections.abc import Mapping

from helpers.tasks.row_shapes import NAMES, Unusable, is_conversation

UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # "Unicode text" of Excel
ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".gz")


def of_file(path: pathlib.Path):
    """(place, record or Unusable) of a file, see `custom_rows.read`."""
    data, kind = path.read_bytes(), path.suffix.lower()
    if data.startswith(b"\x1f\x8b"):
        data, kind = gzip.decompress(data), path.with_suffix("").suffix.lower()
    if data.startswith(b"PK"):
        raise ValueError(
            f"{path} is a zip or Excel file. Unpack it, or save its table as CSV."
        )
    if table := _arrow_table(data):
        return _numbered(of_table(table))
    if kind in (".csv", ".tsv"):
        return _of_csv(data, "\t" if kind == ".tsv" else ",;\t|")
    return _of_json(data, is_whole=kind == ".json")


def of_hub(name: str):
    """(place, record) of a data set of the hub: its train split, or its first one.

    Args:
      name: "owner/name", or "owner/name/configuration" where there are several.
    """
    import datasets  # takes seconds to import, and only this needs it

    owner, title, *configuration = name.split("/")
    try:
        table = datasets.load_dataset(f"{owner}/{title}", *configuration)
    except (ValueError, OSError) as error:
        raise ValueError(
            f'{name} is no file. On the hub it needs a name as in "openai/gsm8k/main", '
            f"and internet. {error}"
        ) from error
    return _numbered(of_table(table))


def of_table(table):
    """The records of a table in any form, as an iterable.

    Args:
      table: dicts; a table of `datasets`, pandas, polars or pyarrow; a dict of columns;
        or what a JSON file holds, with pandas' orientations.
    """
    if isinstance(table, str | bytes | pathlib.Path):
        raise ValueError("check takes records: call custom_rows.read to read a file.")
    for method in ("to_dicts", "to_pylist"):  # polars, pyarrow
        if hasattr(table, method):
            return map(_filled, getattr(table, method)())
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        return map(_filled, table.to_dict("records"))
    if hasattr(table, "features"):  # datasets
        return map(_filled, table)
    return _of_object(table) if isinstance(table, Mapping) else table


def _of_object(table):
    """The records of one JSON object: rows under a name, columns, or a single one."""
    import pandas  # takes a second to import

    values = list(table.values())
    ours = {"chosen", *NAMES, *(name for names in NAMES.values() for name in names)}
    is_record = any(isinstance(table.get(name), str) for name in ours)
    if is_record or any(map(is_conversation, values)):
        return [table]
    for part in (table.get("train"), *values):  # splits, or rows with a title
        is_rows = isinstance(part, list) and part and isinstance(part[0], Mapping)
        if is_rows or hasattr(part, "features"):
            return of_table(part)
    if not any(all(isinstance(x, kind) for x in values) for kind in (list, Mapping)):
        return [table]
    frame = pandas.DataFrame(table, dtype=object)
    frame = frame.T if ours & {*frame.index} else frame  # records under their labels
    return frame.to_dict("records")


def _filled(value):
    """A value of a table without what its format adds: nulls in objects, and arrays.

    A table gives every object the fields of all others, empty ones as null.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_filled(x) for x in value]
    if isinstance(value, Mapping):
        return {name: _filled(x) for name, x in value.items() if x is not None}
    return value


def _numbered(records):
    return [(f"row {number}", record) for number, record in enumerate(records, 1)]


def _arrow_table(data):
    """The table of a parquet file, an Arrow file or an Arrow stream; else None."""
    import pyarrow
    import pyarrow.parquet

    if data.startswith(b"PAR1"):
        return pyarrow.parquet.read_table(io.BytesIO(data))
    if data.startswith(b"ARROW1"):
        return pyarrow.ipc.open_file(data).read_all()
    if data.startswith(b"\xff\xff\xff\xff"):
        return pyarrow.ipc.open_stream(data).read_all()
    return None


def _of_json(data, is_whole):
    """(place, record or Unusable) of JSON Lines, or of one JSON value."""
    # Bytes that are no text become half characters, which no row may have.
    text = data.decode(json.detect_encoding(data[:64]), errors="surrogateescape")
    lines = [(f"line {n}", x) for n, x in enumerate(text.split("\n"), 1) if x.strip()]
    first = _parsed(lines[0][1]) if lines else None
    if is_whole or len(lines) == 1 or not isinstance(first, Mapping):
        whole = _parsed(text)  # an array, or one object on many lines
        whole = [whole] if is_conversation(whole) else whole
        if isinstance(whole, list | Mapping):
            return _numbered(of_table(whole))
    return [(place, _parsed(line)) for place, line in lines]


def _parsed(text):
    """The value of a JSON text, or an Unusable."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except Unusable as error:
        return error
    except (ValueError, RecursionError):
        return Unusable("no JSON")


def _no_number(name):
    raise Unusable(f"no JSON: {name} is not one of its numbers, write null")


def _of_csv(data, separators):
    """(place, record or Unusable) of a table with a header; every cell is text."""
    import pandas  # takes a second to import, and only CSV needs it

    try:
        text = data.decode("utf-16" if data[:2] in UTF_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        # Excel's for the west, and that of Central Europe, where à may be ŕ.
        text, other = (data.decode(x, errors="replace") for x in ("cp1252", "cp1250"))
        # Letters beyond ASCII are few there. Ž is the é of a Mac, ³ and ¿ are letters
        # of Polish, and Ã is that of broken UTF-8.
        strange = "\ufffd|[ŠšŽž]|Ã[\xa0-\xbf]|â€|[^\x00-\x7f–—…•]{4}"
        if re.search(strange + r"|[¹³¼¾][^\W\d]|[a-z]¿", text):
            raise ValueError(
                "The table has another encoding: save it as CSV UTF-8."
            ) from error
        both = zip(text.split("\n"), other.split("\n"), strict=True)
        if unsure := [line for line, its in both if line != its]:
            warnings.warn(
                f"The table is not in UTF-8 and is read as Western European, such as "
                f"{unsure[0][:60]!r}. If letters are wrong, save it as CSV UTF-8.",
                stacklevel=2,
            )
    text = re.sub(r"\A[\r\n]*(sep=.[\r\n]+)?", "", text)  # Excel's first line
    header = text.partition("\n")[0]
    too_long: list[list[str]] = []
    table = pandas.read_csv(
        io.StringIO(text, newline=None),  # an old Mac's line ends in \r
        sep=max(separators, key=header.count),
        dtype=str,  # automatic types turn 00501 into 501
        keep_default_na=False,  # NA may be a word
        na_values=["NULL", "\\N", "NaN", "nan", "<NA>"],  # of SQL and of pandas
        index_col=False,
        engine="python",
        on_bad_lines=too_long.append,
    )
    reason = "more values than the header has names: put texts with commas in quotes"
    bad = [(f"{row[0][:20]!r}…", Unusable(reason)) for row in too_long]
    return _numbered(table.to_dict("records")) + bad


def split_files(folder, split: str, inner: str) -> list[pathlib.Path]:
    """The files of one split in a folder, or in its folder `inner`, all of them.

    Returns:
      One file `train.jsonl` or `train.parquet`, or the shards of the hub, such as
      `train-00000-of-00001.parquet`.
    Raises:
      FileNotFoundError: there are none, or not all shards of one set.
    """
    names = (f"{split}.jsonl", f"{split}.parquet", f"{split}-*.parquet")
    folder = pathlib.Path(folder)
    for path in (place / name for place in (folder, folder / inner) for name in names):
        if paths := sorted(path.parent.glob(path.name)):
            break
    else:
        raise FileNotFoundError(
            f"{folder} has no {split} split: neither it nor {inner} in it holds "
            f"{split}.parquet or {split}-00000-of-00001.parquet. Pass the folder that "
            "does, or none to load it from the hub."
        )
    parts = [re.search(r"-(\d+)-of-(\d+)\.", path.name) for path in paths]
    places = sorted((int(part[2]), int(part[1])) for part in parts if part)
    if places and places != [(len(paths), place) for place in range(len(paths))]:
        raise FileNotFoundError(
            f"{folder} holds {[path.name for path in paths]}: files of several sets or "
            "not all of one. Leave one whole set there: a part of a table is not its "
            "sample."
        )
    return paths
