"""Runs are told apart by what would change their numbers, and by nothing else."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import model as make
from toy_training import Rows, Toy, assert_same_weights, squared_error

from helpers.batches.prompt_batches import packed_rows, prompts
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.model import lora
from helpers.rewards.functions import correct
from helpers.runtime.run_identity import fingerprint
from helpers.runtime.sharding import make_mesh
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import nutrition
from helpers.tools.tool import Tool
from helpers.training.checkpoint_record import write_record
from helpers.training.checkpoints import CheckpointError
from helpers.training.objectives import sft
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


@pytest.mark.parametrize(
    "settings", [{"clip": 1e-9}, {"weight_decay": 5.0}, {"b2": 0.5}]
)
def test_another_optimizer_does_not_go_on_with_a_run(tmp_path, settings):
    train(tmp_path, 2)
    with pytest.raises(CheckpointError, match="optimizer.*another folder"):
        train(tmp_path, 4, **settings)
    assert len(train(tmp_path, 4)) == 4


def test_other_starting_weights_do_not_get_the_finished_run(tmp_path):
    model = Toy()
    train(tmp_path, 2, model)
    with pytest.raises(CheckpointError, match="starting weights.*Load it again"):
        train(tmp_path, 2, model)  # trained meanwhile
    assert len(train(tmp_path, 2)) == 2


def powered(power):
    def objective(model, batch, power=power):
        loss, metrics = squared_error(model, batch)
        return loss**power, metrics

    return objective


def test_an_edited_objective_is_refused_with_old_and_new_and_how_to_go_on(tmp_path):
    train(tmp_path, 3, objective=powered(1))
    said = "default power was 1, here it is 2.*fresh=True.*moved aside.*another folder"
    with pytest.raises(CheckpointError, match=said):
        train(tmp_path, 3, objective=powered(2))


def test_a_refused_model_keeps_its_weights(tmp_path):
    """Or who goes on in another folder would start from the trained ones."""
    model = Toy()
    train(tmp_path, 3, batches=packed(), objective=weigh)
    for batches in (packed(mask=0), packed(1)):
        with pytest.raises(ValueError, match="tokens|masks"):
            train(tmp_path, 3, model, batches=batches, objective=weigh)
        assert_same_weights(model, Toy())


def packed(first=2, mask=1):
    examples = [([first, 3, 5], [0, mask, 1]), ([4, 6], [0, 1])]
    return packed_rows(examples, batch=8, length=5, seed=0)


def weigh(model, batch):
    return squared_error(model, batch | {"target": batch["positions"] * 1.0})


class Told(Toy):
    """A toy whose answer depends on a setting that is no weight."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale, self.remat, self.unroll = scale, "layer", 1

    def __call__(self, tokens_BT):
        return super().__call__(tokens_BT) * self.scale


def test_settings_of_a_model_that_are_no_weights_count(tmp_path):
    train(tmp_path, 2, Told())
    with pytest.raises(CheckpointError, match="model: scale was 1.0, here it is 2.0"):
        train(tmp_path, 2, Told(2.0))
    saving = Told()
    saving.remat, saving.unroll = "none", 2  # memory and time, not numbers
    assert len(train(tmp_path, 2, saving)) == 2


@pytest.mark.parametrize(
    "change, said",
    [
        ({"alpha": 8.0}, "adapter_scale was 2.0, here it is 4.0"),
        ({"activations": "bfloat16"}, "activations was 'float32', here"),
    ],
)
def test_scale_of_adapters_and_dtype_between_weights_count(tmp_path, change, said):
    def run(alpha=4.0, activations="float32"):
        model = lora.add(make(layers=1), 2, alpha=alpha)
        model.activations = activations
        Trainer(
            model,
            sft(),
            adamw(1e-2),
            wrt=lora.Adapter,
            folder=tmp_path,
            mesh=make_mesh(jax.devices()[:1]),
            log=False,
        ).fit(packed(), 1)

    run()
    with pytest.raises(CheckpointError, match=said):
        run(**change)


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


def test_fresh_counts_what_it_moved_and_moves_nothing_where_nothing_is(tmp_path):
    train(tmp_path, 1, fresh=True)
    assert not list(tmp_path.glob("earlier-*"))
    for _ in range(2):
        train(tmp_path, 1, fresh=True)
    assert sorted(path.name for path in tmp_path.glob("earlier-*")) == [
        "earlier-1",
        "earlier-2",
    ]


def test_fresh_is_for_the_first_fit_of_a_trainer(tmp_path):
    trainer = Trainer(
        Toy(), squared_error, adamw(1e-2), folder=tmp_path, fresh=True, log=False
    )
    batches = Rows()
    for steps in (1, 2, 4):
        assert len(trainer.fit(batches, steps)) == steps
    assert not list(tmp_path.glob("earlier-*"))


def test_a_folder_of_an_earlier_course_is_said_to_be_that(tmp_path):
    train(tmp_path, 2)
    (folder,) = (tmp_path / "checkpoints").iterdir()
    record = json.loads((folder / "checkpoint.json").read_text())["record"]
    assert record.pop("format")
    record["run"] = {"model": "Toy", "objective": "squared_error#12345678()"}
    record["batches"] = [{"count": 2}]
    write_record(folder, record)
    with pytest.raises(CheckpointError, match="earlier version.*fresh=True"):
        train(tmp_path, 2)
    assert len(train(tmp_path, 2, fresh=True)) == 2


def test_fewer_steps_than_are_done_are_refused(tmp_path):
    """Or a short run would return a longer one's table and weights."""
    train(tmp_path, 5)
    with pytest.raises(ValueError, match="5 steps are done, more than steps=3"):
        train(tmp_path, 3)
    assert len(train(tmp_path, 5)) == 5


# --- rollouts ---

TOKENIZER = train_tokenizer(["How many apples has Mia, two or three?"] * 2, 300)
ROWS = [{"question": f"{i} apples?", "answer": f"#### {i}"} for i in range(6)]


def rollouts(rewards, rows=ROWS, tools=None, tokenizer=TOKENIZER):
    """A source that is asked where it stands, and never for a batch."""
    source = prompts(rows, TOKENIZER, batch=2, seed=0)
    settings = {"group": 2, "max_tokens": 4, "tools": tools}
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
    said = refusal(one, rollouts({short(300): 0.5, correct: 1}))
    assert "reward 'short': default limit was 200, here it is 300. Pass fresh" in said
    said = refusal(one, rollouts({short(200): 0.1, correct: 1}))
    assert "reward 'short': its weight was 0.5, here it is 0.1" in said
    assert "reward 'short' was short.short, here there is none" in refusal(
        one, rollouts(correct)
    )


def weighed(weight):
    def weighed(prompts, completions, **_):
        return [weight for _ in completions]

    return weighed


def test_a_reward_s_own_weight_is_not_the_one_in_the_sum():
    said = refusal(rollouts(weighed(1)), rollouts(weighed(2)))
    assert "reward 'weighed': weight was 1, here it is 2" in said


def test_with_other_gold_answers_the_old_rewards_do_not_come_back():
    others = [{**row, "answer": "#### 9"} for row in ROWS]
    said = refusal(rollouts(correct), rollouts(correct, others))
    assert "data: column 'answer'" in said and "another folder" in said


def test_another_tool_grammar_or_tokenizer_is_refused():
    def use(price, grammar=nutrition.TINY):
        tool = Tool(nutrition.SCHEMA, lambda **arguments: {"kcal": price})
        return ToolUse(grammar, [tool])

    one = rollouts(None, tools=use(1))
    assert refusal(one, rollouts(None, tools=use(1))) == ""
    said = refusal(one, rollouts(None, tools=use(2)))
    assert "price was 1, here it is 2" in said
    shown = dataclasses.replace(nutrition.TINY, show=str)
    assert "grammar: show" in refusal(one, rollouts(None, tools=use(1, shown)))
    other = train_tokenizer(["What is Mia's dog called?"], 300)
    assert "tokenizer" in refusal(rollouts(None), rollouts(None, tokenizer=other))
