"""The check of vLLM notices a server that does not do what it was told."""

import engines  # noqa: F401  (puts the folders of the next one on the path)
import pytest
import vllm_check

BASE, MINE = [[1, 2], [3, 4], [5]], [[1, 2], [3, 9], [6]]


def row(what, value, n):
    return value, n


def told_apart(monkeypatch, said, ours=(BASE, MINE)):
    """What the check says of a server that answers so by each name."""
    monkeypatch.setattr(vllm_check, "complete", lambda _, name, i: said[name][i])
    return vllm_check.told_apart(row, None, ("base", "mine"), ours, range(3))


def test_a_server_with_the_adapter_is_told_from_one_that_ignores_it(monkeypatch):
    assert told_apart(monkeypatch, {"base": BASE, "mine": MINE}) == (2, 3)
    for said in (BASE, MINE):  # ignored, or applied to everybody
        with pytest.raises(AssertionError):
            told_apart(monkeypatch, {"base": said, "mine": said})


def test_an_adapter_that_changes_nothing_is_no_check(monkeypatch):
    with pytest.raises(AssertionError, match="nothing would be noticed"):
        told_apart(monkeypatch, {"base": BASE, "mine": BASE}, (BASE, BASE))
