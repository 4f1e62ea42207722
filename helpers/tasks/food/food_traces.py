"""Questions about pictures of food as conversations: what is asked, and how to answer.

Rows are those of `tasks.food_questions`, asked with the picture; a demonstration looks,
calls the nutrition tool once for all foods, and answers with the sum that it gave:

    <<lookup pizza 150>>
    kcal 402
    #### 402
"""

from helpers.rewards import food_rewards
from helpers.rewards.answers import MARK
from helpers.tasks.food import food_questions
from helpers.tools import nutrition
from helpers.tools.calls import Call
from helpers.tools.tool import run_call

IMAGE = {"type": "image"}


def kcal(food, grams):
    """What the tool says of so much of a food."""
    return nutrition.lookup_nutrition(food, grams)["kcal"]


def shown(text):
    """The messages that show one picture and ask `text` about it."""
    return [{"role": "user", "content": [IMAGE, {"type": "text", "text": text}]}]


def ask(pictures, *, seed):
    """Rows for rollouts: pictures of food, each with a question about its kcal.

    Args:
      pictures: rows of `food_pictures` or of `food101`, with an "image".
      seed: decides wording and grams.
    Returns:
      Rows as of `food_questions.questions`, with "question" as messages, "text" (the
      words of it) and the column "portions" of `food_rewards`.
    """
    rows = food_questions.questions(pictures, kcal, seed=seed)
    return [
        {
            **row,
            "text": row["question"],
            "question": shown(row["question"]),
            "portions": [
                {"food": food, "grams": grams}
                for food, grams in zip(row["foods"], row["grams"], strict=True)
            ],
        }
        for row in rows
    ]


def pictures(row):
    """The pictures of a row, for `pipeline.prompts`."""
    return [row["image"]]


def alts(rows):
    """A true sentence about each drawn picture, by its bytes, for an alt text."""
    return {
        row["image"].tobytes(): food_questions.caption(row, seed=0).capitalize()
        for row in rows
    }


def blanked(rows):
    """The same rows with black pictures: what does a model answer that cannot look?"""
    return [{**row, "image": row["image"] * 0} for row in rows]


def demonstration(row, grammar=nutrition.TINY):
    """The messages of a right conversation about a row of `ask`, results included."""
    if not row["portions"]:
        return [*row["question"], _says(food_rewards.NO_FOOD)]
    calls = [
        Call(nutrition.TOOL.name, {"food": _words(portion["food"]), **_grams(portion)})
        for portion in row["portions"]
    ]
    results = [run_call([nutrition.TOOL], call) for call in calls]
    total = sum(result["kcal"] for result in results)
    return [
        *row["question"],
        grammar.message(calls),
        *grammar.results(results, calls),
        _says(f"{MARK} {total}"),
    ]


def _says(text):
    return {"role": "assistant", "content": text}


def _words(label):
    return label.replace("_", " ")


def _grams(portion):
    return {"grams": portion["grams"]}
