"""Environments of TRL and verifiers in our loop, and ours in TRL's form."""

import functools
import json
import random
import time
from types import SimpleNamespace

import pytest
from family_tokenizers import user
from scripted_model import ScriptedSessions

from helpers import batches
from helpers.generation import Rollouts, environment_use
from helpers.handover import environments
from helpers.rewards import environment_reward
from helpers.tools.calls import Call
from helpers.tools.environment import Step
from helpers.tools.grammars import HERMES
from helpers.tools.tool import Trace


class Counter:
    """As TRL's documentation has it: a public method is a tool."""

    def __init__(self):
        self.count = None

    def reset(self, **kwargs) -> str | None:
        self.count = 0

    def increment(self, a: int) -> int:
        """
        Increment the integer by a specified value.

        Args:
            a: The value to increment by.

        Returns:
            The incremented integer.
        """
        time.sleep(0.02 * max(4 - a, 0))
        if a > 9:
            raise ValueError("Game over.")
        self.count += a
        return self.count

    def _hidden(self):
        raise AssertionError


class Words:
    """Another: an observation, two tools, an async one, columns of the row."""

    def reset(self, prompt, level, **kwargs):
        random.shuffle(kwargs["words"])
        self.word, self.reward = kwargs["words"][0] * level, 0.0
        return f" It has {len(self.word)} letters."

    async def guess(self, word: str) -> str:
        """
        Guess the word.

        Args:
            word: The word.
        """
        self.reward = float(word == self.word)
        return "right" if self.reward else "wrong"

    def peek(self, place: int | None = None) -> str:
        """
        See a letter.

        Args:
            place: From 0.
        """
        return self.word[place or 0]


def turns(environment, *texts):
    """What the environment replies to turns of the model."""
    steps = [environment.step(text) for text in texts]
    return [[message["content"] for message in step.messages] for step in steps], steps


def test_calls_of_a_turn_run_one_after_the_other():
    """They change one object, and a later one may be quicker."""
    there = environments.TRLUse(HERMES, Counter, turns=3).make()
    there.reset({"question": "Hi"}, 0)
    both = HERMES.render([Call("increment", {"a": 1}), Call("increment", {"a": 5})])
    assert turns(there, both)[0] == [["1", "6"]]


class Odd:
    """It gives what is no text."""

    def __init__(self, observation=None):
        self.observation = observation

    def reset(self, **row):
        return self.observation

    def look(self) -> list:
        """Shows a picture."""
        return [{"type": "image", "image": None}]

    def touch(self):
        """Gives an object."""
        return object()


def test_pictures_and_objects_are_not_read_as_texts():
    for observation in ({"text": "Hi"}, [{"type": "text", "text": "Hi"}], 7):
        use = environments.TRLUse(HERMES, functools.partial(Odd, observation))
        with pytest.raises(TypeError, match="reset gave .*not a text"):
            use.make().reset({"question": "Hi"}, 0)
    for name in ("look", "touch"):
        there = environments.TRLUse(HERMES, Odd, turns=3).make()
        assert there.reset({"prompt": "Hi"}, 0) == [user("Hi")]
        with pytest.raises(TypeError, match="Only texts"):
            there.step(call(name))
    assert use.metrics([[Trace((), (), failure=TypeError())]])["broken"] == 1


def call(name, **arguments):
    return HERMES.render([Call(name, arguments)])


def test_methods_of_a_trl_class_are_tools_and_their_exceptions_replies():
    use = environments.TRLUse(HERMES, Counter, turns=5)
    (schema,) = use.schemas
    assert schema["function"]["name"] == "increment"
    assert schema["function"]["parameters"]["properties"]["a"] == {
        "type": "integer", "description": "The value to increment by.",
    }  # fmt: skip
    one, other = use.make(), use.make()
    for each in (one, other):
        assert each.reset({"question": "Hi"}, 3) == [user("Hi")]
    said = [call("increment", a=2), call("increment", a=3), call("increment", a=10)]
    replies, steps = turns(one, *said, call("increment", b=1), "5")
    assert replies[:3] == [["2"], ["5"], [json.dumps({"error": "Game over."})]]
    assert "error" in replies[3][0] and [step.done for step in steps] == [False] * 4 + [
        True
    ]
    assert one.inner.count == 5 and other.inner.count == 0


def test_a_trl_class_with_an_observation_and_a_seed():
    use = environments.TRLUse(HERMES, Words, turns=4)
    row, state = {"question": "Guess.", "level": 2}, random.getstate()
    row["words"] = ["egg", "ham", "jam"]  # each shuffles a list of its own
    began = [environment_use.Conversation(use, None, []) for _ in range(9)]
    (opening,) = {json.dumps(each.reset(row, 11)) for each in began}
    assert json.loads(opening) == [user("Guess. It has 6 letters.")]
    members = [each.environment for each in began]
    assert len({each.inner.word for each in members}) == 1  # of one seed
    others = [use.make() for _ in range(9)]
    for seed, each in enumerate(others):
        each.reset(row, seed)
    assert len({each.inner.word for each in others}) == 3
    assert random.getstate() == state
    there = members[0]
    words = [call("peek", place=None), call("guess", word=there.inner.word)]
    assert turns(there, *words)[0] == [[there.inner.word[0]], ["right"]]
    assert there.inner.reward == 1.0


class Rubric:
    """Old versions score by columns and return a score, new ones write it."""

    async def score_rollout(self, prompt, completion, answer, state, **kwargs):
        said = [m["content"] for m in completion if m["role"] == "assistant"]
        return SimpleNamespace(reward=float(answer in said), metrics={})


class NewRubric:
    async def score_rollout(self, state):
        state["timing"]["total_ms"] += 1
        state["reward"] = len(state["completion"]) / 10


class DoubleCheck:
    """As verifiers was: the response comes with the state."""

    rubric, system_prompt, max_turns = Rubric(), "Be brief", 3
    few_shot = [user("Lo"), {"role": "assistant", "content": "No"}]

    def setup_state(self, state, **kwargs):
        state["asked"] = 0
        return state

    async def is_completed(self, messages, state, **kwargs):
        assert messages[-1]["role"] == "assistant"
        return state["asked"] == 1 and len(state["responses"]) == 2

    async def env_response(self, messages, state, **kwargs):
        state["asked"] += 1
        return [user("Are you sure?")], state


class Alphabet:
    """As verifiers is: the state comes in, messages or a text come out."""

    rubric, max_turns = NewRubric(), -1

    async def setup_state(self, state):
        state["letters"] = iter(state["info"]["letters"])
        return state

    async def is_completed(self, state, **kwargs):
        return len(state["trajectory"]) > 3

    async def env_response(self, messages, state):
        letter = next(state["letters"])
        if letter == "c":
            state["final_env_response"] = [user("Done")]
        return user(f"After {letter}?") if letter == "b" else f"After {letter}?"


def test_environments_of_verifiers_old_and_new():
    use = environments.from_verifiers(DoubleCheck())
    there = use.make()
    opening = there.reset({"question": "Hi", "answer": "Yo"}, 5)
    before = [{"role": "system", "content": "Be brief"}, *DoubleCheck.few_shot]
    assert opening == [*before, user("Hi")]
    replies, steps = turns(there, "Hm", "Yo")
    assert use.turns == 3 and replies == [["Are you sure?"], []]
    assert [step.done for step in steps] == [False, True]
    segments = (("assistant", "Hm"), ("user", "Are you sure?"), ("assistant", "Yo"))
    trace = Trace(segments, ())
    assert environments.rubric_reward([], [trace], [there]) == [1.0]
    with pytest.raises(ValueError, match="turns"):
        environments.from_verifiers(Alphabet())
    for name in ("tools", "oai_tools"):
        with pytest.raises(ValueError, match="pass them to a ToolUse"):
            environments.from_verifiers(SimpleNamespace(**{name: [print]}, max_turns=3))
    there = environments.from_verifiers(Alphabet(), turns=9).make()
    row = {"prompt": [user("Hi")], "info": '{"letters": "abc"}'}
    assert there.reset(row, 5) == [user("Hi")]
    replies, steps = turns(there, "b", "c", "d")
    assert replies == [["After a?"], ["After b?"], ["After c?"]] and steps[-1].done
    assert there.state["turn"] == 3
    assert environments.rubric_reward([], [trace], [there]) == [0.4]  # with "Done"
    there = environments.from_verifiers(Alphabet(), turns=1).make()
    there.reset(row | {"info": {"letters": ""}}, 5)
    assert turns(there, "b")[0] == [[]]  # no letter was asked for


class Countdown:
    """An environment of ours."""

    def reset(self, row, seed):
        self.left = row["start"] + seed
        return [user(f"Count down from {self.left}.")]

    def step(self, completion):
        self.left -= 1
        right = completion == str(self.left)
        return Step([user("Go on.")], self.left == 0, float(right))


def test_an_environment_of_ours_is_a_class_for_trl():
    """As in TRL: reset with the columns, then calls, whose exceptions are shown."""
    factory = environments.for_trl(Countdown, turns=9)
    use = environments.TRLUse(HERMES, factory, turns=9)
    assert [schema["function"]["name"] for schema in use.schemas] == ["play"]
    there = use.make()
    opening = there.reset({"question": "Hi. ", "start": 2, "seed": 1}, 0)
    assert opening == [user("Hi. Count down from 3.")]
    said = [call("play", text=text) for text in ("2", "9", "0", "1")]
    replies, _ = turns(there, *said)
    error = json.dumps({"error": "It is over: answer without a call."})
    assert replies == [["Go on."], ["Go on."], ["It is over."], [error]]
    assert environments.trl_reward([there.inner]) == [2.0]
    assert environment_reward([], [Trace((), (), reward=2.0)]) == [2.0]


def batch_of(tokenizer, use, reward, row, turns, monkeypatch):
    """A batch in which both answers say these turns, without a model."""
    ids = [tokenizer(f"{turn}<|im_end|>")["input_ids"] for turn in turns]
    monkeypatch.setattr(environment_use, "sessions", ScriptedSessions(ids))
    monkeypatch.setattr(environment_use, "local_rows", tuple)
    shape = {"batch": 1, "buckets": (512,), "seed": 0}
    prompts = batches.prompts([row], tokenizer, environment=use, **shape)
    settings = {"group": 2, "max_tokens": 64, "environment": use}
    return next(Rollouts(None, prompts, reward, tokenizer, **settings))


def count(completions, environments, **_):
    """Reads messages and calls, as rewards for TRL do."""
    made = [[len(m.get("tool_calls", ())) for m in each] for each in completions]
    assert made == [[1, 0, 1, 0, 0]] * 2
    assert [m["content"] for m in completions[1]] == ["", "2", "", "5", "Yo"]
    return [each.count for each in environments]


def test_both_kinds_are_rolled_out(families, monkeypatch):
    """Their rewards get the objects that they are written for."""
    tokenizer, limit = families["qwen3"], {"turns": 3, "max_result_tokens": 64}
    said = [call("increment", a=2), call("increment", a=3)]
    said.append("<think>\nHm\n</think>\n\nYo")
    use = environments.TRLUse(HERMES, Counter, **limit)
    given = tokenizer, use, count, {"question": "Hi"}, said
    batch = batch_of(*given, monkeypatch)
    assert batch["rewards"].tolist() == [[5.0, 5.0]]
    text = tokenizer.decode(batch["completion"][0, 0])
    assert "<tool_response>\n2\n</tool_response>" in text
    use = environments.from_verifiers(DoubleCheck())
    row = {"question": "Hi", "answer": "Yo"}
    given = tokenizer, use, environments.rubric_reward, row, ["Hmm", "Yo"]
    batch = batch_of(*given, monkeypatch)
    assert batch["rewards"].tolist() == [[1.0, 1.0]]
    assert "Are you sure?" in tokenizer.decode(batch["completion"][0, 0])
