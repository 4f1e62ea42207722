"""Text to tokens and back: the tokenizer, the chat template and the loss mask.

A chat model reads one flat row of tokens. The *chat template* turns a conversation
into that row, the *tokenizer* cuts it into ids, and the *loss mask* remembers which
ids the model has to learn to write. All of them are read from the model's folder, so
the same calls serve the tiny model of this course and real Gemma, Qwen and Llama.

The mask of a whole conversation is derived from the template itself: an answer is what
the template writes after the prompt for it (the messages before, rendered with the
generation prompt), up to the control token that ends the turn.

What this file does not do: read tool calls out of an answer
  (`helpers.tools.calls`).
"""

import copy

from jinja2 import TemplateError

from helpers.text import rendering
from helpers.text.encoding import continued, controls_of, encode, encode_plain, escape
from helpers.text.encoding import decode as decode
from helpers.text.encoding import opened_thoughts as opened_thoughts
from helpers.text.messages import require_messages
from helpers.text.rendering import MARKER, switches_of
from helpers.text.tokenizer import load_tokenizer as load_tokenizer
from helpers.text.tokenizer import save_tokenizer as save_tokenizer
from helpers.text.tokenizer import train_tokenizer as train_tokenizer

# By the token that ends a turn: the tokens that end a text and, where the family writes
# results into the model's own turn, a call. A tokenizer's eos_token is one of them.
FAMILY_ENDS = {
    "<end_of_turn>": ["<eos>"],
    "<|im_end|>": ["<|endoftext|>"],
    "<|eot_id|>": ["<|end_of_text|>"],
    "<turn|>": ["<eos>", "<|tool_response>"],
}


def without_thinking(tokenizer):
    """The tokenizer with a template that never lets the model think first.

    What is trained, sampled and graded with it all begin in the empty think block, and
    so does what is saved with it and served elsewhere.

    Args:
      tokenizer: from `load_tokenizer`; stays as it is.
    Returns:
      a copy of it; the same one where its template has no such switch.
    """
    if not rendering.can_think(tokenizer):
        return tokenizer
    changed = copy.deepcopy(tokenizer)
    switch = "{%- set enable_thinking = false -%}\n"
    changed.chat_template = switch + tokenizer.chat_template
    return changed


def prompt_tokens(tokenizer, question, thinking=None, tools=None, vision=None):
    """Encode what the model reads before it answers.

    Equal to `apply_chat_template(..., add_generation_prompt=True)`, except that a
    control token *spelled out* in a message stays plain text: a user who types
    `<end_of_turn>` does not end the turn. So do tags that the template writes, like
    Qwen's `<tool_response>`, except in an earlier answer of the model's own.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      thinking: True or False asks the template to let the model think or not; with
        False, Qwen3's prompt ends in an empty think block. None: its own habit.
      tools: list of JSON schemas of functions; None: none.
      vision: the model's `config.vision`; a content may then be a list of parts,
        {"type": "image"} (the picture itself goes beside the tokens) and
        {"type": "text", "text": ...}. For Gemma 4 an image says the picture's "shape",
        [height, width] in pixels, see `batches.images.shaped`.
    Returns:
      list of token ids, ending where the answer begins. A date that the template writes
      is always the same one, so that a run has the same prompts on the next day.
    Raises:
      ValueError: the template takes no notice of `thinking`, `tools`, images or the
        flag `add_generation_prompt`; or a role is unknown.
    """
    return prompts_tokens(tokenizer, [question], thinking, tools, vision)[0]


def prompts_tokens(tokenizer, questions, thinking=None, tools=None, vision=None):
    """Encode many prompts at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      thinking, tools, vision: of all of them, see `prompt_tokens`.
    Returns:
      list of lists of token ids, see `prompt_tokens`.
    Raises:
      ValueError: see `prompt_tokens`; or the template leaves out a part of a message.
    """
    controls = controls_of(tokenizer)
    switches = switches_of(tokenizer, thinking, tools, vision)
    conversations = [_messages(question) for question in questions]
    conversations, switches, escaped = escape(controls, conversations, switches)
    texts = [rendering.render(tokenizer, each, **switches) for each in conversations]
    # What a template leaves out depends on roles and parts: one of each form will do.
    forms = {str([(m["role"], *m) for m in each]): each for each in conversations}
    for messages in forms.values():
        rendering.check_nothing_is_left_out(tokenizer, messages, [], switches)
    return encode(tokenizer, texts, escaped)


def example_tokens(tokenizer, question, answer, thinking=None, tools=None, vision=None):
    """Encode one demonstration and mark what the model has to learn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      answer: str; white space around it is dropped, as Gemma's template does.
      thinking, tools, vision: see `prompt_tokens`; they change the prompt only.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on the
      answer and the end-of-turn token that closes it, 0 on everything else.
    """
    switches = thinking, tools, vision
    return examples_tokens(tokenizer, [question], [answer], *switches)[0]


def examples_tokens(
    tokenizer, questions, answers, thinking=None, tools=None, vision=None
):
    """Encode many demonstrations at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      answers: one per question, a str, or a list of texts of which every second one is
        a tool's and not learned.
      thinking, tools: of all of them, see `prompt_tokens`.
    Returns:
      list of (tokens, loss_mask), see `example_tokens`.
    Raises:
      ValueError: not as many answers as questions; an answer is empty; or the prompt
        leaves a think block open, which the answer does not end.
    """
    prompts = prompts_tokens(tokenizer, questions, thinking, tools, vision)
    opened = opened_thoughts(tokenizer, prompts)
    if not any(opened):
        rendering.check_answers_follow_prompts(tokenizer, thinking, tools)
    end, after = rendering.turn_end(tokenizer)
    answers = [[a.strip()] if isinstance(a, str) else a for a in answers]
    for index, (texts, thought) in enumerate(zip(answers, opened, strict=True)):
        if not "".join(texts or ()):
            raise ValueError(f"Answer {index} is empty. Drop its row, or write one.")
        if thought:
            texts[0] = continued(thought, texts[0])
    flat = [text for texts in answers for text in texts]
    encoded = iter(encode_plain(tokenizer, flat))
    examples = []
    for prompt, texts in zip(prompts, answers, strict=True):
        tokens, mask = list(prompt), [0] * len(prompt)
        for index, _ in enumerate(texts):
            ids = next(encoded)
            tokens += ids
            mask += [1 - index % 2] * len(ids)
        mask += [1] * len(end) + [0] * len(after)
        examples.append((tokens + end + after, mask))
    return examples


def conversation_tokens(
    tokenizer, messages, thinking=None, tools=None, *, vision=None, last_only=False
):
    """Encode a conversation and mark all that the assistant wrote in it.

    Every answer begins where `prompt_tokens` of the messages before it ends. Hence the
    empty think block that Qwen3's template puts before the last answer is the prompt's
    (0) with thinking=False, and the model's own (1) otherwise; the empty thought that
    Gemma 4's larger models read is the prompt's.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of {"role", "content"}; an assistant's may have "tool_calls",
        "reasoning_content" and a "weight" of 0, which leaves it out of what is learned.
        Other names for these are known (`helpers.text.messages`). White space around a
        learned content is dropped.
      thinking, tools, vision: see `prompt_tokens`.
      last_only: learn the last answer only; earlier ones are part of its prompt.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on each answer
      (its content, tool calls and the token that ends it), 0 on everything else, tool
      results included.
    Raises:
      ValueError: nobody answers, or an answer is empty; the template leaves out a part
        of an answer, or writes an answer differently once the conversation goes on.
    """
    messages = require_messages(messages)
    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    learned = [
        i for i in answers[-1 if last_only else 0 :] if messages[i].get("weight", 1)
    ]
    if not learned or learned[0] == 0:
        raise ValueError(
            "The conversation has no message of role 'assistant' to learn, or begins "
            "with one: there is no answer to a prompt in it. Put a question before an "
            'answer. A greeting that is not learned has the "weight" 0.'
        )
    for i in learned:
        content = messages[i]["content"]
        if isinstance(content, str):
            messages[i] = {**messages[i], "content": content.strip()}
        if not (messages[i]["content"] or messages[i].get("tool_calls")):
            raise ValueError(f'Answer {i} is empty. Give it a text, or the "weight" 0.')
    switches = switches_of(tokenizer, thinking, tools, vision)
    controls = controls_of(tokenizer)
    (messages,), switches, escaped = escape(controls, [messages], switches)
    whole = rendering.render(tokenizer, messages, False, **switches)
    turn_end = rendering.turn_end(tokenizer)[0][-1]
    call_end = rendering.call_end(tokenizer) or turn_end
    starts, ends = [], []
    for index in learned:
        start, text, thought = rendering.answer_place(
            tokenizer, messages, index, whole, switches, index == learned[-1]
        )
        calls = messages[index].get("tool_calls")
        end = call_end if calls else turn_end
        if calls and messages[index].get("content") and call_end != turn_end:
            raise ValueError(
                f"Message {index} has words beside its call. This family's model opens "
                "the result right after a call: leave the words out."
            )
        end_token = tokenizer.convert_ids_to_tokens(end)
        if text.count(end_token) != 1:
            raise ValueError(
                f"The template writes message {index} as {text!r}, which has "
                f"{end_token} {text.count(end_token)} times, not once: where the answer"
                " ends is not clear. Take another template."
            )
        starts.append(start)
        ends.append(end)
    rendering.check_nothing_is_left_out(tokenizer, messages, learned, switches)
    pieces = [whole[a:b] for a, b in zip([0, *starts], [*starts, None], strict=True)]
    pieces[-2] += thought  # of the last answer; no other may have one
    first, *others = encode(tokenizer, pieces, escaped)
    tokens, mask = list(first), [0] * len(first)
    for ids, end in zip(others, ends, strict=True):
        length = ids.index(end) + 1
        tokens += ids
        mask += [1] * length + [0] * (len(ids) - length)
    return tokens, mask


def turn_tokens(tokenizer, messages, thinking=None, tools=None, ended=None):
    """Encode the turns between two answers, such as the results of tools.

    The ids of prompt, answer and its end-of-turn token, as they were sampled, go on
    with these: nothing that the model wrote is decoded and encoded again.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of messages, none of them the assistant's; see
        `helpers.tools.calls.Grammar.results`.
      thinking, tools: as in the prompt, see `prompt_tokens`.
      ended: id of the token that ended the answer; None: the one that the template
        writes there. Where results stand in the model's own turn (Gemma 4) and it has
        closed that turn, they are a turn of the user's.
    Returns:
      list of token ids: what follows the token that ended the answer, up to where the
      next answer begins.
    Raises:
      ValueError: the template leaves out a message.
    """
    switches = switches_of(tokenizer, thinking, tools)
    messages = require_messages(messages)
    turns, end = rendering.after_answer(tokenizer, messages, ended)
    turns = [rendering.QUESTION, *turns]
    controls = controls_of(tokenizer)
    (turns,), switches, escaped = escape(controls, [turns], switches)
    rendering.check_nothing_is_left_out(tokenizer, turns, [], switches)
    text = rendering.render(tokenizer, turns, **switches).partition(MARKER)[2]
    (ids,) = encode(tokenizer, [text], escaped)
    return ids[ids.index(end) + 1 :]


def eos_ids(tokenizer):
    """The ids that end an answer: end of turn first, end of text, end of a call.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
    Returns:
      tuple of int without repeats.
    """
    end = rendering.turn_end(tokenizer)[0][-1]
    others = FAMILY_ENDS.get(tokenizer.convert_ids_to_tokens(end), [])
    added = tokenizer.get_added_vocab()
    ids = [end, tokenizer.eos_token_id, *map(added.get, others)]
    ids.append(rendering.call_end(tokenizer))
    return tuple(dict.fromkeys(i for i in ids if i is not None))


def describe_template(tokenizer):
    """What the chat template adds around every question, in one line of text.

    Args:
      tokenizer: from `load_tokenizer`.
    """
    question = {"role": "user", "content": "What is seven?"}
    system = {"role": "system", "content": "Say it in verse."}
    count = len(prompt_tokens(tokenizer, question["content"]))
    count -= len(encode_plain(tokenizer, [question["content"]])[0])
    shown = f"{count} tokens of template around every question"
    alone = rendering.render(tokenizer, [question])
    try:
        text = rendering.render(tokenizer, [system, question])
        before, after = text.split(system["content"])
    except (TemplateError, ValueError):  # a template without system turns
        return shown
    if not (alone.startswith(before) and alone.endswith(after)):
        return shown
    default = alone[len(before) : len(alone) - len(after)]
    return f"{shown}, among them the system turn {default!r}" if default else shown


def require_same_tokens(student, teacher) -> None:
    """Refuses a teacher whose token 17 is another word than the student's.

    Distillation compares two distributions entry by entry. Two tokenizers of equal
    length compare without an error, and the student learns nonsense.

    Args:
      student: the student's tokenizer, from `load_tokenizer` or `train_tokenizer`.
      teacher: the teacher's.
    Raises:
      ValueError: they number their entries, split a text, wrap a question or end an
        answer differently; it names the first difference.
    """
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    probe = "Tom has 1,205 eggs.\n#### -3.5 é 🥚"
    different = [word for word in ours if theirs.get(word) != ours[word]]
    reads = [(prompt_tokens(t, probe), eos_ids(t)) for t in (student, teacher)]
    if len(ours) != len(theirs):
        why = f"the student's has {len(ours)} entries, the teacher's {len(theirs)}"
    elif different:
        word = min(different, key=ours.get)
        place = theirs.get(word, "in none")
        why = f"{word!r} is entry {ours[word]} for the student, {place} for the teacher"
    elif reads[0] != reads[1]:
        why = "they split or wrap the same question, or end an answer, differently"
    else:
        return
    raise ValueError(
        f"Student and teacher have two tokenizers: {why}. Distillation compares "
        "entry by entry: take both from one family, or train on the teacher's text."
    )


def _messages(question):
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return require_messages(question)
