"""Hand-written conversations with the nutrition tool, and what each one earns."""

PIZZA = [{"food": "pizza", "grams": 150}]  # 268 kcal per 100 g: 402
PLATE = [{"food": "pizza", "grams": 100}, {"food": "steak", "grams": 200}]  # 268 + 438
NOTHING = []
NAMES = (
    *("solved", "well_formed", "right_food", "right_grams", "tools_numbers"),
    *("final_format", "thinks", "needless_calls", "declined"),
)

# name: what is on the picture, the assistant's turns, and the nine rewards.
CASES = {
    "right": (
        PIZZA, ["I see pizza. <<lookup pizza 150>>", "#### 402"],
        (1, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "right, with the unit": (
        PIZZA, ["I see pizza. <<lookup pizza 150>>", "It has\n#### 402 kcal"],
        (1, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "another name of the food": (
        PIZZA, ["Mmh. <<lookup cheese pizza 150>>", "#### 402"],
        (1, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "nothing thought": (
        PIZZA, ["<<lookup pizza 150>>", "#### 402"], (1, 1, 1, 1, 1, 1, 0, 0, 0),
    ),
    "thought too long": (
        PIZZA, ["pizza " * 40 + "<<lookup pizza 150>>", "#### 402"],
        (1, 1, 1, 1, 1, 1, 0, 0, 0),
    ),
    "rambles before the answer": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "hm " * 80 + "\n#### 402"],
        (1, 1, 1, 1, 1, 1, 0, 0, 0),
    ),
    "wrong food": (
        PIZZA, ["I see sushi. <<lookup sushi 150>>", "#### 218"],
        (0, 1, 0, 0, 1, 1, 1, -1 / 8, 0),
    ),
    "wrong grams": (
        PIZZA, ["I see pizza. <<lookup pizza 100>>", "#### 268"],
        (0, 1, 1, 0, 1, 1, 1, 0, 0),
    ),
    "unknown food, then the right one": (
        PIZZA, ["Pizza. <<lookup pizzza 150>>", "<<lookup pizza 150>>", "#### 402"],
        (1, 1, 1 / 2, 1 / 2, 1, 1, 1, -1 / 8, 0),
    ),
    "malformed, then right": (
        PIZZA, ["Pizza. <<lookup 150>>", "<<lookup pizza 150>>", "#### 402"],
        (1, 0, 1, 1, 1, 1, 1, 0, 0),
    ),
    "another number than the tool's": (
        PIZZA, ["I see pizza. <<lookup pizza 150>>", "#### 400"],
        (0, 1, 1, 1, 0, 1, 1, 0, 0),
    ),
    "the number known by heart, no call": (
        PIZZA, ["I see pizza.\n#### 402"], (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
    "the result invented after the call": (
        PIZZA, ["Pizza. <<lookup pizza 150>>\nkcal 402\n#### 402", "#### 402"],
        (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
    "a call only in a thought": (
        PIZZA, ["<think><<lookup pizza 150>> kcal 402</think>#### 402"],
        (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
    "called twice": (
        PIZZA, ["Pizza. <<lookup pizza 150>><<lookup pizza 150>>", "#### 402"],
        (1, 1, 1 / 2, 1 / 2, 1, 1, 1, -1 / 8, 0),
    ),
    "called four foods at once": (
        PIZZA,
        ["Food. <<lookup pizza 150>><<lookup sushi 150>><<lookup pho 9>>"
         "<<lookup steak 1>>", "#### 402"],
        (1, 1, 1 / 4, 1 / 4, 1, 1, 1, -3 / 8, 0),
    ),
    "called for ever": (
        PIZZA, ["Pizza. <<lookup pizza 150>>"] * 12,
        (0, 1, 1 / 12, 1 / 12, 0, 0, 1, -1, 0),
    ),
    "the right number in another unit": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 402 kJ"],
        (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "kilojoules": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 1682"],
        (0, 1, 1, 1, 0, 1, 1, 0, 0),
    ),
    "the protein in place of the energy": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 15.6"],
        (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "the answer many times": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 402\n#### 402\n#### 402"],
        (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "many answers in one line": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 402 403 404"],
        (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "an answer before the call": (
        PIZZA, ["#### 402 <<lookup pizza 150>>", "#### 402"],
        (0, 1, 1, 1, 0, 0, 0, 0, 0),
    ),
    "words after the answer": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### 402\nWell done!"],
        (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "no answer": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", ""], (0, 1, 1, 1, 0, 0, 1, 0, 0),
    ),
    "nothing at all": (PIZZA, [""], (0, 0, 0, 0, 0, 0, 0, 0, 0)),
    "declines though there is food": (
        PIZZA, ["I see a chair.\n#### no food"], (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
    "declines after a call": (
        PIZZA, ["Pizza. <<lookup pizza 150>>", "#### no food"],
        (0, 1, 1, 1, 0, 1, 1, 0, 0),
    ),
    "two foods": (
        PLATE, ["Pizza, steak. <<lookup pizza 100>><<lookup steak 200>>", "#### 706"],
        (1, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "two foods, one after the other": (
        PLATE, ["Pizza. <<lookup pizza 100>>", "<<lookup steak 200>>", "#### 706"],
        (1, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "only one of two foods": (
        PLATE, ["Pizza. <<lookup pizza 100>>", "#### 268"],
        (0, 1, 1 / 2, 1 / 2, 1, 1, 1, 0, 0),
    ),
    "one of two foods, twice": (
        PLATE, ["Pizza. <<lookup pizza 100>><<lookup pizza 100>>", "#### 536"],
        (0, 1, 1 / 2, 1 / 2, 1, 1, 1, -1 / 8, 0),
    ),
    "two foods, grams the wrong way round": (
        PLATE, ["Both. <<lookup pizza 200>><<lookup steak 100>>", "#### 755"],
        (0, 1, 1, 0, 1, 1, 1, 0, 0),
    ),
    "two foods, not added": (
        PLATE, ["Both. <<lookup pizza 100>><<lookup steak 200>>", "#### 438"],
        (0, 1, 1, 1, 1, 1, 1, 0, 0),
    ),
    "no food, and says so": (
        NOTHING, ["I see a chair.\n#### no food"], (1, 0, 0, 0, 0, 1, 1, 0, 1),
    ),
    "no food, but calls": (
        NOTHING, ["Pizza? <<lookup pizza 150>>", "#### no food"],
        (0, 0, 0, 0, 0, 1, 1, -1 / 8, 0),
    ),
    "no food, but a number": (
        NOTHING, ["Pizza.\n#### 402"], (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
    "no food, a malformed call": (
        NOTHING, ["A chair. <<lookup>>", "#### no food"], (0, 0, 0, 0, 0, 1, 1, 0, 0),
    ),
}  # fmt: skip
