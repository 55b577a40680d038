"""The requests of OpenAI's API, read from JSON: the options of a model's request, and the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .openai_errors import OpenAIError

#: Fields that are no options of the model.
_OURS = {
    *("model", "messages", "prompt", "n", "stream", "stream_options", "stop", "echo", "suffix", "best_of", "user"),
    *("logprobs", "top_logprobs", "store", "metadata", "max_completion_tokens"),
}
#: The tokens of an answer, unless the request says how many: of a completion, as OpenAI's documentation has it.
COMPLETION_TOKENS, CHAT_TOKENS = 16, 512
#: The most answers to one request.
MOST_ANSWERS = 128


@dataclass(frozen=True)
class TextRequest:
    """A request for one or more answers in text.

    Args:
        model: the model's name.
        prompts: the prompts of a completion; empty for a chat.
        messages: the messages of a chat, whose contents are texts.
        count: how many answers each prompt gets.
        options: the options for the model, by OpenAI's names.
        stream: whether the answer comes in events; `usage`: whether the last one has the counts of tokens.
        echo: whether a completion begins with its prompt.
    """

    model: str
    prompts: Sequence[str]
    messages: Sequence[Mapping[str, Any]]
    count: int
    options: Mapping[str, Any]
    stream: bool
    usage: bool
    echo: bool

    @classmethod
    def from_json(cls, body: Mapping[str, Any], *, chat: bool) -> TextRequest:
        """Read the body of a request. Raises OpenAIError, which names the field."""
        model = _model(body)
        messages: list[dict[str, Any]] = []
        prompts: list[str] = []
        if chat:
            messages = _messages(body.get("messages"))
        else:
            prompts = _texts(body, "prompt")
        count = _integer(body, "n", 1, 1, MOST_ANSWERS)
        if (body.get("best_of") or count) != count:
            raise OpenAIError("'best_of' must be 'n': answers are not ranked here", param="best_of")
        if body.get("suffix"):
            raise OpenAIError("'suffix' is not supported", param="suffix")
        stops = body.get("stop") or []
        stops = [stops] if isinstance(stops, str) else stops
        if not isinstance(stops, list) or not all(isinstance(each, str) for each in stops):
            raise OpenAIError("'stop' must be a text or a list of texts", param="stop")
        options = {key: value for key, value in body.items() if key not in _OURS and value is not None}
        limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
        options["max_tokens"] = _integer(body, limit, CHAT_TOKENS if chat else COMPLETION_TOKENS, 1, 1 << 31)
        if stops:
            options["stop"] = stops
        stream = bool(body.get("stream"))
        options["stream"] = stream
        wanted = body.get("logprobs")
        if wanted or (not chat and wanted == 0 and wanted is not False):
            options["logprobs"] = True
        extra = body.get("stream_options") or {}
        if not isinstance(extra, dict):
            raise OpenAIError("'stream_options' must be an object", param="stream_options")
        return cls(
            model=model,
            prompts=prompts,
            messages=messages,
            count=count,
            options=options,
            stream=stream,
            usage=bool(extra.get("include_usage")),
            echo=bool(body.get("echo")),
        )

    @property
    def tools(self) -> list[Any] | None:
        found: list[Any] | None = self.options.get("tools")
        return found

    def nth(self, number: int) -> dict[str, Any]:
        """Return the options of an answer: each one has a seed of its own."""
        seed = self.options.get("seed")
        return {**self.options, "seed": seed + number} if isinstance(seed, int) else dict(self.options)


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request for the embeddings of texts. `base64`: whether they are sent as the bytes of 32-bit floats."""

    model: str
    texts: Sequence[str]
    base64: bool
    dimensions: int | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> EmbeddingRequest:
        """Read the body of a request. Raises OpenAIError, which names the field."""
        form = body.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise OpenAIError("'encoding_format' must be 'float' or 'base64'", param="encoding_format")
        texts = _texts(body, "input")
        dimensions = _integer(body, "dimensions", 0, 1, 1 << 20) or None
        return cls(_model(body), texts, form == "base64", dimensions)


def _model(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise OpenAIError.missing("model", "a name that GET /v1/models lists")
    return model


def _texts(body: Mapping[str, Any], name: str) -> list[str]:
    found = body.get(name)
    if found is None:
        raise OpenAIError.missing(name)
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not texts:
        raise OpenAIError(f"'{name}' must be a text or a list of texts that is not empty", param=name)
    if not all(isinstance(each, str) for each in texts):
        text = f"'{name}' must be a text or a list of texts: tokens are read by no model here, send a text"
        raise OpenAIError(text, param=name)
    return texts


def _messages(found: Any) -> list[dict[str, Any]]:
    if found is None:
        raise OpenAIError.missing("messages")
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise OpenAIError("'messages' must be a list of messages that is not empty", param="messages")
    messages = []
    for number, message in enumerate(found):
        if not isinstance(message.get("role"), str):
            raise OpenAIError.missing(f"messages[{number}].role")
        content = message.get("content")
        if isinstance(content, list):  # parts, of which only texts can be read
            content = "".join(_part(part, number) for part in content)
        elif not isinstance(content, str | None):
            raise OpenAIError("a message's content must be a text or parts of one", param=f"messages[{number}].content")
        messages.append(message if content is None else {**message, "content": content})
    return messages


def _part(part: Any, number: int) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise OpenAIError(
        f"a part of type '{kind}' cannot be sent to a model of texts", param=f"messages[{number}].content"
    )


def _integer(body: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OpenAIError(f"'{name}' must be an integer between {low} and {high}", param=name)
    return value
