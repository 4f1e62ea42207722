"""Notebook 13b: the staleness rule, old answers, what a kill costs, a manifest."""

import math

import numpy as np


def rule(*, most=1, old=1, room=True, enough=True, cut=True, by="version", again=True):
    """The solution of 13b-1, with its usual mistakes as switches."""

    def staleness_rule(out, back, version, pieces, limit):
        late = [n for n in back if version - back[n] > limit - 1 + old]
        kept = [n for n in back if n not in late]
        keys = {"version": lambda n: (back[n], n), "number": None}
        keys["newest"] = lambda n: (-back[n], n)
        learn = sorted(kept, key=keys[by])
        if enough and len(learn) < pieces:
            learn = []
        held = out + (len(kept) if room == "kept" or room is True else 0)
        held += len(late) if room == "late" else 0
        free = pieces * (limit + most) - held
        told = sorted(late) if again else []
        return (learn[:pieces] if cut else learn), told, free

    return staleness_rule


def by_a_loop(out, back, version, pieces, limit):
    learn, again = [], []
    for sampled, number in sorted((v, n) for n, v in back.items()):
        (learn if sampled >= version - limit else again).append(number)
    free = pieces + limit * pieces - (out + len(learn))
    if len(learn) < pieces:
        learn = []
    return tuple(learn[:pieces]), np.array(sorted(again)), free


def gain(*, weight=True, cap=True, around="proximal", least=True, whole=False):
    """The solution of 13b-2, with its usual mistakes as switches."""

    def decoupled(now, proximal, behaviour, advantages, cap_=2.0, low=0.2, high=0.28):
        weights = np.exp(proximal - behaviour) if weight else np.ones_like(now)
        if cap:
            weights = np.minimum(weights, cap_)
        old = {"proximal": proximal, "behaviour": behaviour}[around]
        ratio = np.exp(now - old)
        if whole:  # one ratio, truncated as a whole
            ratio, weights = np.minimum(np.exp(now - behaviour), cap_), 1
        clipped = np.clip(ratio, 1 - low, 1 + high)
        both = np.minimum if least else lambda one, other: other
        return weights * both(ratio * advantages, clipped * advantages)

    def named(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
        return decoupled(now, proximal, behaviour, advantages, cap, low, high)

    return named


def upside_down(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
    """The weight's fraction the wrong way round."""
    return gain()(now, proximal, 2 * proximal - behaviour, advantages, cap, low, high)


def summed(*given, **settings):
    return gain()(*given, **settings).sum(axis=-1)


def by_where(now, proximal, behaviour, advantages, cap=2.0, low=0.2, high=0.28):
    ratio, weight = np.exp(now - proximal), np.exp(proximal - behaviour)
    most = np.where(advantages > 0, 1 + high, np.inf)
    least = np.where(advantages < 0, 1 - low, 0)
    held = np.minimum(np.maximum(ratio, least), most)
    return np.where(weight > cap, cap, weight) * held * advantages


def chips(*, pods=True, replicas=True, sides=math.prod, limits=True, jobs=None):
    """The solution of 13b-4, with its usual mistakes as switches."""

    def counted(manifest):
        asked = there = 0
        for job in manifest["spec"]["replicatedJobs"][:jobs]:
            times = job["replicas"] if replicas else 1
            spec = job["template"]["spec"]
            pod = spec["template"]["spec"]
            limit = pod["containers"][0]["resources"]["limits"]["google.com/tpu"]
            text = pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"]
            count = spec["parallelism"] if pods else 1
            asked += times * count * (int(limit) if limits else 4)
            there += times * sides([int(side) for side in text.split("x")])
        return asked, there

    return counted


def as_text(manifest):
    """A limit is a text: "4" times 16 is sixteen fours."""
    (job,) = manifest["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container, *_) = spec["template"]["spec"]["containers"]
    limit = container["resources"]["limits"]["google.com/tpu"]
    return limit * spec["parallelism"], chips()(manifest)[1]


def by_comprehension(manifest):
    found = []
    for job in manifest["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        limits = [c.get("resources", {}).get("limits", {}) for c in pod["containers"]]
        each = sum(int(limit.get("google.com/tpu", 0)) for limit in limits)
        (topology,) = (v for k, v in pod["nodeSelector"].items() if "topology" in k)
        slice_ = np.prod([int(side) for side in topology.split("x")])
        pods = job["template"]["spec"]["parallelism"]
        found.append((job["replicas"] * pods * each, job["replicas"] * slice_))
    return tuple(np.sum(found, axis=0))


ALL = {20, 21, 22, 23, 24, 25}
WRONG = {
    "13b-1": {
        "η versions old is too old": rule(old=0),
        "one version too many": rule(old=2),
        "nobody may run ahead": rule(most=0),
        "twice as many out": rule(most=2),
        "what is back is not counted": rule(room=False),
        "what is late is counted, what is fresh is not": rule(room="late"),
        "a batch that is not full": rule(enough=False),
    },
    "13b-2": {
        "no weight": gain(weight=False),
        "no cap": gain(cap=False),
        "clipped around the behaviour": gain(around="behaviour"),
        "always clipped": gain(least=False),
        "one ratio for both": gain(whole=True),
        "upside down": upside_down,
        "added up": summed,
    },
    "13b-3": {
        "all that was out": ({23, 24}, ALL, 0),
        "nothing comes again": (set(), ALL, 0),
        "the piece is lost": ({23}, ALL, 1),
        "what was out and back only": ({23}, {23, 24, 25}, 0),
        "from the start": ({23}, set(range(26)), 0),
        "what is back is kept": ({23}, ALL - {25}, 0),
        "and the next one": ({23}, ALL | {26}, 0),
    },
    "13b-4": {
        "one pod": chips(pods=False),
        "one replica": chips(replicas=False),
        "sides added up": chips(sides=sum),
        "the longest side": chips(sides=max),
        "four chips a host always": chips(limits=False),
        "the first job": chips(jobs=1),
        "texts": as_text,
    },
}
RIGHT = {
    "13b-1": {"a loop": by_a_loop, "with switches": rule()},
    "13b-2": {"with where": by_where, "in NumPy": gain()},
    "13b-3": {"lists": ([23], sorted(ALL), 0), "a range": ((23,), range(20, 26), 0.0)},
    "13b-4": {"with comprehensions": by_comprehension},
}
