"""What could be a command in a shell, or something else in YAML, is no row."""

import re
import shlex

import pytest
import yaml
from handover_orders import LLAMA, OWN, order
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.handover.jobset import as_text, jobset
from helpers.handover.orders import ALLOWED, KNOWN, Order, OrderRefused
from helpers.handover.xpk import pathways_command

HOSTILE = [
    "a b",
    "a;reboot",
    "a'b",
    'a"b',
    "$(reboot)",
    "`reboot`",
    "a|b",
    "a&b",
    "a>b",
    "a\nb",
    "a\n",
    "a: b",
    "- a",
    "{a}",
    "[a]",
    "&a",
    "*a",
    "!!python/object:os.system",
    "# a",
    "a\\b",
    "--flag",
    "-a",
    "../a",
    "a/../b",
    "%a",
    "a\tb",
    "ａ",
    "",
    "a\x00",
    "~",
    "@a",
]


@pytest.mark.parametrize("field", LLAMA)
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_are_refused_in_every_field(field, value):
    with pytest.raises(OrderRefused, match=field):
        order(**{field: value})
    if re.search(r"[^\w./-]", value, re.ASCII):  # else it may be a longer name
        with pytest.raises(OrderRefused, match=field):
            order(**{field: LLAMA[field] + value})
    with pytest.raises(OrderRefused, match=field):
        order(**{field: None})


@pytest.mark.parametrize("value", ["on", "no", "null", "true", "y", "off", "false"])
def test_names_that_yaml_takes_for_something_else_are_refused(value):
    assert not isinstance(yaml.safe_load(value), str) or value == "y"  # YAML 1.1's y
    for field in ("name", "cluster", "model"):
        with pytest.raises(OrderRefused, match="no text in YAML"):
            order(**{field: value})


NUMBERS = "1.5 12 010 0x1F 2024-01-01 1e3 1_000 190:20:30 1. 2024-01-01T10:00:00Z 3e-4"


@pytest.mark.parametrize("value", NUMBERS.split())
def test_numbers_and_dates_are_no_text_in_yaml(value):
    with pytest.raises(OrderRefused):  # of colons the pattern of the field speaks
        order(tokenizer=value)


@pytest.mark.parametrize("value", ["1.5b-chat", "4chan", "org/12", "0x1Fg", "2e-model"])
def test_names_that_begin_like_numbers_are_names(value):
    assert isinstance(yaml.safe_load(value), str)
    assert order(tokenizer=value).tokenizer == value


@pytest.mark.parametrize(
    "field, value",
    [
        ("slice", "v5p-127"),
        ("algorithm", "ppo"),
        ("bucket", "s3://my-bucket"),
        ("bucket", "gs://My"),
        ("image", "maxtext"),
        ("name", "a" * 29),
        ("name", "Llama"),
        ("tokenizer", "/etc/passwd"),
        ("tokenizer", "hf_abcdefghij"),
        ("bucket", "gs://my-bucket/hf_abcdefghij"),
    ],
)
def test_what_is_no_slice_algorithm_bucket_or_holds_a_secret_is_refused(field, value):
    with pytest.raises(OrderRefused, match=field):
        order(**{field: value})


@pytest.mark.parametrize("name", ["slice", "algorithm"])
def test_what_is_not_in_the_table_is_said_to_be_unknown_with_what_is(name):
    with pytest.raises(OrderRefused, match="not known here") as refused:
        order(**{name: "v5p-256"})
    assert all(one in str(refused.value) for one in KNOWN[name])


SECRETS = (
    *("github_pat_11ABCDEFG0", "ghp_0123456789", "glpat-abcdefgh", "ya29.a0AfH6"),
    *("sk-proj-abcDEF0123456789x", "sk-ant-api03-abcDEF0123456789x", "xoxb-123-abc"),
    *("AKIAIOSFODNN7EXAMPLE", "GOCSPX-abcdef", "sk-abcDEF0123456789xyz", "AIzaSyA"),
    *("hf_abcdefghij", "api_org_abcdefgh", "nvapi-abcdefgh", "gsk_abcdefgh"),
    *("npm_abcdefgh01", "pypi-AgEIcHlwaS5vcmc", "ASIAIOSFODNN7EXAMPLE", 20 * "a1"),
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", ["", "gs://my-bucket/", "a value with blanks "])
def test_a_secret_is_refused_and_is_not_said_aloud(secret, before):
    for field in ("tokenizer", "bucket", "slice"):
        with pytest.raises(OrderRefused, match="looks like a secret") as refused:
            order(**{field: before + secret})
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    "field, value",
    [
        *(("name", x) for x in ("task-distill1", "disk-benchmarks", "desk-0123456789")),
        ("bucket", "gs://task-outputs1-of-everyone/x"),
        ("tokenizer", "risk-classifier-0123456789abcdef/model"),
    ],
)
def test_an_innocent_name_is_no_secret(field, value):
    assert getattr(order(**{field: value}), field) == value


ONES = {
    name: st.from_regex(re.compile(r, re.ASCII), fullmatch=True)
    for name, r in ALLOWED.items()
} | {name: st.sampled_from(known) for name, known in KNOWN.items()}


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
    for name in fields:
        value = getattr(made, name)
        assert yaml.safe_load(f"key: {value}") == {"key": value}
    assert yaml.safe_load(as_text(jobset(made))) == jobset(made)
    command = pathways_command(made, "out.yaml")
    assert shlex.split(shlex.join(command)) == command


@given(st.text(max_size=12), st.sampled_from(sorted(LLAMA)))
def test_no_text_gets_through_that_a_shell_would_read_otherwise(text, field):
    try:
        made = order(**{field: text})
    except OrderRefused:
        return
    assert shlex.split(text) == [text] and jobset(made)["kind"] == "JobSet"


def test_the_recipe_says_what_the_paper_and_maxtext_mean():
    words = order().training(pathways=True)
    assert words[:3] == ["python3", "-m", "maxtext.trainers.post_train.rl.train_rl"]
    assert "rl.loss_algo=grpo" in words and "use_pathways=true" in words
    gspo = Order(**OWN).training(pathways=False)
    assert {"rl.loss_algo=gspo-token", "rl.grpo_epsilon=3e-4"} <= {*gspo}
    assert {"rl.epsilon_high=4e-4", "chips_per_vm=4", "use_pathways=false"} <= {*gspo}


def test_no_secret_of_the_environment_appears(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    made = order()
    text = as_text(jobset(made)) + " ".join(pathways_command(made, "out.yaml"))
    assert "verysecret" not in text and '"secretKeyRef"' in text
