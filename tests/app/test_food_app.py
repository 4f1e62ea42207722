"""The food app as it is served: to many at once, to this machine, with Gradio 6."""

import concurrent.futures
import re
import socket
import sys

import gradio_client
import numpy as np
import pytest
from PIL import Image
from scripted_backend import Scripted

from helpers.app import food_app, meal_log
from helpers.app.food_models import Choice
from helpers.app.food_page import NOBODY

SESSIONS = 20


@pytest.fixture
def page(tmp_path):
    models = {
        name: Choice(lambda name=name: Scripted(name, name), "scripted")
        for name in ("pizza", "ramen")
    }
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    return food_app.app(models, log=log)


@pytest.fixture
def address(page, monkeypatch):
    """The page as it is served, with nothing outside this machine to be reached."""
    connect = socket.socket.connect

    def only_here(self, place):
        assert place[0] in ("127.0.0.1", "localhost", "::1"), f"reaches for {place}"
        return connect(self, place)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    yield food_app.launch(page)
    page.close()


def text(html):
    return re.sub("<[^>]*>", " ", html)


@pytest.mark.slow
def test_twenty_sessions_at_once_do_not_mix(address, tmp_path):
    def session(number):
        path = tmp_path / f"{number}.png"
        Image.fromarray(np.full((10 + number, 40, 3), number, np.uint8)).save(path)
        client = gradio_client.Client(address, verbose=False)
        said = []
        for grams in (100 + number, 200 + number):
            question = f"How many kcal are in {grams} g of this?"
            file = gradio_client.handle_file(str(path))
            model = "pizza" if number % 2 else "ramen"
            said.append(client.predict(file, question, model, NOBODY, api_name="/ask"))
        return number, text(said[0][0]), text(said[1][0])

    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        for number, first, second in pool.map(session, range(SESSIONS)):
            food = "pizza" if number % 2 else "ramen"
            assert f"in {100 + number} g of {food}." in first
            for grams in (100 + number, 200 + number):
                assert f"in {grams} g of {food}." in second, "its own past"
            assert len(re.findall("There are", second)) == 2, "and nobody else's"
            assert set(re.findall(r"in 40 x (\d+)", second)) == {str(10 + number)}
    assert address.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_the_page_is_of_this_machine_alone(address, page):
    config = page.config
    assert config["analytics_enabled"] is False and not config.get("is_space")
    styles = page.theme_css + page.css
    assert ".food-answer" in styles, "the page's own look is there"
    outside = re.findall(r"""@import|url\(["']?(?:https?:|//)""", styles)
    assert not outside, "no outside fonts"
    port = int(address.rsplit(":", 1)[1].strip("/"))
    mine = socket.gethostbyname_ex(socket.gethostname())[2]
    for place in (place for place in mine if not place.startswith("127.")):
        with socket.socket() as probe:
            assert probe.bind((place, port)) is None, "only localhost is listened at"


def test_without_gradio_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match=r"pip install -U 'gradio>=6\.0'"):
        food_app.app({})


def test_an_old_gradio_is_refused(monkeypatch):
    import gradio

    monkeypatch.setattr(gradio, "__version__", "5.50.0")
    with pytest.raises(ImportError, match=r"6\.0 or newer.* gradio 5\.50\.0 is older"):
        food_app.app({})


def test_examples_are_drawn():
    rows = food_app.example_rows(3)
    assert [row["image"].shape for row in rows] == [(48, 48, 3)] * 3
    assert [row["level"] for row in rows] == sorted(row["level"] for row in rows)
