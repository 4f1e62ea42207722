"""Games: their rules, what random play and binary search make of them, and the base."""

import functools
import random

import numpy as np
import pytest

from helpers.course.stages import stage_folder
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.recipes import game as recipe
from helpers.tasks import games
from helpers.tasks.games import HigherOrLower, Nim
from helpers.text import chat
from scripts import corpus, tiny


def answers(game, row, texts, seed=0):
    """What a game says to each text, "" where it is over; and what it paid."""
    there, said, earned = game(), [], 0.0
    there.reset(row, seed)
    for text in texts:
        replies, done, reward = there.step(text)
        assert done == (not replies)
        said.append(replies[0]["content"] if replies else "")
        earned += reward
    return said, earned


def test_higher_or_lower_pays_the_secret_alone():
    def asked(*texts):
        return answers(HigherOrLower, {"secret": 17}, texts)

    assert asked("16", "18", " 17\n") == (["higher", "lower", ""], 1.0)
    assert asked("31", "1") == (["lower", "higher"], 0.0)
    for text in ("", "0", "32", "017", "17.", "17 or 18", "seventeen", "1 7", "-17"):
        assert asked(text) == ([""], 0.0), "what is no number loses"


def agrees(messages):
    """Whether each guess agrees with all replies before it, told by these alone."""
    possible = {*range(1, 32)}
    for said, reply in zip(messages[1::2], messages[2::2], strict=False):
        guess = int(said["content"])
        if guess not in possible:
            return False
        larger = reply["content"] == "higher"
        possible = {n for n in possible if (n > guess if larger else n < guess)}
    return int(messages[-1]["content"]) in possible


def test_random_play_agrees_with_all_replies_and_takes_any_number():
    player, first = games.at_random(random.Random(0)), set()
    for row in games.ROWS[HigherOrLower] * 20:
        messages = games.play(HigherOrLower(), row, player)
        roles = [message["role"] for message in messages]
        assert roles == (["user", "assistant"] * 5)[: len(roles)]
        assert agrees(messages)
        first.add(games.numbers(messages)[0])
    assert first == {*range(1, 32)}


@functools.cache
def least_turns(count):
    """Turns in all, summed over the secrets, of the best play with `count` numbers."""
    if count == 0:
        return 0
    splits = [(below, count - 1 - below) for below in range(count)]
    return count + min(least_turns(a) + least_turns(b) for a, b in splits)


def test_binary_search_always_wins_and_no_play_is_faster():
    played = {
        row["secret"]: games.numbers(games.play(HigherOrLower(), row, games.halve))
        for row in games.ROWS[HigherOrLower]
    }
    assert all(numbers[-1] == secret for secret, numbers in played.items())
    assert {numbers[0] for numbers in played.values()} == {16}
    won, turns = games.tally(games.ROWS[HigherOrLower], list(played.values()))
    assert won == 1.0 and turns == least_turns(31) / 31
    assert round(turns, 2) == 4.16


def test_a_lost_game_counts_as_a_turn_more_than_there_are():
    rows = [{"secret": 3}, {"secret": 9}, {"secret": 4}]
    played = [[16, 3], [16, 8, 12, 10, 11], [16, 8, 2, 3, 4]]
    assert games.tally(rows, played) == (2 / 3, (2 + 6 + 5) / 3)


def test_nim_keeps_to_its_rules():
    for text in ("0", "4", "", "two", "1 2"):
        assert answers(Nim, {"stones": 8}, [text]) == ([""], 0.0)
    assert answers(Nim, {"stones": 3}, ["3"]) == ([""], 1.0)
    assert answers(Nim, {"stones": 2}, ["3"]) == ([""], 0.0), "there are only two"
    openings = set()
    for seed in range(60):
        (said,), earned = answers(Nim, {"stones": 4}, ["1"], seed)
        assert earned == 0.0 and answers(Nim, {"stones": 4}, ["1"], seed)[0] == [said]
        openings.add(said)
    assert openings == {"", "1 left", "2 left"}, "the opponent takes any number"


def test_nim_is_won_by_leaving_multiples_of_four():
    def wise(game):
        return game.left % 4 or 1

    for seed in range(200):
        row = {"stones": random.Random(seed).choice((5, 6, 7, 9, 10))}
        game = Nim()
        games.play(game, row, wise, seed=seed)
        assert game.left == 0 and game.step("1").done
        messages = games.play(Nim(), row, wise, seed=seed)
        assert answers(Nim, row, map(str, games.numbers(messages)), seed)[1] == 1.0


@pytest.fixture(scope="module")
def base():
    folder = stage_folder("game_base")
    return weights.load(folder), chat.load_tokenizer(folder)


def test_the_base_is_what_the_script_made(base):
    model, tokenizer = base
    sizes = tiny.SHARED | tiny.PRETRAINED["game_base"][0]
    assert model.config == ModelConfig(vocab_size=len(tokenizer), **sizes)
    made = corpus.games_tokenizer(corpus.random_games())
    assert made.get_vocab() == tokenizer.get_vocab()
    ids = tokenizer([*games.NUMBERS], add_special_tokens=False)["input_ids"]
    assert [len(each) for each in ids] == [1] * 31, "a number is one token"


def test_the_base_knows_the_rules_and_no_strategy(base):
    first = recipe.first_guesses(*base)
    assert first.sum() > 0.995, "it always writes a number"
    assert first.max() < 0.08 and first.min() > 0.01
    measured = recipe.measure(*base, samples=16)
    assert measured["won_greedy"] <= 0.6 and 0.4 < measured["won_sampled"] < 0.6
    for greedy, _ in recipe.play(*base, HigherOrLower, games.ROWS[HigherOrLower]):
        assert 0 not in games.numbers(greedy.messages)


def test_what_the_base_was_trained_on_is_what_it_reads_in_a_game(base):
    _, tokenizer = base
    for game, rows in games.ROWS.items():
        messages = games.play(game(), rows[4], games.at_random(random.Random(4)))
        tokens, mask = chat.conversation_tokens(tokenizer, messages)
        opening, *turns = messages
        read = chat.prompt_tokens(tokenizer, [opening])
        for said, *reply in zip(turns[::2], turns[1::2], strict=False):
            number = tokenizer.encode(said["content"], add_special_tokens=False)
            read += [*number, chat.eos_ids(tokenizer)[0]]
            read += chat.turn_tokens(tokenizer, reply)
        assert tokens[: len(read)] == read
        assert np.sum(mask) == 2 * len(games.numbers(messages))
