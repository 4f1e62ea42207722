"""Environments of TRL and verifiers as ours, and ours as TRL's.

TRL takes a class (`environment_factory`). Its `reset(**row)` returns what to add to the
prompt, its public methods are tools, and reward functions read its attributes.
verifiers has one object for all conversations, which reads and writes a `state` of
each, and a rubric that scores it. Neither library is imported.
"""

import contextlib
import dataclasses
import functools
import inspect
import json
import random
import threading
import time

import numpy as np

from helpers.generation.environment_use import EnvironmentUse
from helpers.generation.tool_use import ToolEnvironment, ToolUse
from helpers.rewards.functions import call_by_name
from helpers.runtime.run_identity import describe
from helpers.tools.environment import Step
from helpers.tools.tool import Tool, tool

_SEEDED = threading.Lock()


class TRLUse(ToolUse):
    """A `ToolUse` of a class that is written for TRL's `environment_factory`.

    Every answer has an object of its own, which is what `environments` gives to reward
    functions. Type hints and docstrings of its methods become the tools' schemas; an
    exception in one is the reply, as in TRL. TRL's `reset` has no seed, so the random
    numbers of `random` and NumPy are seeded while it runs.

    Args:
      grammar: of the model's family, from `helpers.tools.grammars`.
      factory: the class, or a function without arguments that makes its objects.
      limits: as for `ToolUse`.
    """

    has_openings = True

    def __init__(self, grammar, factory, **limits):
        named = inspect.getmembers(factory(), inspect.ismethod)
        tools = [tool(m) for name, m in named if name != "reset" and name[0] != "_"]
        super().__init__(dataclasses.replace(grammar, show=_shown), tools, **limits)
        self.factory = factory

    def describe(self):
        """What must be the same for a run to be resumed."""
        limits = {"turns": self.turns, "max_result_tokens": self.max_result_tokens}
        limits["thoughts"] = self.thoughts
        return limits | {"environment": describe(self.factory)}

    def of_environment(self, environment):
        """The calls that were run, and the object of the class."""
        return environment.calls, environment.inner

    def _environment(self):
        return _FromTRL(self, self.factory())


class _FromTRL(ToolEnvironment):
    """An object of a class for TRL, as `Environment`."""

    at_once = 1  # they change the object

    def __init__(self, use, inner):
        self.inner, self.odd = inner, None  # a result that is no text
        methods = [(x.schema, getattr(inner, x.name)) for x in use.tools]
        tools = [Tool(x, functools.partial(self._run, run)) for x, run in methods]
        super().__init__(use, tools)

    def reset(self, row, seed):
        """The row's messages, with the observation at their end if there is one."""
        messages = _messages(row)
        with _seeded(seed):
            given = {"prompt": messages} | row
            observation = call_by_name(self.inner.reset, given)
        if observation is None:
            return messages
        if not isinstance(observation, str):
            raise TypeError(f"reset gave {observation!r:.99}, not a text or None.")
        last = messages[-1]
        return [*messages[:-1], last | {"content": last["content"] + observation}]

    def step(self, completion):
        """Runs the calls of a turn."""
        step = super().step(completion)
        if self.odd is not None:
            raise TypeError(f"A tool gave {self.odd!r:.99}. Only texts are read here.")
        return step

    def _run(self, method, **arguments):
        """The method as `Tool.run`: its result as text, or its exception."""
        try:
            result = call_by_name(method, arguments)
        except Exception as error:
            return {"error": str(error)}
        text, given = str(result), result if isinstance(result, list) else []
        parts = [x for x in given if isinstance(x, dict) and "type" in x]
        # An object without a text of its own would show its address.
        if parts or (" at 0x" in text and not isinstance(result, str)):
            self.odd = result
        return {"result": text}


def _shown(result, call=None):
    return result["result"] if "result" in result else json.dumps(result)


@contextlib.contextmanager
def _seeded(seed):
    """Seeds the random numbers that all code shares, and restores them."""
    with _SEEDED:
        ours, theirs = random.getstate(), np.random.get_state()
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(ours)
            np.random.set_state(theirs)


def from_verifiers(environment, *, turns=None, **limits) -> EnvironmentUse:
    """An `EnvironmentUse` of a `MultiTurnEnv` of verifiers, or what has its methods.

    It calls `setup_state`, `is_completed` and `env_response`, by the names of their
    parameters, and awaits those that are async. Rows are those of its data set:
    "prompt" (or "question"), "answer", "info", "task". The reward is `rubric_reward`.

    Args:
      turns: most turns; None: its `max_turns`.
      limits: as for `EnvironmentUse`.
    Raises:
      ValueError: neither says how many turns there are, or it has tools.
    """
    if any(getattr(environment, x, None) for x in ("tools", "tool_defs", "oai_tools")):
        raise ValueError("Its tools would never be called: pass them to a ToolUse.")
    turns = turns or getattr(environment, "max_turns", -1)
    make = functools.partial(VerifiersEnvironment, environment, turns)
    return EnvironmentUse(make, turns=turns, **limits)


class VerifiersEnvironment:
    """One conversation of an environment of verifiers, as `Environment`.

    turns: after which nothing is replied.
    state: what verifiers knows of it, such as "prompt", "completion" and "turn".
    """

    def __init__(self, inner, turns):
        self.inner, self.turns, self.state = inner, turns, {}

    def reset(self, row, seed):
        """The row's prompt, behind the environment's system prompt and examples."""
        prompt, system = _messages(row), getattr(self.inner, "system_prompt", None)
        if "prompt" not in row:  # else its examples are in there
            prompt = [*(getattr(self.inner, "few_shot", None) or ()), *prompt]
        if system and prompt[0]["role"] != "system":
            prompt = [{"role": "system", "content": system}, *prompt]
        if isinstance(row.get("info"), str):  # JSON, as verifiers' data sets may have
            row = row | {"info": json.loads(row["info"])}
        defaults = {"answer": "", "task": "default", "info": {}, "example_id": 0}
        empty: dict = {"completion": [], "responses": [], "trajectory": []}
        timing = dict.fromkeys(("generation_ms", "scoring_ms", "total_ms"), 0.0)
        timing["start_time"] = time.time()
        started = {"turn": 0, "timing": timing, "metrics": {}, "input": row}
        self.state = defaults | row | {"prompt": prompt} | empty | started
        if hasattr(self.inner, "setup_state"):
            self.state = self._call(self.inner.setup_state) or self.state
        return self.state["prompt"]

    def step(self, completion):
        """Completed, or the environment's response."""
        state = self.state
        messages = [{"role": "assistant", "content": completion}]
        before = state["prompt"] + state["completion"]
        state["completion"] = state["completion"] + messages
        state["turn"] += 1
        taken = {"prompt": before, "completion": messages, "extras": {}}
        taken |= dict.fromkeys(("response", "tokens", "reward", "advantage"))
        state["trajectory"] = [*state["trajectory"], taken]
        state["responses"] = [*state["responses"], None]  # older versions count them
        if self._call(self.inner.is_completed) or state["turn"] == self.turns:
            return Step(done=True)
        response = self._call(self.inner.env_response)
        if isinstance(response, tuple):  # older versions return the state, too
            response, self.state = response
        response = _listed(response)
        self.state["completion"] = self.state["completion"] + response
        is_final = self.state.get("final_env_response") is not None
        return Step(response, done=is_final)

    def score(self, completion) -> float:
        """What the rubric gives for a completion, a list of messages."""
        final = self.state.get("final_env_response") or []  # which no turn follows
        self.state["completion"] = [*completion, *_listed(final)]
        result = self._call(self.inner.rubric.score_rollout)
        return float(result.reward if result is not None else self.state["reward"])

    def _call(self, function):
        messages = self.state["prompt"] + self.state["completion"]
        given = {**self.state, "state": self.state, "messages": messages}
        return call_by_name(function, given)


def rubric_reward(prompts, completions, environments, **_):
    """A reward function: what the rubrics of `from_verifiers` give."""
    pairs = zip(environments, completions, strict=True)
    return [environment.score(trace.messages) for environment, trace in pairs]


def _messages(row):
    """The messages of a row's "prompt" or "question"."""
    return _listed(row["prompt"] if "prompt" in row else row["question"])


def _listed(messages):
    """A list of messages: of a text, of one message, or of several."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [messages] if isinstance(messages, dict) else list(messages)


def for_trl(make, *, turns):
    """A class for TRL's `environment_factory`, of environments of ours.

    TRL lets a model act by calling tools, so the class has one tool, `play`, whose text
    is a turn, and whose result is the reply. A column "seed" of the data set is the
    seed of a row. Its reward is `trl_reward`.

    Args:
      make: as for `EnvironmentUse`. turns: most turns.
    """

    class EnvironmentForTRL:
        def reset(self, seed=0, **row):
            """Begins; the opening is added to the prompt."""
            self.environment, self.turn, self.reward, self.done = make(), 0, 0.0, False
            opening = self.environment.reset(row, seed)
            return _texts(opening) if opening else None

        def play(self, text: str) -> str:
            """
            Takes your next turn.

            Args:
                text: What you say in this turn.

            Returns:
                The reply to it.
            """
            if self.done:
                raise ValueError("It is over: answer without a call.")
            step = Step(*self.environment.step(text))
            self.turn += 1
            self.reward += step.reward
            self.done = step.done or self.turn == turns
            return "It is over." if self.done else _texts(step.messages)

    return EnvironmentForTRL


def _texts(messages):
    return "\n".join(message["content"] for message in messages)


def trl_reward(environments, **_):
    """A reward function for TRL: what the steps of `for_trl` gave."""
    return [environment.reward for environment in environments]
