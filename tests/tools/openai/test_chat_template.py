"""Prompts of chats, by the templates that tokenizers have: the same as transformers writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tritonlab.tools.openai.chat_template import ChatTemplate
from tritonlab.tools.openai.openai_errors import OpenAIError

CHATML = (
    "{{ bos_token }}{% for message in messages %}\n<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}"
    "{% else %}{{ message.content | trim }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = (
    "{% if tools %}Tools: {{ tools | tojson(indent=1) }}\n{% endif %}{% for message in messages %}"
    "{% if message.role == 'tool' %}{% continue %}{% endif %}[{{ message['content'] }}]{{ eos_token }}{% endfor %}"
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


def test_a_template_may_refuse_and_runs_in_a_sandbox() -> None:
    with pytest.raises(OpenAIError, match="refuses the messages: no system"):
        ChatTemplate("{{ raise_exception('no system') }}").render(MESSAGES)
    with pytest.raises(OpenAIError, match="refuses the messages"):
        ChatTemplate("{{ messages.__class__.__base__.__subclasses__() }}").render(MESSAGES)


@pytest.mark.parametrize("template", [CHATML, TOOLS])
@pytest.mark.parametrize("tools", [None, A_TOOL])
def test_prompts_are_those_of_transformers(tmp_path: Path, template: str, tools: Any) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<s>": 1, "</s>": 2, "?": 3}, unk_token="?"))
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="?", chat_template=template
    )
    made.save_pretrained(tmp_path)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = read.apply_chat_template(MESSAGES, tools=tools, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate.find([tmp_path]).render(MESSAGES, tools) == expected
