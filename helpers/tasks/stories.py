"""Short stories from the words of the problems: plain text for pretraining."""

from helpers.tasks.words import Draw

SENTENCES = (
    lambda d, who, friend: f"{who} has {d.start()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} finds {d.few()} {d.toy()}.",
    lambda d, who, friend: f"{who.He} buys {d.goods().a} for ${d.few()}.",
    lambda d, who, friend: f"{who.He} gives {d.food().a} to {friend}.",
    lambda d, who, friend: f"{who.He} eats {d.food().a} and {d.food().a}.",
    lambda d, who, friend: f"{friend} gets {d.toy().a} and {d.goods().a}.",
    lambda d, who, friend: f"{who.He} puts {d.few()} {d.food()} in a bag.",
    lambda d, who, friend: f"{who} and {friend} walk {d.few()} km together.",
    lambda d, who, friend: f"They share {d.food().a} with {who.his} friends.",
    lambda d, who, friend: f"{friend} reads {d.start()} pages of a book.",
    lambda d, who, friend: f"{who.He} is {d.number(4, 40)} years old.",
    lambda d, who, friend: f"On Sunday {who.he} gives {friend} {d.toy().a}.",
    lambda d, who, friend: f"{who.He} saves ${d.few()} every week.",
    lambda d, who, friend: f"{d.goods().A} costs ${d.few()} today.",
    lambda d, who, friend: f"There are {d.few()} {d.food()} in {who.his} bag.",
    lambda d, who, friend: f"{friend} has more {d.toy()} than {who}.",
)


def story(rng):
    """Three or four sentences about two people, without a question.

    Args:
      rng: a `random.Random`.
    """
    d = Draw(rng)
    who, friend = d.person(), d.person()
    opening = f"{who} works with {friend} on {d.pick('Monday', 'Tuesday', 'Sunday')}."
    rest = rng.sample(SENTENCES, d.number(2, 3))
    return " ".join([opening, *(sentence(d, who, friend) for sentence in rest)])
