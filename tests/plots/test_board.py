"""TensorBoard shows the numbers that the trainer has in its table."""

import contextlib
import http.server
import sys
import threading

import numpy as np
import pytest
from toy_training import Rows, Toy, squared_error

from helpers.plots import board
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer


def test_the_page_shows_what_the_table_holds(tmp_path):
    pytest.importorskip("tensorboard")
    trainer = Trainer(Toy(), squared_error, adamw(1e-2), folder=tmp_path, log=False)
    table = trainer.fit(Rows(), 4)
    page = board.launch(tmp_path)
    for column in "loss", "grad_norm":
        shown = board.scalars(page, column)
        assert [step for step, _ in shown] == [1, 2, 3, 4]
        expected = [row[column] for row in table]
        np.testing.assert_allclose([x for _, x in shown], expected, rtol=1e-6)


def test_without_tensorboard_one_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(LookupError, match="pip install tensorboard"):
        board.launch(tmp_path)


@contextlib.contextmanager
def page_that_says(*answers):
    """A server that gives these answers in turn, the last one for ever; its address.

    Args:
      answers: bodies; None: 404, as TensorBoard says of what it has not read yet.
    """
    left = list(answers)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(b"" if body is None else body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_what_is_not_read_yet_is_waited_for():
    with page_that_says(None, None, b"[[9.0, 1, 0.5], [9.1, 2, 0.25]]") as page:
        assert board.scalars(page, "loss") == [(1, 0.5), (2, 0.25)]


def test_a_column_that_never_comes_is_named(monkeypatch):
    monkeypatch.setattr(board, "READING", 0.3)
    with page_that_says(None) as page:
        with pytest.raises(LookupError, match="shows no 'los'"):
            board.scalars(page, "los")
