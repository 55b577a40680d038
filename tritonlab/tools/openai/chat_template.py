"""The prompt of a chat: the messages, written by the template of the model's tokenizer.

A template is looked for in the version directory of the model and in the model's directory, in this order:

    chat_template.jinja                   a Jinja template, as Hugging Face stores it today
    tokenizer_config.json                 the field `chat_template` of a tokenizer

A tokenizer may have another one for chats with tools: `additional_chat_templates/tool_use.jinja`, or the one named
`tool_use` in its field. Messages and errors are those of transformers' `apply_chat_template`.

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
SPECIAL_TOKENS = "special_tokens_map.json"
DEFAULT, TOOL_USE = "default", "tool_use"
#: The fields of a message with the model's thoughts.
_THOUGHTS = ("reasoning_content", "thinking", "reasoning")

#: Used without a template of the model: a single message as it is, several ones with their roles.
_PLAIN = (
    "{% if messages | length == 1 %}{{ messages[0].content }}{% else %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:{% endif %}"
)


class GenerationTag(Extension):
    """The tag `{% generation %}`, with which templates mark the assistant's text for training; it changes no prompt."""

    tags = {"generation"}  # noqa: RUF012 - the base class has it as an instance variable

    def parse(self, parser: Parser) -> nodes.Scope:
        """Return the statements up to `endgeneration`. Names that they set end with them."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class ChatTemplate:
    """A template of prompts. Its tokens, such as `bos_token`, are those of the tokenizer."""

    def __init__(self, source: str = _PLAIN, tokens: Mapping[str, Any] | None = None, tool_use: str = "") -> None:
        """Compile the template, and another one for chats with tools. Raises jinja2.TemplateSyntaxError."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self._template = environment.from_string(source)
        self._tool_use = environment.from_string(tool_use or source)
        self._tokens = dict(tokens or {})

    @classmethod
    def find(cls, directories: Sequence[Path]) -> ChatTemplate:
        """Return the template in the first directory that has one, else the plain one. Raises OpenAIError for a file
        that is not a template."""
        for directory in directories:
            try:
                sources, tokens = _read(directory)
                if DEFAULT in sources:
                    return cls(sources[DEFAULT], tokens, sources.get(TOOL_USE, ""))
            except (TemplateError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
                raise OpenAIError(f"the chat template in {directory} is wrong: {kind}{error}", 500) from None
        return cls()

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None) -> str:
        """Return the prompt for the messages. Raises OpenAIError where the template refuses them."""
        template = self._template if tools is None else self._tool_use
        try:
            return template.render(
                messages=[_readable(message) for message in messages],
                tools=tools,
                documents=None,
                add_generation_prompt=True,
                **self._tokens,
            )
        except Exception as error:  # templates divide by zero, too
            raise OpenAIError(f"the model's chat template refuses the messages: {error}", param="messages") from None


def _readable(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as templates read it: without fields that are null, thoughts by each of their names, and the
    arguments of calls as objects, which OpenAI's clients send as JSON."""
    found = {key: value for key, value in message.items() if value is not None}
    if (thought := next((found[key] for key in _THOUGHTS if key in found), None)) is not None:
        found = {"thinking": thought, **found, "reasoning_content": thought}
    if isinstance(calls := found.get("tool_calls"), list):
        found["tool_calls"] = [_with_arguments(call) for call in calls]
    return found


def _with_arguments(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments := function.get("arguments"), str):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(arguments or "{}")}}
    except ValueError:
        return call  # a model may write such calls


def _read(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the templates by name and the special tokens in a directory, empty without."""
    found = _read_json(directory / TOKENIZER)
    template = found.get("chat_template") or {}
    if isinstance(template, list):
        template = {each["name"]: each["template"] for each in template}
    sources = {DEFAULT: template} if isinstance(template, str) else template
    more = directory / "additional_chat_templates" / f"{TOOL_USE}.jinja"
    for name, file in ((DEFAULT, directory / TEMPLATE), (TOOL_USE, more)):
        if file.is_file():
            sources[name] = file.read_text(encoding="utf-8")
    fields = {key: value for key, value in found.items() if key.endswith("_token")}
    if isinstance(extra := found.get("extra_special_tokens"), dict):
        fields |= extra
    if "added_tokens_decoder" not in found:  # else the file is not read by transformers, either
        fields |= _read_json(directory / SPECIAL_TOKENS)
    tokens = {key: value.get("content") if isinstance(value, dict) else value for key, value in fields.items()}
    return sources, {key: value for key, value in tokens.items() if isinstance(value, str)}


def _read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file, empty without the file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise OpenAIError(f"{file} is not JSON: {error}", 500) from None
    if not isinstance(found, dict):
        raise OpenAIError(f"{file} is not a JSON object", 500)
    return found


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Return JSON without HTML's escapes, which Jinja's own filter writes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
