"""Chats and templates of prompts in the styles that tokenizers have, and the prompts that transformers writes for them.

    python -m tests.tools.openai.template_cases

writes the prompts into template_prompts.json. It needs an environment with `pip install transformers jinja2`; torch and
models are not needed, as the tokenizers are made here.
"""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: What transformers wrote: the name of a template -> the name of a chat -> the prompt, or the error in a list.
PROMPTS = Path(__file__).with_name("template_prompts.json")

_LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": 'Look at <\u00e4> & "b"',
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]},
    },
}
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "look", "arguments": {"where": "K\u00f6ln", "n": 1}},
}
_SYSTEM = {"role": "system", "content": " Be <brief>. "}
_QUESTION = {"role": "user", "content": "What is \u00e4?\n"}
_ANSWER = {"role": "assistant", "content": " A letter.\n\n"}
#: The name of a chat -> its messages, and its tools.
CHATS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = {
    "one": ([_QUESTION], None),
    "system": ([_SYSTEM, _QUESTION], None),
    "turns": (
        [_SYSTEM, _QUESTION, _ANSWER, {"role": "user", "content": "{{ bos_token }} <|im_end|> \U0001f600"}],
        None,
    ),
    "twice": ([_QUESTION, _QUESTION], None),
    "unknown role": ([{"role": "poet", "content": "Ah"}], None),
    "tools": ([_SYSTEM, _QUESTION], [_LOOK]),
    "no tools": ([_QUESTION], []),
    "called": (
        [
            _QUESTION,
            {"role": "assistant", "content": None, "tool_calls": [_CALL], "refusal": None},
            {"role": "tool", "tool_call_id": "call00001", "content": "Rain & 5\u00b0"},
            {"role": "tool", "tool_call_id": "call00002", "content": ""},
        ],
        [_LOOK, _LOOK],
    ),
    "thought": ([_QUESTION, {**_ANSWER, "reasoning": "Hm."}, _QUESTION], None),
}

_TURN = "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
_LLAMA = """\
{{- bos_token }}
{%- set with_tools = tools is defined and tools is not none %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if with_tools %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Letters of the date: " + strftime_now("%d %b %Y") | length | string + "\\n\\n" }}
{{- system }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
    {%- if with_tools and loop.first %}
        {%- for tool in tools %}
            {{- tool | tojson(indent=4) }}
            {{- "\\n\\n" }}
        {%- endfor %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
_MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set ns = namespace(turn=0, answers=rest | selectattr("role", "equalto", "user") | list) %}
{%- for message in rest if message.role in ("user", "assistant") and not (message.tool_calls is defined) %}
    {%- if (message["role"] == "user") != (ns.turn % 2 == 0) %}
        {{- raise_exception("Roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- set ns.turn = ns.turn + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for message in rest %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == ns.answers[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val | tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" + ("]" if loop.last else ", ") }}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " + (system + "\\n\\n" if loop.last and system is defined else "") }}
        {{- message["content"] + "[/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] }}
            {%- if not call.id is defined or call.id | length != 9 %}
                {{- raise_exception("Ids of calls have 9 letters!") }}
            {%- endif %}
            {{- ', "id": "' + call.id + '"}' + ("]" + eos_token if loop.last else ", ") }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- elif message["role"] in ("tool_results", "tool") %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content | string + ', "call_id": "' + message.tool_call_id + '"}' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, not " + message.role) }}
    {%- endif %}
{%- endfor %}
"""
_QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- if message.role == "user" %}
        {%- set ns.last = (messages | length - 1) - loop.index0 %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant' }}
        {%- if message.reasoning_content is string %}
            {{- '\\n<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n' }}
        {%- endif %}
        {{- '\\n' + content.lstrip('\\n') }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
_GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"
)
_GENERATION = """\
{{ bos_token }}
{% for message in messages %}
  {% if message.role == 'tool' %}{% continue %}{% endif %}
  {% if message.role == 'assistant' %}
    {% generation %}
    {% set said = message.content %}
    {{ said }}{{ eos_token }}
    {% endgeneration %}
    {{ said }}
  {% else %}
    [{{ message.content | trim }}{{ said }}]
  {% endif %}
{% endfor %}
"""
_ALL = (
    "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ sep_token }}|{{ image_token }}|{{ boi }}|"
    "{{ cls_token }}|{{ documents is none }}|{{ tools is none }}|{{ add_generation_prompt }}|{% set d = dict(a=1) %}"
    "{{ d.a }}|{{ messages[0] | tojson(sort_keys=true) }}|{{ messages[0] | tojson(separators=(',', ':')) }}|"
    "{{ messages[0] | tojson(true) }}|{{ range(3) | list }}|{{ undefined }}|"
    "{% for key in messages[-1] %}{{ key }} {% endfor %}|{{ '<&>' | e }}|{{ lipsum is defined }}"
)
#: The name of a template -> the template, or several ones by name.
TEMPLATES: dict[str, str | dict[str, str]] = {
    "chatml": "{% for message in messages %}" + _TURN + "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "llama3": _LLAMA,
    "mistral": _MISTRAL,
    "qwen": _QWEN,
    "gemma": _GEMMA,
    "generation": _GENERATION,
    "names": _ALL,
    "by name": {
        "default": "{{ messages[0].content }}",
        "tool_use": "{{ tools | length }} tools: {{ messages[0].content }}",
    },
    "syntax": "{% for message in messages %}{{ message.content }}",
    "unknown filter": "{{ messages | shuffle }}",
    "division": "{{ 1 // (messages | length - 1) }}",
    "sandbox": "{{ messages.__class__ }}{{ messages.append(1) }}",
    "unknown test": "{{ messages is beautiful }}",
    "text and none": "{{ 'a' + messages[0].name }}",
    "endless": "{% for n in range(1000000) %}{% endfor %}",
}


def write_files(directory: Path, template: str | dict[str, str]) -> None:
    """Write the configuration of a tokenizer with a template."""
    several = (
        [{"name": name, "template": each} for name, each in template.items()] if isinstance(template, dict) else None
    )
    document = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": {
            "__type": "AddedToken",
            "content": "<s>",
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        },
        "eos_token": "</s>",
        "unk_token": "?",
        "pad_token": None,
        "image_token": "<image>",
        "extra_special_tokens": {"boi": "<boi>"},
        "add_bos_token": True,
        "chat_template": several or template,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(document))
    (directory / "special_tokens_map.json").write_text(json.dumps({"cls_token": "<cls>"}))


def prompts() -> dict[str, dict[str, str | list[str]]]:
    """Return the prompts, or errors, of transformers."""
    import tokenizers

    transformers: Any = import_module("transformers")

    found: dict[str, dict[str, str | list[str]]] = {}
    for name, template in TEMPLATES.items():
        with tempfile.TemporaryDirectory() as directory:
            words = tokenizers.models.WordLevel({"a": 0, "<s>": 1, "</s>": 2, "?": 3}, unk_token="?")
            tokenizers.Tokenizer(words).save(f"{directory}/tokenizer.json")
            write_files(Path(directory), template)
            read = transformers.AutoTokenizer.from_pretrained(directory)
            found[name] = {}
            for chat, (messages, tools) in CHATS.items():
                try:
                    prompt = read.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
                except Exception as error:
                    prompt = [str(error)]
                found[name][chat] = prompt
    return found


if __name__ == "__main__":
    document = {"transformers": version("transformers"), "prompts": prompts()}
    PROMPTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
