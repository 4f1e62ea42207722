"""Whether two models speak in the same tokens, as distillation needs."""

from helpers.text import chat

PROBE = "Tom has 1,205 eggs.\n#### -3.5 é 🥚"


def require_same_tokens(student, teacher) -> None:
    """Refuses a teacher whose token 17 is another word than the student's.

    Distillation compares two distributions entry by entry. Where both tables are as
    long, numbers of two tokenizers compare without an error, and the student learns to
    write what is nonsense in its own tokens.

    Args:
      student: the student's tokenizer, from `load_tokenizer` or `train_tokenizer`.
      teacher: the teacher's.

    Raises:
      ValueError: they number their entries, cut a text, wrap a question or end an
        answer differently; it names the first difference.
    """
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    if len(ours) != len(theirs):
        _refuse(f"the student's has {len(ours)} entries, the teacher's {len(theirs)}")
    for word, number in sorted(ours.items(), key=lambda entry: entry[1]):
        if theirs.get(word) != number:
            place = theirs.get(word, "in none")
            _refuse(
                f"{word!r} is entry {number} for the student, {place} for the teacher"
            )
    asked = [chat.prompt_tokens(tokens, PROBE) for tokens in (student, teacher)]
    if asked[0] != asked[1]:
        _refuse("they cut or wrap the same question differently")
    ends = [chat.eos_ids(tokens) for tokens in (student, teacher)]
    if ends[0] != ends[1]:
        _refuse(
            f"answers end with {ends[0]} for the student, {ends[1]} for the teacher"
        )


def _refuse(difference):
    raise ValueError(
        f"Student and teacher have two tokenizers: {difference}. Distillation compares "
        "entry by entry: take both from one family, or train on the teacher's text."
    )
