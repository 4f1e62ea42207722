"""Runs are told apart by what would change their numbers, and by nothing else."""

import dataclasses
import json
import linecache
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import tomllib

import jax.numpy as jnp
import numpy as np
import pytest
from toy_training import Rows, Toy, assert_same_weights, squared_error

from helpers.batches.prompt_batches import prompts
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.rewards.functions import correct
from helpers.runtime.platform import ROOT
from helpers.runtime.run_identity import describe, differences, fingerprint
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import nutrition
from helpers.tools.tool import Tool
from helpers.training import objectives
from helpers.training.checkpoints import CheckpointError
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer


def test_a_fingerprint_changes_with_one_bit_and_not_with_the_place():
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    tree = {"a": numbers, "b": [np.int32(3)]}
    assert fingerprint(tree) == fingerprint(
        {"a": jnp.asarray(numbers), "b": [np.int32(3)]}
    )
    other = numbers.copy()
    other[2, 3] = np.nextafter(other[2, 3], np.float32(99))
    assert fingerprint(tree) != fingerprint({**tree, "a": other})


def train(
    folder, steps, model=None, *, batches=None, objective=squared_error, **settings
):
    given = {name: settings.pop(name) for name in ("fresh", "frozen") & settings.keys()}
    trainer = Trainer(
        model or Toy(),
        objective,
        adamw(1e-2, **settings),
        folder=folder,
        log=False,
        **given,
    )
    return trainer.fit(batches or Rows(), steps)


def test_another_optimizer_or_other_weights_do_not_go_on_with_a_run(tmp_path):
    model = Toy()
    train(tmp_path, 2, model)
    with pytest.raises(CheckpointError, match="optimizer.*another folder"):
        train(tmp_path, 4, clip=1e-9)
    with pytest.raises(CheckpointError, match="starting weights.*load it again"):
        train(tmp_path, 2, model)  # trained meanwhile
    assert len(train(tmp_path, 4)) == 4


def powered(power):
    def objective(model, batch, power=power):
        loss, metrics = squared_error(model, batch)
        return loss**power, metrics

    return objective


def test_an_edited_objective_is_refused_with_old_and_new_and_how_to_go_on(tmp_path):
    train(tmp_path, 3, objective=powered(1))
    expected = (
        "default power was 1, here it is 2.*fresh=True.*moved aside.*another folder"
    )
    with pytest.raises(CheckpointError, match=expected):
        train(tmp_path, 3, objective=powered(2))


class OtherRows(Rows):
    """Rows that refuse to go on."""

    def set_state(self, state):
        raise ValueError("other data")


def test_a_model_whose_data_is_refused_keeps_its_weights(tmp_path):
    """Or a run in another folder would start from the trained ones."""
    model = Toy()
    train(tmp_path, 3)
    with pytest.raises(ValueError, match="other data"):
        train(tmp_path, 3, model, batches=OtherRows())
    assert_same_weights(model, Toy())


class Scaled(Toy):
    """A toy whose answer depends on a setting that is no weight."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale, self.remat, self.unroll = scale, "layer", 1

    def __call__(self, tokens_BT):
        return super().__call__(tokens_BT) * self.scale


def test_settings_of_a_model_that_are_no_weights_count(tmp_path):
    train(tmp_path, 2, Scaled())
    with pytest.raises(CheckpointError, match="model: scale was 1, here it is 2"):
        train(tmp_path, 2, Scaled(2.0))
    saving = Scaled()
    saving.remat, saving.unroll = "none", 2  # memory and time, not numbers
    assert len(train(tmp_path, 2, saving)) == 2


def with_teacher(model, batch, teacher):
    loss, metrics = squared_error(model, batch)
    return loss + jnp.square(model.embed[...] - teacher.embed[...]).mean(), metrics


def test_another_teacher_is_refused(tmp_path):
    train(tmp_path, 2, objective=with_teacher, frozen=[Toy(1)])
    with pytest.raises(CheckpointError, match="frozen 0: its weights changed"):
        train(tmp_path, 2, objective=with_teacher, frozen=[Toy(2)])
    assert len(train(tmp_path, 2, objective=with_teacher, frozen=[Toy(1)])) == 2


def test_fresh_starts_again_and_moves_the_old_run_aside(tmp_path):
    old, new = Toy(), Toy()
    table = train(tmp_path, 3, old, objective=powered(1))
    (tmp_path / "model").mkdir()
    train(tmp_path, 4, new, objective=powered(2), fresh=True)
    assert (tmp_path / "model").is_dir()  # what is no run's stays
    straight = Toy()
    train(tmp_path / "straight", 4, straight, objective=powered(2))
    assert_same_weights(new, straight)
    aside = tmp_path / "earlier-1"
    lines = (aside / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == table
    shutil.move(aside, tmp_path / "back")
    again = Toy()
    assert train(tmp_path / "back", 3, again, objective=powered(1)) == table
    assert_same_weights(again, old)


def test_fewer_steps_than_are_done_are_an_error(tmp_path):
    """Or a short run would return a longer one's table and weights."""
    train(tmp_path, 5)
    with pytest.raises(ValueError, match="5 steps are done, more than steps=3"):
        train(tmp_path, 3)
    assert len(train(tmp_path, 5)) == 5


# --- rollouts ---

TOKENIZER = train_tokenizer(["How many apples has Mia, two or three?"] * 2, 300)
ROWS = [{"question": f"{i} apples?", "answer": f"#### {i}"} for i in range(6)]


def rollouts(rewards, rows=ROWS, environment=None, tokenizer=TOKENIZER):
    """A source that is asked where it stands, and never for a batch."""
    source = prompts(rows, TOKENIZER, batch=2, seed=0)
    settings = {"group": 2, "max_tokens": 4, "environment": environment}
    return Rollouts(None, source, rewards, tokenizer, **settings)


def refusal(one, other):
    try:
        other.set_state(json.loads(json.dumps(one.get_state())))
    except ValueError as error:
        return str(error)
    return ""


def short(limit):
    def short(prompts, completions, limit=limit, **_):
        return [float(len(text) < limit) for text in completions]

    return short


def test_an_edited_reward_is_refused_with_old_and_new_and_how_to_go_on():
    one = rollouts({short(200): 0.5, correct: 1})
    assert refusal(one, rollouts([(correct, 1.0), (short(200), 0.5)])) == ""
    expected = refusal(one, rollouts({short(300): 0.5, correct: 1}))
    assert (
        "reward 'short': default limit was 200, here it is 300. Pass fresh" in expected
    )
    expected = refusal(one, rollouts({short(200): 0.1, correct: 1}))
    assert "reward 'short': its weight was 0.5, here it is 0.1" in expected
    assert "reward 'short' was short.short, here it is nothing" in refusal(
        one, rollouts(correct)
    )


def test_with_other_gold_answers_the_old_rewards_do_not_come_back():
    others = [{**row, "answer": "#### 9"} for row in ROWS]
    expected = refusal(rollouts(correct), rollouts(correct, others))
    assert "data: column 'answer'" in expected and "another folder" in expected


def test_another_tool_grammar_or_tokenizer_is_refused():
    def use(price, grammar=nutrition.TINY):
        tool = Tool(nutrition.SCHEMA, lambda **arguments: {"kcal": price})
        return ToolUse(grammar, [tool])

    one = rollouts(None, environment=use(1))
    assert refusal(one, rollouts(None, environment=use(1))) == ""
    expected = refusal(one, rollouts(None, environment=use(2)))
    assert "price was 1, here it is 2" in expected
    shown = dataclasses.replace(nutrition.TINY, show=str)
    assert "grammar: show" in refusal(one, rollouts(None, environment=use(1, shown)))
    other = train_tokenizer(["What is Mia's dog called?"], 300)
    assert "tokenizer" in refusal(rollouts(None), rollouts(None, tokenizer=other))


# --- descriptions ---


def cell(source, **known):
    """`reward`, as a cell of a learner's notebook defines it."""
    space, name = {"__name__": "__main__", **known}, f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), space)
    return space["reward"]


SOURCES = tomllib.loads(
    pathlib.Path(__file__).with_name("changed_rewards.toml").read_text("utf-8")
)


@pytest.mark.parametrize("text", SOURCES)
def test_a_refusal_names_what_changed(text):
    source = SOURCES[text]
    one, same = describe(cell(source)), describe(cell(source))
    other = describe(cell(source.replace("200", "300")))
    assert differences(one, same) == ""
    assert text in differences(json.loads(json.dumps(one)), other)


def test_comments_docstrings_lines_and_names_of_no_use_do_not_count():
    plain = "def reward(a, b=1):\n    return [x in {'p', 'q'} for x in a]"
    dressed = (
        "# what for\n\nUNUSED = 3\ndef reward(\n    a,  # the first\n    b=1,\n):\n"
        "    'What it does.'\n    # how\n    return [\n        x in {'p', 'q'}\n"
        "        for x in a\n    ]"
    )
    assert describe(cell(plain)) == describe(cell(dressed))
    assert describe(cell(plain)) != describe(cell(plain.replace("q", "r")))


def test_a_function_without_source_needs_a_version(monkeypatch):
    """Python 3.13 gives any `<string>` the lines of the program after `python -c`."""
    program = ["def reward(p, c): return 2\n"]
    monkeypatch.setitem(linecache.cache, "<string>", (1, None, program, "<string>"))
    space = {}
    exec("def reward(prompts, completions): return 1", space)
    reward = space["reward"]
    with pytest.raises(ValueError, match='reward.version = "1"'):
        describe(reward)
    reward.version = "1"
    before = describe(reward)
    reward.version = "2"
    expected = "was reward version 1, here it is reward version 2"
    assert differences(before, describe(reward)) == expected


def test_a_file_edited_after_its_import_gives_no_source():
    reward = cell("\ndef reward(prompts, completions): return 1")
    lines = ["# a line more\n", "\n", "def other(): return 1\n"]
    name = reward.__code__.co_filename
    linecache.cache[name] = 1, None, lines, name
    with pytest.raises(ValueError, match="cannot be read"):
        describe(reward)


def test_a_description_is_the_same_in_every_process():
    """Here, and in a process with another seed for the order of sets."""
    program = (
        "import json, numpy as np\n"
        "from helpers.rewards import food_rewards\n"
        "from helpers.runtime import run_identity\n"
        "from helpers.training import objectives\n"
        "words = {'one', 'two', 'three', ('four', 5)}, frozenset('abcdef')\n"
        "made = objectives.gspo(), words, food_rewards.WEIGHTS, np.add, print\n"
        "text = json.dumps(run_identity.describe(made))\n"
    )
    here = {}
    exec(program, here)
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    there = subprocess.run(
        [sys.executable, "-c", program + "print(text)"],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": ""}
        | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    text = here["text"]
    assert there == text + "\n" and "0x" not in text and str(ROOT) not in text


def test_objectives_differ_by_their_settings():
    usual, narrow = (
        objectives.policy_gradient(clip=clip) for clip in ((0.2, 0.28), (0.1, 0.3))
    )
    expected = "loss: clip was (0.2, 0.28), here it is (0.1, 0.3)"
    assert differences(describe(usual), describe(narrow)) == expected
    assert describe(usual) == describe(objectives.policy_gradient())


def test_a_tokenizer_counts_by_what_it_does_not_by_how_it_was_used(tmp_path):
    before = describe(TOKENIZER)
    TOKENIZER(["Mia", "Mia has"], padding=True, truncation=True, max_length=3)
    TOKENIZER.save_pretrained(tmp_path)
    assert describe(TOKENIZER) == before == describe(chat.load_tokenizer(tmp_path))


def test_what_an_object_computed_on_the_way_does_not_count():
    source = """
        import functools
        class Grader:
            @functools.cached_property
            def words(self): return ['a']
            def __call__(self, p, c): return self.words
        reward = Grader()"""
    reward = cell(textwrap.dedent(source))
    before = describe(reward)
    reward([], [])
    assert describe(reward) == before
