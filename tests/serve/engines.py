"""Servers of models, each a process on a free port of this machine."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "golden")]

from scripts import serve  # noqa: E402

START = 1200.0  # seconds until a server answers, on a machine with other work


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def running(command, port, log, env=None):
    """Runs a server; gives its process, once it answers.

    Args:
      command: list of str; it listens on `port` of 127.0.0.1.
      log: pathlib.Path of its output.
      env: its environment; None: ours.
    """
    with open(log, "a") as output:
        server = subprocess.Popen(
            command,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that a kill reaches its workers, too
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield server
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _wait_for(address, server, log):
    deadline = time.monotonic() + START
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address)
            return
        except urllib.error.HTTPError:
            return  # it answers, if only that it does not know this page
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"The server does not run:\n{log.read_text()[-4000:]}")


@contextlib.contextmanager
def vllm(folder, log, *flags):
    """Runs vLLM on a folder as `make serve` does; gives process and address."""
    port, python = free_port(), serve.environment()
    command = serve.vllm_command(python, folder, "127.0.0.1", port, flags)
    with running(command, port, log, serve.settings()) as process:
        yield process, f"http://127.0.0.1:{port}"


def post(address, path, **body):
    """What a server answers, as JSON."""
    request = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=1200) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.read().decode()[:2000]}") from None
