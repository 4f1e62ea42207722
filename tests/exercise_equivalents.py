"""Mutants of official solutions that are right answers, too, each with the reason.

By exercise, {the lines as the mutant has them: why it is right}. A line may be cut off
by …. Whatever is not listed here has to fail its check
(tests/exercises/test_exercise_mutants.py).
"""

ORDER = "a sum does not depend on the order of its terms"
MIRROR = "a distance is the same both ways"
OTHER_ANSWER = "the exercise asks for any answer of its kind, and this is one"
NEAR = "the check allows answers that are rounded"
ALONE = "an axis of one entry has only this entry; JAX clips what is beyond"
LAST = "axis 1 is the last of two"
SMALLER = "the smaller of two is the same in either order"
LARGER = "the larger of two is the same in either order"
TRUTH = "a mask may be of booleans or floats"
WHOLE = "a float that is a whole number is one"
UNREAD = "no reward of a conversation reads its prompt"
CAUGHT = "the errors that are caught may come in any order"
NAME = "how a backend is called does not change what it does"

SAME: dict[str, dict[str, str]] = {
    "00-1": {
        "here = {'place': runtime.where(), 'platform': jax.devices()[-1].platform, …": (
            "all devices of one machine are of one platform"
        ),
    },
    "01-1": {
        "flops, numbers = (2 * B * D * F, B * F + (B * D + D * F))": ORDER,
        "flops, numbers = (2 * B * D * F, D * F + B * D + B * F)": ORDER,
    },
    "01-2": {"left = D * F - ridge * (F + D)": ORDER},
    "01-3": {
        "return token * run + compiling * len(chosen)": ORDER,
        "ways = [itertools.combinations(others, k) for k in range(1 + len(oth…": ORDER,
        "ways = [itertools.combinations(others, k) for k in range(len(others) + 2)]": (
            "there is no choice of more than there are"
        ),
        "return min(((longest, *way) for each in ways for way in each), key=seconds)": (
            "buckets may come in any order"
        ),
    },
    "01-4": {
        "for to, from_, size, ring in zip(a, b, shape, rings, strict=True):": MIRROR,
        "for from_, to, size, ring in zip(b, a, shape, rings, strict=True):": MIRROR,
        "straight = abs(to - from_)": MIRROR,
        "total += min(size - straight, straight) if ring else straight": (
            "the smaller of two is the same in either order"
        ),
    },
    "02-1": {
        "K, N = …": "query and key heads cost the same, so their sum is what counts",
        "N, K = …": "query and key heads cost the same, so their sum is what counts",
        "attention = N * H * D + (D * N * H + 2 * D * K * H)": ORDER,
        "attention = 2 * D * K * H + D * N * H + N * H * D": ORDER,
        "norms = 2 * H + 4 * D": ORDER,
        "return D + (V * D + layers * (attention + feed_forward + norms))": ORDER,
        "return layers * (attention + feed_forward + norms) + V * D + D": ORDER,
        "return V * D + layers * (norms + (attention + feed_forward)) + D": ORDER,
        "return V * D + layers * (feed_forward + attention + norms) + D": ORDER,
    },
    "02-2": {
        "pieces = (kv, *pieces)": "attention goes by positions, not by order in memory",
        "logits.append(model.logits(hidden)[1, 0, 0])": ALONE,
        "logits.append(model.logits(hidden)[-1, 0, 0])": ALONE,
        "logits.append(model.logits(hidden)[0, 1, 0])": ALONE,
        "logits.append(model.logits(hidden)[0, -1, 0])": ALONE,
        "logits.append(model.logits(hidden)[0, 0, 1])": ALONE,
        "logits.append(model.logits(hidden)[0, 0, -1])": ALONE,
        "return logits": "a list of rows is read as a table of them",
    },
    "02-3": {
        "place_T = np.arange(G * Tc + Tp)": ORDER,
        "text_T = np.where(place_T < Tp, 0, (place_T - Tp) // Tc + 1)": ORDER,
        "text_T = np.where(place_T < Tp, 0, 2 + (place_T - Tp) // Tc)": (
            "any other numbers than 0 do for the answers"
        ),
        "positions_T = np.where(text_T <= 0, place_T, Tp + (place_T - Tp) % Tc)": (
            "no text has a number below 0"
        ),
        "positions_T = np.where(text_T == 0, place_T, (place_T - Tp) % Tc + Tp)": ORDER,
        "shown_TT = (text_T == text_T[:, None]) | (text_T == 0)": ORDER,
        "shown_TT = (text_T <= 0) | (text_T == text_T[:, None])": (
            "no text has a number below 0"
        ),
        "shown_TT = (text_T == 0) | (text_T >= text_T[:, None])": (
            "what is not behind a token is of no later text"
        ),
        "return (positions_T, shown_TT & past_TT)": ORDER,
    },
    "02-4": {"return np.arange(steps) + start_P[:, None]": ORDER},
    "03-1": {
        "except (ZeroDivisionError, IndexError, ValueError):": CAUGHT,
        "except (IndexError, ValueError, ZeroDivisionError):": CAUGHT,
    },
    "03-3": {"questions_needed = 2402": NEAR, "questions_needed = 2400": NEAR},
    "03-4": {
        "after = change + before": ORDER,
        "own = after * (1 - after) + before * (1 - before)": ORDER,
        "same = lost + gained - change ** 2": ORDER,
        "return (1.96 ** 2 * own // change ** 2, 1.96 ** 2 * same / change ** 2)": NEAR,
        "return (1.96 ** 2 * own / change ** 2, 1.96 ** 2 * same // change ** 2)": NEAR,
    },
    "04-3": {
        "if tokens[max(0, t - 3):max(t - 1, 0)] == [checks.START, checks.MODEL]:": (
            LARGER
        ),
        "if tokens[max(t - 3, 0):max(0, t - 1)] == [checks.START, checks.MODEL]:": (
            LARGER
        ),
        "if tokens[t - 3:max(t - 1, 0)] == [checks.START, checks.MODEL]:": (
            "before the third token such a slice has fewer than two tokens"
        ),
        "if tokens[max(t - 3, -1):max(t - 1, 0)] == [checks.START, checks.MODEL]:": (
            "before the third token such a slice has fewer than two tokens"
        ),
        "if tokens[max(t - 3, 0):max(t - 1, 1)] == [checks.START, checks.MODEL]:": (
            "a slice of one token is never equal to a list of two"
        ),
        "mask.append(speaking)": TRUTH,
        "mask.append(float(speaking))": TRUTH,
        "if token <= checks.END:": "only START is less, and at a START nobody speaks",
    },
    "04-4": {"positions, segments = ([], [])": "both begin as an empty list"},
    "05-1": {
        "return int(bool(mark) and …": TRUTH,
        "return bool(mark) and …": TRUTH,
    },
    "05-2": {"weights_of = {'correct': 2.0, 'format_reward': 0.1}": OTHER_ANSWER},
    "05-3": {
        "cheat = ' '.join((str(number) for number in range(1000))) + '<<1=1>> '": (
            OTHER_ANSWER
        ),
        "cheat = '<<1=1>>' + …": OTHER_ANSWER,
        "cheat = '<<1=1>> ' + ' '.join((str(number) for number in range(1001)))": (
            OTHER_ANSWER
        ),
        "cheat = '<<1=1>> ' + ' '.join((str(number) for number in range(999)))": (
            OTHER_ANSWER
        ),
    },
    "05-4": {
        "right = library.correct(completions, completions, answer)": (
            "`correct` does not look at the prompts"
        ),
        "right = library.correct(answer, completions, answer)": (
            "`correct` does not look at the prompts"
        ),
        "empty = [re.findall(…": "a list of finds is true where there is a find",
        "empty = [re.search('<<[^\\\\d]*[\\\\d.]+[^\\\\d=]*=', text) for text in "
        "completions]": "what has = before its first digit does not hold anyway",
        "empty = [re.search('<<[^\\\\d=]*[\\\\d.]+[^\\\\d]*=', text) for text in "
        "completions]": "of several = without digits between, the first is found too",
        "worked = [s and all(s) …": "an empty list is as false as its bool",
    },
    "06-1": {
        "for block, token in ((3 + 3 * first, second), (0, first)):": (
            "the two blocks do not overlap, so their order is free"
        ),
        "for block, token in ((0, first), (3 * first + 3, second)):": ORDER,
        "logits = np.asarray(theta[block:block + 3])": "float32 is exact to 1e-7",
        "logits = theta[block:block + 3]": "theta is an array already",
        "logits = np.asarray(theta[block:3 + block], float)": ORDER,
        "gradient[block:3 + block] = -np.exp(logits) / np.exp(logits).sum()": ORDER,
        "gradient[token + block] += 1": ORDER,
    },
    "06-3": {"silent = [3, 0]": "a list of indices, in any order"},
    "07-1": {"tied_P = (1 - solved_P) ** group + solved_P ** group": ORDER},
    "07-2": {
        "before_PGT = is_end_PGT - np.cumsum(is_end_PGT, axis=-1)": (
            "only whether it is 0 is asked"
        ),
        "return is_end_PGT.any(axis=-1, keepdims=True) & (before_PGT == 0)": ORDER,
        "return (before_PGT <= 0) & is_end_PGT.any(axis=-1, keepdims=True)": (
            "a count is never below 0"
        ),
    },
    "07-4": {
        "right = correct(completions, completions, answer)": (
            "`correct` does not look at the prompts"
        ),
        "right = correct(answer, completions, answer)": (
            "`correct` does not look at the prompts"
        ),
    },
    "08-1": {
        "end = 1 + high if ratio >= 1 else 1 - low": "at 1 both ends give 0, so 1",
        "end = high + 1 if ratio > 1 else 1 - low": ORDER,
        "return max(int(np.ceil(np.log(ratio) / np.log(end))), 1)": LARGER,
        "return max(1, np.ceil(np.log(ratio) / np.log(end)))": WHOLE,
        "return max(1, float(np.ceil(np.log(ratio) / np.log(end))))": WHOLE,
    },
    "08-3": {
        "weight_PGT = jax.lax.stop_gradient(jnp.minimum(1 + high, ratio_PGT))": (
            "the smaller of two is the same in either order"
        ),
        "weight_PGT = jax.lax.stop_gradient(jnp.minimum(ratio_PGT, high + 1))": ORDER,
    },
    "09-1": {
        "return cut.mean(axis=(3, 1)).reshape(-1, C)": ORDER,
        "return cut.mean(axis=(1, 3)).reshape(-2, C)": (
            "NumPy takes any size below 0 for the one that is left"
        ),
    },
    "09-2": {
        "if isinstance(grams, bool) or not isinstance(grams, float | int):": (
            "a union of types has no order"
        ),
        "return 0 if 0 < grams <= 5000 else …": "0 is as false as None: no fault",
    },
    "09-3": {
        "mask, row = ([], [])": "both begin as an empty list",
        "mine = who == 'model'": TRUTH,
        "mine = float(who == 'model')": TRUTH,
        "mine = int(who <= 'model')": "of the three names the other two come behind it",
        "mask += [0, 0, 0] + [mine] * (1 + len(said)) + [0]": ORDER,
    },
    "10-1": {
        "spelling = [tokenizer.encode(letter)[-1] for …": "a letter is one token",
    },
    "10-2": {"price = 8 * 15 / 186": NEAR, "price = 8 * 15 / 184": NEAR},
    "10-4": {
        "solved = food_rewards.solved(completions, completions, portions)": UNREAD,
        "solved = food_rewards.solved(portions, completions, portions)": UNREAD,
        "return [right - 4.0 * bool(food and (not talk.calls)) for …": (
            "any price above 2 will do"
        ),
    },
    "11-1": {
        "each_V = (next_VV * np.log(next_VV / wise_VV)).sum(axis=1)": LAST,
        "total += each_V @ at_V": ORDER,
    },
    "11-2": {
        "student_NK = jnp.take_along_axis(student_NV, ids_NK)": (
            "the last axis is meant"
        ),
        "student_NK = jnp.take_along_axis(student_NV, ids_NK, axis=1)": LAST,
        "named_N = (jnp.exp(teacher_NK) * (teacher_NK - student_NK)).sum(axis=1)": LAST,
        "rest_N = jnp.maximum(1 - jnp.exp(teacher_NK).sum(axis=1), 1e-07)": LAST,
        "students_rest_N = jnp.maximum(1 - jnp.exp(student_NK).sum(axis=1), 1e-07)": (
            LAST
        ),
        "rest_N = jnp.maximum(1e-07, 1 - jnp.exp(teacher_NK).sum(axis=-1))": LARGER,
        "students_rest_N = jnp.maximum(1e-07, 1 - jnp.exp(student_NK).sum(axis=-1))": (
            LARGER
        ),
        "return rest_N * jnp.log(rest_N / students_rest_N) + named_N": ORDER,
    },
    "11-3": {
        "mix_NV = 0.5 * (teacher_NV + student_NV)": ORDER,
        "from_teacher = rel_entr(teacher_NV, mix_NV).sum(axis=1)": LAST,
        "from_student = rel_entr(student_NV, mix_NV).sum(axis=1)": LAST,
        "return 0.5 * from_student + 0.5 * from_teacher": ORDER,
    },
    "13-1": {
        "cut = any((size % chips <= 0 for size in shape))": "no remainder is below 0",
        "total += 12 * math.prod(shape) // (chips if cut else 1)": (
            "only what divides is cut, so there is nothing to round"
        ),
    },
    "13-3": {
        "gaps.append((min(end, begin) - free, free))": "the smaller of two either way",
        "free = max(begin + length, free)": "the larger of two either way",
        "free = max(free, length + begin)": ORDER,
    },
    "13b-1": {"room = pieces * (1 + limit) - out - len(fresh)": ORDER},
    "13b-2": {
        "weight = jnp.minimum(cap, jnp.exp(proximal - behaviour))": SMALLER,
        "clipped = jnp.clip(1 - low, ratio, 1 + high)": (
            "the larger of ratio and lower end, in either order"
        ),
        "clipped = jnp.clip(ratio, 1 - low, high + 1)": ORDER,
        "return weight * jnp.minimum(clipped * advantages, ratio * advantages)": (
            SMALLER
        ),
    },
    "13b-4": {
        "asked += job['replicas'] * pods['parallelism'] * "
        "float(limits['google.com/tpu'])": "a count of chips as a float is equal",
    },
    "14-1": {"return None": "a generator gives no value at its end"},
    "14-4": {
        "without name = 'the first, else the second'": NAME,
        "name = …": NAME,
    },
    "15-1": {
        "frozen = 2 * sum((rows * columns for columns, rows in matrices))": ORDER,
        "trained = rank * sum((columns + rows for rows, columns in matrices))": ORDER,
        "trained = rank * sum((rows + columns for columns, rows in matrices))": ORDER,
        "if frozen + 4 * 4 * trained < 0.9 * chip:": (
            "a tenth of a chip is not asked to the byte"
        ),
        "if 4 * 4 * trained + frozen <= 0.9 * chip:": ORDER,
    },
    "15-3": {
        "said, _, number = text.rpartition('####')": "the space is stripped later",
        "left, _, value = said.rpartition('<<')[2].partition('>>')[0].partition('=')": (
            "a sum with two = does not hold anyway"
        ),
        "left, _, value = said.rpartition('<<')[2].partition('>')[0].rpartition('=')": (
            "a sum with a > inside does not hold anyway"
        ),
        "computes = re.findall('[\\\\d)] *[-+*/]', left)": "found ones are true",
        "return bool(computes) and all(annotations(text)) and right": (
            "True is paid as 1.0 and False as 0.0"
        ),
        "return int(bool(computes) and all(annotations(text)) and right)": (
            "1 is equal to 1.0, and 0 to 0.0"
        ),
    },
    "15-4": {
        "done += range(1 + saved, last + 1)": ORDER,
        "done += range(saved + 1, 1 + last)": ORDER,
    },
    "12-1": {"if length % 4 <= 0:": "a remainder is never negative"},
    "12-2": {"missing = np.maximum(0, p - q)": ORDER},
    "12-3": {
        "tokens = sum((acceptance ** i for i in range(1 + n)))": ORDER,
        "return tokens / (pass_cost[n] + n * draft_cost)": ORDER,
    },
}
