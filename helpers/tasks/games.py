"""Two small games with numbers, as environments: *Higher or lower*, and Nim.

A game earns 1 for a win and 0 for anything else. Nobody shows a policy how to win. It
may have seen random play (`play` with `at_random`), from which it knows the rules.
"""

import random
from collections.abc import Callable, Sequence

from helpers.tools.environment import Messages, Step

HIGHEST, TURNS = 31, 5  # halving finds every number up to 2**5 - 1 in five turns
STONES, MOST = 10, 3  # of Nim: stones at the start, and most that a move takes
NUMBERS = {str(number): number for number in range(1, HIGHEST + 1)}


def read_number(text: str) -> int:
    """The number that a turn consists of; 0 where it is anything else."""
    return NUMBERS.get(text.strip(), 0)


class HigherOrLower:
    """A number from 1 to 31 is to be guessed; replies say where it lies."""

    def reset(self, row, seed):
        """Takes the row's secret."""
        self.secret, self.low, self.high = row["secret"], 1, HIGHEST
        return [user(f"Guess my number from 1 to {HIGHEST}.")]

    def step(self, completion):
        """Answers a guess; the secret wins, and what is no number loses."""
        guess = read_number(completion)
        if not guess or guess == self.secret:
            return Step(done=True, reward=float(guess == self.secret))
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
            return Step([user("higher")])
        self.high = min(self.high, guess - 1)
        return Step([user("lower")])

    def options(self):
        """The numbers that agree with all replies so far."""
        return range(self.low, self.high + 1)


class Nim:
    """Two players take one to three stones in turn, and who takes the last one wins.

    The opponent plays at random, and alike in all games with the same seed.
    """

    def reset(self, row, seed):
        """Begins with the row's stones."""
        self.left, self.opponent = row["stones"], random.Random(seed)
        return [user(f"Take 1, 2 or 3 of {self.left} stones. The last one wins.")]

    def step(self, completion):
        """Takes stones, and lets the opponent move."""
        taken = read_number(completion)
        if taken not in self.options():
            return Step(done=True)
        self.left -= taken
        if not self.left:
            return Step(done=True, reward=1.0)
        self.left -= self.opponent.choice(self.options())
        if not self.left:
            return Step(done=True)
        return Step([user(f"{self.left} left")])

    def options(self):
        """The moves that the rules allow."""
        return range(1, min(MOST, self.left) + 1)


ROWS = {  # all that a game may begin with
    HigherOrLower: [{"secret": number} for number in range(1, HIGHEST + 1)],
    Nim: [{"stones": stones} for stones in range(MOST + 1, STONES + 1)],
}


def user(text: str) -> dict[str, str]:
    """A turn of the game's."""
    return {"role": "user", "content": text}


def at_random(rng: random.Random) -> Callable:
    """A player that takes any of a game's options."""

    def choose(game):
        return rng.choice(game.options())

    return choose


def halve(game) -> int:
    """Binary search: the number in the middle of those that are possible."""
    return game.options()[len(game.options()) // 2]


def play(game, row, choose: Callable, *, turns: int = TURNS, seed: int = 0) -> Messages:
    """Plays a game to its end; returns its conversation as chat messages.

    Args:
      game: a `HigherOrLower` or a `Nim`.
      row: one of the game's ROWS.
      choose: `choose(game)` gives the next number.
      turns: after so many the game is over.
      seed: of the game.
    """
    messages, replies = [], game.reset(row, seed)
    for _ in range(turns):
        number = str(choose(game))
        messages += [*replies, {"role": "assistant", "content": number}]
        replies, done, _ = game.step(number)
        if done:
            break
    return messages


def numbers(messages: Messages) -> list[int]:
    """What the player of a conversation wrote; 0 for what is no number."""
    texts = [m["content"] for m in messages if m["role"] == "assistant"]
    return [read_number(text) for text in texts]


def tally(rows, games: Sequence[list[int]]) -> tuple[float, float]:
    """(share of games won, mean of turns) of *Higher or lower*.

    Args:
      rows: whose secrets were to be guessed.
      games: the numbers of each game; one that was lost counts as a turn too many.
    """
    pairs = list(zip(rows, games, strict=True))
    won = [guesses[-1] == row["secret"] for row, guesses in pairs]
    results = zip(won, games, strict=True)
    turns = [len(guesses) if is_won else TURNS + 1 for is_won, guesses in results]
    return sum(won) / len(won), sum(turns) / len(turns)
