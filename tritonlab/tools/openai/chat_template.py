"""The prompt of a chat: the messages, written by the template of the model's tokenizer.

A template is looked for in the version directory of the model and in the model's directory, in this order:

    chat_template.jinja                   a Jinja template, as Hugging Face stores it today
    tokenizer_config.json                 the field `chat_template` of a tokenizer

A template comes with its model and may be a stranger's: it runs in Jinja's sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .openai_errors import OpenAIError

TEMPLATE, TOKENIZER = "chat_template.jinja", "tokenizer_config.json"

#: Used without a template of the model: a single message as it is, several ones with their roles.
_PLAIN = (
    "{% if messages | length == 1 %}{{ messages[0].content }}{% else %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:{% endif %}"
)


class GenerationTag(Extension):
    """The tag `{% generation %}`, with which templates mark the assistant's text for training; it changes no prompt."""

    tags = {"generation"}  # noqa: RUF012 - the base class has it as an instance variable

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the statements up to `endgeneration`."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A template of prompts. Its tokens, such as `bos_token`, are those of the tokenizer."""

    def __init__(self, source: str = _PLAIN, tokens: Mapping[str, Any] | None = None) -> None:
        """Compile the template. Raises jinja2.TemplateSyntaxError."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self._template = environment.from_string(source)
        self._tokens = dict(tokens or {})

    @classmethod
    def find(cls, directories: Sequence[Path]) -> ChatTemplate:
        """Return the template in the first directory that has one, else the plain one. Raises OpenAIError for a file
        that is not a template."""
        for directory in directories:
            source, tokens = _read(directory)
            if source:
                try:
                    return cls(source, tokens)
                except TemplateError as error:
                    raise OpenAIError(f"the chat template in {directory} is wrong: {error}", 500) from None
        return cls()

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None, **more: Any) -> str:
        """Return the prompt for the messages. Raises OpenAIError where the template refuses them."""
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=True, **{**self._tokens, **more}
            )
        except Exception as error:  # templates divide by zero, too
            raise OpenAIError(f"the model's chat template refuses the messages: {error}", param="messages") from None


def _read(directory: Path) -> tuple[str, dict[str, Any]]:
    """Return the template and the special tokens in a directory, empty without."""
    source, tokens = "", {}
    if (file := directory / TOKENIZER).is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise OpenAIError(f"{file} is not JSON: {error}", 500) from None
        template = found.get("chat_template") or ""
        if isinstance(template, list):  # several ones by name
            template = next((each["template"] for each in template if each.get("name") == "default"), "")
        source = template
        tokens = {
            name: value.get("content", "") if isinstance(value, dict) else value
            for name, value in found.items()
            if name.endswith("_token") and isinstance(value, (str, dict))
        }
    if (file := directory / TEMPLATE).is_file():
        source = file.read_text(encoding="utf-8")
    return source, tokens


def _to_json(value: Any, **options: Any) -> str:
    """Return JSON without HTML's escapes, which Jinja's own filter writes."""
    return json.dumps(value, ensure_ascii=False, **options)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
