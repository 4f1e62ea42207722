"""What the base model of the food lessons has read and seen, and its tokenizer.

Pictures with the name of what they show or with a caption, as the web has them, some
conversations about them, and numbers to repeat: what pretraining leaves in a small
model that sees. It has met no tool and no question about kcal; that is what the food
lessons teach.
"""

import random

from helpers.batches import images
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools.nutrition import TINY

NAMED, TALKED, NUMBERS = 40_000, 20_000, 4_000  # pictures; numbers
NO_FOOD = 0.1
PLAIN, CAPTIONED = 0.4, 0.1  # shares of them with a name only, with a caption
DESCRIBE = ("Describe the picture.", "What do you see?")
NAME = ("What food is this?", "Name the food.")
WEIGH = ("This is {0} g. What is it?", "{0} g of this. What is it?")
REPEAT = ("Repeat {0}.", "Say {0} again.", "The number is {0}. Which number?")
# Half of the numbers are said again in other forms, so that no entry of the tokenizer
# is one that the model has learned never to write.
FORMS = ("#### {0}", "kcal {0}", "<<{0}>>", "lookup {0}", "error {0}")


def pictures(count, *, seed, levels=(1,)):
    """Train pictures; of those that would show one food, one in ten shows none."""
    return food_pictures.generate(count, seed=seed, levels=levels, no_food=NO_FOOD)


def named(row):
    """The names of what a picture shows, or "no food"."""
    return " and ".join(food.replace("_", " ") for food in row["foods"]) or "no food"


def question_about(row, rng):
    """(question, answer) about a picture: a caption, names, or names with grams."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(DESCRIBE), food_traces.caption(row, seed=rng.random())
    if kind < 0.5 or not row["foods"]:
        return rng.choice(NAME), named(row)
    foods = named(row).split(" and ")
    grams = [rng.randrange(10, 1000, 10) for _ in foods]
    question = rng.choice(WEIGH).format(" and ".join(map(str, grams)))
    weighed = zip(grams, foods, strict=True)
    return question, " and ".join(f"{g} g {food}" for g, food in weighed)


def repeated(rng):
    """(question, answer): a number of one to four digits, said again in its form."""
    number = rng.randrange(10 ** rng.randint(1, 4))
    text = rng.choice(FORMS).format(number) if rng.random() < 0.5 else str(number)
    return rng.choice(REPEAT).format(text), text


def tiny_calls(rows):
    """Questions about pictures with their calls and answers, and errors: texts."""
    texts = []
    for row in food_traces.ask(rows, seed=0):
        turns = [message["content"] for message in food_traces.demonstration(row)[1:]]
        texts.append("\n".join([row["text"], *turns]))
    return texts + [TINY.show({"error": ""})] * 100


def make_tokenizer(rows, size=640):
    """A byte-complete BPE of at most `size` entries, trained on `pictures`' texts."""
    rng = random.Random(0)
    texts = [" ".join(question_about(row, rng)) for row in rows[:4000]]
    texts += [" ".join(repeated(rng)) for _ in range(500)]
    return train_tokenizer(texts + tiny_calls(rows[:2000]), size)


def names(tokenizer, vision, rows):
    """Pictures with the name of what they show, for `pipeline.packed_rows`.

    Args:
      tokenizer: from `make_tokenizer`.
      vision: the model's `config.vision`.
      rows: from `pictures`.
    Returns:
      (examples, pictures): a list of (tokens, loss mask), and index -> [picture].
    """
    encoded = [_beside(tokenizer, vision, row, f" {named(row)}") for row in rows]
    return encoded, _shows(rows, vision)


def talk(tokenizer, vision, rows, seed=0):
    """Names, captions and conversations about pictures, and numbers to repeat.

    Takes and returns what `names` does; `seed` decides what is said about which.
    """
    rng = random.Random(seed)
    plain, captioned = round(PLAIN * len(rows)), round(CAPTIONED * len(rows))
    encoded, _ = names(tokenizer, vision, rows[:plain])
    for row in rows[plain : plain + captioned]:
        caption = food_traces.caption(row, seed=rng.random())
        encoded.append(_beside(tokenizer, vision, row, f" {caption}"))
    seen = rows[len(encoded) :]
    descriptions = [question_about(row, rng) for row in seen]
    numbers = [repeated(rng) for _ in range(NUMBERS)]
    questions = [
        images.shaped(food_traces.shown(question), [row["image"]])
        for row, (question, _) in zip(seen, descriptions, strict=True)
    ]
    questions += [question for question, _ in numbers]
    answers = [answer for _, answer in [*descriptions, *numbers]]
    talks = chat.examples_tokens(tokenizer, questions, answers, vision=vision)
    return encoded + talks, _shows(rows, vision)


def _shows(rows, vision):
    """index -> the picture of the example with that index, if it has one."""
    return lambda index: [
        images.fit_for(row["image"], vision) for row in rows[index : index + 1]
    ]


def _beside(tokenizer, vision, row, text):
    """(tokens, loss mask) of a row's picture and the text beside it."""
    image = [vision.image_token] * vision.takes({"shape": row["image"].shape[:2]})
    before = [tokenizer.bos_token_id, vision.begin_token, *image, vision.end_token]
    answer = tokenizer(text, add_special_tokens=False)["input_ids"]
    answer = [*answer, tokenizer.eos_token_id]
    return before + answer, [0] * len(before) + [1] * len(answer)
