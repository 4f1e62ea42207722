"""What decides a function's numbers is in its description, and nothing else is."""

import functools
import importlib
import json
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import losses
from helpers.rewards import food_rewards, functions
from helpers.runtime import run_identity
from helpers.runtime.platform import ROOT
from helpers.runtime.run_identity import describe, differences, listed
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import GEMMA3, GEMMA4, HERMES, TINY
from helpers.training import objectives, optimizers

unhurried = settings(deadline=None, max_examples=40)


def cell(source, **known):
    """`reward`, as a cell of a learner's notebook defines it."""
    space = {"__name__": "__main__", **known}
    exec(compile(source, f"<cell {len(source)}>", "exec"), space)
    return space["reward"]


# Each decides the numbers by its 200; what must be said when that becomes 300.
SOURCES = {
    "limit was 200, here it is 300": """
        class Short:
            def __init__(self, limit): self.limit = limit
            def __call__(self, prompts, completions): return self.limit
        reward = Short(200)""",
    "table: 'a': [0]: 'limit' was 200, here it is 300": """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class Short:
            table: dict
            def __call__(self, prompts, completions): return self.table
        reward = Short({'a': [{'limit': 200}]})""",
    "default limit was 200, here it is 300": """
        def reward(prompts, completions, limit=200): return limit""",
    "default soft was 200, here it is 300": """
        def reward(prompts, completions, *, soft=200): return soft""",
    "argument 0 was 200, here it is 300": """
        import functools
        def short(limit, prompts, completions): return limit
        reward = functools.partial(short, 200)""",
    "Judge: bases was 200, here it is 300": """
        class Judge:
            bases = 200
        def reward(prompts, completions): return Judge.bases""",
    "edge was 200, here it is 300": """
        import functools
        def short(prompts, completions, edge): return edge
        reward = functools.partial(short, edge=200)""",
    "weights: [1] changed": """
        import jax.numpy as jnp, numpy as np
        def make(weights):
            def reward(prompts, completions): return weights
            return reward
        reward = make([np.arange(99), jnp.array([1, 200])])""",
    "global LIMIT was 200, here it is 300": """
        LIMIT = 200
        def reward(prompts, completions): return [LIMIT for _ in completions]""",
    "global WORDS was {'a', 200}, here it is {'a', 300}": """
        WORDS = {200, 'a'}
        def reward(prompts, completions): return WORDS""",
    "global NUMBER was /200/ flags 32, here it is /300/ flags 32": """
        import re
        NUMBER = re.compile('200')
        def reward(prompts, completions): return NUMBER""",
    "longest: default k was 200, here it is 300": """
        def longest(text, k=200): return k
        def reward(prompts, completions): return longest('')""",
    "code of the function `longest` changed": """
        def longest(text): return 200
        def middle(text): return longest(text)
        def reward(prompts, completions): return middle('')""",
    "code of the function `even` changed": """
        def odd(n): return even(n - 1)
        def even(n): return n == 200 or odd(n - 1)
        def reward(prompts, completions): return even(len(prompts))""",
    "code of the function `reward` changed": """
        def reward(prompts, completions):
            def inner(text):
                return [len(text) < 200 for _ in text]
            return [inner(text) for text in completions]""",
    "code of the function `<lambda>` changed": """
        def make(count):
            def reward(prompts, completions): return count
            return reward
        reward = make(lambda text: len(text) * 200)""",
    "object: limit was 200, here it is 300": """
        class Judge:
            def __init__(self, limit): self.limit = limit
            def score(self, prompts, completions): return self.limit
        reward = Judge(200).score""",
    "code of the function `Judge.score` changed": """
        class Judge:
            def score(self, text): return 200
        judge = Judge()
        def reward(prompts, completions): return judge.score('')""",
    "Judge: limit was 200, here it is 300": """
        class Judge:
            limit = 200
        def reward(prompts, completions): return Judge.limit""",
    "code of the function `Base.limit` changed": """
        class Base:
            @property
            def limit(self): return 200
        class Judge(Base):
            __slots__ = ()
            def __call__(self, prompts, completions): return self.limit
        reward = Judge()""",
    "code of the function `inner` changed": """
        import functools, jax
        @functools.lru_cache
        @jax.jit
        def inner(x): return x * 200
        def reward(prompts, completions): return inner(1)""",
    "global PATTERN changed": """
        import re
        PATTERN = re.compile('(' + 'a|' * 300 + '200)')
        def reward(prompts, completions): return PATTERN""",
    "limit was 200, here it is 300 ": """
        import functools
        class limited:
            def __init__(self, function, limit):
                functools.update_wrapper(self, function)
                self.limit = limit
            def __call__(self, *given): return self.limit
        def short(prompts, completions): return 0
        reward = limited(short, 200)""",
    "global TABLE: limit was 200, here it is 300": """
        class Table(dict):
            pass
        TABLE = Table(a=1)
        TABLE.limit = 200
        def reward(prompts, completions): return TABLE""",
    "global TABLE: its entries by key: 'a' was 200, here it is 300": """
        import collections
        TABLE = collections.OrderedDict(a=200)
        def reward(prompts, completions): return TABLE""",
    "global short: argument 0 was 200, here it is 300": """
        import functools, jax
        def rest(limit, text): return limit
        short = jax.jit(functools.partial(rest, 200))
        def reward(prompts, completions): return short('')""",
    "jax._src.api.vmap.vmap_f: fun: argument 0 was 200, here it is 300": """
        import functools, jax
        def rest(limit, text): return limit
        reward = jax.vmap(functools.partial(rest, 200))""",
    "log: global LIMIT was 200, here it is 300": """
        import functools, math
        LIMIT = 200
        @functools.wraps(math.log)
        def log(x): return math.log(x) * LIMIT
        def reward(prompts, completions): return log(1)""",
    "code of the function `Kind.__call__` changed": """
        class Kind(type):
            def __call__(cls, *given): return 200
        class Judge(metaclass=Kind):
            pass
        def reward(prompts, completions): return Judge()""",
    "attribute limit was 200, here it is 300": """
        def reward(prompts, completions): return reward.limit
        reward.limit = 200""",
}


def dedented(source):
    lines = source.strip("\n").split("\n")
    return "\n".join(line[8:] for line in lines)


@pytest.mark.parametrize("said", SOURCES)
def test_what_decides_the_numbers_is_told_and_what_changed_is_named(said):
    source = dedented(SOURCES[said])
    one, same = describe(cell(source)), describe(cell(source))
    other = describe(cell(source.replace("200", "300")))
    assert differences(one, same) == []
    changed = differences(json.loads(json.dumps(one)), other)
    said = said.strip()  # two say the same
    assert said in changed, changed
    if "code" not in said:  # the number is all that differs
        assert changed == [said]


def test_a_module_of_the_learner_s_own_counts_and_its_name_does_not(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)

    def described(name, limit):
        text = f"LIMIT = {limit}\ndef short(text): return len(text) < LIMIT\n"
        (tmp_path / f"{name}.py").write_text(text)
        rules = importlib.import_module(name)
        return describe(cell("def reward(p, c): return rules.short(c)", rules=rules))

    one = described("rules", 200)
    assert differences(one, described("moved_rules", 200)) == []
    said = ["short: global LIMIT was 200, here it is 300"]
    assert differences(one, described("other_rules", 300)) == said


@pytest.mark.parametrize(
    "body",
    [
        "from own_rules import LIMIT; return LIMIT",
        "import own_rules as rules; return rules.LIMIT",
    ],
)
def test_a_module_that_is_only_imported_in_the_body_counts(body, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def described(limit):
        (tmp_path / "own_rules.py").write_text(f"LIMIT = {limit}\n")
        monkeypatch.delitem(sys.modules, "own_rules", raising=False)
        importlib.invalidate_caches()
        return describe(cell(f"def reward(p, c):\n    {body}"))

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    said = ["own_rules.LIMIT was 200, here it is 3000"]
    assert differences(described(200), described(3000)) == said


def test_comments_docstrings_lines_files_and_names_of_no_use_do_not_count():
    plain = "def reward(a, b=1):\n    return [x in {'p', 'q'} for x in a]"
    dressed = (
        "# what for\n\nUNUSED = 3\ndef reward(\n    a,  # the first\n    b=1,\n):\n"
        "    'What it does.'\n    # how\n    return [\n        x in {'q', 'p'}\n"
        "        for x in a\n    ]"
    )
    assert describe(cell(plain)) == describe(cell(dressed))
    assert describe(cell(plain)) != describe(cell(plain.replace("q", "r")))


def test_the_text_is_the_same_in_processes_with_other_hashes():
    program = (
        "import json, numpy as np\n"
        "from helpers.rewards import food_rewards\n"
        "from helpers.runtime import run_identity\n"
        "from helpers.training import objectives\n"
        "WORDS = {'one', 'two', 'three', ('four', 5)}\n"
        "class Judge:\n"
        "    seen = {'e', 'f', 'g'}\n"
        "    def __init__(self): self.words = frozenset('abcdef')\n"
        "    def __call__(self, prompts, completions, table={'a': WORDS}, **_):\n"
        "        return [t in {'x', 'y', 'z'} for t in completions]\n"
        "made = objectives.gspo(), Judge(), food_rewards.WEIGHTS, np.add, print\n"
        "print(json.dumps(run_identity.describe(made)))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": ""}
            | {"JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1 and "0x" not in texts.pop()


leaves = st.one_of(
    st.integers(-5, 5),
    st.floats(allow_nan=False, width=32),
    st.booleans(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.lists(st.integers(0, 9), min_size=1, max_size=90).map(np.array),
)
tables = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=2), inner, max_size=4),
    ),
    max_leaves=12,
)


def reordered(thing):
    """The same thing with every dict's keys in the opposite order."""
    if isinstance(thing, dict):
        return {key: reordered(thing[key]) for key in reversed(thing)}
    return [reordered(x) for x in thing] if isinstance(thing, list) else thing


def as_text(thing):
    """What two things must share to be the same, written by other code."""
    if isinstance(thing, dict):
        return "{" + ",".join(sorted(f"{k!r}:{as_text(x)}" for k, x in thing.items()))
    if isinstance(thing, list):
        return "[" + ",".join(map(as_text, thing)) + "]"
    return f"{type(thing)}{thing.tolist() if isinstance(thing, np.ndarray) else thing}"


@unhurried
@given(tables, tables)
def test_tables_are_told_apart_by_their_values_and_not_by_their_order(one, other):
    def held(table):
        return describe(cell("def reward(p, c): return TABLE", TABLE=table))

    assert held(one) == held(reordered(one))
    assert (held(one) == held(other)) == (as_text(one) == as_text(other))


def test_long_things_are_told_by_checksum_and_every_entry_counts():
    table = {f"key {i}": [i, str(i)] for i in range(2_000)}
    one = describe(cell("def reward(p, c): return TABLE", TABLE=table))
    assert sum(map(len, one.values())) < 500
    other = table | {"key 1234": [1234, "1235"]}
    other = describe(cell("def reward(p, c): return TABLE", TABLE=other))
    assert differences(one, other) == ["global TABLE changed"]


def test_what_cannot_be_described_is_named_once(tmp_path):
    log = open(tmp_path / "log", "w")
    numbers = (n for n in range(3))
    source = "def reward(p, c, n=[1, numbers]): print(p, file=log); return next(n[1])"
    with log, pytest.warns(UserWarning) as caught:
        described = describe(cell(source, log=log, numbers=numbers))
    (said,) = caught
    assert "global log" in str(said.message)
    assert "default n: [1]" in str(said.message)
    assert "0x" not in json.dumps(described)


@pytest.mark.filterwarnings("error")
def test_all_that_the_course_trains_with_can_be_described():
    made = [
        *(objectives.sft(), objectives.gspo(), objectives.policy_gradient(beta=0.1)),
        objectives.distillation(functools.partial(losses.distillation.jsd, beta=0.2)),
        *(functions.correct, functions.format_reward, functions.length_penalty(9)),
        *(food_rewards.WEIGHTS, GEMMA3, GEMMA4, HERMES, TINY),
        *(optimizers.cosine(1e-3, 9), optimizers.muon(1e-3).transform),
        threading.Lock(),
    ]
    texts = [json.dumps(describe(thing)) for thing in made]
    assert len(set(texts)) == len(texts)
    assert not any("0x" in text or str(ROOT) in text for text in texts)


def test_lessons_are_told_apart_by_their_settings():
    usual, narrow = (
        objectives.policy_gradient(clip=clip) for clip in ((0.2, 0.28), (0.1, 0.3))
    )
    said = ["policy_gradient.loss: clip was (0.2, 0.28), here it is (0.1, 0.3)"]
    assert differences(describe(usual), describe(narrow)) == said
    assert describe(usual) == describe(objectives.policy_gradient())
    halves = [
        functools.partial(losses.distillation.jsd, beta=beta) for beta in (0.5, 0.1)
    ]
    held = [describe(objectives.distillation(half)) for half in halves]
    assert differences(*held) == ["divergence: beta was 0.5, here it is 0.1"]
    whole = describe(objectives.distillation(losses.distillation.reverse_kl))
    assert "divergence was partial of jsd, here" in listed(differences(held[0], whole))


def test_a_function_of_the_course_counts_with_those_that_it_calls(monkeypatch):
    before = describe(functions.correct)
    monkeypatch.setattr(functions, "extract_strict", lambda text: 7)
    changed = listed(differences(before, describe(functions.correct)))
    assert "extract_strict" in changed


def test_nothing_is_too_deep_or_too_long_or_goes_round_in_circles():
    deep, ring = [], []
    for _ in range(100_000):
        deep = [deep]
    ring.append(ring)
    chain = "\n".join(f"def f{i}(x): return f{i + 1}(x)" for i in range(2_000))
    chain += "\ndef f2000(x): return {}\ndef reward(p, c): return f0(1)"
    with pytest.warns(UserWarning, match="cannot be written down: global deep"):
        describe(cell("def reward(p, c): return deep", deep=deep))
    describe(cell("def reward(p, c): return ring", ring=ring))
    ends = [describe(cell(chain.format(end))) for end in (1, 2)]
    assert differences(*ends) == ["code of the function `f2000` changed"]


def test_large_arrays_are_read_once(monkeypatch):
    read = []
    whole = run_identity.whole
    monkeypatch.setattr(
        run_identity, "whole", lambda x: read.append(x.shape) or whole(x)
    )
    weights = jnp.arange(40_000.0)
    source = "def reward(p, c): return weights, other"
    for _ in range(3):
        describe(cell(source, weights=weights, other={"again": weights}))
    assert read == [(40_000,)]
    changed = weights.at[7].set(8)
    one, other = (
        describe(cell(source, weights=w, other=w)) for w in (weights, changed)
    )
    assert len(differences(one, other)) == 2


def test_a_tokenizer_counts_by_what_it_does_not_by_how_it_was_used(tmp_path):
    texts = ["Mia has two apples.", "Ben buys nine pears."]
    one, other = train_tokenizer(texts, 300), train_tokenizer(texts[:1], 300)
    source = "def reward(p, c): return [len(tokenizer.encode(x)) for x in c]"
    before = describe(cell(source, tokenizer=one))
    one(["Mia", "Mia has"], padding=True, truncation=True, max_length=3)
    one.save_pretrained(tmp_path)
    moved = chat.load_tokenizer(tmp_path)
    assert describe(cell(source, tokenizer=one)) == before
    assert describe(cell(source, tokenizer=moved)) == before
    said = differences(before, describe(cell(source, tokenizer=other)))
    assert len(said) == 1 and said[0].startswith("global tokenizer")


def test_names_of_the_learner_s_own_hide_nothing():
    """Attributes and variables called like what a description says by itself."""

    class Model(nnx.Module):
        def __init__(self, weights):
            self.weights = weights
            self.matrix = nnx.Param(jnp.ones(3))

    held = [describe(Model(weights)) for weights in (2, 3)]
    assert differences(*held) == ["weights was 2, here it is 3"]


def test_what_an_object_computed_on_the_way_does_not_count():
    source = (
        "import functools, re\n"
        "class Judge:\n"
        "    @functools.cached_property\n"
        "    def words(self): return ['a']\n"
        "    def __call__(self, p, c): return self.words\n"
        "reward = Judge()"
    )
    judge = cell(source)
    before = describe(judge)
    judge([], [])
    assert describe(judge) == before
