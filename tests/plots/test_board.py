"""TensorBoard shows the numbers that the trainer has in its table."""

import sys

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
