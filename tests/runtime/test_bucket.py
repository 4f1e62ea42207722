"""Runs in a bucket, against an emulator of Google's storage in a process of its own.

What is in the bucket is asked of the emulator itself, past the code under test.
"""

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import simulated_devices
from toy_training import Rows, Toy, assert_same_weights, squared_error

if not os.environ.get("COURSE_CI"):  # there both must be installed
    pytest.importorskip("gcp_storage_emulator")
    pytest.importorskip("gcsfs")

from helpers.training.checkpoints import CheckpointError, Checkpoints
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

ROOT = Path(__file__).parents[2]


def settings(port):
    address = f"http://127.0.0.1:{port}"
    return {"STORAGE_EMULATOR_HOST": address, "TENSORSTORE_GCS_HTTP_URL": address}


@pytest.fixture(scope="module")
def port():
    """Of an emulator with the bucket `course`; gcsfs and TensorStore are told of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = [str(Path(__file__).with_name("gcs_emulator.py")), "start"]
    flags = ["--in-memory", "--quiet", "--host=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen(
        [sys.executable, *server, *flags, "--default-bucket=course"]
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings(port).items():
            patch.setenv(name, value)
        for _ in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield port
    process.kill()
    process.wait()


class Bucket:
    """The bucket `course` as its emulator tells of it."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}/storage/v1/b/course/o"

    def names(self, prefix):
        """Of all objects that begin so, in the order in which they were made."""
        asked = f"{self.address}?prefix={prefix}&maxResults=1000"
        with urllib.request.urlopen(asked) as answer:
            items = json.load(answer).get("items", [])
        return [item["name"] for item in sorted(items, key=lambda x: x["timeCreated"])]

    def delete(self, name):
        path = f"{self.address}/{urllib.parse.quote(name, safe='')}"
        urllib.request.urlopen(urllib.request.Request(path, method="DELETE"))


@pytest.fixture
def bucket(port):
    return Bucket(port)


def arrays(seed):
    rng = np.random.default_rng(seed)
    return {
        "['params']['layers']": jnp.asarray(rng.normal(size=(2, 30, 40)), jnp.float32),
        "['params']['half']": jnp.asarray(rng.normal(size=(5,)), jnp.bfloat16),
        "['optimizer'][0].count": jnp.asarray(seed, jnp.int32),
    }


def saved(run, *steps):
    checkpoints = Checkpoints(run)
    with checkpoints.locked():
        for step in steps:
            checkpoints.save(step, arrays(step), {"run": {}})
    return checkpoints


def restored(run):
    """The step that a fresh process would go on from, its arrays looked at."""
    checkpoints = Checkpoints(run)
    with checkpoints.locked():
        found, record = checkpoints.restore(arrays(0), {})
    for name, x in arrays(record["step"]).items():
        assert found[name].dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(x))
    return record["step"]


def test_the_emulator_holds_google_s_conditions(bucket):
    """What TensorStore relies on when two threads write one manifest."""

    def asks(query, data=None):
        upload = bucket.address.replace("/storage", "/upload/storage")
        address = f"{upload if data else bucket.address}{query}"
        try:
            with urllib.request.urlopen(address, data=data) as answer:
                return answer.status, answer.headers["X-Goog-Generation"]
        except urllib.error.HTTPError as error:
            return error.code, None

    create = "?uploadType=media&name=held&ifGenerationMatch="
    status, generation = asks(f"{create}0", b"first")
    assert status == 200 and int(generation) > 0
    assert asks(f"{create}0", b"second")[0] == 412
    read = "/held?alt=media&ifGenerationNotMatch="
    assert asks(f"{read}{generation}")[0] == 304
    assert asks(f"{read}7") == (200, generation)
    status, changed = asks(create + generation, b"second")
    assert status == 200 and changed != generation
    assert asks(read + generation) == (200, changed)
    bucket.delete("held")


def test_what_is_saved_comes_back_and_old_checkpoints_leave_nothing(bucket):
    checkpoints = saved("gs://course/kept", 1, 2, 3, 10)
    assert [path.name for path in checkpoints.all()] == ["00000003", "00000010"]
    assert restored("gs://course/kept") == 10
    steps = {name.split("/")[2] for name in bucket.names("kept/checkpoints/")}
    assert steps == {"00000003", "00000010"}
    assert bucket.names("kept/run.lock") == bucket.names("kept/access") == []


def test_whatever_a_kill_leaves_of_a_checkpoint_is_never_loaded(bucket):
    """Object by object from the last one back, as if the writer had died before it."""
    run, prefix = "gs://course/cut", "cut/checkpoints/00000002/"
    saved(run, 1, 2)
    written = bucket.names(prefix)
    assert written[-1].endswith("checkpoint.json") and len(written) > 6
    bucket.delete(written[-1])
    checkpoints = Checkpoints(run)
    for name in reversed(written[:-1]):
        assert [path.name for path in checkpoints.all()] == ["00000001"]
        assert checkpoints.restore(arrays(0), {})[1]["step"] == 1
        if name == written[len(written) // 2]:
            break
        bucket.delete(name)
    assert bucket.names(prefix)
    assert restored(run) == 1, "half is cleaned up when the run is taken up again"
    assert not bucket.names(prefix)
    saved(run, 2)
    assert restored(run) == 2


def test_an_object_that_is_missing_or_another_is_damage_with_a_name(bucket):
    run = "gs://course/damaged"
    saved(run, 1, 2)
    (data, *_) = bucket.names("damaged/checkpoints/00000002/arrays/ocdbt")
    bucket.delete(data)
    with pytest.warns(UserWarning, match="00000002 is damaged.*missing"):
        assert restored(run) == 1


WRITES = """
import sys
sys.path.insert(0, "tests/runtime")
from test_bucket import Checkpoints, arrays
checkpoints = Checkpoints("gs://course/killed")
with checkpoints.locked():
    for step in range(1, 1000):
        checkpoints.save(step, arrays(step), {"run": {}})
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_in_the_middle_of_a_checkpoint(bucket, port):
    paths = {"PYTHONPATH": simulated_devices.PATHS}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITES], env=os.environ | paths, cwd=ROOT
    )
    prefix = "killed/checkpoints/00000004/"
    while not (there := bucket.names(prefix)):
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    there = bucket.names(prefix)
    assert there and not any(name.endswith("checkpoint.json") for name in there)
    with pytest.warns(UserWarning, match=f"process {writer.pid} .*has not let go"):
        assert restored("gs://course/killed") == 3
    assert not bucket.names(prefix)


def trained(run, steps):
    """The model and the table of its run."""
    model = Toy()
    trainer = Trainer(
        model, squared_error, adamw(1e-2), folder=run, save_every=2, log=False
    )
    return model, trainer.fit(Rows(), steps)


def lines(rows):
    return [{k: x for k, x in row.items() if "second" not in k} for row in rows]


def test_a_run_goes_on_elsewhere_from_the_bucket_alone(bucket, tmp_path):
    """The logs, too: another machine has none of the files of the first."""
    model, table = trained(tmp_path, 5)
    trained("gs://course/moved", 3)
    again, rows = trained("gs://course/moved", 5)
    assert_same_weights(again, model)
    assert lines(rows) == lines(table)
    assert {"moved/metrics.jsonl", "moved/samples.jsonl"} <= {*bucket.names("moved/")}
    same, done = trained("gs://course/moved", 5)
    assert lines(done) == lines(table)
    with pytest.raises(CheckpointError, match="nothing can be moved in a bucket"):
        Trainer(
            Toy(), squared_error, adamw(1e-2), folder="gs://course/moved", fresh=True
        ).fit(Rows(), 5)


def test_whoever_comes_last_has_the_run(bucket):
    first, last = Checkpoints("gs://course/taken"), Checkpoints("gs://course/taken")
    with first.locked():
        first.save(1, arrays(1), {"run": {}})
        with pytest.warns(UserWarning, match="has not let go"), last.locked():
            with pytest.raises(CheckpointError, match="taken over by process"):
                first.save(2, arrays(2), {"run": {}})
            last.save(2, arrays(2), {"run": {}})
        with pytest.raises(CheckpointError, match="taken over by nobody"):
            first.save(3, arrays(3), {"run": {}})
    assert restored("gs://course/taken") == 2


def test_a_bucket_that_is_not_there_is_said_before_anything_is_trained(port):
    with pytest.raises(CheckpointError, match="gs://nowhere/run cannot be used"):
        trained("gs://nowhere/run", 2)


class Refuses(http.server.BaseHTTPRequestHandler):
    """Tells everybody that they may not."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = b'{"error": {"code": 403, "message": "you may not write here"}}'
        self.send_response(403)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass


BEGINS = """
from helpers.runtime import bucket
from helpers.training.checkpoints import Checkpoints
bucket.SECONDS = 4.0
with Checkpoints("gs://course/refused").locked():
    print("trains")
"""


@pytest.mark.slow
def test_wrong_credentials_and_no_network_are_said_before_anything_is_trained():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BEGINS],
            env=os.environ | settings(port) | {"PYTHONPATH": simulated_devices.PATHS},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for port in (server.server_address[1], nobody)
    ]
    refused, unreachable = (
        process.communicate(timeout=120)[0] for process in processes
    )
    server.shutdown()
    for said in (refused, unreachable):
        assert "trains" not in said and "CheckpointError" in said
        assert "credentials (`gcloud auth" in said
    assert "you may not write here" in refused
    assert "TimeoutError" in unreachable
