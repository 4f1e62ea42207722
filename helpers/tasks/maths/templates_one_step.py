"""Word problems of one step. A template returns its question and a line per step."""

from helpers.tasks.maths.problem_parts import minus, plus, share, times


def finds_more(d):
    """A sum: what somebody had and gets."""
    who, things = d.person(), d.toy()
    had, more = d.start(), d.few()
    verb = d.pick("buys", "finds", "gets")
    return (
        f"{who} has {had} {things}. {who.He} {verb} {more} more. "
        f"How many {things} does {who} have now?",
        f"{who} has {plus(had, more)} {things} now.",
    )


def gives_away(d):
    """A difference: what is left after giving."""
    who, friend, things = d.person(), d.person(), d.toy()
    had, given = d.start(), d.few()
    return (
        f"{who} has {had} {things}. {who.He} gives {given} of them to {friend}. "
        f"How many {things} does {who} have left?",
        f"{who} has {minus(had, given)} {things} left.",
    )


def together(d):
    """A sum: what two people have."""
    who, friend, things = d.person(), d.person(), d.toy()
    mine, yours = d.start(), d.start()
    return (
        f"{who} has {mine} {things} and {friend} has {yours} {things}. "
        f"How many {things} do they have together?",
        f"Together they have {plus(mine, yours)} {things}.",
    )


def how_many_more(d):
    """A difference: one person's things less another's."""
    who, friend, things = d.person(), d.person(), d.toy()
    mine, yours = d.start(), d.start()
    return (
        f"{who} has {mine} {things} and {friend} has {yours} {things}. "
        f"How many more {things} does {who} have than {friend}?",
        f"{who} has {minus(mine, yours)} more {things}.",
    )


def more_than(d):
    """A sum: as many as another, and more."""
    who, friend, things = d.person(), d.person(), d.toy()
    yours, more = d.start(), d.few()
    return (
        f"{friend} has {yours} {things}. {who} has {more} more {things} than {friend}. "
        f"How many {things} does {who} have?",
        f"{who} has {plus(yours, more)} {things}.",
    )


def boxes(d):
    """A product: boxes and what each holds."""
    who, things = d.person(), d.thing()
    count, inside = d.few(), d.number(2, 11)
    box = d.pick("box", "bag")
    plural = {"box": "boxes", "bag": "bags"}[box]
    return (
        f"{who} has {count} {plural} with {inside} {things} in each {box}. "
        f"How many {things} does {who} have in all?",
        f"In all {who} has {times(count, inside)} {things}.",
    )


def price_of_several(d):
    """A product: a price and how many are bought."""
    who, goods = d.person(), d.goods()
    count, price = d.few(), d.number(2, 11)
    return (
        f"{goods.A} costs ${price}. {who} buys {count} {goods}. "
        f"How much does {who} pay?",
        f"The {goods} cost ${times(count, price)}.",
    )


def shares_with_friends(d):
    """A quotient: equal shares."""
    who, foods = d.person(), d.food()
    friends, each = d.few(), d.number(2, 11)
    return (
        f"{who} shares {friends * each} {foods} equally among {friends} friends. "
        f"How many {foods} does each friend get?",
        f"Each friend gets {share(friends * each, friends)} {foods}.",
    )


def fills_bags(d):
    """A quotient: bags of a given size."""
    who, things = d.person(), d.thing()
    bags, inside = d.number(2, 11), d.few()
    return (
        f"{who} has {bags * inside} {things}. {who.He} puts them in bags, {inside} in "
        f"each bag. How many bags does {who} fill?",
        f"{who} fills {share(bags * inside, inside)} bags.",
    )


def change(d):
    """A difference: a note less a price."""
    who, goods = d.person(), d.goods()
    price, note = d.number(2, 40), d.pick(20, 50)
    return (
        f"{who} buys {goods.a} for ${price} and pays with a ${note} note. "
        f"How much change does {who} get?",
        f"The change is ${minus(note, price)}.",
    )


def pages_left(d):
    """A difference: pages of a book less those read."""
    who = d.person()
    pages, read = d.number(20, 60), d.start()
    return (
        f"{who} reads a book of {pages} pages. {who.He} has read {read} pages. "
        f"How many pages are left?",
        f"There are {minus(pages, read)} pages left.",
    )


def times_as_many(d):
    """A product: twice or more what another has."""
    who, friend, things = d.person(), d.person(), d.toy()
    yours, (twice, factor) = d.number(3, 14), d.multiple()
    return (
        f"{friend} has {yours} {things}. {who} has {twice} as many {things} as "
        f"{friend}. How many {things} does {who} have?",
        f"{who} has {times(factor, yours)} {things}.",
    )


def eats_a_part(d):
    """A quotient: a half or another part is eaten."""
    who, foods = d.person(), d.food()
    each, (half, parts) = d.number(2, 14), d.fraction()
    return (
        f"{who} has {each * parts} {foods} and eats {half} of them. "
        f"How many {foods} does {who} eat?",
        f"{who} eats {share(each * parts, parts)} {foods}.",
    )


def age_later(d):
    """A sum: an age some years on."""
    who = d.person()
    age, years = d.number(4, 40), d.few()
    return (
        f"{who} is {age} years old. How old will {who} be in {years} years?",
        f"{who} will be {plus(age, years)} years old.",
    )


def distance(d):
    """A product: kilometres a day and days."""
    who = d.person()
    km, days = d.few(), d.number(2, 11)
    walks, walk = d.pick(("walks", "walk"), ("runs", "run"))
    return (
        f"{who} {walks} {km} km every day. How many km does {who} {walk} in {days} "
        f"days?",
        f"{who} {walks} {times(km, days)} km.",
    )


def wage(d):
    """A product: dollars an hour and hours."""
    who = d.person()
    dollars, hours = d.number(4, 11), d.few()
    return (
        f"{who} earns ${dollars} an hour. How much does {who} earn in {hours} hours?",
        f"{who} earns ${times(dollars, hours)}.",
    )


TEMPLATES = (
    finds_more,
    gives_away,
    together,
    how_many_more,
    more_than,
    boxes,
    price_of_several,
    shares_with_friends,
    fills_bags,
    change,
    pages_left,
    times_as_many,
    eats_a_part,
    age_later,
    distance,
    wage,
)
