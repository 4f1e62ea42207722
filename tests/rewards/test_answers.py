"""Numbers as people write them, and which of several counts."""

import pathlib
import tomllib
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.rewards.answers import extract_lenient, extract_strict

# ----------------------------------------------------------------- one written number

NUMBERS = tomllib.loads(
    pathlib.Path(__file__).with_name("numbers.toml").read_text("utf-8")
)


def number(written):
    """What a cell of numbers.toml says; None where it is empty."""
    return Fraction(written) if written else None


def written_as(kind):
    """(text, number) of each in a table of numbers.toml."""
    return [(text, number(value)) for text, value in NUMBERS[kind].items()]


def test_numbers_are_read_as_people_write_them():
    for written, value in written_as("written"):
        for text in (f"#### {written}", f"####{written}", f"So.\n#### {written}  \n"):
            assert extract_strict(text) == value, text
        assert extract_lenient(f"In all that is {written}") == value, written
        assert extract_lenient(f"#### {written}") == value, written


def test_after_the_mark_a_sign_may_stand_apart_from_its_number():
    """There it can only be a sign; elsewhere it may be a minus between numbers."""
    for written, value in written_as("signs_apart"):
        for text in (f"#### {written}", f"####{written}\nNext: 7"):
            assert extract_strict(text) == extract_lenient(text) == value, text
    assert extract_lenient("That is 10 - 3") == 3
    assert extract_lenient("- 3 apples") == 3  # an item of a list


NOT_NUMBERS = (
    "", "none", "-", "$", "1/0", "3/4/2020", "m2", "x_1", "1e99999", "9" * 41,
    "1/" + "7" * 50, "²", "NaN", "inf", "####", "--", ",", ".", "e5",
)  # fmt: skip


def test_what_is_no_number_is_none():
    for written in NOT_NUMBERS:
        assert extract_strict(f"#### {written}") is None, written
        assert extract_lenient(f"So it is {written}") is None, written


@pytest.mark.parametrize("text", NUMBERS["several"])
def test_which_of_several_numbers_is_the_answer(text):
    strict, lenient = map(number, NUMBERS["several"][text])
    assert extract_strict(text) == strict
    assert extract_lenient(text) == lenient


def test_what_is_long_and_does_not_end_has_no_answer():
    thought = "<think>" + "and so on " * 5_000 + "\n#### 5"
    assert extract_strict(thought) is extract_lenient(thought) is None
    assert extract_strict(r"\boxed{" * 9_000 + "18") is None


@given(st.text(alphabet="0123456789 #-,./$%e\n<=>ax", max_size=40))
def test_lenient_finds_whatever_strict_finds(text):
    if (value := extract_strict(text)) is not None:
        assert extract_lenient(text) == value


@given(st.integers(-(10**15), 10**15), st.integers(0, 3))
def test_every_decimal_number_is_read_exactly(digits, places):
    value = Fraction(digits, 10**places)
    written = f"{digits / 10**places:,.{places}f}"
    if abs(digits) < 10**12:  # beyond, the float that is printed is not exact
        assert extract_strict(f"#### {written}") == value
        assert extract_lenient(f"that is ${written}.") == value


NO_NUMBERS = (
    "5x", "5x + y", "12 - x", "x - 5", "x + 2 + 3", "2x + 5", "(x + 1) * 5", "5(x + 1)",
    "x/2", "5/x", "5 x", "5 n", "5ab", "2π", "3 × π", "2·π", "π/4", "2pi", "5m", "5e",
    "7i", "3 + 4i", "5αβ", "θ - 30", "2n + 1", "y = 5x", "5 times x", "5 more than x",
    "5 squared", "5 cubed", "3 factorial", "5!", "2^10", "10^3", "x^2", "1.5×10^3",
    "√2", "3√2", "sqrt(5)", "log 5", "5 mod 3", "(2, 3)", "(2, x)", "±5", r"3\sqrt{2}",
    r"2\pi", r"\frac{x}{2}", r"\frac{1}{x}", r"\boxed{5x}", "$5x$", r"0.\overline{3}",
    "2 million", "1.2 billion", "5k", "5 тысяч", "५ लाख", "5万", "1½ million", "3 Ⅷ",
    "5 bin", "5 gross", "5 score",
    "5:30", "3:2", "1.2.3", "1,0000", "1,000,00", "6'2", "1'00", "18€50",
    "101_2", "10⁻³", "xⁿ - 1", ",5", "5°30′", "5 ± 1", "3万5千", "0x1F", "½x",
    "3x4", "5 × 10^3", "5⋅x", "(5)x", "2**3", "5(2)", "(5,6)", "[5,6]", "5 < x",
    "3.(3)",
)  # fmt: skip


@pytest.mark.parametrize("written", NO_NUMBERS)
def test_what_is_no_number_is_never_read_as_a_part_of_it(written):
    """An earlier number is not the answer either: the model did not hand it in."""
    assert extract_strict(f"#### {written}") is None
    for text in (f"#### {written}", f"So {written}", f"He has 7. It is {written}."):
        assert extract_lenient(text) is None, text


@given(
    st.lists(st.text("0123456789", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.sampled_from(".,'’_:٫"), min_size=3, max_size=3),
    st.sampled_from(["", "", "x", "²", "π", " million", " - x", "€", " km", "%"]),
    st.sampled_from([0x30, 0x660, 0x6F0, 0x966, 0xE50, 0xFF10]),
)
def test_what_is_read_has_all_the_digits_that_were_written(groups, marks, after, zero):
    """In their order: it is the whole number, wherever its decimals begin, or none."""
    written = "".join(m + g for g, m in zip(groups, ["", *marks], strict=False))
    local = "".join(chr(zero + int(c)) if c.isdigit() else c for c in written)
    digits = int("".join(groups))
    is_list = len(groups) > 2 and set(marks[: len(groups) - 1]) == {","}
    for read in (extract_strict, extract_lenient):
        if is_list and read is extract_lenient:
            continue  # 1,2,3 are three numbers, and the last one counts
        value = read(f"#### {local}{after}")
        assert value is None or digits in [value * 10**k for k in range(17)]
        assert value is None or after not in ("x", "²", "π", " million", " - x")


@given(st.integers(0, 10**9), st.integers(0, 99), st.sampled_from(",. '’_"))
def test_groups_of_three_and_decimals_are_read_in_every_notation(whole, cents, mark):
    point = "," if mark == "." else "."
    written = f"{whole:,}".replace(",", mark) + f"{point}{cents:02d}"
    value = whole + Fraction(cents, 100)
    assert extract_strict(f"#### {written}") == value
    assert extract_lenient(f"That is {written} €.") == value


# ------------------------------------------------------------------ with markup

# What instruct models write around the number of an answer line.
DECORATED = (
    "**{}**", "*{}*", "***{}***", "__{}__", "_{}_", "`{}`", "**{}**.", "** {} **",
    "**{} dollars**", "**{}** dollars a day.", "**${}**", "$**{}**",
    r"\boxed{{{}}}", r"$\boxed{{{}}}$", r"\(\boxed{{{}}}\)", r"\[\boxed{{{}}}\]",
    r"**\boxed{{{}}}**", r"$$\boxed{{{}}}$$", r"\boxed{{\text{{{}}}}}", "${}$", "${}$.",
    r"\boxed{{{} \text{{ dollars}}}}", r"\boxed{{\${}}}", r"\boxed{{\mathbf{{{}}}}}",
    "**${}$**", "$${}$$", r"\({}\)", r"\[ {} \]", r"$\${}$", r"\${}", r"**\${}**",
    r"{}\%", r"${}\%$", r"{}\text{{ km}}", r"${}\ \text{{km}}$", r"{} \mathrm{{kg}}.",
    r"${}^\circ$", r"{}^{{\circ}} C", "{} **dollars**", "{} dollars_per_day",
)  # fmt: skip


@pytest.mark.parametrize("form", DECORATED)
def test_markup_around_the_number_is_taken_off(form):
    for written, value in {
        "18": 18,
        "1,450,000": 1450000,
        "2.50": Fraction(5, 2),
    }.items():
        for end in ("", "\nBye"):
            text = f"#### {form.format(written)}{end}"
            assert extract_strict(text) == extract_lenient(text) == value
    if form[0] not in "$-" and "$" not in form:
        assert extract_strict(f"#### {form.format('−3')}") == -3


def test_numbers_in_latex_are_read_as_they_are_meant():
    for line, value in written_as("in_latex"):
        assert extract_strict(f"#### {line}") == value, line
    for line in ("**#### 18**", "**So: #### 18**", "*#### $18*", "`#### 18`"):
        assert extract_strict(f"It is so.\n{line}\n") == 18, line


@pytest.mark.parametrize(("text", "value"), written_as("boxed"))
def test_without_a_mark_the_last_box_holds_the_answer(text, value):
    assert extract_strict(text) == value


UNDECIDED = (
    "**18", "*18**", "**18** and **20**", "**18 or 20**", r"\boxed{18", r"\boxed{18}}",
    r"\boxed{18} \boxed{20}", r"\boxed{}", "$5$ $6$", "$$5$", "$5$$", r"\(5", r"\[5\)",
    "**The answer is 18**", r"\boxed{x = 18}", "**Answer:** 18", r"\unknown{18}",
    "1**8**", "**1**8", r"1\boxed{8}", r"\boxed{1} 000", "$1$000", r"1\$000",
    r"\frac{1}{0}", r"\frac{1}{2", r"2 \times 9", "`18", "_18", "18_", r"18\\",
    "**" * 200 + "18" + "**" * 200, r"\boxed{" * 9_000 + "18",
)  # fmt: skip


ANOTHER = (  # number than the digits in front say
    "5²", "2⁵", "10⁶", "18!", "5 million", "5 Thousand", "5-million",
    "3 Ⅷ", "2 hundredths", "5₁", "5k", "5K", "5M", "5bn", "5万", "5億",
    "2 dozen", "3 lakh", "5 and a half", "1 and one third",
    "5 k", "5 K", "5 M", "3 B", "5 bn", "5 tn", "5 mln", "5 Mio", "5 Mrd", "3MM",
    "5 millones", "5 milhões", "5 milliards", "5 milyar", "5 miljoen", "5 mila",
    "5 Tausend", "5 duizend", "5 tys.", "5 tisíc", "5 nghìn", "5 triệu", "5 ribu",
    "5만", "5천 원", "5억", "5 thirds", "5 halves", "5 doz.", "5 — x",
    "5 quadrillion", "٥ آلاف", "5 ملايين", "5 مليار", "۵ میلیارد", "५ हजार",
    r"5\text{k}", "**5** k", r"$5\,\text{bn}$", r"\boxed{5}k", "*5* million",
)  # fmt: skip


@pytest.mark.parametrize("lines", [ANOTHER, UNDECIDED])
def test_another_number_or_markup_that_is_not_closed_is_nothing(lines):
    for line in lines:
        assert extract_strict(f"#### {line}") is None, line[:40]


def test_a_unit_that_begins_like_a_word_for_many_is_a_unit():
    for unit in ("km", "m", "kg", "Meters", "and up", "mm", "kids", "MB", "Books", "ml",
                 "miles", "milliliters", "millimètres", "milk",
                 "ribs", "— a lot", "만화책", "조각"):  # fmt: skip
        assert extract_strict(f"#### 5 {unit}") == 5


@pytest.mark.parametrize(("text", "value"), written_as("lenient"))
def test_lenient_reads_markup_where_it_can_and_the_bare_line_elsewhere(text, value):
    assert extract_lenient(text) == value


@settings(max_examples=60)
@given(
    st.integers(0, 10**7),
    st.sampled_from([form for form in DECORATED if "{{" not in form]),
    st.integers(0, 60),
)
def test_markup_with_a_hole_never_gives_another_number(number, form, hole):
    """A form without one of its characters is the number still, or nothing."""
    text = form.format("N")
    text = text[: hole % len(text)] + text[hole % len(text) + 1 :]
    if "N" in text:
        read = extract_strict(f"#### {text.replace('N', str(number))}")
        assert read in (None, number, -number)
