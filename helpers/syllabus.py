"""The notebooks of the course in reading order, and the stages they train."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Lesson:
    """One notebook of the course.

    Attributes:
      file: name in notebooks/, without .ipynb.
      title: as in its first heading.
      road: its name on the road that every notebook shows.
      minutes: by preset, as measured; absent where it was not.
      stages: the runs it trains, as named in build/runs and build/results.json.
      walk: whether `make course` runs it; False where no stage depends on it.
    """

    file: str
    title: str
    road: str
    minutes: dict[str, int]
    stages: tuple[str, ...] = ()
    walk: bool = True


_STUDENTS = (
    "student_start",
    "student_labels",
    "student_offline",
    "student_plenty",
    "student",
)
LESSONS = {
    row.file[:2]: row
    for row in (
        Lesson("00_start_here", "Start here", "start", {"laptop": 1}, walk=False),
        Lesson("01_tpu", "What is a TPU?", "TPU", {"laptop": 1}, walk=False),
        Lesson(
            "02_model",
            "A language model in Flax NNX",
            "model",
            {"laptop": 1},
        ),
        Lesson(
            "03_measuring",
            "Measuring maths",
            "measuring",
            {"laptop": 1},
            ("base",),
        ),
        Lesson(
            "04_sft",
            "Supervised fine-tuning",
            "SFT",
            {"laptop": 2},
            ("sft",),
        ),
        Lesson(
            "05_rewards", "Rewards, and how models cheat them", "rewards", {"laptop": 2}
        ),
        Lesson(
            "06_policy_gradients",
            "Policy gradients by hand",
            "policy gradients",
            {"laptop": 1},
        ),
        Lesson("07_grpo", "GRPO", "GRPO", {"laptop": 3}, ("grpo", "r1_zero")),
        Lesson("08_gspo", "GSPO and friends", "GSPO", {"laptop": 3}, ("gspo",)),
        Lesson(
            "11_distillation",
            "Distillation, offline and on-policy",
            "distillation",
            {"laptop": 3},
            _STUDENTS,
        ),
        Lesson("13_scaling", "Scaling out", "scaling out", {"laptop": 2}, walk=False),
    )
}

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
}
