"""Word problems of four steps. A template returns its question and a line per step."""

from helpers.tasks.maths.problem_parts import minus, plus, share, times


def change_for_two_purchases(d):
    """Note minus two products."""
    who, goods, other = d.person(), d.goods(), d.goods()
    count, price, count2, price2 = d.few(), d.few(), d.few(), d.few()
    note = d.pick(50, 100)
    cost, cost2 = times(count, price), times(count2, price2)
    paid = plus(cost, cost2)
    return (
        f"{who} buys {count} {goods} for ${price} each and {count2} {other} for "
        f"${price2} each. {who.He} pays with a ${note} note. "
        f"How much change does {who} get?",
        f"The {goods} cost ${cost}.",
        f"The {other} cost ${cost2}.",
        f"In all {who} pays ${paid}.",
        f"The change is ${minus(note, paid)}.",
    )


def eats_gives_shares(d):
    """A product, less what is eaten and given, shared equally."""
    who, friend, foods = d.person(), d.person(), d.food()
    count, inside, eaten, given = d.few(), d.few(), d.few(), d.few()
    friends = d.few()
    packed = times(count, inside)
    rest = minus(packed, eaten)
    left = minus(rest, given)
    return (
        f"{who} has {count} boxes with {inside} {foods} in each box. {who.He} eats "
        f"{eaten} {foods}, gives {given} to {friend} and shares the rest equally among "
        f"{friends} friends. How many {foods} does each friend get?",
        f"There are {packed} {foods} in the boxes.",
        f"There are {rest} {foods} left.",
        f"Then there are {left} {foods} left.",
        f"Each friend gets {share(left, friends)} {foods}.",
    )


def works_and_buys(d):
    """Savings plus two days' wages, less a price."""
    who, goods = d.person(), d.goods()
    monday, tuesday, dollars = d.few(), d.few(), d.few()
    had, price = d.start(), d.start()
    hours = plus(monday, tuesday)
    earned = times(hours, dollars)
    now = plus(had, earned)
    return (
        f"{who} has ${had}. {who.He} works {monday} hours on Monday and {tuesday} "
        f"hours on Tuesday and earns ${dollars} an hour. Then {who.he} buys {goods.a} "
        f"for ${price}. How much money does {who} have left?",
        f"{who} works {hours} hours.",
        f"{who} earns ${earned}.",
        f"{who} has ${now} now.",
        f"{who} has ${minus(now, price)} left.",
    )


def two_savers(d):
    """Two weekly sums together, over weeks, less a price."""
    who, friend, goods = d.person(), d.person(), d.goods()
    mine, yours, weeks, price = d.few(), d.few(), d.few(), d.start()
    first, second = times(mine, weeks), times(yours, weeks)
    total = plus(first, second)
    return (
        f"{who} saves ${mine} every week and {friend} saves ${yours} every week. After "
        f"{weeks} weeks they buy {goods.a} for ${price}. "
        f"How much money do they have left?",
        f"{who} saves ${first}.",
        f"{friend} saves ${second}.",
        f"Together they have ${total}.",
        f"They have ${minus(total, price)} left.",
    )


def three_collections(d):
    """A sum of three, each told by the one before."""
    who, friend, third, things = d.person(), d.person(), d.person(), d.toy()
    first, more, fewer = d.start(), d.few(), d.few()
    second = plus(first, more)
    less = minus(second, fewer)
    two = plus(first, second)
    return (
        f"{who} has {first} {things}. {friend} has {more} more {things} than {who}. "
        f"{third} has {fewer} fewer {things} than {friend}. "
        f"How many {things} do all three have together?",
        f"{friend} has {second} {things}.",
        f"{third} has {less} {things}.",
        f"{who} and {friend} have {two} {things}.",
        f"All three have {plus(two, less)} {things}.",
    )


def pages_fast_and_slow(d):
    """Pages of a book less two stretches of reading."""
    who, pages = d.person(), d.number(40, 99)
    read, days, more, days2 = d.few(), d.few(), d.few(), d.few()
    first, second = times(read, days), times(more, days2)
    total = plus(first, second)
    return (
        f"{who} reads a book of {pages} pages. {who.He} reads {read} pages every day "
        f"for {days} days and then {more} pages every day for {days2} days. "
        f"How many pages are left?",
        f"{who} reads {first} pages in {days} days.",
        f"Then {who.he} reads {second} pages.",
        f"In all {who} reads {total} pages.",
        f"There are {minus(pages, total)} pages left.",
    )


def boxes_half_and_more(d):
    """Half of a product, more found, some lost."""
    who, friend, things = d.person(), d.person(), d.toy()
    count, inside, more, lost = d.few(), d.few(), d.few(), d.few()
    packed = times(count, inside)
    half = share(packed, 2)
    now = plus(half, more)
    verb = d.pick("buys", "finds", "gets")
    return (
        f"{who} has {count} boxes with {inside} {things} in each box. {who.He} gives "
        f"half of the {things} to {friend}. Then {who.he} {verb} {more} more and loses "
        f"{lost}. How many {things} does {who} have now?",
        f"There are {packed} {things} in the boxes.",
        f"{who} has {half} {things} left.",
        f"{who} has {now} {things}.",
        f"{who} has {minus(now, lost)} {things} now.",
    )


def runs_twice_a_day(d):
    """Two distances a day over days, plus one, less a difference."""
    who, friend = d.person(), d.person()
    morning, evening, days = d.number(2, 6), d.number(2, 6), d.few()
    last, fewer = d.few(), d.few()
    daily = plus(morning, evening)
    total = times(daily, days)
    now = plus(total, last)
    return (
        f"{who} runs {morning} km every morning and {evening} km every evening for "
        f"{days} days. The next day {who.he} runs {last} km. {friend} runs {fewer} "
        f"km less than {who}. How many km does {friend} run in all?",
        f"{who} runs {daily} km every day.",
        f"{who} runs {total} km in {days} days.",
        f"In all {who} runs {now} km.",
        f"{friend} runs {minus(now, fewer)} km.",
    )


def cheaper_several_and_one(d):
    """Several at a price cut by a percentage, and one other thing."""
    who, goods, other = d.person(), d.goods(), d.goods()
    percent, parts = d.percent()
    price, count, single = parts * d.few(), d.few(), d.few()
    saved = share(price, parts)
    now = minus(price, saved)
    cost = times(count, now)
    return (
        f"{goods.A} costs ${price}. Today it is {percent}% cheaper. {who} buys {count} "
        f"{goods} and {other.a} for ${single}. How much does {who} pay in all?",
        f"The {goods.one} is ${saved} cheaper.",
        f"The {goods.one} costs ${now} today.",
        f"The {goods} cost ${cost}.",
        f"In all {who} pays ${plus(cost, single)}.",
    )


def four_ages(d):
    """Four ages told one by another, some years later."""
    who, friend, third, fourth = d.person(), d.person(), d.person(), d.person()
    age, older, (twice, factor) = d.number(3, 12), d.few(), d.multiple()
    younger, years = d.few(), d.few()
    second = plus(age, older)
    oldest = times(factor, second)
    young = minus(oldest, younger)
    return (
        f"{who} is {age} years old. {friend} is {older} years older than {who}. "
        f"{third} is {twice} as old as {friend}. {fourth} is {younger} years younger "
        f"than {third}. How old will {fourth} be in {years} years?",
        f"{friend} is {second} years old.",
        f"{third} is {oldest} years old.",
        f"{fourth} is {young} years old.",
        f"{fourth} will be {plus(young, years)} years old.",
    )


def friends_share_the_price(d):
    """Two products, shared equally."""
    friends, goods, other = d.few(), d.goods(), d.goods()
    count, price, count2, price2 = d.few(), d.few(), d.few(), d.few()
    cost, cost2 = times(count, price), times(count2, price2)
    total = plus(cost, cost2)
    return (
        f"A group of {friends} friends buys {count} {goods} for ${price} each and "
        f"{count2} {other} for ${price2} each. They share the price equally. "
        f"How much does each friend pay?",
        f"The {goods} cost ${cost}.",
        f"The {other} cost ${cost2}.",
        f"In all they pay ${total}.",
        f"Each friend pays ${share(total, friends)}.",
    )


TEMPLATES = (
    change_for_two_purchases,
    eats_gives_shares,
    works_and_buys,
    two_savers,
    three_collections,
    pages_fast_and_slow,
    boxes_half_and_more,
    runs_twice_a_day,
    cheaper_several_and_one,
    four_ages,
    friends_share_the_price,
)
