"""One table: which model, on which slice, with which algorithm, from where to where.

XPK's command and a JobSet are made of a row. Both end in a shell and in YAML, so a row
is looked at first, and what could mean anything but itself there is refused.
"""

import dataclasses
import re
from typing import NamedTuple


class OrderRefused(ValueError):
    """A value of a row has no place in a command or a manifest."""


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
# MaxText's defaults are two answers to a question, a KL, a clip at 0.2 for both (which
# never binds GSPO's ratio) and top-k 50, with which the ratio is another policy's.
SHARED = {
    "rl.num_generations": "8",
    "rl.grpo_beta": "0.0",
    "decode_sampling_temperature": "1.0",
    "decode_sampling_top_k": "-1",
    "decode_sampling_nucleus_p": "1.0",
}
ALGORITHMS = {
    "grpo": {
        "rl.loss_algo": "grpo",
        "rl.grpo_epsilon": "0.2",
        "rl.epsilon_high": "0.28",
        "rl.loss_agg_mode": "token-mean",
    },
    "gspo-token": {
        "rl.loss_algo": "gspo-token",
        "rl.grpo_epsilon": "3e-4",
        "rl.epsilon_high": "4e-4",
        "rl.loss_agg_mode": "sequence-mean-token-mean",
    },
}
REWARDS = "/course/helpers/handover/maxtext_rewards.py"  # in the image
# MaxText's own asks for <answer> tags, which these rewards do not read.
ROWS = "/course/helpers/handover/maxtext_data.py"
TRAIN = "maxtext.trainers.post_train.rl.train_rl"

_NAME = "[a-z]([-a-z0-9]{0,26}[a-z0-9])?"  # with Kueue's additions 63 letters at most
_PATH = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*"
ALLOWED = {
    "name": _NAME,
    "cluster": _NAME,
    "project": "[a-z][-a-z0-9]{4,28}[a-z0-9]",
    "zone": "[a-z]+-[a-z]+[0-9]+-[a-z]",
    "model": "[a-z][a-z0-9.-]{0,60}",
    "tokenizer": _PATH,
    "image": r"[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)+"
    r"(:[A-Za-z0-9_][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    "bucket": r"gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9][\w.-]*)*",
}
KNOWN: dict[str, list[str]] = {"slice": [*SLICES], "algorithm": [*ALGORITHMS]}
# What YAML 1.1 takes for something else than a text: words, and all kinds of numbers
# and dates, of which none has two letters in a row (but for 0x…).
NO_TEXT = re.compile(
    "y|n|yes|no|on|off|true|false|null|0x[0-9a-f_]+|[0-9][0-9._:te+-]*z?", re.IGNORECASE
)
# How tokens and keys begin that people paste: of Hugging Face, Google, GitHub, GitLab,
# OpenAI and Anthropic, Amazon, Slack, NVIDIA, Groq, npm, PyPI, a JSON web token; or 40
# hexadecimal digits, as Weights & Biases has them. Behind a letter it is a name.
SECRET = re.compile(
    r"(?<![A-Za-z0-9])(hf_[A-Za-z0-9]{8}|api_org_|ya29\.|AIza|GOCSPX-|gh[pousr]_"
    r"|github_pat_|glpat-|sk-[\w-]*[A-Za-z0-9]{16}|A[KS]IA[0-9A-Z]{12}|xox[abp]-"
    r"|nvapi-|gsk_|npm_[A-Za-z0-9]{8}|pypi-[A-Za-z0-9]{8}|eyJ[A-Za-z0-9_-]{8}"
    r"|[0-9a-f]{40}(?![0-9a-f]))"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """A row of the table: text all of it, and checked when it is made.

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
      OrderRefused: a value has other characters than its kind may have, would be no
        text in YAML, or looks like a secret.
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
        settings = {
            "model_name": self.model,
            "tokenizer_path": self.tokenizer,
            "load_parameters_path": f"{self.bucket}/{self.model}/0/items",
            "base_output_directory": f"{self.bucket}/results",
            "run_name": self.name,
            "chips_per_vm": str(self.kind.chips_per_host),
            "use_pathways": str(pathways).lower(),
            **SHARED,
            **ALGORITHMS[self.algorithm],
            "dataset_processor_path": ROWS,
            "reward_functions_path": REWARDS,
            "reward_functions": "correct,format_reward",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        return ["python3", "-m", TRAIN, *words]


def _require_plain(name, value):
    if isinstance(value, str) and SECRET.search(value):
        raise OrderRefused(
            f"{name} looks like a secret, which would be read by all who see the"
            " manifest. Keep it in a Secret of the cluster."
        )
    if name in KNOWN:
        if value not in KNOWN[name]:
            raise OrderRefused(
                f"{name}={value!r} is not known here. Choose one of"
                f" {', '.join(KNOWN[name])}, or add its row to helpers/handover/orders."
            )
        return
    rules = ALLOWED[name]
    if not isinstance(value, str) or not re.fullmatch(rules, value, re.ASCII):
        raise OrderRefused(
            f"{name}={value!r} is refused: it must be written like {rules}. In a shell"
            " or in YAML other characters could be commands."
        )
    if NO_TEXT.fullmatch(value):
        raise OrderRefused(f"{name}={value!r} is no text in YAML; choose another.")
