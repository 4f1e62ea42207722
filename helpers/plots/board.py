"""TensorBoard, opened on a run's folder, and asked what it shows.

page = board.launch(folder)
board.scalars(page, "loss")
"""

import json
import logging
import pathlib
import time
import urllib.error
import urllib.parse
import urllib.request

READING = (
    30.0  # seconds in which TensorBoard, which reads beside us, has found a column
)


def launch(folder: pathlib.Path) -> str:
    """Opens TensorBoard on this machine, for as long as this process lives.

    Args:
      folder: of a run, with the event files that the trainer writes there.
    Returns:
      The address of its page.
    Raises:
      LookupError: it is not installed; says what to install.
    """
    try:
        from tensorboard import program
    except ImportError:
        raise LookupError("To open the run: pip install tensorboard") from None
    options = "--port", "0", "--load_fast", "false", "--logdir"
    board = program.TensorBoard()
    board.configure(argv=["", *options, str(folder)])
    logging.disable(logging.INFO)  # what its plugins say while they are loaded
    try:
        return board.launch()
    finally:
        logging.disable(logging.NOTSET)


def scalars(page: str, tag: str) -> list[tuple[int, float]]:
    """(step, value) of a column of the metrics, as the page draws it.

    Waits up to READING seconds while the page does not know the column.

    Args:
      page: from `launch`.
      tag: a column, such as "loss".
    Raises:
      LookupError: the run has no such column.
    """
    asked = urllib.parse.urlencode({"run": ".", "tag": tag})
    address = f"{page}data/plugin/scalars/scalars?{asked}"
    end = time.monotonic() + READING
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return [(step, value) for _, step, value in json.load(answer)]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        if time.monotonic() > end:
            raise LookupError(f"{page} shows no {tag!r}: has the run such a column?")
        time.sleep(0.2)
