"""Word problems of two steps. A template returns its question and a line per step."""

from helpers.tasks.maths.problem_parts import minus, plus, share, times


def finds_and_gives(d):
    """A sum less what is given away."""
    who, friend, things = d.person(), d.person(), d.toy()
    had, more, given = d.start(), d.few(), d.few()
    now = plus(had, more)
    verb = d.pick("buys", "finds", "gets")
    return (
        f"{who} has {had} {things}. {who.He} {verb} {more} more and gives {given} to "
        f"{friend}. How many {things} does {who} have left?",
        f"{who} has {now} {things}.",
        f"{who} has {minus(now, given)} {things} left.",
    )


def several_and_one(d):
    """A product plus a single price."""
    who, goods, other = d.person(), d.goods(), d.goods()
    count, price, single = d.few(), d.few(), d.few()
    cost = times(count, price)
    return (
        f"{who} buys {count} {goods} for ${price} each and {other.a} for ${single}. "
        f"How much does {who} pay in all?",
        f"The {goods} cost ${cost}.",
        f"In all {who} pays ${plus(cost, single)}.",
    )


def change_for_several(d):
    """Note minus a product."""
    who, goods = d.person(), d.goods()
    count, price, note = d.few(), d.number(2, 11), d.pick(20, 50, 100)
    cost = times(count, price)
    return (
        f"{who} buys {count} {goods} for ${price} each and pays with a ${note} note. "
        f"How much change does {who} get?",
        f"The {goods} cost ${cost}.",
        f"The change is ${minus(note, cost)}.",
    )


def boxes_and_more(d):
    """A product and some more."""
    who, things = d.person(), d.thing()
    count, inside, more = d.few(), d.few(), d.few()
    packed = times(count, inside)
    return (
        f"{who} has {count} boxes with {inside} {things} in each box and {more} more "
        f"{things} in a bag. How many {things} does {who} have in all?",
        f"There are {packed} {things} in the boxes.",
        f"In all {who} has {plus(packed, more)} {things}.",
    )


def boxes_and_eaten(d):
    """A product less what is eaten."""
    who, foods = d.person(), d.food()
    count, inside, eaten = d.few(), d.few(), d.few()
    packed = times(count, inside)
    return (
        f"{who} has {count} boxes with {inside} {foods} in each box. {who.He} eats "
        f"{eaten} {foods}. How many {foods} are left?",
        f"There are {packed} {foods} in the boxes.",
        f"There are {minus(packed, eaten)} {foods} left.",
    )


def more_than_together(d):
    """Two amounts, one told by the other, together."""
    who, friend, things = d.person(), d.person(), d.toy()
    yours, more = d.start(), d.few()
    mine = plus(yours, more)
    return (
        f"{friend} has {yours} {things}. {who} has {more} more {things} than {friend}. "
        f"How many {things} do they have together?",
        f"{who} has {mine} {things}.",
        f"Together they have {plus(yours, mine)} {things}.",
    )


def times_as_many_and_more(d):
    """A multiple of what another has, and more."""
    who, friend, things = d.person(), d.person(), d.toy()
    yours, (twice, factor), more = d.number(3, 14), d.multiple(), d.few()
    mine = times(factor, yours)
    verb = d.pick("buys", "finds", "gets")
    return (
        f"{friend} has {yours} {things}. {who} has {twice} as many {things} as "
        f"{friend}. Then {who.he} {verb} {more} more. "
        f"How many {things} does {who} have now?",
        f"{who} has {mine} {things}.",
        f"{who} has {plus(mine, more)} {things} now.",
    )


def weekly_savings(d):
    """Savings plus a weekly sum over weeks."""
    who = d.person()
    had, saved, weeks = d.start(), d.few(), d.few()
    total = times(saved, weeks)
    return (
        f"{who} has ${had} and saves ${saved} every week. "
        f"How much does {who} have after {weeks} weeks?",
        f"{who} saves ${total}.",
        f"In all {who} has ${plus(had, total)}.",
    )


def share_together(d):
    """A sum shared equally."""
    who, friend, foods = d.person(), d.person(), d.food()
    mine, yours, children = d.start(), d.start(), d.few()
    total = plus(mine, yours)
    return (
        f"{who} has {mine} {foods} and {friend} has {yours} {foods}. They share all "
        f"of them equally among {children} children. "
        f"How many {foods} does each child get?",
        f"Together they have {total} {foods}.",
        f"Each child gets {share(total, children)} {foods}.",
    )


def bags_of_the_rest(d):
    """What is left after eating, packed into bags."""
    who, foods = d.person(), d.food()
    had, eaten, inside = d.number(12, 60), d.few(), d.few()
    rest = minus(had, eaten)
    return (
        f"{who} has {had} {foods} and eats {eaten} of them. {who.He} puts the rest in "
        f"bags, {inside} in each bag. How many bags does {who} fill?",
        f"There are {rest} {foods} left.",
        f"{who} fills {share(rest, inside)} bags.",
    )


def pages_every_day(d):
    """Pages of a book less days of reading."""
    who = d.person()
    pages, read, days = d.number(20, 80), d.few(), d.few()
    total = times(read, days)
    return (
        f"{who} reads a book of {pages} pages. {who.He} reads {read} pages every day "
        f"for {days} days. How many pages are left?",
        f"{who} reads {total} pages.",
        f"There are {minus(pages, total)} pages left.",
    )


def older_later(d):
    """An age told by another, some years later."""
    who, friend = d.person(), d.person()
    age, older, years = d.number(4, 20), d.few(), d.few()
    now = plus(age, older)
    return (
        f"{friend} is {age} years old. {who} is {older} years older than {friend}. "
        f"How old will {who} be in {years} years?",
        f"{who} is {now} years old.",
        f"{who} will be {plus(now, years)} years old.",
    )


def earns_and_spends(d):
    """A wage less a price."""
    who, goods = d.person(), d.goods()
    dollars, hours, price = d.few(), d.few(), d.start()
    earned = times(dollars, hours)
    return (
        f"{who} works {hours} hours and earns ${dollars} an hour. {who.He} buys "
        f"{goods.a} for ${price}. How much money does {who} have left?",
        f"{who} earns ${earned}.",
        f"{who} has ${minus(earned, price)} left.",
    )


def days_and_the_next(d):
    """Days of walking and one more day."""
    who = d.person()
    km, days, last = d.few(), d.few(), d.start()
    walks, walk = d.pick(("walks", "walk"), ("runs", "run"))
    total = times(km, days)
    return (
        f"{who} {walks} {km} km every day for {days} days. The next day {who.he} "
        f"{walks} {last} km. How many km does {who} {walk} in all?",
        f"{who} {walks} {total} km in {days} days.",
        f"In all {who} {walks} {plus(total, last)} km.",
    )


def cheaper(d):
    """A price cut by a percentage."""
    who, goods = d.person(), d.goods()
    percent, parts = d.percent()
    price = parts * d.number(2, 14)
    saved = share(price, parts)
    return (
        f"{goods.A} costs ${price}. Today it is {percent}% cheaper and {who} buys one. "
        f"How much does {who} pay?",
        f"The {goods.one} is ${saved} cheaper.",
        f"{who} pays ${minus(price, saved)}.",
    )


TEMPLATES = (
    finds_and_gives,
    several_and_one,
    change_for_several,
    boxes_and_more,
    boxes_and_eaten,
    more_than_together,
    times_as_many_and_more,
    weekly_savings,
    share_together,
    bags_of_the_rest,
    pages_every_day,
    older_later,
    earns_and_spends,
    days_and_the_next,
    cheaper,
)
