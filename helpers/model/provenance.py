"""What adapters were trained beside: exact matrices or codes, or one after the other.

Their folder notes it in words, and a model that they were loaded onto remembers it, so
that they can be saved again without forgetting it.
"""

from typing import Any

from helpers.model.quantized import KINDS

EXACT = "exact"
THEN = "; then "  # between the words of one base and of the next
NOTE = "trained_beside"  # an attribute of a model, only where there is something to say


def words(model: Any, own: str) -> str:
    """What to note of a model's adapters; "" if all that is known of is exact.

    Args:
      own: how the model's matrices are stored, one of `quantized.KINDS`; "": exact.
    """
    kinds = *getattr(model, NOTE, ()), own or EXACT
    return "" if {*kinds} == {EXACT} else THEN.join(KINDS.get(k, k) for k in kinds)


def remember(model: Any, noted: str, own: str) -> str:
    """Keeps a folder's note with the model; what to warn of, "" if it is nothing.

    Args:
      noted: from `words`.
      own: as there.
    """
    known = {word: kind for kind, word in KINDS.items()} | {EXACT: EXACT}
    kinds = tuple(known[word] for word in noted.split(THEN) if word in known)
    own = own or EXACT
    if not {*kinds} - {own}:
        return ""
    setattr(model, NOTE, kinds[:-1] if kinds[-1] == own else kinds)
    remedy = "Which of them they fit best, only an evaluation tells."
    if len(kinds) == 1:
        remedy = f"Pass lora.quantize(model, {kinds[0]!r}) of the exact one."
    return (
        f"were trained beside {', then '.join(kinds)} matrices, and on this {own} base "
        f"answer a little differently. {remedy}"
    )


def forget(model: Any) -> None:
    """Of a model whose adapters were taken off."""
    if hasattr(model, NOTE):
        delattr(model, NOTE)
