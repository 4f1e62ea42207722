"""The notebooks of the course in reading order, and the stages they train."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Lesson:
    """One notebook of the course.

    Attributes:
      file: name in notebooks/, without .ipynb; what stands before the first "_" is
        its number, such as 07 or 08b.
      title: as in its first heading.
      road: its name on the road that every notebook shows.
      minutes: by preset: as measured on a laptop, as planned on TPUs; absent where
        it trains no real weights.
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
# On TPUs: about twice what the compiler models for all steps, and time to compile.
_RL_MINUTES = {"laptop": 3, "v5e-1": 45, "v5e-8": 45}
LESSONS = {
    row.file.partition("_")[0]: row
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
            {"laptop": 2, "v5e-1": 15, "v5e-8": 15},
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
        Lesson("07_grpo", "GRPO", "GRPO", _RL_MINUTES, ("grpo", "r1_zero")),
        Lesson(
            "08_gspo",
            "GSPO and friends",
            "GSPO",
            _RL_MINUTES,
            ("gspo",),
        ),
        Lesson(
            "08b_preferences",
            "Preferences: DPO, ORPO (and what PPO adds)",
            "preferences",
            {"laptop": 3},
            walk=False,
        ),
        Lesson(
            "09_food_sft",
            "Food-101 I: look, call, answer",
            "Food-101 I",
            {"laptop": 2, "v5e-1": 30, "v5e-8": 30},
            ("food_sft",),
        ),
        Lesson(
            "10_food_grpo",
            "Food-101 II: RL with the tool in the loop",
            "Food-101 II",
            _RL_MINUTES,
            ("food_grpo", "food_blank"),
        ),
        Lesson(
            "11_distillation",
            "Distillation, offline and on-policy",
            "distillation",
            {"laptop": 3, "v5e-1": 20, "v5e-8": 20},
            _STUDENTS,
        ),
        Lesson("12_serving", "Serving it fast", "serving", {"laptop": 2}, walk=False),
        Lesson("13_scaling", "Scaling out", "scaling out", {"laptop": 2}, walk=False),
        Lesson(
            "13b_past_one_machine",
            "Past one machine",
            "past one machine",
            {"laptop": 1},
            walk=False,
        ),
        Lesson(
            "14_assistant",
            "The food-logging assistant",
            "assistant",
            {"laptop": 1},
            walk=False,
        ),
        Lesson(
            "15_own_model",
            "Your own model tonight",
            "your own model",
            {"laptop": 10, "v5e-1": 45, "v5e-8": 45},
            walk=False,
        ),
    )
}

IN_A_HURRY = ("00", "03", "04", "07", "11")  # the short road: measured, imitated, tried

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
