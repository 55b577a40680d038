"""Prompts of chats, by the templates that tokenizers have: the same as transformers writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.openai import template_cases
from tritonlab.tools.openai.chat_template import ChatTemplate
from tritonlab.tools.openai.openai_errors import OpenAIError

CHATML = (
    "{{ bos_token }}{% for message in messages %}\n<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}"
    "{% else %}{{ message.content | trim }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MESSAGES = [
    {"role": "system", "content": " Be <brief>. "},
    {"role": "user", "content": "What is \u00e4?"},
    {"role": "assistant", "content": "A letter."},
    {"role": "user", "content": "Which?"},
]
A_TOOL = [{"type": "function", "function": {"name": "look", "description": "<\u00e4>", "parameters": {}}}]


def test_the_template_of_a_tokenizer_is_used(tmp_path: Path) -> None:
    tokens = {"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**tokens, "chat_template": "{{ bos_token }}old"}))
    assert ChatTemplate.find([tmp_path]).render(MESSAGES) == "<s>old"
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    prompt = ChatTemplate.find([tmp_path / "1", tmp_path]).render(MESSAGES[1:3])
    turns = "<|im_start|>user\nWhat is \u00e4?<|im_end|>\n<|im_start|>assistant\nA letter.<|im_end|>\n"
    assert prompt == f"<s>{turns}<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", b'{"chat_template": [{"name": "default"}]}'),
        ("tokenizer_config.json", b'{"chat_template": ["default"]}'),
        ("tokenizer_config.json", b'{"chat_template": 3}'),
        ("tokenizer_config.json", b'{"chat_template": {"default": 3}}'),
        ("tokenizer_config.json", b"\xff"),
        ("chat_template.jinja", b"\xff"),
        ("chat_template.jinja", b"{% if %}"),
    ],
)
def test_a_damaged_template_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OpenAIError, match=str(tmp_path)) as refused:
        ChatTemplate.find([tmp_path])
    assert refused.value.status == 500


def test_a_template_may_refuse_and_runs_in_a_sandbox() -> None:
    with pytest.raises(OpenAIError, match="refuses the messages: no system"):
        ChatTemplate("{{ raise_exception('no system') }}").render(MESSAGES)
    with pytest.raises(OpenAIError, match="refuses the messages"):
        ChatTemplate("{{ messages.__class__.__base__.__subclasses__() }}").render(MESSAGES)


@pytest.mark.parametrize("name", template_cases.TEMPLATES)
def test_prompts_and_errors_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    expected = json.loads(template_cases.PROMPTS.read_text())["prompts"][name]
    template_cases.write_files(tmp_path, template_cases.TEMPLATES[name])
    found: dict[str, str | list[str]] = {}
    for chat, (messages, tools) in template_cases.CHATS.items():
        try:
            found[chat] = ChatTemplate.find([tmp_path]).render(messages, tools)
        except OpenAIError as error:
            _, _, text = error.message.partition("refuses the messages: ")
            found[chat] = [text or error.message.partition(f"template in {tmp_path} is wrong: ")[2]]
    assert found == expected


def test_the_stored_prompts_are_those_of_the_installed_transformers() -> None:
    pytest.importorskip("transformers")
    assert template_cases.prompts() == json.loads(template_cases.PROMPTS.read_text())["prompts"]


def test_a_tokenizer_may_have_a_template_for_tools(tmp_path: Path) -> None:
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "chat_template.jinja").write_text("plain")
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools | length }}")
    template = ChatTemplate.find([tmp_path])
    assert (template.render(MESSAGES), template.render(MESSAGES, A_TOOL)) == ("plain", "1")


@pytest.mark.parametrize(("arguments", "expected"), [('{"a": 1}', "1"), ("", ""), ("{a", "")])
def test_arguments_of_calls_are_read(arguments: str, expected: str) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}]
    template = ChatTemplate("{{ messages[0].tool_calls[0].function.arguments.a }}")
    assert template.render([{"role": "assistant", "content": None, "tool_calls": calls}]) == expected
