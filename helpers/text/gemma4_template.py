"""Gemma 4's turns, for folders whose tokenizer has no template.

The form is public (ai.google.dev, "Gemma 4 prompt formatting"; the template of
google/gemma-4-E2B-it) and written here anew. A call, what it gave and the answer stand
in one turn of the model, which ends its call with the begin of the response; what the
template of the model's folder writes behind the results of a call, words that come with
it, is refused here.
"""

# A value as Gemma 4 writes it: strings between <|"|>, keys sorted, bare in calls.
_VALUE = """\
{%- macro value(it, bare=true) -%}
    {%- set mark = '' if bare else quote -%}
    {%- if it is string -%}
        {{- quote + it + quote -}}
    {%- elif it is boolean -%}
        {{- 'true' if it else 'false' -}}
    {%- elif it is mapping -%}
        {%- set pairs = namespace(text='') -%}
        {%- for key, member in it | dictsort -%}
            {%- set own = mark + key + mark + ':' + value(member, bare) -%}
            {%- set pairs.text = pairs.text + (',' if not loop.first else '') + own -%}
        {%- endfor -%}
        {{- '{' + pairs.text + '}' -}}
    {%- elif it is iterable -%}
        {{- '[' -}}
        {%- for member in it -%}
            {{- (',' if not loop.first else '') + value(member, bare) -}}
        {%- endfor -%}
        {{- ']' -}}
    {%- else -%}
        {{- it -}}
    {%- endif -%}
{%- endmacro -%}
"""

# A schema of a tool's parameters; what the model was not trained to read is left out.
_DECLARATION = """\
{%- macro kind(name) -%}
    {%- if name is string -%}
        {{- value(name | upper) -}}
    {%- else -%}
        {{- value(name | map('upper') | list) -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro fields(properties) -%}
    {%- for name, it in properties | dictsort -%}
        {{- (',' if not loop.first else '') + name + ':{' + schema(it) + '}' -}}
    {%- endfor -%}
{%- endmacro -%}
{%- macro items(it) -%}
    {%- for key, own in it | dictsort if own is not none -%}
        {{- (',' if not loop.first else '') + key + ':' -}}
        {%- if key == 'properties' -%}
            {{- '{' + fields(own) + '}' -}}
        {%- else -%}
            {{- kind(own) if key == 'type' else value(own, false) -}}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
{%- macro schema(it) -%}
    {%- if it.description -%}
        {{- 'description:' + value(it.description) + ',' -}}
    {%- endif -%}
    {%- if it.type == 'string' and it.enum -%}
        {{- 'enum:' + value(it.enum) + ',' -}}
    {%- elif it.type == 'array' and it['items'] -%}
        {{- 'items:{' + items(it['items']) + '},' -}}
    {%- endif -%}
    {%- if it.nullable -%}
        {{- 'nullable:true,' -}}
    {%- endif -%}
    {%- if it.type == 'object' and it.properties is mapping -%}
        {{- 'properties:{' + fields(it.properties) + '},' -}}
        {%- if it.required -%}
            {{- 'required:' + value(it.required) + ',' -}}
        {%- endif -%}
    {%- endif -%}
    {{- 'type:' + kind(it.type) -}}
{%- endmacro -%}
{%- macro declaration(function) -%}
    {{- '<|tool>declaration:' + function.name + '{description:' -}}
    {{- value(function.description or '') -}}
    {%- set it = function.parameters -%}
    {%- if it -%}
        {%- set parts = namespace(all=[]) -%}
        {%- if it.properties -%}
            {%- set parts.all = ['properties:{' + fields(it.properties) + '}'] -%}
        {%- endif -%}
        {%- if it.required -%}
            {%- set parts.all = parts.all + ['required:' + value(it.required)] -%}
        {%- endif -%}
        {%- if it.type -%}
            {%- set parts.all = parts.all + ['type:' + kind(it.type)] -%}
        {%- endif -%}
        {{- ',parameters:{' + parts.all | join(',') + '}' -}}
    {%- endif -%}
    {{- '}<tool|>' -}}
{%- endmacro -%}
"""

_TURNS = """\
{%- macro said(content) -%}
    {%- if content is string -%}
        {{- content | trim -}}
    {%- else -%}
        {%- for part in content or [] -%}
            {{- '<|image|>' if part.type == 'image' else part.text | trim -}}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{{- bos_token -}}
{%- set thinks = enable_thinking is defined and enable_thinking -%}
{%- set own = messages[0].role == 'system' -%}
{%- set turns = messages[1:] if own else messages -%}
{%- if thinks or tools or own -%}
    {{- '<|turn>system\\n' + ('<|think|>\\n' if thinks else '') -}}
    {{- said(messages[0].content) if own else '' -}}
    {%- for tool in tools or [] -%}
        {{- declaration(tool.function) -}}
    {%- endfor -%}
    {{- '<turn|>\\n' -}}
{%- endif -%}
{%- set seen = namespace(question=-1, called=false, open=false) -%}
{%- for message in turns -%}
    {%- set seen.question = loop.index0 if message.role == 'user' else seen.question -%}
{%- endfor -%}
{%- for message in turns -%}
    {%- if message.role == 'tool' -%}
        {%- if not seen.called -%}
            {{- raise_exception('A result of a tool stands after no call of one.') -}}
        {%- endif -%}
        {%- set content = message.content -%}
        {{- '' if seen.open else '<|tool_response>' -}}
        {{- 'response:' + (message.name or 'unknown') -}}
        {{- value(content if content is mapping else {'value': content}) -}}
        {{- '<tool_response|>' -}}
        {%- set seen.open = false -%}
    {%- else -%}
        {%- set model = message.role == 'assistant' -%}
        {%- if not (model and seen.called) -%}
            {{- '<|turn>' + ('model' if model else message.role) + '\\n' -}}
        {%- endif -%}
        {%- set seen.called = model and message.tool_calls -%}
        {%- set seen.open = seen.called -%}
        {%- if seen.called -%}
            {%- if said(message.content) -%}
                {{- raise_exception('Gemma 4 writes no text with a call.') -}}
            {%- endif -%}
            {%- if message.reasoning_content and loop.index0 > seen.question -%}
                {{- '<|channel>thought\\n' + message.reasoning_content -}}
                {{- '\\n<channel|>' -}}
            {%- endif -%}
            {%- for call in message.tool_calls -%}
                {%- set call = call.function or call -%}
                {%- if call.arguments is string -%}
                    {{- raise_exception('Arguments of a call are text: parse them.') -}}
                {%- endif -%}
                {{- '<|tool_call>call:' + call.name + value(call.arguments or {}) -}}
                {{- '<tool_call|>' -}}
            {%- endfor -%}
            {{- '<|tool_response>' -}}
        {%- else -%}
            {{- said(message.content) + '<turn|>\\n' -}}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not seen.called -%}
    {{- '<|turn>model\\n' -}}
{%- endif -%}
"""

GEMMA4 = "{%- set quote = '<|\"|>' -%}\n" + _VALUE + _DECLARATION + _TURNS
