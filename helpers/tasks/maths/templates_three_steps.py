"""Word problems of three steps. A template returns its question and a line per step."""

from helpers.tasks.maths.problem_parts import minus, plus, share, times


def two_purchases(d):
    """The sum of two products."""
    who, goods, other = d.person(), d.goods(), d.goods()
    count, price, count2, price2 = d.few(), d.few(), d.few(), d.few()
    cost, cost2 = times(count, price), times(count2, price2)
    return (
        f"{who} buys {count} {goods} for ${price} each and {count2} {other} for "
        f"${price2} each. How much does {who} pay in all?",
        f"The {goods} cost ${cost}.",
        f"The {other} cost ${cost2}.",
        f"In all {who} pays ${plus(cost, cost2)}.",
    )


def change_for_two_kinds(d):
    """Note minus a product and a single price."""
    who, goods, other = d.person(), d.goods(), d.goods()
    count, price, single, note = d.few(), d.few(), d.few(), d.pick(20, 50)
    cost = times(count, price)
    paid = plus(cost, single)
    return (
        f"{who} buys {count} {goods} for ${price} each and {other.a} for ${single}. "
        f"{who.He} pays with a ${note} note. How much change does {who} get?",
        f"The {goods} cost ${cost}.",
        f"In all {who} pays ${paid}.",
        f"The change is ${minus(note, paid)}.",
    )


def share_the_rest(d):
    """A product, less what is eaten, shared equally."""
    who, foods = d.person(), d.food()
    count, inside, eaten, friends = d.few(), d.few(), d.few(), d.few()
    packed = times(count, inside)
    rest = minus(packed, eaten)
    return (
        f"{who} has {count} boxes with {inside} {foods} in each box. {who.He} eats "
        f"{eaten} {foods} and shares the rest equally among {friends} friends. "
        f"How many {foods} does each friend get?",
        f"There are {packed} {foods} in the boxes.",
        f"There are {rest} {foods} left.",
        f"Each friend gets {share(rest, friends)} {foods}.",
    )


def saves_and_spends(d):
    """Savings plus weekly sums, less a price."""
    who, goods = d.person(), d.goods()
    had, saved, weeks, price = d.start(), d.few(), d.few(), d.start()
    total = times(saved, weeks)
    now = plus(had, total)
    return (
        f"{who} has ${had} and saves ${saved} every week for {weeks} weeks. Then "
        f"{who.he} buys {goods.a} for ${price}. How much money does {who} have left?",
        f"{who} saves ${total}.",
        f"{who} has ${now} now.",
        f"{who} has ${minus(now, price)} left.",
    )


def together_in_bags(d):
    """Two amounts, one told by the other, packed into bags."""
    who, friend, things = d.person(), d.person(), d.toy()
    yours, more, inside = d.start(), d.few(), d.few()
    mine = plus(yours, more)
    total = plus(yours, mine)
    return (
        f"{friend} has {yours} {things}. {who} has {more} more {things} than {friend}. "
        f"They put all their {things} in bags, {inside} in each bag. "
        f"How many bags do they fill?",
        f"{who} has {mine} {things}.",
        f"Together they have {total} {things}.",
        f"They fill {share(total, inside)} bags.",
    )


def pages_and_the_next_day(d):
    """Pages of a book less days of reading and one more day."""
    who = d.person()
    pages, read, days, last = d.number(30, 90), d.few(), d.few(), d.start()
    some = times(read, days)
    total = plus(some, last)
    return (
        f"{who} reads a book of {pages} pages. {who.He} reads {read} pages every day "
        f"for {days} days. The next day {who.he} reads {last} pages. "
        f"How many pages are left?",
        f"{who} reads {some} pages in {days} days.",
        f"In all {who} reads {total} pages.",
        f"There are {minus(pages, total)} pages left.",
    )


def two_working_days(d):
    """Savings plus an hourly wage for the hours of two days."""
    who = d.person()
    monday, tuesday, dollars, had = d.few(), d.few(), d.few(), d.start()
    hours = plus(monday, tuesday)
    earned = times(hours, dollars)
    return (
        f"{who} has ${had}. {who.He} works {monday} hours on Monday and {tuesday} "
        f"hours on Tuesday and earns ${dollars} an hour. "
        f"How much money does {who} have now?",
        f"{who} works {hours} hours.",
        f"{who} earns ${earned}.",
        f"{who} has ${plus(had, earned)} now.",
    )


def bus(d):
    """People who get on and off."""
    start, off, on, last = d.number(10, 30), d.few(), d.few(), d.few()
    rest = minus(start, off)
    now = plus(rest, on)
    return (
        f"There are {start} people on a bus. First {off} people get off and {on} "
        f"people get on. Then {last} people get off. "
        f"How many people are on the bus now?",
        f"There are {rest} people left.",
        f"There are {now} people on the bus.",
        f"There are {minus(now, last)} people on the bus now.",
    )


def half_and_more(d):
    """Half is given away, more found, some lost."""
    who, friend, things = d.person(), d.person(), d.toy()
    half, more, given = d.number(4, 14), d.few(), d.few()
    rest = share(2 * half, 2)
    now = plus(rest, more)
    verb = d.pick("buys", "finds", "gets")
    return (
        f"{who} has {2 * half} {things} and gives half of them to {friend}. Then "
        f"{who.he} {verb} {more} more and loses {given}. "
        f"How many {things} does {who} have now?",
        f"{who} has {rest} {things} left.",
        f"{who} has {now} {things}.",
        f"{who} has {minus(now, given)} {things} now.",
    )


def times_as_many_and_fewer(d):
    """A multiple, less a few, together with the first amount."""
    who, friend, third, things = d.person(), d.person(), d.person(), d.toy()
    first, (twice, factor), fewer = d.number(4, 14), d.multiple(), d.few()
    second = times(factor, first)
    less = minus(second, fewer)
    return (
        f"{who} has {first} {things}. {friend} has {twice} as many {things} as {who}. "
        f"{third} has {fewer} fewer {things} than {friend}. "
        f"How many {things} do {who} and {third} have together?",
        f"{friend} has {second} {things}.",
        f"{third} has {less} {things}.",
        f"Together they have {plus(first, less)} {things}.",
    )


def saves_a_part(d):
    """A wage less the percentage that is saved."""
    who = d.person()
    dollars, hours = d.number(2, 12), d.few()
    percent, parts = d.percent()
    earned = times(dollars, hours)
    saved = share(earned, parts)
    return (
        f"{who} works {hours} hours and earns ${dollars} an hour. {who.He} saves "
        f"{percent}% of the money and spends the rest. How much does {who} spend?",
        f"{who} earns ${earned}.",
        f"{who} saves ${saved}.",
        f"{who} spends ${minus(earned, saved)}.",
    )


def three_ages(d):
    """Three ages told one by another, some years later."""
    who, friend, third = d.person(), d.person(), d.person()
    age, older, (twice, factor), years = d.number(3, 12), d.few(), d.multiple(), d.few()
    second = plus(age, older)
    oldest = times(factor, second)
    return (
        f"{who} is {age} years old. {friend} is {older} years older than {who}. "
        f"{third} is {twice} as old as {friend}. "
        f"How old will {third} be in {years} years?",
        f"{friend} is {second} years old.",
        f"{third} is {oldest} years old.",
        f"{third} will be {plus(oldest, years)} years old.",
    )


TEMPLATES = (
    two_purchases,
    change_for_two_kinds,
    share_the_rest,
    saves_and_spends,
    together_in_bags,
    pages_and_the_next_day,
    two_working_days,
    bus,
    half_and_more,
    times_as_many_and_fewer,
    saves_a_part,
    three_ages,
)
