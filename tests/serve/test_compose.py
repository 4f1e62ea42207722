"""docs/compose.yaml: nothing is open that need not be, and its commands run."""

import contextlib
import os
import re
import subprocess
import sys
import time

import engines
import gradio_client
import pytest
import yaml
from PIL import Image

from helpers.app import page
from scripts import serve

FILE = engines.ROOT / "docs" / "compose.yaml"
START = 300.0  # seconds until a server is healthy


def composed(**given):
    """The file as Compose reads it, with these variables and no others."""
    text = re.sub(
        r"(?<!\$)\$\{(\w+):-([^}]*)\}",
        lambda match: given.get(match[1], match[2]),
        FILE.read_text("utf-8"),
    )
    return yaml.safe_load(text.replace("$$", "$"))


SERVICES = composed()["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_do_little(name):
    service = SERVICES[name]
    uid, _, group = service["user"].partition(":")
    assert int(uid) > 0 and int(group) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "nobody but this machine is let in"
    for volume in service["volumes"]:
        assert volume.endswith(":ro") or volume == "diary:/diary"
    assert service["healthcheck"]["test"][0] == "CMD"
    assert not {"privileged", "cap_add", "devices", "pid"} & set(service)


def test_only_the_page_leaves_the_network():
    app, server = SERVICES["app"], SERVICES["server"]
    assert app["network_mode"] == "service:server" and "ports" not in app
    assert [port.rpartition(":")[2] for port in server["ports"]] == ["7860"]
    assert "--host" not in server["command"], (
        "it listens where its app is, and only there"
    )
    assert app["depends_on"] == {"server": {"condition": "service_healthy"}}
    exposed = composed(HOST="0.0.0.0", PORT="80")["services"]["server"]
    assert exposed["ports"] == ["0.0.0.0:80:7860"]


def test_the_image_takes_what_there_is():
    recipe = SERVICES["server"]["build"]["dockerfile_inline"]
    copied = re.findall(r"^COPY (.*) \S+$", recipe, re.MULTILINE)
    for source in " ".join(copied).split():
        assert (engines.ROOT / source).exists(), source
    assert recipe.rstrip().endswith("USER 1000")
    assert "serve.environment()" in recipe and callable(serve.environment)


def here(words, ports):
    """A command of the file as it runs on this machine, without a container."""
    models = str(engines.ROOT / "data" / "tiny")
    command = []
    for word in words:
        if word.startswith("/models"):
            word = models + word.removeprefix("/models")
        for old, new in ({"0.0.0.0": "127.0.0.1"} | ports).items():
            word = word.replace(old, new)
        command.append(sys.executable if word == "python" else word)
    return command


def healthy(service, ports):
    """Whether a service's check is passed now."""
    check = here(service["healthcheck"]["test"][1:], ports)
    return not subprocess.run(check, capture_output=True).returncode


@contextlib.contextmanager
def running(service, ports, folder):
    """A service's command, healthy by its check, with the service's environment."""
    assert not healthy(service, ports), "it cannot be healthy before it has begun"
    places = {"/diary": str(folder / "diary"), "/tmp": str(folder)}
    given = {name: places[place] for name, place in service["environment"].items()}
    log, deadline = folder / "log", time.monotonic() + START
    with open(log, "a") as file:
        process = subprocess.Popen(
            here(service["command"], ports),
            env=os.environ | given | {"PYTHONPATH": str(engines.ROOT)},
            stdout=file,
            stderr=file,
        )
    try:
        while not healthy(service, ports):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(1)
        yield
        assert process.poll() is None, "it goes on"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_the_apps_command_serves_the_page_which_asks_the_server(tmp_path):
    services = composed(MODEL="food_grpo")["services"]
    ports = {port: str(engines.free_port()) for port in ("8000", "7860")}
    plate = page.example_rows()[0]
    Image.fromarray(plate["image"]).save(tmp_path / "plate.png")
    with contextlib.ExitStack() as both:
        both.enter_context(running(services["app"], ports, tmp_path))
        client = gradio_client.Client(
            f"http://127.0.0.1:{ports['7860']}", verbose=False
        )
        file = gradio_client.handle_file(str(tmp_path / "plate.png"))
        inputs = file, page.QUESTION, "food_grpo, on the server"
        text = client.predict(*inputs, api_name="/ask")
        assert f"Nothing answers at http://127.0.0.1:{ports['8000']}/v1" in text
        both.enter_context(running(services["server"], ports, tmp_path))
        text = client.predict(*inputs, api_name="/ask")
        (food,) = plate["foods"]
        assert re.search(rf"There are \d+ kcal in 150 g of {food}\.", text)
