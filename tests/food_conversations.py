"""Hand-written conversations with the nutrition tool, and what each one earns."""

import pathlib
import tomllib

PIZZA = [{"food": "pizza", "grams": 150}]  # 268 kcal per 100 g: 402
PLATE = [{"food": "pizza", "grams": 100}, {"food": "steak", "grams": 200}]  # 268 + 438
PICTURES = {"pizza": PIZZA, "plate": PLATE, "nothing": []}
NAMES = (
    *("solved", "well_formed", "right_food", "right_grams", "tools_numbers"),
    *("final_format", "thinks", "needless_calls", "declined"),
)
_CASES = tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text("utf-8"))
# name: what is on the picture, the assistant's turns, and the nine rewards.
CASES = {
    name: (PICTURES[case["picture"]], case["turns"], tuple(case["rewards"]))
    for name, case in _CASES.items()
}
