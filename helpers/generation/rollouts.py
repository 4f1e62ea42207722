"""Rollouts: prompts in, groups of sampled and scored answers out.

A batch source for everything that learns from its own answers: GRPO and GSPO use the
rewards, on-policy distillation only the answers. The model is the very object that the
trainer updates, so every batch is sampled from the newest weights. Several processes
sample together, each the answers to its own prompts, and score their own.
"""

import functools

import jax
import numpy as np

from helpers.batches.sources import BatchSource, require_fitting
from helpers.generation.environment_use import rows_of_turns
from helpers.generation.sampling import Dialogue, row_keys, sampled_ids
from helpers.losses.policy_gradient import FLOOR, advantages, decoupled_rewards
from helpers.rewards.functions import Reward, RewardSet, environments_of, row_columns
from helpers.runtime import distributed
from helpers.runtime.run_identity import REMEDY, describe, differences
from helpers.training.state import NothingToLearn

CUTS = 4  # completions are cut to quarters of the budget: few shapes, few programs


class Rollouts(BatchSource):
    """A batch source that samples groups of answers and scores them.

    Each batch is a dict: `prompt`, `prompt_mask` (P,Tp) int32; `completion` (P,G,T)
    int32; `loss_mask` (P,G,T) float32, 1 on every sampled token, its EOS included;
    `logprobs` (P,G,T) float32 as sampled; `rewards`, `advantages` (P,G) float32.
    `images` uint8 (P,N,H,W,3) are those of the prompts, if they have any.
    T is the longest answer that counts, rounded up to a quarter of the budget.
    `metrics` has the means of `length`, `truncated`, `reward`, each reward function's,
    and `tied_groups`, the share of groups whose rewards are equal. An environment adds
    its own, such as `broken`, the share of answers whose environment failed. Where each
    turn has a prompt of its own (`EnvironmentUse.thoughts`), turns are rows, in groups
    of one.

    Args:
      model: the policy; the trainer's own model, so that it is always up to date.
      prompts: batch source of prompts, from `prompt_batches.prompts`.
      reward: a `rewards.RewardSet`, or what makes one, such as a reward function;
        None scores nothing (distillation).
      tokenizer: from `chat.load_tokenizer`.
      group: G, answers per prompt.
      max_tokens: budget of an answer.
      seed: decides all sampling noise, with the step, the prompt and the member.
      advantage: kind of `losses.advantages`; or gdpo, which normalises each reward in
        its group before adding (`losses.decoupled_rewards`).
      mask_truncated: leave answers that ran out of budget out of the loss: what they
        would have come to is unknown. Distillation judges each token by itself, and
        loses by it.
      patience: batches in a row that may be tied throughout before it is an error.
      environment: an `EnvironmentUse` or a `ToolUse`; answers then have several turns,
        `max_tokens` is the budget of each, and rewards judge `tool.Trace` in the place
        of strings. Or a `CalculatorUse`: answers of one turn, strings, in which a
        calculator finishes the sums. None: answers of one turn.

    Raises:
      helpers.runtime.ranges.TextTooLong: the model was made for shorter texts.
    """

    def __init__(
        self,
        model,
        prompts: BatchSource,
        reward: Reward | RewardSet | None,
        tokenizer,
        *,
        group: int,
        max_tokens: int,
        seed: int = 0,
        advantage: str = "mean",
        mask_truncated: bool = True,
        patience: int = 5,
        environment: Dialogue | None = None,
    ):
        if reward is not None and not isinstance(reward, RewardSet):
            reward = RewardSet(reward)
        self.model, self.prompts = model, prompts
        self.reward: RewardSet | None = reward
        self.tokenizer, self.group, self.max_tokens = tokenizer, group, max_tokens
        self.seed, self.advantage = seed, advantage
        self.mask_truncated, self.patience = mask_truncated, patience
        self.all_tied = self.step = 0
        self.dialogue: Dialogue = environment or Dialogue()
        self.longest = prompts.longest + self.dialogue.width(max_tokens)
        require_fitting((model,), self)
        self.metrics: dict[str, float] = {}
        self.samples: list[dict] = []

    @functools.cached_property
    def _identity(self):
        """What must be the same to continue, described once before training."""
        names = ("group", "max_tokens", "seed", "advantage", "mask_truncated")
        run = {name: getattr(self, name) for name in names}
        run |= {"tokenizer": describe(self.tokenizer)} | self.dialogue.describe()
        for name, function, weight in self.reward.rewards if self.reward else ():
            described = describe(function) | {"its weight": float(weight)}
            run[f"reward {name!r}"] = described
        return run

    def get_state(self):
        """A JSON-able dict that says where this source stands."""
        return {
            "run": dict(self._identity),
            "step": self.step,
            "all_tied": self.all_tied,
            "prompts": self.prompts.get_state(),
        }

    def set_state(self, state):
        """Continues from a state; the same weights then sample the same answers.

        Raises:
          ValueError: the state is that of a run with other arguments.
        """
        self._adopt(state)
        self.prompts.set_state(state["prompts"])

    def set_states(self, states):
        """Continues from the states of all processes of a run, however many there were.

        Raises:
          ValueError: the states are those of a run with other arguments.
        """
        self._adopt(states[0])  # all but the prompts is the same in every process
        distributed.resume(self.prompts, [state["prompts"] for state in states])

    def _adopt(self, state):
        if changed := differences(state["run"], self._identity):
            raise ValueError(
                f"The saved rollouts are those of another run: {changed}. {REMEDY}"
            )
        self.step, self.all_tied = state["step"], state["all_tied"]

    def __next__(self):
        if (prompts := self._next_prompts()) is None:
            raise StopIteration
        batch = self._sample(prompts)
        self.step += 1
        if self.reward:
            self.count_tied(batch)
            batch["advantages"] = self._advantages(batch)
        if "turn_prompts" in batch:
            batch = rows_of_turns(batch, self.dialogue.turns)
        return _trimmed(batch, -(-batch["completion"].shape[-1] // CUTS))

    def _advantages(self, batch):
        if self.advantage != "gdpo":
            return np.asarray(advantages(batch["rewards"], self.advantage))
        squares = distributed.gather(float(np.mean(batch["decoupled"] ** 2)))
        std = np.sqrt(np.mean(squares, dtype=np.float32))  # 2601.05242, eq. 6
        return batch.pop("decoupled") / max(std, FLOOR)

    def _next_prompts(self):
        """The next prompts, padded alike in all processes; None once one has none."""
        prompts = distributed.together(lambda: next(self.prompts, None))
        shape = (0, 0) if prompts is None else prompts["prompt"].shape
        counts, widths = zip(*distributed.gather(shape), strict=True)
        if 0 in counts:
            return None
        if len(set(counts)) > 1:
            raise ValueError(f"{counts} prompts are left: pass epochs=None.")
        return _widened(prompts, max(widths))

    def _sample(self, prompts):
        """One batch of prompts, answered and scored, on the host."""
        index, count = distributed.share()
        if ("openings" in prompts) != self.dialogue.has_openings:
            raise ValueError("Pass environment= to batches.prompts and to Rollouts.")
        key, rows = jax.random.key(self.seed), count * len(prompts["prompt"])
        keys = row_keys(key, self.step, rows, self.group)[index::count]
        answers = self.dialogue.answers(
            self.model, self.tokenizer, prompts, keys, max_tokens=self.max_tokens
        )
        mask, ended, questions = answers.mask, answers.ended, prompts["rows"]
        if "openings" in prompts:
            pairs = zip(prompts["openings"], questions, strict=True)
            questions = [{"question": opening} | row for opening, row in pairs]
        loss_mask = mask * ended[..., None] if self.mask_truncated else mask
        loss_mask = loss_mask * ~answers.failed[..., None]  # a crash is no bad answer
        batch = {
            "prompt": prompts["prompt"],
            "prompt_mask": prompts["prompt_mask"],
            "completion": answers.tokens,
            "loss_mask": loss_mask.astype(np.float32),
            "logprobs": answers.logprobs,
        }
        if answers.turn_prompts is not None:
            batch["turn_prompts"] = answers.turn_prompts
        if "images" in prompts:
            batch["images"] = prompts["images"]
        metrics = {"length": mask.sum(axis=-1).mean(), "truncated": 1 - ended.mean()}
        metrics |= answers.metrics
        if reward := self.reward:
            rewards, means = distributed.together(
                lambda: self._score(reward, questions, answers)
            )
            batch["rewards"], parts = rewards[0], rewards[1:]
            if self.advantage == "gdpo":
                weights = [weight for *_, weight in reward.rewards]
                batch["decoupled"] = np.asarray(decoupled_rewards(parts, weights))
            self.prompts.record(batch["rewards"])
            metrics["reward"] = batch["rewards"].mean()
            metrics |= {"tied_groups": _tied(batch).mean(), **means}
        self.metrics = {name: float(value) for name, value in metrics.items()}
        self.samples = [
            {"prompt": row["question"], "completion": str(group[0])}
            for row, group in zip(questions, answers.texts, strict=True)
        ][:4]
        if self.reward:
            for sample, scores in zip(self.samples, batch["rewards"], strict=False):
                sample["reward"] = float(scores[0])
        return batch

    def _score(self, reward: RewardSet, rows, answers):
        """Rewards (1+K,P,G) float32, the sum and each function's; and their means.

        An answer whose environment failed is not judged. It has the mean of its group,
        so that it changes no advantage but by the group's size.
        """
        intact = np.flatnonzero(~answers.failed)
        flat = [text for group in answers.texts for text in group]
        texts = [flat[i] for i in intact]
        columns = row_columns([rows[i // self.group] for i in intact])
        ids = sum(sampled_ids(answers.tokens, answers.mask), [])
        columns["completion_ids"] = [ids[i] for i in intact]
        columns |= environments_of(texts)
        scores = reward.scores(columns["question"], texts, columns)
        judged = [reward.total(scores), *scores.values()]
        all_KPG = np.zeros((len(judged), *answers.failed.shape), np.float32)
        for rewards_PG, values in zip(all_KPG, judged, strict=True):
            rewards_PG.flat[intact] = values
            for group, failed in zip(rewards_PG, answers.failed, strict=True):
                if failed.any() and not failed.all():
                    group[failed] = group[~failed].mean(dtype=np.float64)
        return all_KPG, reward.means(scores)

    def count_tied(self, batch) -> None:
        """Counts batches in a row that teach nothing.

        Raises:
          NothingToLearn: they are as many as `patience`.
        """
        learns = any(distributed.gather(not _useless(batch).all()))
        self.all_tied = 0 if learns else self.all_tied + 1
        if self.all_tied >= self.patience:
            raise NothingToLearn(
                f"In {self.all_tied} batches in a row every group had equal rewards "
                f"(last mean reward {batch['rewards'].mean():.2f}), or answers that "
                f"all ran out of max_tokens={self.max_tokens}, so no update can learn "
                "anything. Choose easier or harder problems, a larger group or budget, "
                "or a reward that tells answers apart."
            )


def _trimmed(batch, step):
    """The batch, cut to the multiple of `step` that holds all answers that count."""
    counted = np.flatnonzero(batch["loss_mask"].any(axis=(0, 1)))
    longest = max(distributed.gather(int(counted[-1]) + 1 if len(counted) else 1))
    width = min(-(-longest // step) * step, batch["completion"].shape[-1])
    for name in ("completion", "loss_mask", "logprobs"):
        batch[name] = batch[name][..., :width]
    return batch


def _tied(batch):
    return np.ptp(batch.get("decoupled", batch["rewards"]), axis=1) == 0


def _useless(batch):
    """Which groups teach nothing: rewards are equal, or no token counts."""
    return _tied(batch) | ~batch["loss_mask"].any(axis=(1, 2))


def _widened(batch, width):
    """The batch with its prompts padded on the right to a larger bucket."""
    padding = [(0, 0), (0, width - batch["prompt"].shape[1])]
    names = ("prompt", "prompt_mask")
    return batch | {name: np.pad(batch[name], padding) for name in names}
