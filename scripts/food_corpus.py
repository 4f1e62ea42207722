"""What the base model of the food lessons has read and seen, and its tokenizer.

Captions of drawn pictures, the names of what they show, and numbers to repeat: what
pretraining leaves in a small model that sees. It has met no tool and no question about
kcal; that is what the food lessons teach.
"""

import random

from helpers import chat, food_traces
from helpers.tasks import food_pictures, food_questions
from helpers.tokenizer import train_tokenizer
from helpers.tool_calls import TINY

PICTURES = 20_000
NO_FOOD = 0.12
DESCRIBE = ("Describe the picture.", "What do you see?")
NAME = ("What food is this?", "Name the food.")
WEIGH = ("This is {0} g. What is it?", "{0} g of this. What is it?")
REPEAT = ("Repeat {0}.", "Say {0} again.", "The number is {0}. Which number?")


def pictures(seed=0, count=PICTURES, levels=(1, 1, 1, 1, 2)):
    """Train pictures: four in five show one food or none, the others two."""
    return food_pictures.generate(count, seed=seed, levels=levels, no_food=NO_FOOD)


def seen(row, rng):
    """(question, answer) about a picture: a caption, names, or names with grams."""
    kind = rng.random()
    foods = [food.replace("_", " ") for food in row["foods"]]
    if kind < 0.3:
        caption = food_questions.caption(row, seed=rng.random())
        return rng.choice(DESCRIBE), caption
    if kind < 0.6 or not foods:
        return rng.choice(NAME), " and ".join(foods) or "no food"
    grams = [rng.randrange(10, 1000, 10) for _ in foods]
    question = rng.choice(WEIGH).format(" and ".join(map(str, grams)))
    weighed = zip(grams, foods, strict=True)
    return question, " and ".join(f"{g} g {food}" for g, food in weighed)


def repeated(rng):
    """(question, answer): a number of one to four digits, said again."""
    number = rng.randrange(10 ** rng.randint(1, 4))
    return rng.choice(REPEAT).format(number), str(number)


def make_tokenizer(rows, size=640):
    """A byte-complete BPE trained on captions, questions and one call of each food."""
    rng = random.Random(0)
    texts = [" ".join(seen(row, rng)) for row in rows[:4000]]
    texts += [" ".join(repeated(rng)) for _ in range(500)]
    for row in food_traces.ask(rows[:2000], seed=0):
        said = [message["content"] for message in food_traces.demonstration(row)[1:]]
        texts.append("\n".join([row["text"], *said]))
    return train_tokenizer(texts + [TINY.show({"error": ""})] * 100, size)


def examples(tokenizer, vision, rows, seed=0, numbers=0.3):
    """The corpus for `pipeline.packed_rows`, and the function that shows its pictures.

    Args:
      tokenizer: from `make_tokenizer`.
      vision: the model's VisionConfig.
      rows: from `pictures`.
      numbers: numbers to repeat, for each picture.
    Returns:
      (examples, pictures): a list of (tokens, loss mask), and index -> [picture].
    """
    rng = random.Random(seed)
    asked = [seen(row, rng) for row in rows]
    questions = [food_traces.shown(question) for question, _ in asked]
    said = [repeated(rng) for _ in range(round(len(rows) * numbers))]
    questions += [question for question, _ in said]
    answers = [answer for _, answer in [*asked, *said]]
    encoded = chat.examples_tokens(tokenizer, questions, answers, vision=vision)
    return encoded, lambda index: [row["image"] for row in rows[index : index + 1]]
