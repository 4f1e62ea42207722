"""Nine savoury foods of Food-101, each drawn by one function `(pen, rng)`.

A drawing fills about the unit disc of its pen. Colours vary widely, and baked brown is
the colour of many, so that the shape tells which food it is.
"""

from helpers.tasks.food.drawing import (
    BLUE,
    BROWN,
    CREAM,
    GREEN,
    LEAF,
    LEMON,
    PINK,
    RED,
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
        own = jitter(rng, pod, 10)
        one.line(((-0.85, -0.08), (-0.5, 0), (0.5, 0), (0.85, -0.08)), 0.3, own)
        for x in (-0.5, 0, 0.5):
            one.disc(x, 0, 0.26, shade(own, 0.84))
            one.disc(x - 0.02, -0.02, 0.2, shade(own, 1.22))


DRAWINGS = {
    "pizza": pizza,
    "hamburger": hamburger,
    "hot_dog": hot_dog,
    "sushi": sushi,
    "french_fries": french_fries,
    "tacos": tacos,
    "deviled_eggs": deviled_eggs,
    "croque_madame": croque_madame,
    "edamame": edamame,
}
