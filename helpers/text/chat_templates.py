"""The turns of known model families, for folders whose tokenizer has no template.

A base model's folder often has none. The formats are public, and written here anew:
Gemma 3 (ai.google.dev, "Gemma formatting and system instructions"), Gemma 4
(`helpers.text.gemma4_template`), Qwen2.5 and Qwen3
(qwen.readthedocs.io, "Function calling": ChatML with Hermes-style tools), Llama 3
(llama.com, "Model cards and prompt formats"). A folder's own template always wins.
"""

import json
from typing import NamedTuple

from helpers.text.gemma4_template import GEMMA4
from helpers.text.tokenizer import CHAT_TEMPLATE as GEMMA3

# Thinking before the last question is dropped, as Qwen3 was trained; the last answer
# always has a think block, an empty one where nothing was thought.
_CHATML = """\
{%- macro written(calls, gap) -%}
    {%- for call in calls or [] -%}
        {%- set call = call.function or call -%}
        {{- '\\n' if gap or not loop.first -}}
        {{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}
        {{- call.arguments if call.arguments is string else call.arguments | tojson -}}
        {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
{%- endmacro -%}
{%- set own = messages[0].role == 'system' -%}
{%- set system = messages[0].content if own else default -%}
{%- if tools -%}
    {{- '<|im_start|>system\\n' + (system + '\\n\\n' if own or default else '') -}}
    {{- '# Tools\\n\\nYou may call one or more functions to assist with the user ' -}}
    {{- 'query.\\n\\nYou are provided with function signatures within ' -}}
    {{- '<tools></tools> XML tags:\\n<tools>' -}}
    {%- for tool in tools -%}
        {{- '\\n' + tool | tojson -}}
    {%- endfor -%}
    {{- '\\n</tools>\\n\\nFor each function call, return a json object with ' -}}
    {{- 'function name and arguments within <tool_call></tool_call> XML tags:\\n' -}}
    {{- '<tool_call>\\n{"name": <function-name>, "arguments": ' -}}
    {{- '<args-json-object>}\\n</tool_call><|im_end|>\\n' -}}
{%- elif own or default -%}
    {{- '<|im_start|>system\\n' + system + '<|im_end|>\\n' -}}
{%- endif -%}
{%- set asked = namespace(last=messages | length) -%}
{%- for message in messages if message.role == 'user' -%}
    {%- set asked.last = loop.length -%}
{%- endfor -%}
{%- set seen = namespace(questions=0) -%}
{%- for message in (messages[1:] if own else messages) -%}
    {%- set text = message.content or '' -%}
    {%- if message.role == 'tool' -%}
        {{- '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' -}}
        {{- '\\n<tool_response>\\n' + text + '\\n</tool_response>' -}}
        {{- '<|im_end|>\\n' if loop.last or loop.nextitem.role != 'tool' -}}
    {%- elif message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\\n' -}}
        {%- set thought = message.reasoning_content or '' -%}
        {%- if thinks and not thought and '</think>' in text -%}
            {%- set thought = text.split('</think>')[0].split('<think>')[-1] -%}
            {%- set text = text.split('</think>')[-1].lstrip('\\n') -%}
        {%- endif -%}
        {%- if thinks and seen.questions == asked.last and (thought or loop.last) -%}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' -}}
        {%- endif -%}
        {{- text + written(message.tool_calls, text) + '<|im_end|>\\n' -}}
    {%- else -%}
        {{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' -}}
        {%- if message.role == 'user' -%}
            {%- set seen.questions = seen.questions + 1 -%}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if thinks and enable_thinking is defined and not enable_thinking -%}
        {{- '<think>\\n\\n</think>\\n\\n' -}}
    {%- endif -%}
{%- endif -%}
"""

QWEN2 = (
    "{%- set thinks = false -%}{%- set default = 'You are Qwen, created by Alibaba "
    "Cloud. You are a helpful assistant.' -%}\n" + _CHATML
)
QWEN3 = "{%- set thinks = true -%}{%- set default = '' -%}\n" + _CHATML

# Llama 3's turns, with Llama 3.1's tools as JSON in front of the first question. The
# lines about dates that 3.1 puts into every system turn are left out: they change
# daily, and a base model knows nothing of them.
LLAMA3 = """\
{%- macro said(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- else -%}
        {%- for part in content -%}
            {{- part.text -}}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro turn(role, text) -%}
    {{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + text -}}
    {{- '<|eot_id|>' -}}
{%- endmacro -%}
{%- set first = namespace(question=true) -%}
{{- '<|begin_of_text|>' -}}
{%- for message in messages -%}
    {%- set text = said(message.content or '') | trim -%}
    {%- if message.role == 'tool' -%}
        {{- turn('ipython', text) -}}
    {%- elif message.tool_calls -%}
        {%- if text or message.tool_calls | length > 1 -%}
            {{- raise_exception('Llama 3 writes one tool call and no text with it.') -}}
        {%- endif -%}
        {%- set call = message.tool_calls[0].function or message.tool_calls[0] -%}
        {%- set arguments = call.arguments -%}
        {%- if arguments is not string -%}
            {%- set arguments = arguments | tojson -%}
        {%- endif -%}
        {{- turn('assistant', '{"name": "' + call.name + '", "parameters": ' + \
arguments + '}') -}}
    {%- elif message.role == 'user' and tools and first.question -%}
        {%- set first.question = false -%}
        {%- set lead = namespace(text='Given the following functions, please respond \
with a JSON for a function call with its proper arguments that best answers the given \
prompt.\\n\\nRespond in the format {"name": function name, "parameters": dictionary of \
argument name and its value}. Do not use variables.\\n\\n') -%}
        {%- for tool in tools -%}
            {%- set lead.text = lead.text + tool | tojson(indent=4) + '\\n\\n' -%}
        {%- endfor -%}
        {{- turn('user', lead.text + text) -}}
    {%- else -%}
        {{- turn(message.role, text) -}}
    {%- endif -%}
{%- endfor -%}
{%- if tools and first.question -%}
    {{- raise_exception('Llama 3 reads its tools in a question, and there is none.') -}}
{%- endif -%}
{%- if add_generation_prompt -%}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}
"""


class Family(NamedTuple):
    """A template, and the control tokens without which it would be plain text."""

    template: str
    controls: tuple


_GEMMA = Family(GEMMA3, ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"))
_GEMMA4 = Family(
    GEMMA4,
    ("<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>", '<|"|>')
    + ("<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>")
    + ("<|channel>", "<channel|>", "<|think|>"),
)
_QWEN_CONTROLS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_LLAMA_CONTROLS = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)

# Keys are `model_type` of config.json.
FAMILIES = {
    "gemma3": _GEMMA,
    "gemma3_text": _GEMMA,
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "qwen2": Family(QWEN2, _QWEN_CONTROLS),
    "qwen3": Family(QWEN3, _QWEN_CONTROLS),
    "llama": Family(LLAMA3, _LLAMA_CONTROLS),
}


def family_template(tokenizer, folder):
    """Return the chat template of the family that the folder's config.json names.

    Args:
      tokenizer: the folder's transformers tokenizer.
      folder: pathlib.Path of a model folder.
    Returns:
      str, Jinja source.
    Raises:
      ValueError: config.json is missing, damaged or of another family; or the
        tokenizer lacks the family's control tokens.
    """
    name = _model_type(folder)
    if name not in FAMILIES:
        raise ValueError(
            f"The tokenizer in {folder} has no chat template (base models often have "
            f"none), and its config.json names none of {', '.join(FAMILIES)}. Use the "
            "instruct model's folder, or set tokenizer.chat_template "
            "= helpers.text.tokenizer.CHAT_TEMPLATE and save it."
        )
    template, controls = FAMILIES[name]
    special = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
    if missing := [token for token in controls if token not in special]:
        raise ValueError(
            f"The tokenizer in {folder} has no chat template, and {name}'s turns need "
            f"{', '.join(missing)}, which are none of its special tokens. Is it the "
            f"tokenizer of another model? Use the instruct model's folder of {name}."
        )
    if "bos_token" in template and tokenizer.bos_token != controls[0]:
        tokenizer.bos_token = controls[0]
    return template


def _model_type(folder):
    """What config.json calls the family; "" where there is no config.json."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
        return str(config.get("model_type") or _by_class(config))
    except FileNotFoundError:
        return ""
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Cut off while it was written? Delete "
            "it, and fetch or make the model folder again."
        ) from error


def _by_class(config):
    """The family of a class like Qwen3ForCausalLM: what stands before `For`."""
    return ((config.get("architectures") or [""])[0]).split("For")[0].lower()
