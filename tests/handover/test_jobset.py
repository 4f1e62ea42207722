"""Manifests against the published schema of JobSet, where it can be found.

COURSE_JOBSET_SCHEMA names the file `jobset.x-k8s.io_jobsets.yaml` of the JobSet project
(config/components/crd/bases); it is not part of this repository.
"""

import copy
import os
import pathlib

import jsonschema
import pytest
import yaml
from handover_orders import OWN, order

from helpers.handover.jobset import as_text, jobset
from helpers.handover.orders import SLICES, Order
from helpers.tpu import topology

SCHEMA = pathlib.Path(
    os.environ.get("COURSE_JOBSET_SCHEMA")
    or pathlib.Path(__file__).parents[3]
    / "shared"
    / "schemas"
    / "jobset.x-k8s.io_jobsets.yaml"
)


@pytest.fixture(scope="module")
def validator():
    if not SCHEMA.is_file():
        pytest.skip(f"no schema in {SCHEMA}: set COURSE_JOBSET_SCHEMA to its file")
    (version,) = yaml.safe_load(SCHEMA.read_text())["spec"]["versions"]
    return jsonschema.Draft7Validator(strict(version["schema"]["openAPIV3Schema"]))


def strict(schema):
    """The schema with unknown fields refused: a cluster drops them without a word."""
    if isinstance(schema, dict):
        schema = {name: strict(part) for name, part in schema.items()}
        known = schema.get("properties")
        if isinstance(known, dict) and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [strict(part) for part in schema]
    return schema


@pytest.mark.parametrize("slice_", SLICES)
def test_a_manifest_is_what_the_schema_wants(validator, slice_):
    made = yaml.safe_load(as_text(jobset(order(slice=slice_))))
    validator.validate(made)


@pytest.mark.parametrize(
    "where, value",
    [
        (("spec", "replicatedJobs", 0, "replicas"), "1"),
        (("spec", "replicatedJob"), []),
        (("spec", "failurePolicy", "maxRestart"), 4),
        (("spec", "replicatedJobs", 0, "template", "spec", "parallelism"), "16"),
    ],
)
def test_the_schema_finds_what_is_wrong(validator, where, value):
    made = copy.deepcopy(jobset(order()))
    place = made
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = value
    assert not validator.is_valid(made)


@pytest.mark.parametrize("name, kind", SLICES.items())
def test_hosts_and_chips_of_a_slice_are_those_of_its_topology(name, kind):
    generation = {"v5litepod": "v5e"}.get(name.split("-")[0], name.split("-")[0])
    cores = 2 if generation == "v5p" else 1
    chips = kind.hosts * kind.chips_per_host
    assert chips == int(name.split("-")[1]) // cores
    shape = [int(n) for n in kind.topology.split("x")]
    product = 1
    for n in shape:
        product *= n
    assert product == chips
    there = topology.named(f"{generation}:{kind.topology}")
    assert there.chips == chips


def test_every_host_runs_one_pod_that_takes_all_its_chips():
    for row, hosts, chips in ((order(), 16, "4"), (Order(**OWN), 2, "4")):
        (job,) = jobset(row)["spec"]["replicatedJobs"]
        inner = job["template"]["spec"]
        assert inner["parallelism"] == inner["completions"] == hosts
        (container,) = inner["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["google.com/tpu"] == chips
