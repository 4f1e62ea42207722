"""Whoever is killed, and whenever: every piece is in one place, and learned once."""

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from helpers.scale.buffer import Buffer


class Run(RuleBasedStateMachine):
    """Workers and a trainer that may be killed at every moment, without processes.

    The truth is recorded apart from the buffer: the history of what was learned. A
    trainer that starts again cuts it back to its checkpoint.
    """

    @initialize(
        pieces=st.integers(1, 3),
        limit=st.integers(0, 3),
        end=st.one_of(st.none(), st.integers(0, 12)),
    )
    def begin(self, pieces, limit, end):
        self.pieces, self.limit, self.end = pieces, limit, end
        self.position = 0  # of the source that requests are drawn from
        self.buffer = Buffer(self.draw, pieces, limit)
        self.leases = []  # in some worker's hands, or in those of a dead one
        self.history, self.version, self.taken = [], 0, None
        self.short = 0  # pieces that the last update had less
        self.save()

    def draw(self):
        if self.position == self.end:
            return None
        self.position += 1
        return f"questions {self.position - 1}"

    @rule()
    def a_worker_is_idle(self):
        lease = self.buffer.issue()
        if lease is not None:
            assert lease.request == f"questions {lease.number}"
            self.leases.append((lease, self.version))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def a_worker_answers(self, data):
        lease, version = data.draw(st.sampled_from(self.leases))
        before = lease.number in self.buffer.back
        accepted = self.buffer.push(lease, version, f"answers {lease.number}")
        assert not (accepted and before), "nothing that is back is answered again"
        if accepted:
            assert self.version - version <= self.limit
            assert self.buffer.push(lease, version, "again") is False

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def a_worker_is_killed(self, data):
        lease, _ = data.draw(st.sampled_from(self.leases))
        was_out = lease.number in self.buffer.out
        if self.buffer.give_back(lease):
            assert was_out and lease.number in self.buffer.due
            assert self.buffer.push(lease, self.version, "from the grave") is False

    @precondition(lambda self: self.taken is None)
    @rule()
    def the_trainer_draws(self):
        self.taken = self.buffer.take()
        if self.taken is not None:
            short = self.pieces - len(self.taken)
            assert not short or self.position == self.end and short > 0
            self.short += short
            for number, version, content in self.taken:
                assert content == f"answers {number}"
                assert 0 <= self.version - version <= self.limit

    @precondition(lambda self: self.taken is not None)
    @rule(saves=st.booleans())
    def the_trainer_has_learned(self, saves):
        self.history += [answered.number for answered in self.taken]
        self.taken = None
        self.version += 1
        if saves:  # as the trainer does: before it draws, hence before learned()
            self.save()
        self.buffer.learned()

    def save(self):
        state = self.buffer.get_state()
        text = json.dumps([state, self.position])
        self.saved = text, list(self.history), self.version, self.short

    @rule()
    def the_trainer_is_killed(self):
        text, history, self.version, self.short = self.saved
        state, self.position = json.loads(text)
        self.history, self.taken = list(history), None
        self.buffer.set_state(state)
        assert self.buffer.version == self.version

    @invariant()
    def every_piece_is_in_one_place(self):
        if not hasattr(self, "buffer"):
            return
        b = self.buffer
        places = [*b.due, *b.out, *b.back, *b.learning, *self.history]
        assert sorted(places) == list(range(b.drawn))
        learned = len(self.history) + len(self.taken or [])
        updates = self.version + (self.taken is not None)
        assert learned == updates * self.pieces - self.short
        assert len(b.out) + len(b.back) + len(b.learning) <= (
            self.pieces * (self.limit + 1)
        )

    @invariant()
    def the_end_is_known(self):
        if hasattr(self, "buffer") and self.buffer.exhausted and self.taken is None:
            assert self.position == self.end
            assert sorted(self.history) == list(range(self.end)), "none was lost"


Run.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=40)
test_every_piece_is_learned_once_whoever_is_killed = Run.TestCase


@given(st.integers(1, 4), st.integers(0, 3), st.data())
def test_whoever_answers_in_order_is_never_too_late(pieces, limit, data):
    """With as many workers as can be busy, each as fast as the others."""
    buffer = Buffer(itertools.count().__next__, pieces, limit)
    waiting = []
    for _ in range(40):
        while (lease := buffer.issue()) is not None:
            waiting.append((lease, buffer.version))
        for _ in range(data.draw(st.integers(0, len(waiting)))):
            assert buffer.push(*waiting.pop(0), None)
        if buffer.take() is not None:
            buffer.learned()
    assert buffer.dropped == 0


def test_what_grows_too_old_while_it_waits_is_dropped_too():
    buffer = Buffer(itertools.count().__next__, limit=2)
    first, second = buffer.issue(), buffer.issue()  # two stragglers
    for _ in range(2):
        buffer.push(buffer.issue(), buffer.version, None)
        buffer.take()
        buffer.learned()
    assert buffer.push(second, 0, None) and buffer.push(first, 0, None)
    assert [a.number for a in buffer.take()] == [0], "of equal age the first"
    buffer.learned()
    assert buffer.dropped == 1 and list(buffer.due) == [1]


def test_only_the_latest_attempt_counts():
    buffer = Buffer(itertools.count().__next__)
    first = buffer.issue()
    buffer.give_back(first)
    second = buffer.issue()
    assert second.number == first.number
    assert not buffer.push(first, 0, "late") and not buffer.give_back(first)
    assert buffer.push(second, 0, "in time")
