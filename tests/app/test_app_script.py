"""`make app`: models stand on the command line, keys do not."""

import pytest

from helpers.app import models, page
from scripts import app

SERVER = ["--server", "the teacher", "http://127.0.0.1:9/v1", "big"]


@pytest.fixture
def opened(monkeypatch):
    """What is launched, and how."""
    calls = []
    monkeypatch.setattr(page, "app", lambda choices: choices)
    monkeypatch.setattr(
        page, "launch", lambda *shown, **how: calls.append([shown, how])
    )
    return calls


def test_servers_stand_beside_the_courses_models(opened, monkeypatch):
    monkeypatch.setenv("TEACHERS_KEY", "secret")
    words = [*SERVER, "TEACHERS_KEY", "--server", "b", "http://b/v1", "small"]
    app.main(["--port", "7000", *words])
    (((choices,), how),) = opened
    assert list(choices) == [*models.STUDENTS, "the teacher", "b"]
    backend, other = choices["the teacher"].make(), choices["b"].make()
    assert (backend.base_url, backend.model) == ("http://127.0.0.1:9/v1", "big")
    assert backend.key == "secret", "that of the environment"
    assert choices["the teacher"].seen == models.UNKNOWN
    assert "secret" not in repr(choices["the teacher"])
    assert other.key == "" and other.model == "small"
    assert how == {"host": "127.0.0.1", "port": 7000, "share": False, "wait": True}
