"""Our rewards for TRL: reads questions about answers, line by line, and answers them.

A process of its own, as it needs JAX and TRL's does not: what TRL's process holds is
its own memory. A line is [name of the reward, completions, gold answers], as JSON; the
answer is a line with one number per completion.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))

from helpers import rewards  # noqa: E402

for line in sys.stdin:
    name, completions, answers = json.loads(line)
    scores = getattr(rewards, name)(None, completions, answer=answers)
    print(json.dumps(scores), flush=True)
