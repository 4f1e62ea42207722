"""Which model trains on which slice, as XPK's command and as a Kubernetes JobSet.

Both end in a shell and in YAML, so the values of an `Order` are checked when it is
made: what could be a command there, or anything else than a text, is refused.
"""

import dataclasses
import json
import pathlib
import re
import string
from typing import NamedTuple


class OrderRefused(ValueError):
    """A value of an order has no place in a command or a manifest."""


class SliceKind(NamedTuple):
    """What Google's Kubernetes calls a slice: labels of its nodes, hosts, and chips."""

    accelerator: str
    topology: str
    hosts: int
    chips_per_host: int


# As XPK 1.16 has them; `make handover-check` compares.
SLICES = {
    "v5litepod-8": SliceKind("tpu-v5-lite-podslice", "2x4", 2, 4),
    "v5litepod-16": SliceKind("tpu-v5-lite-podslice", "4x4", 4, 4),
    "v6e-8": SliceKind("tpu-v6e-slice", "2x4", 2, 4),
    "v5p-8": SliceKind("tpu-v5p-slice", "2x2x1", 1, 4),
    "v5p-128": SliceKind("tpu-v5p-slice", "4x4x4", 16, 4),
}
# In MaxText's image, where this course is /course. MaxText's own rows ask for <answer>
# tags, which no reward here reads. Its defaults are two answers to a question, a KL, a
# clip at 0.2 for both (which never binds GSPO's ratio) and top-k 50, with which the
# ratio is another policy's.
TRAIN = """
python3 -m maxtext.trainers.post_train.rl.train_rl
model_name=$model tokenizer_path=$tokenizer
load_parameters_path=$bucket/$model/0/items base_output_directory=$bucket/results
run_name=$name chips_per_vm=$chips_per_host use_pathways=$pathways
rl.num_generations=8 rl.grpo_beta=0.0 decode_sampling_temperature=1.0
decode_sampling_top_k=-1 decode_sampling_nucleus_p=1.0 $loss
dataset_processor_path=/course/helpers/handover/rewards.py
reward_functions_path=/course/helpers/handover/rewards.py
reward_functions=correct,format_reward
"""
LOSSES = {
    "grpo": "rl.loss_algo=grpo rl.grpo_epsilon=0.2 rl.epsilon_high=0.28 "
    "rl.loss_agg_mode=token-mean",
    "gspo-token": "rl.loss_algo=gspo-token rl.grpo_epsilon=3e-4 rl.epsilon_high=4e-4 "
    "rl.loss_agg_mode=sequence-mean-token-mean",
}
PATHWAYS = """
xpk workload create-pathways --workload=$name --cluster=$cluster --project=$project
--zone=$zone --tpu-type=$slice --num-slices=1 --docker-image=$image
--pathways-gcs-location=$bucket/pathways
"""
# A host that is preempted restarts the job, which resumes. HF_TOKEN comes from the
# cluster's Secret "hf-token".
JOBSET = pathlib.Path(__file__).with_name("jobset.json")

_NAME = "[a-z]([-a-z0-9]{0,26}[a-z0-9])?"  # with Kueue's additions 63 letters at most
_PATH = r"[A-Za-z0-9][\w.-]*([/:@][A-Za-z0-9][\w.-]*)*"
PATTERNS = {"name": _NAME, "cluster": _NAME, "bucket": f"gs://{_PATH}"}
CHOICES: dict[str, list[str]] = {"slice": [*SLICES], "algorithm": [*LOSSES]}
# Words, numbers and dates are no texts in YAML 1.1.
NO_TEXT = re.compile(
    "y|n|yes|no|on|off|true|false|null|0x[0-9a-f_]+|[0-9][0-9._:te+-]*z?", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """What to train where; all values are text, and checked when it is made.

    Attributes:
      name: of the workload.
      model, tokenizer: MaxText's name of the model, such as "llama3.1-70b"; a
        repository of Hugging Face, or a folder of the image.
      slice: of `SLICES`, in Google Cloud's counting: "v5p-128" has 64 chips.
      image: of the container, with MaxText and this course in /course.
      bucket: gs:// folder of checkpoints (in `<model>/0/items`) and results.
      algorithm: grpo or gspo-token.
      cluster, project, zone: where XPK finds the cluster.
    Raises:
      OrderRefused: a value has characters that its kind may not have, or would be no
        text in YAML.
    """

    name: str
    model: str
    tokenizer: str
    slice: str
    image: str
    bucket: str
    algorithm: str
    cluster: str
    project: str
    zone: str

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _require_plain(field.name, getattr(self, field.name))

    @property
    def kind(self) -> SliceKind:
        """The slice, as Kubernetes knows it."""
        return SLICES[self.slice]

    def training(self, pathways: bool) -> list[str]:
        """The words of the command that trains, for a container's shell.

        Args:
          pathways: whether one process drives all chips through Pathways.
        """
        loss = LOSSES[self.algorithm]
        return self.filled(TRAIN, pathways=str(pathways).lower(), loss=loss).split()

    def filled(self, template: str, **values) -> str:
        """A template with this order's values, which need no quotes, and others."""
        values |= vars(self) | self.kind._asdict()
        return string.Template(template).substitute(values)


def _require_plain(name, value):
    if not isinstance(value, str):
        raise OrderRefused(f"{name}={value!r} is no text.")
    known, pattern = CHOICES.get(name, [value]), PATTERNS.get(name, _PATH)
    if value not in known:
        problem = f"is not known here. Choose one of {', '.join(known)}"
    elif not re.fullmatch(pattern, value, re.ASCII):
        problem = (
            f"is refused: it must be written like {pattern}. In a shell or in YAML "
            "other characters could be commands"
        )
    elif NO_TEXT.fullmatch(value):
        problem = "is no text in YAML; choose another"
    else:
        return
    raise OrderRefused(f"{name}={value!r} {problem}.")


def pathways_command(order: Order, manifest: str | None = None) -> list[str]:
    """`xpk workload create-pathways` as a list of words, for `subprocess.run`.

    Args:
      order: what to train.
      manifest: file that XPK writes its JobSet to, and starts nothing; None: it starts.
    """
    command = " ".join(order.training(pathways=True))
    words = [*order.filled(PATHWAYS).split(), f"--command={command}"]
    if manifest is not None:
        words += ["--dry-run", "--skip-validation"]
        words += [f"--output-manifest-file={manifest}"]
    return words


def jobset(order: Order) -> dict:
    """The manifest without Pathways: every host of the slice runs the same program."""
    command = json.dumps(order.training(pathways=False))
    return json.loads(order.filled(JOBSET.read_text(), command=command))


def as_text(manifest: dict) -> str:
    """A manifest as JSON, which is YAML where no text can be anything but a text."""
    return json.dumps(manifest, indent=2) + "\n"
