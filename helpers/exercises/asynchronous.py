"""Self-checks of notebook 13b: staleness, the decoupled gain, what is lost, chips."""

import copy
import math

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, texts, whole
from helpers.handover import Order, jobset

ORDER = texts("order")
_CHIPS = ("v5litepod-8", "v5litepod-16", "v6e-8", "v5p-8", "v5p-128")


def check_staleness_rule(answer) -> Check:
    """The buffer in one function: what to learn, what to sample again, what may go."""
    rng = np.random.default_rng(13)
    cases = [_situation(rng) for _ in range(300)]

    def rule(out, back, version, pieces, limit):
        old = [n for n in sorted(back) if back[n] + limit < version]
        fresh = sorted((back[n], n) for n in back if n not in old)
        learn = [n for _, n in fresh[:pieces]] if len(fresh) >= pieces else []
        return learn, old, pieces * (limit + 1) - out - len(fresh)

    def three(*case):
        learn, again, free = answer(*case)
        return list(learn), list(again), free

    properties = {
        "let pieces × (η + 1) be under way: those out, and those back and fresh": [
            *[(out, {}, 7, 3, 1) for out in (0, 2, 6)],
            (1, {4: 7, 5: 6}, 7, 3, 1),
        ],
        "ask again what is more than η versions old": [
            (0, {3: 4, 4: 5, 5: 7}, 7, 3, 2)
        ],
        "learn nothing until enough pieces are back": [(0, {5: 7}, 7, 2, 1)],
        "take what was sampled with the oldest weights first, by number if equal": [
            (0, {5: 7, 8: 6, 7: 6, 6: 7}, 7, 3, 1)
        ],
        "be right for any pieces": cases,
    }
    return check_properties(properties, three, rule)


def _situation(rng):
    """Random (out, back, version, pieces, limit), not more under way than may be."""
    version, pieces, limit = map(int, rng.integers((4, 1, 0), (9, 4, 4)))
    most = pieces * (limit + 1)
    numbers = rng.permutation(20)[: rng.integers(0, most + 1)].tolist()
    back = {number: int(rng.integers(0, version + 1)) for number in numbers}
    return int(rng.integers(0, most - len(back) + 1)), back, version, pieces, limit


def check_decoupled_gain(answer) -> Check:
    """The gain of old answers: a truncated weight, and a clip around the proximal."""
    rng = np.random.default_rng(4)
    logs = tuple(np.log(rng.uniform(0.05, 0.9, (3, 2, 4, 6))).astype(np.float32))
    tokens = (*logs, rng.normal(size=(2, 4, 6)).astype(np.float32))
    cases = [tokens + rest for rest in ((), (1.0, 0.1, 0.5), (5, 0.3, 0.1))]

    def token(now, proximal, behaviour, advantage=1.0):
        """A case of one token, from probabilities."""
        logs = [np.log(np.array([p], np.float32)) for p in (now, proximal, behaviour)]
        return (*logs, np.array([advantage]))

    def decoupled(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
        ratio, weight = np.exp(now - proximal), np.exp(proximal - behaviour)
        clipped = np.clip(ratio, 1 - low, 1 + high)
        least = np.minimum(ratio * advantages, clipped * advantages)
        return np.minimum(weight, cap) * least

    properties = {
        "count a token half that became half as likely by then": [token(0.2, 0.2, 0.4)],
        "stop paying where the update is beyond 1 + high": [token(0.6, 0.3, 0.3)],
        "go on charging a bad token that became likelier": [token(0.9, 0.3, 0.3, -1.0)],
        "be right for any tokens": cases,
    }
    return check_properties(properties, answer, decoupled, 1e-4)


def check_lost(after_worker, after_trainer, lost) -> Check:
    """A prediction: what a killed worker and a killed trainer cost."""
    answers = after_worker, after_trainer, lost
    properties = {
        "be filled in": filled(*answers, what="the numbers of pieces"),
        "ask again what an ended worker was sampling, and nothing else": lambda: (
            {*after_worker} == {23}
        ),
        "keep what the checkpoint has learned: no piece is learned twice": lambda: (
            min(after_trainer) >= 20
        ),
        "ask again what the lost weights had learned, what was out, and what was back "
        "when the trainer ended": lambda: {*after_trainer} == {*range(20, 26)},
        "say how many pieces are never learned": lambda: whole(lost) and lost == 0,
    }
    return check_properties(properties)


def manifests() -> dict[str, dict]:
    """Three manifests for three slices; one of them asks for what is not there."""
    names = {"A": "v5litepod-8", "B": "v5p-128", "C": "v6e-8"}
    made = {key: jobset(Order(**ORDER | {"slice": s})) for key, s in names.items()}
    (wrong,) = made["B"]["spec"]["replicatedJobs"]
    wrong["template"]["spec"] |= {"parallelism": 64, "completions": 64}
    return made


def check_chips(answer) -> Check:
    """Chips that a JobSet asks for, beside those of the slices that it names."""
    good = {name: jobset(Order(**ORDER | {"slice": name})) for name in _CHIPS}
    jobs = [good[name]["spec"]["replicatedJobs"][0] for name in ("v5p-128", "v6e-8")]

    def chips(manifest):
        wanted = there = 0
        for job in manifest["spec"]["replicatedJobs"]:
            spec = job["template"]["spec"]
            pod = spec["template"]["spec"]
            sides = pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"].split("x")
            there += job["replicas"] * math.prod(map(int, sides))
            limits = pod["containers"][0]["resources"]["limits"]
            in_pod = int(limits["google.com/tpu"])
            wanted += job["replicas"] * spec["parallelism"] * in_pod
        return wanted, there

    properties = {
        "find 4 chips asked for and 4 there for one 2x2x1 host": [(good["v5p-8"],)],
        "multiply the sides of a topology, and count every pod": [(good["v5p-128"],)],
        "see more pods than hosts, and count each copy of a job": [
            (_changed(good["v6e-8"], 1, 8, "4"),),
            (_changed(good["v5litepod-16"], 3, 4, "2"),),
        ],
        "add up the jobs of a manifest": [({"spec": {"replicatedJobs": jobs}},)],
        "be right for all slices of the table": [(each,) for each in good.values()],
    }
    return check_properties(properties, answer, chips)


def _changed(manifest, replicas, parallelism, limit):
    """A copy whose job has other numbers."""
    manifest = copy.deepcopy(manifest)
    (job,) = manifest["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    job["replicas"], pods["parallelism"] = replicas, parallelism
    container["resources"]["limits"]["google.com/tpu"] = limit
    return manifest
