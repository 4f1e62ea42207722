"""Answers of a student's process, as the checks of `make grade` call them.

A function stays over there; what stands for it here sends the arguments and gives the
value that comes back. Nothing of the student's runs in this process.
"""

import sys

import numpy as np

# What an answer may ask of a thing that it is called with: a model, or a backend.
SHOWN = {"logits", "begin", "next_turn", "append_results"}


class Remote:
    """Stands for a function or an object of the student's."""

    traced = False  # whether some check called one in a way that only JAX can

    def __init__(self, peer, number, name=None):
        self._peer, self._number_there, self._name = peer, number, name

    def __call__(self, *args, **named):
        jax = sys.modules.get("jax")
        if jax and any(isinstance(arg, jax.core.Tracer) for arg in args):
            return self._differentiated(jax, args, named)
        return self._called(args, named)

    def _called(self, args, named):
        reply = self._peer.ask(
            what="call",
            of=self._number_there,
            name=self._name,
            args=self._peer.encode(args),
            named=self._peer.encode(named),
        )
        _leave(args, self._peer.decode(reply["args"]))
        return self._peer.decode(reply["value"])

    def _differentiated(self, jax, args, named):
        """For a check that takes a gradient: the student's process differentiates."""
        if named:
            Remote.traced = True
            raise TypeError("this answer can only be called by JAX itself")

        @jax.custom_vjp
        def called(*args):
            return _concrete(jax, lambda: self._called(args, {}), args)

        def back(args, slope):
            reply = self._peer.ask(
                what="slope",
                of=self._number_there,
                args=self._peer.encode(args),
                slope=self._peer.encode(slope),
            )
            return self._peer.decode(reply["value"])

        called.defvjp(lambda *args: (called(*args), args), back)
        return called(*args)

    def __getattr__(self, name):
        if name.startswith("_") or self._name is not None:
            raise AttributeError(name)
        request = {"what": "get", "of": self._number_there, "name": name}
        return self._peer.decode(self._peer.ask(**request)["value"])


def _concrete(jax, act, args):
    if any(isinstance(arg, jax.core.Tracer) for arg in args):
        Remote.traced = True
        raise TypeError("this answer can only be called by JAX itself")
    return act()


def _leave(args, after):
    """Changes arguments as the call changed them over there."""
    for here, there in zip(args, after, strict=True):
        if type(here) is not type(there):
            continue
        if isinstance(here, list):
            here[:] = there
        elif isinstance(here, dict) and here != there:
            here.clear()
            here.update(there)
        elif isinstance(here, np.ndarray) and here.shape == there.shape:
            if not np.array_equal(here, there):
                here[...] = there


def serve(peer, request):
    """What the student's process may ask: to call something that a check gave it."""
    if request.get("what") == "ready":
        peer.left_open = [str(part) for part in request["left_open"]]
        return {}
    target, name = peer.own[int(request["of"])], request.get("name")
    if request.get("what") != "call" or (name is not None and name not in SHOWN):
        raise AttributeError("that is not for an answer to use")
    target = target if name is None else getattr(target, name)
    args, named = peer.decode(request["args"]), peer.decode(request["named"])
    return {"value": peer.encode(target(*args, **named))}
