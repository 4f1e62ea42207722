# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---
# %% [markdown] tags=["badges"]
# (filled by notebooks/publish.py)

# %% [markdown]
# # 07 · Template of a notebook
#
# Copy this file to `drafts/<name>.py`, enter the name in `helpers/course/syllabus.py`,
# write, and run `python notebooks/publish.py drafts/<name>.py`: it fills the badges,
# the road, the set-up and the time, converts, executes and normalises.
# `CONTRIBUTING.md` says the rules. Here stands one paragraph: the question this
# notebook answers, and why to care.

# %% [markdown] tags=["card"]
# - **Time:** (filled by notebooks/publish.py)
# - **You need:** notebook 04 (its model is shipped if you have not run it); no token.
# - **You will be able to:** compute a group advantage by hand; say when it is zero.

# %% [markdown] tags=["road"]
# (filled by notebooks/publish.py)

# %% [markdown]
# ## Set-up
#
# On Colab and Kaggle this cell fetches the helpers and keeps the platform's own JAX; on
# a laptop it only checks that they are there.

# %% tags=["setup"]
# (filled by notebooks/publish.py)

# %% [markdown]
# The imports of the whole notebook, then where it runs and how long it takes.

# %% tags=["imports"]
import numpy as np

from helpers import course
from helpers.exercises import template as checks
from helpers.plots import markup, plotting

# %%
preset = course.banner("07")

# %% [markdown]
# ## 1. One idea
#
# The lesson's idea stands here in two or three sentences, each term defined once, with
# a number: a *group* is the 4 answers sampled for one question; an *advantage* is how
# much better than the group's mean one answer scored. In symbols
# $A_i = r_i - \frac{1}{G}\sum_j r_j$; in words, the reward minus the mean reward of its
# group; in shapes, `(prompts, answers) - (prompts, 1)`.
#
# **Predict.** Four answers to one question score `[1, 0, 1, 0]`; four to another
# `[1, 1, 1, 1]`. Which question will move the weights? Write down a guess.

# %%
rewards_PG = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
print(rewards_PG - rewards_PG.mean(axis=1, keepdims=True))

# %% [markdown]
# **Explain.** The second question taught nothing: everybody was right. A batch full of
# such questions costs full price, so from here on we plot the share of tied groups.
#
# ### Exercise 1 · predict
#
# How many of the two questions above teach something? Replace `None` by your guess.

# %% tags=["exercise"]
guess = None  # your turn

# %% tags=["check"]
checks.check_guess(guess)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Look for a row of zeros in the output above.
#
# </details>
# <details><summary>Solution</summary>
#
# ```python
# guess = 1  # the row of zeros moves nothing
# ```
#
# </details>
#
# ## 2. Build it once
#
# ### Exercise 2 · implement: the group advantage
#
# Write the function that takes rewards of shape `(prompts, answers)` and returns the
# advantages, in the same shape. The cell after the stub checks it, and names the first
# property that does not hold.


# %% tags=["exercise"]
def group_advantages(rewards_PG):
    """Centred rewards, shape (prompts, answers)."""
    raise NotImplementedError  # your turn: one line


# %% tags=["check"]
checks.check_group_advantages(group_advantages)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The mean of each row, kept as a column, can be subtracted from the rows.
#
# </details>
# <details><summary>Solution</summary>
#
# ```python
# def group_advantages(rewards_PG):
#     """Centred rewards, shape (prompts, answers)."""
#     return rewards_PG - rewards_PG.mean(axis=1, keepdims=True)
# ```
#
# </details>
#
# ## 3. See it
#
# **Predict.** The reward below starts at 0 and closes a tenth of its distance to 1 at
# every step. Where is it after 30 steps: nearer 0.8, 0.9 or 1?

# %%
table = [{"step": i, "reward": 1 - 0.9**i} for i in range(31)]
title = "The reward rises fast, then saturates"
fig = plotting.curves({"toy": table}, "reward", title=title, ylabel="reward, 0 to 1")
plotting.show(fig, alt="Line of the reward over 30 steps, rising from 0 to 0.96.")

# %% [markdown]
# **Explain.** $1 - 0.9^{30} = 0.96$: each step is worth a tenth of what is left.
#
# `markup.show_tokens` colours the tokens of an answer by a number each, and
# `markup.show_answers` lists sampled answers with their rewards.

# %%
tokens, values = ["Tom", " has", " 3"], [0.5, -0.25, 0.0]
markup.show_tokens(tokens, values, title="Advantage of each token")

# %% [markdown]
# ### Exercise 3 · break it
#
# Rewards need not stop at 1. Find the rewards of one group in which a right answer, of
# reward 1, gets a *negative* advantage.

# %% tags=["exercise"]
rewards_G = [1.0, 0.0]  # your turn: change these

# %% tags=["check"]
checks.check_negative_for_right(rewards_G)

# %% [markdown]
# <details><summary>Hint</summary>
#
# The mean must lie above 1, so some other answer must score more than 1.
#
# </details>
# <details><summary>Solution</summary>
#
# ```python
# rewards_G = [1.0, 3.0]  # a bonus for style that is worth more than being right
# ```
#
# </details>

# %% [markdown]
# ## What broke?
#
# One failed run, really run here: what was changed, what it did, what to look at.
#
# ## Summary
#
# What was measured (n, seed, interval, hardware), what it means, and what it does not.
#
# ## Further reading
#
# - [DeepSeekMath](https://arxiv.org/abs/2402.03300): section 4 introduces GRPO.
