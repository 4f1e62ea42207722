"""Short stories from the words of the problems: plain text for pretraining."""

from helpers.tasks.maths.words import Draw

SENTENCES = (
    lambda d, who, friend: f"{who.He} has {d.start()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} finds {d.few()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} buys {d.goods().a} for ${d.few()}.",
    lambda d, who, friend: f"{who.He} gives {d.food().a} to {friend}.",
    lambda d, who, friend: f"{who.He} gets {d.toy().a} and {d.goods().a}.",
    lambda d, who, friend: f"{who.He} puts {d.few()} {d.food()} in a bag.",
    lambda d, who, friend: f"{who.He} is {d.number(9, 40)} years old.",
    lambda d, who, friend: f"{who.He} saves ${d.few()} every week.",
    lambda d, who, friend: f"There are {d.few()} {d.food()} in {who.his} box.",
)
ENDINGS = (
    lambda d, who, friend: f"They walk {d.few()} km together.",
    lambda d, who, friend: f"They share {d.food().a}.",
    lambda d, who, friend: f"{friend} eats {d.food().a} and {d.food().a}.",
    lambda d, who, friend: f"{friend} reads {d.start()} pages of a book.",
    lambda d, who, friend: f"{friend} has more {d.toy()} than {who}.",
    lambda d, who, friend: f"Then {friend} gives {who} {d.toy().a}.",
)


def story(rng):
    """Three or four sentences about two people, without a question.

    Args:
      rng: a `random.Random`.
    """
    d = Draw(rng)
    who, friend = d.person(), d.person()
    day = d.pick("Monday", "Tuesday", "Sunday")
    verb = d.pick("works", "walks", "runs")
    told = [*rng.sample(SENTENCES, d.number(1, 2)), rng.choice(ENDINGS)]
    sentences = [sentence(d, who, friend) for sentence in told]
    return " ".join([f"On {day} {who} {verb} with {friend}.", *sentences])
