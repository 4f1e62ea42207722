"""Starts processes that have imported the course and have not started JAX.

To import it takes five seconds of processor time. One process does that, and all
others are forked from it. Each starts JAX anew, with what its environment says.
"""

import atexit
import multiprocessing
import os
import sys
from multiprocessing import forkserver

import jax

# Threads of the tokenizer would not survive a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
CONTEXT = multiprocessing.get_context("forkserver")
# With what their own imports bring, and what notebooks 07 and 15 import.
CONTEXT.set_forkserver_preload(
    ["disconnected_own", "distributed_run", "kill_run", "helpers.plots.live"]
    + ["helpers.exercises.challenges", "transformers.tokenization_utils_tokenizers"]
)
# It waits for the process, whose time is then counted with that of the tests.
atexit.register(forkserver._forkserver._stop)


def start(work, *arguments, log=os.devnull, cache=None, **environment):
    """Starts work(*arguments) in a process that ends with it.

    Args:
      work: a function of a module of this folder.
      log: file for what the process and its libraries say.
      cache: folder of compiled programs; otherwise that of this process.
      environment: variables to set first.
    Returns:
      A multiprocessing.Process.
    """
    given = work, arguments, str(log), cache and str(cache), environment
    process = CONTEXT.Process(target=_run, args=given, daemon=True)
    process.start()
    return process


def run(work, *arguments, log):
    """Runs work(*arguments) in such a process, which must end without an error.

    Its ten minutes are a bound against hanging, not a measurement: a pattern that
    backtracks runs in C, where nothing counts its steps.
    """
    process = start(work, *arguments, log=log)
    process.join(600)
    process.kill()
    assert process.exitcode == 0, log.read_text()


def _run(work, arguments, log, cache, environment):
    os.environ.update(environment)
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    # One that is killed has told all until then.
    sys.stdout.reconfigure(line_buffering=True)
    work(*arguments)
