"""A function sent through Kinetic, with a folder for its bucket; see handover.py.

Kinetic packs the function, its arguments and the code beside it, uploads them, and asks
Kubernetes for a pod that runs them. Here the bucket is a folder, the answer to its
request is that the pod's own program runs on this machine, and nothing else is changed.
"""

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

from kinetic.runner import remote_runner

CODE = """
def scores(texts, answers):
    import helpers
    from helpers.rewards import correct

    return helpers.__file__, correct(texts, texts, answers)
"""
PLACE = {"project": "my-project", "zone": "us-central1-a", "cluster": "my-cluster"}


class Bucket:
    """A bucket of Cloud Storage, of which a folder plays the part."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def bucket(self, name):
        return Bucket(self.folder / name)

    def blob(self, name):
        return Blob(self.folder / name)


class Blob:
    """A file of it."""

    def __init__(self, file):
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def upload_from_filename(self, file, **_):
        shutil.copy(file, self.file)

    def upload_from_string(self, text, **_):
        self.file.write_text(text)

    def download_to_filename(self, file, **_):
        shutil.copy(self.file, file)


class Cluster:
    """Kubernetes' jobs: it keeps what it is asked for, and starts nothing."""

    def create_namespaced_job(self, namespace, body):
        self.job = body
        return body


def pod():
    """What runs in the pod: Kinetic's own program."""
    folder = sys.argv[2]
    sys.argv[1:] = sys.argv[3:]
    remote_runner.storage.Client = lambda: Bucket(folder)
    remote_runner.main()


def refusal(scores):
    """What Kinetic says on a machine without the tools of Google Cloud."""
    path, os.environ["PATH"] = os.environ["PATH"], ""
    try:
        scores([], [])
    except RuntimeError as error:
        return str(error)
    finally:
        os.environ["PATH"] = path
    raise AssertionError("Kinetic sent a job without Google Cloud's tools")


def send(scores, asked, folder):
    """The job that Kinetic asks Kubernetes for, its artifacts in `folder`."""
    from kinetic.backend import execution, gke_client, k8s_utils
    from kinetic.utils import storage

    cluster = Cluster()
    execution.ensure_credentials = lambda **_: None
    k8s_utils.validate_preflight = lambda **_: None
    gke_client._batch_v1 = lambda: cluster
    storage.upload_artifacts = upload_to(folder)
    storage.upload_handle = lambda *_, **__: None
    scores.run_async(asked["texts"], asked["answers"])
    return cluster.job


def upload_to(folder):
    """`storage.upload_artifacts`, into a folder."""

    def upload(*, bucket_name, job_id, payload_path, context_path, **_):
        bucket = Bucket(folder).bucket(bucket_name)
        bucket.blob(f"{job_id}/payload.pkl").upload_from_filename(payload_path)
        bucket.blob(f"{job_id}/context.zip").upload_from_filename(context_path)

    return upload


def main():
    """Sends the function of the file of the command line, and runs its pod."""
    import cloudpickle
    import kinetic
    from kinetic.core import accelerators

    asked = json.loads(pathlib.Path(sys.argv[1]).read_text())
    here = pathlib.Path(asked["out"]).parent
    project, folder = here / "sent", here / "bucket"
    shutil.copytree(asked["course"], project / "helpers")
    (project / "job.py").write_text(CODE)
    sys.path.insert(0, str(project))
    import job

    scores = kinetic.run(accelerator="tpu-v5e-8", container_image="course", **PLACE)(
        job.scores
    )
    refused = refusal(scores)
    made = send(scores, asked, folder)
    spec = made.spec.template.spec
    (worker,) = spec.containers
    command = [sys.executable, __file__, "pod", str(folder), *worker.args]
    alone = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    subprocess.run(command, check=True, cwd=folder, env=alone, capture_output=True)
    result = Bucket(folder).blob(worker.args[5].removeprefix("gs://")).file
    back = cloudpickle.loads(result.read_bytes())
    found = {
        "version": importlib.metadata.version("keras-kinetic"),
        "refused": refused,
        "back": back["result"],
        "labels": spec.node_selector,
        "chips": worker.resources.limits["google.com/tpu"],
        "largest": {name: max(x.topologies) for name, x in accelerators.TPUS.items()},
        "sent_mb": sum(f.stat().st_size for f in folder.rglob("*.zip")) / 1e6,
    }
    pathlib.Path(asked["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    pod() if sys.argv[1] == "pod" else main()
