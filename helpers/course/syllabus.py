"""The notebooks of the course in reading order, and the stages they train."""

from typing import NamedTuple


class Lesson(NamedTuple):
    """One notebook of the course.

    Attributes:
      file: name in notebooks/ without .ipynb; it begins with the number, 07 or 08b.
      title: as in its first heading.
      road: its short name on the road that every notebook shows.
      laptop: minutes on a laptop, as measured.
      tpu: minutes planned on a TPU; 0 where no real weights are trained.
      stages: the runs it trains, as named in build/runs and build/results.json.
      walk: whether `make course` runs it; False where no stage depends on it.
    """

    file: str
    title: str
    road: str
    laptop: int
    tpu: int = 0
    stages: tuple[str, ...] = ()
    walk: bool = True

    @property
    def minutes(self) -> dict[str, int]:
        """Minutes by preset."""
        on_tpu = {"v5e-1": self.tpu, "v5e-8": self.tpu} if self.tpu else {}
        return {"laptop": self.laptop} | on_tpu


# Names of the stages in tables and figures, in the order of the walk.
STAGES = {
    "base": "base",
    "sft": "SFT",
    "r1_zero": "GRPO from base",
    "grpo": "GRPO",
    "gspo": "GSPO",
    "student_start": "student, start",
    "student_labels": "student, more labels",
    "student_offline": "student, offline KL",
    "student_plenty": "student, plentiful labels",
    "student": "student, distilled",
    "food_sft": "food, SFT",
    "food_grpo": "food, GRPO",
    "food_blank": "food, black pictures",
}
_STUDENTS = tuple(name for name in STAGES if name.startswith("student"))
_PREFERENCES = "Preferences: DPO, ORPO (and what PPO adds)"

# Minutes on TPUs are about twice what the compiler models for all steps, and compiling.
_ROWS = (
    Lesson("00_start_here", "Start here", "start", 1, walk=False),
    Lesson("01_tpu", "What is a TPU?", "TPU", 1, walk=False),
    Lesson("02_model", "A language model in Flax NNX", "model", 1),
    Lesson("03_measuring", "Measuring maths", "measuring", 1, 0, ("base",)),
    Lesson("04_sft", "Supervised fine-tuning", "SFT", 2, 15, ("sft",)),
    Lesson("05_rewards", "Rewards, and how models cheat them", "rewards", 2),
    Lesson("06_policy_gradients", "Policy gradients by hand", "policy gradients", 1),
    Lesson("07_grpo", "GRPO", "GRPO", 3, 45, ("grpo", "r1_zero")),
    Lesson("08_gspo", "GSPO and friends", "GSPO", 3, 45, ("gspo",)),
    Lesson("08b_preferences", _PREFERENCES, "preferences", 3, walk=False),
    Lesson(
        "09_food_sft",
        "Food-101 I: look, call, answer",
        "Food-101 I",
        *(2, 30, ("food_sft",)),
    ),
    Lesson(
        "10_food_grpo",
        "Food-101 II: RL with the tool in the loop",
        "Food-101 II",
        *(3, 45, ("food_grpo", "food_blank")),
    ),
    Lesson(
        "11_distillation",
        "Distillation, offline and on-policy",
        "distillation",
        *(3, 20, _STUDENTS),
    ),
    Lesson("12_serving", "Serving it fast", "serving", 2, walk=False),
    Lesson("13_scaling", "Scaling out", "scaling out", 2, walk=False),
    Lesson(
        "13b_past_one_machine", "Past one machine", "past one machine", 1, walk=False
    ),
    Lesson("14_assistant", "The food-logging assistant", "assistant", 1, walk=False),
    Lesson(
        "15_own_model", "Your own model tonight", "your own model", 10, 45, walk=False
    ),
)
LESSONS = {row.file.partition("_")[0]: row for row in _ROWS}
IN_A_HURRY = ("00", "03", "04", "07", "11")  # the short road: measure, imitate, try
