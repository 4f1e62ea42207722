"""Keeps the compiled programs that notebook 01 profiles where libtpu is missing.

python -m scripts.keep_programs
"""

import gzip
import sys
from importlib import util

from helpers.tpu import example
from scripts import tpu_check


def main() -> int:
    """Compiles both, and writes them into data/programs."""
    if not util.find_spec("libtpu"):
        return tpu_check.with_compiler("scripts.keep_programs")
    example.FOLDER.mkdir(exist_ok=True)
    for again in (False, True):
        text = example.compiled(again).replace(str(tpu_check.ROOT), "/course")
        # Without a time in it the file is the same whenever it is written.
        example.file(again).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
