"""Orders: nothing that is a command in a shell, or another thing in YAML, gets through.

COURSE_JOBSET_SCHEMA names the file `jobset.x-k8s.io_jobsets.yaml` of the JobSet project
(config/components/crd/bases); it is not part of this repository.
"""

import math
import os
import pathlib
import re
import shlex

import jsonschema
import pytest
import yaml
from handover_orders import LLAMA, QWEN, order
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.handover.manifests import (
    _PATH,
    CHOICES,
    PATTERNS,
    SLICES,
    Order,
    OrderRefused,
    as_text,
    jobset,
    pathways_command,
)
from helpers.tpu import topology

SCHEMA = pathlib.Path(
    os.environ.get("COURSE_JOBSET_SCHEMA")
    or pathlib.Path(__file__).parents[3]
    / "shared"
    / "schemas"
    / "jobset.x-k8s.io_jobsets.yaml"
)
HOSTILE = ["a b", "a;reboot", 'a"b', "$(reboot)", "`reboot`", "a|b", "a\n", "a: b"]
HOSTILE += ["{a}", "*a", "# a", "--flag", "../a", "a/../b", "ａ", "", "a\x00"]


@pytest.mark.parametrize("field", LLAMA)
def test_hostile_values_are_refused_in_every_field(field):
    for value in [*HOSTILE, None]:
        with pytest.raises(OrderRefused, match=field):
            order(**{field: value})


def test_what_is_no_text_in_yaml_is_refused_and_what_begins_like_a_number_is_not():
    for value in ("on", "no", "null", "12", "2024-01-01", "0x1F"):
        assert not isinstance(yaml.safe_load(value), str)
        with pytest.raises(OrderRefused, match="no text in YAML"):
            order(tokenizer=value)
    for value in ("1.5b-chat", "4chan", "org/12", "2e-model"):
        assert isinstance(yaml.safe_load(value), str)
        assert order(tokenizer=value).tokenizer == value


@pytest.mark.parametrize(
    "field, value, why",
    [
        ("slice", "v5p-127", "v5p-128"),
        ("algorithm", "ppo", "gspo-token"),
        ("bucket", "s3://my-bucket", "gs://"),
        ("name", "a" * 29, "written like"),
    ],
)
def test_what_is_no_slice_algorithm_or_bucket_is_refused(field, value, why):
    with pytest.raises(OrderRefused, match=f"{field}.*{why}"):
        order(**{field: value})


ONES = {
    name: st.from_regex(re.compile(PATTERNS.get(name, _PATH), re.ASCII), fullmatch=True)
    for name in LLAMA
} | {name: st.sampled_from(choices) for name, choices in CHOICES.items()}


@given(st.fixed_dictionaries(ONES))
def test_whatever_is_accepted_means_itself_in_a_shell_and_in_yaml(fields):
    try:
        made = Order(**fields)
    except OrderRefused:
        assume(False)
    for pathways in (False, True):
        words = made.training(pathways)
        assert shlex.split(" ".join(words)) == words
        assert yaml.safe_load(" ".join(words)) == " ".join(words)
    for value in fields.values():
        assert yaml.safe_load(f"key: {value}") == {"key": value}
    assert yaml.safe_load(as_text(jobset(made))) == jobset(made)


def test_the_recipe_has_the_settings_of_the_paper_and_a_secret_by_reference():
    words = order().training(pathways=True)
    assert words[:3] == ["python3", "-m", "maxtext.trainers.post_train.rl.train_rl"]
    assert "rl.loss_algo=grpo" in words and "use_pathways=true" in words
    gspo = Order(**QWEN).training(pathways=False)
    assert {"rl.loss_algo=gspo-token", "rl.grpo_epsilon=3e-4"} <= {*gspo}
    assert {"rl.epsilon_high=4e-4", "chips_per_vm=4", "use_pathways=false"} <= {*gspo}
    assert '"secretKeyRef"' in as_text(jobset(order()))
    assert "--output-manifest-file=out.yaml" in pathways_command(order(), "out.yaml")


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


def test_a_manifest_is_what_the_published_schema_wants():
    if not SCHEMA.is_file():
        pytest.skip(f"no schema in {SCHEMA}: set COURSE_JOBSET_SCHEMA to its file")
    (version,) = yaml.safe_load(SCHEMA.read_text())["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    validator = jsonschema.Draft7Validator(schema)
    for name in SLICES:
        manifest = jobset(order(slice=name))
        validator.validate(yaml.safe_load(as_text(manifest)))
    manifest["spec"]["failurePolicy"]["maxRestart"] = 4
    assert not validator.is_valid(manifest)


@pytest.mark.parametrize("name, kind", SLICES.items())
def test_every_host_of_a_slice_runs_a_pod_that_takes_all_its_chips(name, kind):
    generation = {"v5litepod": "v5e"}.get(name.split("-")[0], name.split("-")[0])
    chips = kind.hosts * kind.chips_per_host
    assert chips == int(name.split("-")[1]) // (2 if generation == "v5p" else 1)
    assert chips == math.prod(map(int, kind.topology.split("x")))
    assert topology.named(f"{generation}:{kind.topology}").chips == chips
    (job,) = jobset(order(slice=name))["spec"]["replicatedJobs"]
    inner = job["template"]["spec"]
    assert inner["parallelism"] == inner["completions"] == kind.hosts
    (container,) = inner["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert limits["google.com/tpu"] == str(kind.chips_per_host)
