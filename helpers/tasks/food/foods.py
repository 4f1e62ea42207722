"""Sixteen foods of Food-101, each drawn by one function `(pen, rng)`.

A drawing fills about the unit disc of its pen. Colours vary widely, and baked brown is
the colour of many, so that the shape tells which food it is.
"""

from helpers.tasks.food.drawing import (
    BLUE,
    BROWN,
    COCOA,
    CREAM,
    GREEN,
    LEAF,
    LEMON,
    PINK,
    RED,
    ROUND,
    SWEETS,
    TOPPINGS,
    YOLK,
    baked,
    colour,
    jitter,
    mix,
    shade,
    specks,
)


def pizza(pen, rng):
    """A round, cut in eight, of which a slice may be gone."""
    crust = baked(rng)
    end = 360 - 45 * rng.choice((0, 1, 1, 2))
    cheese = colour(rng, (250, 214, 110), (244, 232, 190), (226, 120, 60), RED)
    pen.sector(1.0, 0, end, shade(crust, 0.8))
    pen.sector(0.97, 0, end, crust)
    pen.sector(0.8, 0, end, shade(cheese, 0.85))
    pen.sector(0.76, 0, end, cheese)
    topping = colour(rng, *TOPPINGS)
    for angle in range(0, end, 45):
        slice_ = pen.at(0, 0, angle=angle + 22 + rng.uniform(-5, 5))
        slice_.disc(rng.uniform(0.48, 0.58), 0, 0.14, jitter(rng, topping))
        if rng.random() < 0.5:
            slice_.disc(0.28, 0, 0.08, colour(rng, *TOPPINGS))
    for angle in range(0, end + 1, 45):
        pen.at(0, 0, angle=angle).line(((0, 0), (0.97, 0)), 0.05, shade(crust, 0.55))


def hamburger(pen, rng):
    """Bun, patty and what lies between, from the side."""
    bun = baked(rng)
    pen.line(((-0.72, 0.5), (0.72, 0.5)), 0.44, shade(bun, 0.82))
    pen.line(((-0.72, 0.46), (0.72, 0.46)), 0.4, bun)
    patty = colour(rng, (92, 52, 30), (120, 70, 40), (150, 92, 50))
    pen.box(0, 0.22, 1.9, 0.3, patty)
    for x in (-0.95, 0.95):
        pen.disc(x, 0.22, 0.15, patty)
    cheese = colour(rng, YOLK, LEMON, RED)
    pen.polygon(((-0.9, 0.06), (0.9, 0.06), (0.5, 0.34), (0.1, 0.08)), cheese)
    leaf = colour(rng, LEAF, GREEN, (190, 214, 110))
    for i in range(7):
        pen.disc(-0.87 + 0.29 * i, 0.0 + 0.05 * (i % 2), 0.15, leaf)
    pen.at(0, -0.06).sector(0.95, 180, 360, bun)
    pen.at(0, -0.06).sector(0.84, 200, 290, shade(bun, 1.12), hole=0.7)
    if rng.random() < 0.8:
        for x, y in ((-0.45, -0.4), (0, -0.7), (0.42, -0.45), (-0.1, -0.35)):
            pen.oval(x, y, 0.16, 0.1, shade(bun, 1.5))


def hot_dog(pen, rng):
    """A sausage longer than its bun, with a wave of sauce."""
    bun = baked(rng)
    sausage = colour(rng, (178, 66, 42), (206, 104, 70), (136, 60, 40))
    sauce = colour(rng, YOLK, RED, CREAM, (180, 130, 30))
    pen.line(((-0.62, -0.14), (0.62, -0.14)), 0.56, shade(bun, 0.8))
    pen.line(((-0.62, 0.16), (0.62, 0.16)), 0.56, bun)
    pen.line(((-0.84, 0), (0.84, 0)), 0.36, shade(sausage, 0.8))
    pen.line(((-0.84, -0.02), (0.84, -0.02)), 0.3, sausage)
    wave = [(-0.78 + 0.156 * i, 0.1 if i % 2 else -0.1) for i in range(11)]
    pen.line(wave, 0.09, sauce)


def sushi(pen, rng):
    """Two to four rolls of rice in seaweed, from above."""
    places = {
        2: ((-0.5, 0), (0.5, 0)),
        3: ((-0.5, 0.4), (0.5, 0.4), (0, -0.46)),
        4: ((-0.48, -0.48), (0.48, -0.48), (-0.48, 0.48), (0.48, 0.48)),
    }[rng.choice((2, 3, 4))]
    seaweed = colour(rng, (30, 40, 36), (38, 60, 44), (24, 26, 40))
    rice = colour(rng, (250, 248, 240), (236, 226, 200), (206, 170, 130))
    middle = colour(rng, (246, 132, 96), YOLK, GREEN, RED, LEMON)
    for x, y in places:
        roll = pen.at(x, y, angle=rng.uniform(0, 360))
        roll.disc(0, 0, 0.47, seaweed)
        roll.disc(0, 0, 0.37, rice)
        roll.box(0, 0, 0.3, 0.24, jitter(rng, middle))
        roll.disc(0.1, 0.1, 0.09, shade(middle, 0.75))


def french_fries(pen, rng):
    """Sticks that stand in a carton."""
    potato = mix((250, 216, 110), (206, 140, 60), rng.random())
    carton = colour(rng, RED, CREAM, BLUE, YOLK, GREEN, BROWN)
    for i in range(11):
        x = -0.62 + 0.124 * i + rng.uniform(-0.05, 0.05)
        top = -0.95 + 0.6 * abs(x) + rng.uniform(0, 0.3)
        stick = jitter(rng, shade(potato, rng.choice((0.82, 1.0, 1.1))), 8)
        pen.line(((x * 0.7, 0.4), (x * 1.3, top)), 0.15, stick)
    pen.polygon(((-0.76, 0), (0.76, 0), (0.54, 0.98), (-0.54, 0.98)), carton)
    pen.polygon(((-0.76, 0), (0, 0.2), (0.76, 0), (0.74, 0.1), (-0.74, 0.1)), carton)
    pen.oval(0, 0.0, 0.9, 0.22, shade(carton, 0.75))
    for x in (-0.3, 0, 0.3) if rng.random() < 0.6 else ():
        pen.line(((x, 0.2), (x * 0.8, 0.94)), 0.1, shade(carton, 0.72))


def tacos(pen, rng):
    """A folded shell, its round side up, with the filling looking out."""
    shell = baked(rng)
    pen.at(0.08, 0.5).sector(1.05, 180, 360, shade(shell, 0.74))
    choices = (RED, LEAF, GREEN, CREAM, YOLK, BROWN)
    for i in range(11):
        stuffing = pen.at(0.03, 0.5, angle=186 + 16.8 * i)
        stuffing.disc(0.94 + rng.uniform(-0.04, 0.08), 0, 0.17, colour(rng, *choices))
    pen.at(-0.06, 0.56).sector(0.92, 178, 362, shell)
    for _ in range(5):
        angle, radius = rng.uniform(200, 340), rng.uniform(0.3, 0.8)
        pen.at(-0.06, 0.56, angle=angle).disc(radius, 0, 0.06, shade(shell, 0.8))


def deviled_eggs(pen, rng):
    """Three or four halves of eggs, each with its yolk, from above."""
    places = {
        3: ((-0.52, 0.35), (0.52, 0.35), (0, -0.5)),
        4: ((-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)),
    }[rng.choice((3, 4))]
    white = colour(rng, (252, 250, 244), (240, 228, 206), (222, 190, 160), spread=8)
    yolk = colour(rng, YOLK, (232, 150, 50), LEMON, (190, 196, 90))
    for x, y in places:
        egg = pen.at(x, y, angle=rng.uniform(0, 360))
        egg.oval(0, 0, 1.0, 0.8, shade(white, 0.66))
        egg.oval(0, 0, 0.92, 0.72, white)
        egg.disc(-0.06, 0, 0.24, shade(yolk, 0.84))
        egg.disc(-0.06, 0, 0.19, yolk)
        specks(egg, rng, 2, 0.12, 0.04, (RED, GREEN))


def croque_madame(pen, rng):
    """A square toast with a fried egg on it."""
    toast = baked(rng)
    pen.box(0, 0.05, 1.84, 1.84, shade(toast, 0.56))
    pen.box(0, 0, 1.84, 1.78, shade(toast, 0.74))
    pen.box(0, 0, 1.62, 1.58, toast)
    if rng.random() < 0.6:
        pen.at(0, 0, angle=6).box(0, 0, 1.68, 1.4, colour(rng, PINK, LEMON, YOLK))
    white = colour(rng, (254, 252, 246), (244, 236, 214), spread=6)
    for i in range(7):
        blob = pen.at(0, 0, angle=360 / 7 * i + rng.uniform(-12, 12))
        blob.disc(rng.uniform(0.34, 0.46), 0, 0.3, white)
    pen.disc(0, 0, 0.42, white)
    yolk = colour(rng, YOLK, (240, 150, 40), LEMON)
    pen.disc(rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), 0.3, yolk)


def edamame(pen, rng):
    """Two or three pods, each with the bumps of its beans."""
    pod = mix((150, 190, 80), (74, 116, 50), rng.random())
    count = rng.choice((2, 3))
    for i in range(count):
        y = (i - (count - 1) / 2) * 0.64
        one = pen.at(rng.uniform(-0.1, 0.1), y, angle=rng.uniform(-14, 14))
        green = jitter(rng, pod, 10)
        one.line(((-0.85, -0.08), (-0.5, 0), (0.5, 0), (0.85, -0.08)), 0.3, green)
        for x in (-0.5, 0, 0.5):
            one.disc(x, 0, 0.26, shade(green, 0.84))
            one.disc(x - 0.02, -0.02, 0.2, shade(green, 1.22))


def donuts(pen, rng):
    """A ring with icing and sprinkles."""
    dough, icing = baked(rng), colour(rng, *SWEETS)
    hole = rng.uniform(0.28, 0.38)
    pen.sector(1.0, 0, 360, shade(dough, 0.85), hole=hole)
    pen.sector(0.96, 0, 360, dough, hole=hole + 0.02)
    pen.sector(0.88, 0, 360, icing, hole=hole + 0.08)
    pen.at(0, 0, angle=20).sector(0.8, 180, 290, shade(icing, 1.12), hole=0.72)
    for _ in range(rng.choice((0, 10, 14, 18))):
        sprinkle = pen.at(0, 0, angle=rng.uniform(0, 360))
        here = sprinkle.at(rng.uniform(0.5, 0.78), 0, angle=rng.uniform(0, 180))
        here.line(((-0.07, 0), (0.07, 0)), 0.07, colour(rng, *SWEETS, GREEN))


def ice_cream(pen, rng):
    """One to three scoops in a cone."""
    cone = baked(rng)
    pen.polygon(((-0.46, 0.0), (0.46, 0.0), (0, 1.05)), cone)
    for x in (-0.28, 0, 0.28):
        dark = shade(cone, 0.66)
        pen.line(((x, 0.05), (x * 0.2 + 0.12, 0.72)), 0.04, dark)
        pen.line(((x, 0.05), (x * 0.2 - 0.12, 0.72)), 0.04, dark)
    scoops = rng.choice((1, 2, 3))
    places = {
        1: ((0, -0.3, 0.55),),
        2: ((-0.28, -0.2, 0.42), (0.28, -0.26, 0.42)),
        3: ((-0.32, -0.16, 0.38), (0.32, -0.16, 0.38), (0, -0.62, 0.4)),
    }[scoops]
    for x, y, radius in places:
        taste = colour(rng, *SWEETS)
        pen.disc(x, y, radius, shade(taste, 0.86))
        pen.disc(x - 0.03, y - 0.03, radius * 0.9, taste)
        pen.disc(x - 0.12, y - 0.14, radius * 0.3, shade(taste, 1.15))
    pen.oval(0, 0.03, 1.0, 0.16, shade(cone, 0.85))


def waffles(pen, rng):
    """A square with a grid of dents, and something on top."""
    dough = baked(rng)
    edge, dent = shade(dough, 0.72), shade(dough, 0.58)
    pen.box(0, 0, 1.72, 1.72, edge)
    pen.box(0, 0, 1.62, 1.62, dough)
    for i in range(16):
        pen.box(-0.6 + 0.4 * (i % 4), -0.6 + 0.4 * (i // 4), 0.25, 0.25, dent)
    top = rng.choice(("butter", "berries", "none"))
    if top == "butter":
        pen.at(0.1, -0.1, angle=20).box(0, 0, 0.42, 0.36, colour(rng, LEMON, CREAM))
    if top == "berries":
        specks(pen, rng, 5, 0.6, 0.14, (RED, (70, 70, 140), PINK))


def pancakes(pen, rng):
    """A stack, seen from the side and a little from above."""
    dough = baked(rng)
    count = rng.choice((3, 4, 5))
    for i in range(count):
        y = 0.62 - 0.24 * i
        x = rng.uniform(-0.06, 0.06)
        pen.oval(x, y + 0.1, 1.9, 0.62, shade(dough, 0.6))
        pen.oval(x, y, 1.9, 0.62, dough)
    top = 0.62 - 0.24 * (count - 1)
    pen.oval(0, top, 1.66, 0.46, shade(dough, 0.84))
    syrup = colour(rng, COCOA, RED, (190, 110, 30), CREAM)
    pen.oval(0.05, top, 1.1, 0.3, syrup)
    for x, length in ((-0.35, 0.3), (0.15, 0.5), (0.5, 0.25)):
        pen.line(((x, top + 0.05), (x, top + 0.1 + length)), 0.16, syrup)
    pen.at(0, top - 0.1, angle=8).box(0, 0, 0.42, 0.26, colour(rng, LEMON, CREAM))


def cup_cakes(pen, rng):
    """A cake in a pleated paper cup, a swirl on top."""
    paper, icing = colour(rng, *SWEETS), colour(rng, *SWEETS)
    pen.polygon(((-0.74, 0.1), (0.74, 0.1), (0.5, 1.0), (-0.5, 1.0)), paper)
    for i in range(5):
        x = -0.56 + 0.28 * i
        pen.line(((x, 0.16), (x * 0.7, 0.96)), 0.08, shade(paper, 0.68))
    for i, width in enumerate((1.76, 1.4, 0.98, 0.52)):
        y = 0.08 - 0.28 * i
        pen.oval(0, y + 0.06, width, 0.46, shade(icing, 0.78))
        pen.oval(0, y - 0.02, width * 0.95, 0.38, icing)
    if rng.random() < 0.6:
        pen.disc(0, -0.92, 0.17, colour(rng, RED, (150, 30, 50)))
    else:
        specks(pen.at(0, -0.1), rng, 7, 0.55, 0.06, SWEETS)


def macarons(pen, rng):
    """A pile of two or three: two smooth shells each, cream with a ruffle between."""
    count = rng.choice((2, 3))
    height = 2.0 / count
    for i in range(count):
        shell = colour(rng, *SWEETS)
        one = pen.at(rng.uniform(-0.1, 0.1), 1 - height * (i + 0.5), size=height / 1.5)
        width = 1.1 if count == 3 else 0.92
        for side, light in ((180, 1.0), (0, 0.88)):
            for x in range(-4, 5):
                y = -0.14 if side else 0.14
                one.disc(x * 0.24 * width, y, 0.11, shade(shell, 0.74))
            y = -0.24 if side else 0.24
            points = _dome(width, 0.5 if side else -0.5)
            one.at(0, y).polygon(points, shade(shell, light))
        one.box(0, 0, 1.9 * width, 0.17, colour(rng, CREAM, COCOA, PINK, LEMON))


def _dome(width, height):
    """Half an oval on the line y = 0, with its top at -height."""
    half = [p for p in ROUND if p.imag <= 0.01]
    half = sorted(half, key=lambda p: p.real)
    return [(width * p.real, height * p.imag) for p in half]


def chocolate_cake(pen, rng):
    """A wedge: its top, and the layers of its cut side."""
    cake = mix((66, 36, 24), (146, 88, 52), rng.random())
    cream = colour(rng, COCOA, CREAM, RED, (60, 34, 24), spread=10)
    icing = colour(rng, (74, 40, 26), (110, 66, 42), (44, 26, 20), spread=8)
    pen.polygon(((-1, 0.1), (0.9, -0.1), (0.9, 0.6), (-1, 0.8)), cake)
    for y in (0.24, 0.5):
        pen.line(((-0.97, 0.1 + y), (0.87, -0.1 + y)), 0.09, cream)
    pen.polygon(((-1, 0.1), (0.5, -0.75), (0.9, -0.1)), icing)
    pen.polygon(((0.5, -0.75), (0.9, -0.1), (0.9, 0.6), (0.72, 0.1)), shade(icing, 0.8))
    pen.line(((-0.97, 0.13), (0.88, -0.08)), 0.12, shade(icing, 0.85))
    for x, y in ((0.42, -0.5), (0.62, -0.22)):
        pen.disc(x, y, 0.14, colour(rng, RED, CREAM, COCOA, PINK))


FOODS = (
    "pizza hamburger hot_dog sushi french_fries tacos deviled_eggs croque_madame "
    "edamame donuts ice_cream waffles pancakes cup_cakes macarons chocolate_cake"
)
DRAWINGS = {food: globals()[food] for food in FOODS.split()}
