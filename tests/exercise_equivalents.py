"""Mutants of official solutions that are right answers, too.

By exercise, the lines that only the mutant has. Some compute the same, others are
another answer of the kind that the exercise asks for.
"""

SAME = {
    "02-1": {
        "logits.append(model.logits(hidden)[0, 0, 1])",
        "logits.append(model.logits(hidden)[0, 1, 0])",
        "logits.append(model.logits(hidden)[1, 0, 0])",
    },
    "02-2": {"text_T = np.where(place_T < Tp, 0, 2 + (place_T - Tp) // Tc)"},
    "04-2": {"if tokens[max(t - 3, 0):max(t - 1, 1)] == [checks.START, checks.MODEL]:"},
    "05-2": {"cheat = '<<1=1>> ' + ' '.join((str(number) for number in range(1001)))"},
    "09-1": {"return cut.mean(axis=(1, 3)).reshape(-2, C)"},
    "10-2": {
        "return [right - 4.0 * bool(food and (not talk.calls)) "
        "for talk, food, right in rows]",
    },
    "11-2": {"student_NK = jnp.take_along_axis(student_NV, ids_NK)"},
    "15-1": {"if frozen + 4 * 4 * trained < 0.9 * chip:"},
    "15-2": {
        "left, _, value = said.rpartition('<<')[2].partition('>>')[0].partition('=')"
    },
}
