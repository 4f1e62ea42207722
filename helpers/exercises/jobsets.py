"""Self-check of notebook 13b: chips that a JobSet asks for, and those there are."""

import copy

from helpers.exercises.check import Check, check_properties, leaves_alone
from helpers.handover import Order, jobset

ORDER = {
    "name": "grpo-70b",
    "model": "llama3.1-70b",
    "tokenizer": "meta-llama/Llama-3.1-70B-Instruct",
    "slice": "v5p-128",
    "image": "europe-docker.pkg.dev/mine/course/maxtext:1",
    "bucket": "gs://my-bucket/rl",
    "algorithm": "grpo",
    "cluster": "tpus",
    "project": "my-project",
    "zone": "us-east5-a",
}

_CHIPS = {"v5litepod-8": 8, "v5litepod-16": 16, "v6e-8": 8, "v5p-8": 4, "v5p-128": 64}


def manifests() -> dict[str, dict]:
    """Three manifests for three slices; one of them asks for what is not there."""
    names = {"A": "v5litepod-8", "B": "v5p-128", "C": "v6e-8"}
    found = {key: jobset(Order(**ORDER | {"slice": s})) for key, s in names.items()}
    (wrong,) = found["B"]["spec"]["replicatedJobs"]
    wrong["template"]["spec"] |= {"parallelism": 64, "completions": 64}
    return found


def check_chips(answer) -> Check:
    """Chips that a JobSet asks for, beside those of the slices that it names."""
    good = {name: jobset(Order(**ORDER | {"slice": name})) for name in _CHIPS}

    def changed(name, **values):
        return _changed(good[name], **values)

    def both(*names):
        """One manifest with the jobs of several."""
        jobs = [good[name]["spec"]["replicatedJobs"][0] for name in names]
        return {"spec": {"replicatedJobs": copy.deepcopy(jobs)}}

    def told(manifest):
        return tuple(answer(manifest))

    return check_properties(
        ("give two numbers", lambda: len(answer(good["v5p-8"])) == 2),
        (
            "find 4 chips asked for and 4 there where one host has a 2x2x1 slice",
            lambda: told(good["v5p-8"]) == (4, 4),
        ),
        (
            "multiply the sides of a topology: 4x4x4 is 64 chips",
            lambda: told(good["v5p-128"])[1] == 64,
        ),
        (
            "count every pod of a job, not one",
            lambda: told(good["v5litepod-16"])[0] == 16,
        ),
        (
            "see it when pods are as many as chips instead of hosts",
            lambda: told(changed("v6e-8", parallelism=8)) == (32, 8),
        ),
        (
            "see it when a pod asks for other chips than its host has",
            lambda: told(changed("v5p-128", limit="8")) == (128, 64),
        ),
        (
            "count each copy of a job: two replicas are two slices",
            lambda: told(changed("v5litepod-16", replicas=3, limit="2")) == (24, 48),
        ),
        (
            "add up the jobs of a manifest",
            lambda: told(both("v5p-128", "v6e-8", "v5p-8")) == (76, 76),
        ),
        (
            "be right for all slices of the table",
            lambda: all(told(good[name]) == (n, n) for name, n in _CHIPS.items()),
        ),
        (
            "leave the manifest as it is",
            lambda: leaves_alone(answer, jobset(Order(**ORDER))),
        ),
    )


def _changed(manifest, replicas=1, parallelism=None, limit=None):
    """A copy whose first job has other numbers, and a helper beside it."""
    manifest = copy.deepcopy(manifest)
    (job,) = manifest["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    pods["template"]["spec"]["containers"].append({"name": "logs", "image": "i"})
    job["replicas"] = replicas
    pods["parallelism"] = parallelism or pods["parallelism"]
    limits = container["resources"]["limits"]
    limits["google.com/tpu"] = limit or limits["google.com/tpu"]
    return manifest
