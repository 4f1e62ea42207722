"""The text the shipped models are pretrained on, and the tokenizer made from it.

What pretraining leaves in a small model, in small: bare arithmetic, a few stories, and
questions answered in two ways. Most replies only state the answer, as most of the web
does; about a third work it out. So the base model *can* reason, and mostly does not.
"""

import random

from helpers.tasks import games
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.text.tokenizer import WHOLE_NUMBERS, train_tokenizer

PROBLEMS, DRILLS, STORIES = 24_000, 26_000, 3_000
WORKED = 0.36  # share of the problems whose answer shows its work
LEVELS = (1, 2, 3)
GAMES = {games.HigherOrLower: 6_000, games.Nim: 2_000}


def texts(seed=0):
    """Problems (task rows), drills and stories of the pretraining corpus."""
    rng = random.Random(seed)
    problems = word_problems.generate(PROBLEMS, seed=seed + 1, levels=LEVELS)
    drills = [word_problems.drill(rng) for _ in range(DRILLS)]
    return problems, drills, [word_problems.story(rng) for _ in range(STORIES)]


def make_tokenizer(problems, drills, stories, size=1024):
    """A byte-complete BPE of at most `size` entries, trained on a part of the text."""
    sample = [f"{row['question']}\n{row['answer']}" for row in problems[:6000]]
    return train_tokenizer(sample + drills[:2000] + stories[:1000], size)


def examples(tokenizer, problems, drills, stories, worked=WORKED):
    """The corpus as (tokens, loss mask) pairs for `pipeline.packed_rows`.

    Drills and stories are learned from their first token to their last; of a question
    and its answer only the answer is, and `worked` is the share that shows its work.
    """
    count = round(len(problems) * worked)
    replies = [row["answer"] for row in problems[:count]]
    replies += [word_problems.answer_only(row) for row in problems[count:]]
    questions = [row["question"] for row in problems]
    plain = [_plain(tokenizer, text) for text in drills + stories]
    return plain + chat.examples_tokens(tokenizer, questions, replies)


def random_games(seed=0):
    """Conversations in which a player takes any option of a game."""
    rng = random.Random(seed)
    player, played = games.at_random(rng), []
    for game, count in GAMES.items():
        for _ in range(count):
            row, opponent = rng.choice(games.ROWS[game]), rng.randrange(2**32)
            played.append(games.play(game(), row, player, seed=opponent))
    return played


def games_tokenizer(played):
    """A byte-complete BPE in which the games' numbers and words are tokens."""
    texts = [message["content"] for game in played for message in game]
    return train_tokenizer(texts, 400, WHOLE_NUMBERS)


def games_examples():
    """(tokenizer, examples) of random games; the player's turns are learned."""
    played = random_games()
    tokenizer = games_tokenizer(played)
    return tokenizer, [chat.conversation_tokens(tokenizer, game) for game in played]


def _plain(tokenizer, text):
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    tokens = [tokenizer.bos_token_id, *tokens, tokenizer.eos_token_id]
    return tokens, [0] + [1] * (len(tokens) - 1)
