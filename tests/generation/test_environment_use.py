"""Conversations with environments: tokens, masks, rewards, failures and thoughts."""

import copy
import functools
import json
import random

import jax
import numpy as np
import pytest
import toy_environments
from family_tokenizers import text_of, user
from scripted_model import ScriptedSessions
from tiny_models import model as make
from toy_environments import SCRIPTED

from helpers.batches import prompt_batches
from helpers.evaluation.evaluator import score
from helpers.generation import environment_use
from helpers.generation.environment_use import EnvironmentUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import Dialogue, row_keys
from helpers.model.scoring import group_logprobs
from helpers.rewards import environment_reward
from helpers.text import chat, rendering
from helpers.text.tokenizer import train_tokenizer
from helpers.tools.environment import EnvironmentFailed, Step

ROWS = [{"secret": n} for n in range(6)]
TOKENIZER = train_tokenizer(["Guess a number. Number 7 is too small."] * 3, size=300)
GROUP, BUDGET, REPLY, TURNS = 4, 5, 48, 3


class Guess:
    """A game that a random model can play: letters count, not what they say."""

    fails = 0  # one in so many games fails in its second turn

    def reset(self, row, seed):
        self.secret, self.game = row["secret"], random.Random(seed).randrange(1000)
        self.seen = []
        return [user(f"Guess number {self.game}.")]

    def step(self, completion):
        self.seen.append(completion)
        if self.fails and len(self.seen) == 2 and len(completion) % self.fails == 0:
            raise RuntimeError("out of order")
        if len(completion.encode()) % 4 == self.secret % 4:
            return Step(done=True, reward=1.0)
        return Step([user(f"{len(completion)} is wrong.")], reward=-0.125)


def failing(share):
    return type("Failing", (Guess,), {"fails": share})


def source(environment=Guess, reward=environment_reward, tokenizer=TOKENIZER, **limits):
    settings = {"group": GROUP, "max_tokens": BUDGET, "mask_truncated": False}
    limits = {"turns": TURNS, "max_reply_tokens": REPLY} | limits
    use, rows = environment, [{"question": f"Number {n}?"} for n in range(6)]
    if not isinstance(use, EnvironmentUse):
        use, rows = EnvironmentUse(environment, **limits), ROWS
    prompts = prompt_batches.prompts(
        rows, tokenizer, batch=4, buckets=(64,), seed=0, environment=use
    )
    model = policy(len(tokenizer))
    return Rollouts(model, prompts, reward, tokenizer, environment=use, **settings)


@functools.cache
def policy(vocab):
    return make("llama", vocab=vocab, layers=2)


@pytest.fixture(autouse=True)
def often_ends(monkeypatch):
    """A fifth of all tokens end a turn, so that turns of five tokens often do."""
    real = chat.eos_ids
    monkeypatch.setattr(chat, "eos_ids", lambda t: (*real(t), *range(20, len(t), 4)))


class Notes:
    """A reward function that asks for environments, and notes what it is given."""

    def __init__(self):
        self.__name__, self.traces, self.environments, self.rows = "notes", [], [], []

    def __call__(self, prompts, completions, environments, secret, **_):
        self.traces += completions
        self.environments += environments
        self.rows += zip(prompts, secret, strict=True)
        return [float(len(each.seen)) for each in environments]


def assert_logprobs(batch):
    """They are those of a forward pass over what the loss reads."""
    names = ("prompt", "prompt_mask", "completion")
    theirs, _ = jax.jit(functools.partial(group_logprobs, policy(len(TOKENIZER))))(
        {name: batch[name] for name in names}
    )
    real = batch["loss_mask"] > 0
    assert np.abs(np.where(real, batch["logprobs"] - theirs, 0)).max() < 1e-4
    assert np.all(batch["logprobs"][~real] == 0)


def test_each_token_is_the_models_or_a_masked_reply_and_both_rewards_count():
    notes = Notes()
    rollouts = source(reward={environment_reward: 1.0, notes: 0.5})
    batch = next(rollouts)
    assert_logprobs(batch)
    prompts = [batch["prompt"][p][batch["prompt_mask"][p] > 0] for p in range(4)]
    games = [each.game for each in notes.environments]
    assert len({*games}) == 4, "each row's game has a seed of its own"
    replies = 0
    for index, (trace, there) in enumerate(
        zip(notes.traces, notes.environments, strict=True)
    ):
        p, g = place = divmod(index, GROUP)
        opening = [user(f"Guess number {there.game}.")]
        assert there.game == games[p * GROUP], "a group plays one game"
        assert notes.rows[index] == (opening, there.secret)
        expected = chat.prompt_tokens(TOKENIZER, opening)
        assert prompts[p].tolist() == expected
        tokens, mask = batch["completion"][place], batch["loss_mask"][place] > 0
        eos, start, reward, seen = chat.eos_ids(TOKENIZER), 0, 0.0, []
        for role, text in trace.segments:
            if role == "user":
                assert text == f"{len(seen[-1])} is wrong."
                ids = chat.turn_tokens(TOKENIZER, [user(text)])
                assert tokens[start : start + len(ids)].tolist() == ids
                assert not mask[start : start + len(ids)].any()
                start, replies = start + len(ids), replies + 1
                continue
            stop = start
            while stop - start < BUDGET and tokens[stop] not in eos:
                stop += 1
            turn = tokens[start:stop].tolist()
            assert TOKENIZER.decode(turn, skip_special_tokens=False) == text
            if stop - start < BUDGET:  # else it was cut off, and never stepped
                seen.append(text)
                won = len(text.encode()) % 4 == there.secret % 4
                reward += 1.0 if won else -0.125
            start = min(stop + 1, start + BUDGET)
            assert mask[stop:start].all()
        assert not mask[start:].any()
        assert seen == there.seen and reward == trace.reward
        assert batch["rewards"][place] == reward + 0.5 * len(seen)
    assert replies > 5


def of_kind(kind):
    """Rollouts with one of the `toy_environments`."""
    tokenizer = with_template(TOKENIZER, SCRIPTED if kind == "drop" else None)
    return source(*toy_environments.make(kind, TURNS, REPLY), tokenizer)


@pytest.mark.parametrize("kind", toy_environments.KINDS)
def test_a_conversation_alone_is_that_of_the_batch(kind):
    rollouts = of_kind(kind)
    prompts, keys = next(rollouts.prompts), row_keys(jax.random.key(1), 0, 4, GROUP)
    given = rollouts.model, rollouts.tokenizer
    ask = functools.partial(rollouts.dialogue.answers, *given, max_tokens=BUDGET)
    batch = ask(prompts, keys)
    for p, g in ((0, 1), (2, 3), (3, 0)):
        one = {name: x[p : p + 1] for name, x in prompts.items()}
        alone = ask(one, keys[p : p + 1, g : g + 1])
        for name in ("tokens", "mask", "ended"):
            assert np.array_equal(
                getattr(alone, name)[0, 0], getattr(batch, name)[p, g]
            )
        np.testing.assert_allclose(
            alone.logprobs[0, 0], batch.logprobs[p, g], atol=1e-5
        )
        assert alone.texts[0][0] == batch.texts[p][g]
    assert batch.metrics["turns"] > 1.3


@pytest.mark.parametrize("kind", toy_environments.KINDS)
def test_a_killed_run_goes_on_with_the_same_games(kind):
    alone, killed, resumed = (of_kind(kind) for _ in range(3))
    expected = [next(alone) for _ in range(2)][1]
    next(killed)
    resumed.set_state(json.loads(json.dumps(killed.get_state())))
    batch = next(resumed)
    for name, x in expected.items():
        np.testing.assert_array_equal(batch[name], x, err_msg=name)


def test_a_row_has_a_new_seed_whenever_it_is_drawn():
    prompts = source().prompts
    seeds = sum((next(prompts)["seeds"] for _ in range(9)), [])
    assert len({*seeds}) == 36


def test_a_run_goes_on_with_the_same_limits():
    with pytest.raises(ValueError, match="turns was 3, here it is 2"):
        source(turns=2).set_state(source().get_state())


@pytest.mark.parametrize("thoughts", ["keep", "drop"])
def test_an_environment_that_fails_ends_its_row_which_teaches_nothing(thoughts):
    notes, tokenizer = Notes(), with_template(TOKENIZER, SCRIPTED)
    rewards = {environment_reward: 1.0, notes: 0.0}
    limits = {"failures": 0.9, "thoughts": thoughts}
    rollouts = source(failing(2), rewards, tokenizer, **limits)
    batch = next(rollouts)
    for name in ("loss_mask", "rewards", "advantages"):  # of answers, not of turns
        batch[name] = batch[name].reshape(4, GROUP, -1)
    learned = batch["loss_mask"].any(axis=-1)
    batch |= {name: batch[name][..., 0] for name in ("rewards", "advantages")}
    intact = iter(notes.traces)
    assert rollouts.metrics["broken"] == 1 - learned.mean()
    assert 0 < rollouts.metrics["broken"] < 0.9
    for learns, rewards, gains in zip(
        learned, batch["rewards"], batch["advantages"], strict=True
    ):
        known = [next(intact).reward for _ in range(learns.sum())]
        assert rewards[learns].tolist() == known
        assert np.allclose(gains[~learns], 0)
        assert np.all(rewards[~learns] == np.float32(np.mean(known)))
    assert next(intact, None) is None, "no reward function judges a crash"
    with pytest.raises(EnvironmentFailed, match="a share of 0 may") as caught:
        next(source(failing(2), failures=0))
    assert str(caught.value.__cause__) == "out of order"


def test_resets_that_fail_or_differ_and_replies_that_cannot_be_read():
    class Fails(Guess):
        def reset(self, row, seed):
            return [user(f"Guess {random.random():.2f}")]  # not of the seed

    with pytest.raises(ValueError, match="must always begin alike"):
        next(source(Fails))
    # Too long, no content, not finite, nothing to go on with, another library's order.
    steps = [Step([user("9" * 99)]), Step([{"role": "user"}]), Step((), True, np.nan)]
    steps += [Step(), ([user("No")], 1.0, False)]
    for role in ("judge", "assistant"):
        steps.append(Step([{"role": role, "content": "No"}]))
    for step in steps:
        odd = type("Odd", (Guess,), {"step": lambda self, text, step=step: step})
        with pytest.raises(EnvironmentFailed):
            next(source(odd))
    alone = source()
    alone.dialogue = Dialogue()
    with pytest.raises(ValueError, match="environment= to .* and to Rollouts"):
        next(alone)


def test_a_game_is_scored_and_evaluated_like_text():
    limits = {"turns": 2, "max_reply_tokens": REPLY, "failures": 0.9}
    shape = {"max_tokens": BUDGET, "buckets": (64,), "log": False}
    given = policy(len(TOKENIZER)), TOKENIZER, ROWS * 3, environment_reward
    measured = score(*given, environment=EnvironmentUse(Guess, **limits), **shape)
    rewards = {row["reward"] for row in measured.answers}
    assert rewards <= {1.0, 0.875, -0.125, -0.25, 0.0}
    with pytest.warns(UserWarning, match="environments failed"):
        score(*given, environment=EnvironmentUse(failing(1), **limits), **shape)


# --- templates that drop the thoughts of earlier turns ---


def with_template(tokenizer, template):
    if template is None:
        return tokenizer
    changed = copy.deepcopy(tokenizer)
    changed.chat_template = template
    return changed


@pytest.mark.parametrize(
    "family, template, role, drops",
    [
        ("qwen3", None, "user", True),
        ("qwen3", None, "tool", False),  # one question, so its thoughts stay
        ("qwen2", None, "user", False),  # it knows no thoughts: they are text
        ("gemma4", None, "user", True),
        ("gemma4", None, "tool", False),
        ("gemma3_text", None, "user", False),
        ("gemma3_text", SCRIPTED, "user", True),
    ],
)
def test_templates_that_drop_thoughts_are_known(
    families, family, template, role, drops
):
    tokenizer = with_template(families[family], template)
    assert (
        rendering.drops_thoughts(tokenizer, str(tokenizer.chat_template), role) == drops
    )


class Talk:
    """Two turns, whatever the model says."""

    def reset(self, row, seed):
        self.said = []
        return [user("Hi")]

    def step(self, completion):
        self.said.append(completion)
        return Step([user("Bye")], done=len(self.said) == 2)


THINK = "<think>\nHmm\n</think>\n\n"
SAYS = {  # a thought, what begins a prompt and a turn, what ends one, whose turn it is
    "qwen3": (THINK, "", "<|im_start|>", "<|im_end|>", "assistant"),
    "gemma4": (
        "<|channel>thought\nHmm<channel|>", "<bos>", "<|turn>", "<turn|>", "model"
    ),
    "gemma3_text": (THINK, "", "<start_of_turn>", "<end_of_turn>", "assistant"),
}  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("family", SAYS)
@pytest.mark.parametrize("thoughts", ["keep", "drop"])
def test_thoughts_are_kept_or_each_turn_has_a_prompt_of_its_own(
    families, family, thoughts, count, monkeypatch
):
    """Token by token: no thought is in the next prompt, each is in its own turn."""
    thought, bos, begin, end, model = SAYS[family]
    template = SCRIPTED if family == "gemma3_text" else None
    tokenizer = with_template(families[family], template)
    turns = [f"{thought}Yo{end}", f"{thought}Ciao{end}"]
    ids = [tokenizer(turn, add_special_tokens=False)["input_ids"] for turn in turns]
    monkeypatch.setattr(environment_use, "sessions", ScriptedSessions(ids))
    monkeypatch.setattr(environment_use, "local_rows", tuple)
    use = EnvironmentUse(Talk, turns=3, max_reply_tokens=24, thoughts=thoughts)
    prompts = prompt_batches.prompts(
        [{}] * count, tokenizer, batch=count, buckets=(16,), seed=0, environment=use
    )
    settings = {"group": 2, "max_tokens": 32, "environment": use}
    batch = next(Rollouts(None, prompts, environment_reward, tokenizer, **settings))
    real = batch["prompt_mask"] > 0
    prompts = [
        text_of(tokenizer, x[r]) for x, r in zip(batch["prompt"], real, strict=True)
    ]
    asked = f"{bos}{begin}user\nHi{end}\n{begin}{model}\n"
    reply = f"\n{begin}user\nBye{end}\n{begin}{model}\n"
    if thoughts == "keep":
        assert prompts == [asked] * count
        (reply_ids,) = chat.encode(tokenizer, [reply])
        expected = ids[0] + reply_ids + ids[1]
        mask = [1] * len(ids[0]) + [0] * len(reply_ids) + [1] * len(ids[1])
        for place in np.ndindex(count, 2):
            tokens, counts = batch["completion"][place], batch["loss_mask"][place]
            assert tokens[: len(mask)].tolist() == expected
            assert counts[: len(mask)].tolist() == mask
            assert not counts[len(mask) :].any()
        return
    assert prompts == [asked, f"{asked}Yo{end}{reply}", asked] * 2 * count
    for row, turn in enumerate([*ids, []] * 2 * count):
        assert batch["completion"][row, 0, : len(turn)].tolist() == turn
        assert batch["loss_mask"][row, 0].sum() == len(turn)
        assert (batch["logprobs"][row, 0, : len(turn)] == -0.5).all()


def test_turns_with_prompts_of_their_own_have_the_log_probs_of_their_rows():
    notes, tokenizer = Notes(), with_template(TOKENIZER, SCRIPTED)
    rewards = {environment_reward: 1.0, notes: 0.0}
    rollouts = source(reward=rewards, tokenizer=tokenizer, thoughts="drop")
    batch = next(rollouts)
    assert_logprobs(batch)
    assert batch["completion"].shape[:2] == (4 * GROUP * TURNS, 1)
    rows = iter(range(4 * GROUP * TURNS))
    for trace, there in zip(notes.traces, notes.environments, strict=True):
        history, segments = [user(f"Guess number {there.game}.")], list(trace.segments)
        for _ in range(TURNS):
            row = next(rows)
            assert batch["rewards"][row, 0] == trace.reward
            if not segments:
                assert not batch["loss_mask"][row].any()
                continue
            (_, text), *replies = segments[:2]
            ids = batch["prompt"][row][batch["prompt_mask"][row] > 0].tolist()
            assert ids == chat.prompt_tokens(tokenizer, history)
            turn = batch["completion"][row, 0][batch["loss_mask"][row, 0] > 0]
            ended = turn[-1] in chat.eos_ids(tokenizer)
            assert environment_use.turn_text(tokenizer, turn, ended) == text
            history.append({"role": "assistant", "content": text.strip()})
            history += [user(content) for _, content in replies]
            segments = segments[2:]
    assert rollouts.metrics["turns"] > 1.3
