"""Notebook 13b: the staleness rule, old answers, what a kill costs, a manifest."""

import math

import numpy as np


def rule(*, most=1, old=1, room=True, enough=True):
    """The solution of 13b-1, with its usual mistakes as switches."""

    def staleness_rule(out, back, version, pieces, limit):
        late = [n for n in back if version - back[n] > limit - 1 + old]
        learn = sorted((n for n in back if n not in late), key=lambda n: (back[n], n))
        free = pieces * (limit + most) - out - len(learn) * room
        if enough and len(learn) < pieces:
            learn = []
        return learn[:pieces], sorted(late), free

    return staleness_rule


def by_a_loop(out, back, version, pieces, limit):
    learn, again = [], []
    for sampled, number in sorted((v, n) for n, v in back.items()):
        (learn if sampled >= version - limit else again).append(number)
    free = pieces + limit * pieces - (out + len(learn))
    if len(learn) < pieces:
        learn = []
    return tuple(learn[:pieces]), np.array(sorted(again)), free


def gain(*, weight=True, cap=True, around="proximal", least=True):
    """The solution of 13b-2, with its usual mistakes as switches."""

    def decoupled(now, proximal, behaviour, advantages, cap_=2.0, low=0.2, high=0.28):
        weights = np.exp(proximal - behaviour) if weight else np.ones_like(now)
        if cap:
            weights = np.minimum(weights, cap_)
        ratio = np.exp(now - {"proximal": proximal, "behaviour": behaviour}[around])
        clipped = np.clip(ratio, 1 - low, 1 + high)
        both = np.minimum if least else lambda one, other: other
        return weights * both(ratio * advantages, clipped * advantages)

    return decoupled


def by_where(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
    ratio, weight = np.exp(now - proximal), np.exp(proximal - behaviour)
    most = np.where(advantages > 0, 1 + high, np.inf)
    least = np.where(advantages < 0, 1 - low, 0)
    limited = np.minimum(np.maximum(ratio, least), most)
    return np.where(weight > cap, cap, weight) * limited * advantages


def chips(*, pods=True, replicas=True, sides=math.prod, jobs=None):
    """The solution of 13b-4, with its usual mistakes as switches."""

    def counted(manifest):
        wanted = there = 0
        for job in manifest["spec"]["replicatedJobs"][:jobs]:
            times = job["replicas"] if replicas else 1
            spec = job["template"]["spec"]
            pod = spec["template"]["spec"]
            limit = pod["containers"][0]["resources"]["limits"]["google.com/tpu"]
            text = pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"]
            count = spec["parallelism"] if pods else 1
            wanted += times * count * int(limit)
            there += times * sides([int(side) for side in text.split("x")])
        return wanted, there

    return counted


def by_comprehension(manifest):
    chips = []
    for job in manifest["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        limits = [c.get("resources", {}).get("limits", {}) for c in pod["containers"]]
        each = sum(int(limit.get("google.com/tpu", 0)) for limit in limits)
        (topology,) = (v for k, v in pod["nodeSelector"].items() if "topology" in k)
        slice_ = np.prod([int(side) for side in topology.split("x")])
        pods = job["template"]["spec"]["parallelism"]
        chips.append((job["replicas"] * pods * each, job["replicas"] * slice_))
    return tuple(np.sum(chips, axis=0))


ALL = {20, 21, 22, 23, 24, 25}
WRONG = {
    "13b-1": {
        "η versions old is too old": rule(old=0),
        "nobody may run ahead": rule(most=0),
        "what is back is not counted": rule(room=False),
        "a batch that is not full": rule(enough=False),
    },
    "13b-2": {
        "no weight": gain(weight=False),
        "no cap": gain(cap=False),
        "clipped around the behaviour": gain(around="behaviour"),
        "always clipped": gain(least=False),
    },
    "13b-3": {
        "all that was out": ({23, 24}, ALL, 0),
        "the piece is lost": ({23}, ALL, 1),
        "what was out and back only": ({23}, {23, 24, 25}, 0),
        "what is back stays": ({23}, ALL - {25}, 0),
    },
    "13b-4": {
        "one pod": chips(pods=False),
        "one replica": chips(replicas=False),
        "sides added up": chips(sides=sum),
        "the first job": chips(jobs=1),
    },
}
RIGHT = {
    "13b-1": {"a loop": by_a_loop, "with switches": rule()},
    "13b-2": {"with where": by_where, "in NumPy": gain()},
    "13b-3": {"lists": ([23], sorted(ALL), 0), "a range": ((23,), range(20, 26), 0.0)},
    "13b-4": {"with comprehensions": by_comprehension},
}
