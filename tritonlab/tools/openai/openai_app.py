"""The endpoints of OpenAI's API: models, completions, chat completions and embeddings.

Each answer is a request to a model of the server, through its scheduler like any other client's. A client that leaves
cancels its requests.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from ...core.config.model_config import to_dict
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.status import TritonError
from ...frontends.http.reply import HttpReply
from ...frontends.http.request_parser import Request
from ...frontends.shared.access import AUTHORIZATION, AccessRules
from ...frontends.shared.infer_exchange import OneResponse
from ...server.inference_server import InferenceServer
from ...server.models.model_lifecycle import ModelVersion
from .chat_template import ChatTemplate
from .generation import Generation, Piece, send
from .openai_errors import OpenAIError
from .openai_requests import EmbeddingRequest, TextRequest
from .text_model import EMBEDDING, MESSAGES, PROMPT, TEXT, Count, NotTextModelError, TextModel, find_counter
from .token_metrics import TokenMetrics

_EVENTS = b"text/event-stream; charset=utf-8"
_HEADERS = ((b"cache-control", b"no-cache"),)
_DONE = b"data: [DONE]\n\n"


class Facts(NamedTuple):
    """A version of a model for this API. `created`: when it was loaded, in seconds since the epoch."""

    model: TextModel
    template: ChatTemplate
    count_tokens: Count | None
    created: int

    @classmethod
    def from_version(cls, version: ModelVersion, now: int) -> Facts:
        """Read the configuration and the directory of a version. `now`: nanoseconds of the server's clock. Raises
        OpenAIError."""
        config = to_dict(version.config)
        try:
            model = TextModel.from_config(config)
        except NotTextModelError as error:
            raise OpenAIError(
                f"the model '{version.name}' cannot be asked through this API: {error}", 400, "model"
            ) from None
        directory = Path(version.files.directory)
        places = [directory / str(version.version), directory]
        tokens = config.get("parameters", {}).get("openai.tokens", {}).get("string_value", "")
        created = int(time.time() - (now - version.load_started - version.load_ns) / 1e9)
        return cls(model, ChatTemplate.find(places), find_counter(places, tokens), created)


class OpenAIApp:
    """The application of one server. `rules`: the token that clients must send, as the key of the API."""

    def __init__(self, core: InferenceServer, rules: AccessRules) -> None:
        self._core = core
        self._rules = rules
        self.metrics = TokenMetrics(core.metrics)
        self._facts: weakref.WeakKeyDictionary[ModelVersion, Facts] = weakref.WeakKeyDictionary()
        self._routes: dict[bytes, tuple[str, Callable[[Request], Awaitable[HttpReply]]]] = {
            b"/v1/models": ("GET", self._models),
            b"/v1/models/": ("GET", self._one_model),
            b"/v1/completions": ("POST", self._completions),
            b"/v1/chat/completions": ("POST", self._chat),
            b"/v1/embeddings": ("POST", self._embeddings),
            b"/health": ("GET", self._health),
        }

    async def __call__(self, request: Request) -> HttpReply:
        try:
            key = AUTHORIZATION.encode()
            if refused := self._rules.refuses([value for name, value in request.headers if name == key]):
                raise OpenAIError(refused, 401, code="invalid_api_key")
            path = request.path.partition(b"?")[0]
            if path.startswith(b"/v1/models/"):
                path = b"/v1/models/"
            if path not in self._routes:
                raise OpenAIError(f"Unknown path: {request.method} {path.decode('latin-1')}", 404, code="unknown_url")
            method, endpoint = self._routes[path]
            if request.method != method:
                raise OpenAIError(f"Not allowed: {request.method}; {path.decode('latin-1')} takes {method}", 405)
            return await endpoint(request)
        except OpenAIError as error:
            return HttpReply(error.status, error.body())

    # -- models

    async def _health(self, request: Request) -> HttpReply:
        return HttpReply()

    async def _models(self, request: Request) -> HttpReply:
        found = []
        for model in self._core.models.known():
            version = model.latest
            if version is None:
                continue
            try:
                facts = self._facts_of(version)
            except OpenAIError:
                continue  # its reason is told to the client that asks for it
            found.append(_model_document(facts))
        return _json({"object": "list", "data": found})

    async def _one_model(self, request: Request) -> HttpReply:
        name = unquote(request.path.partition(b"?")[0].removeprefix(b"/v1/models/"))
        return _json(_model_document(self._facts_of(self._find(name))))

    def _find(self, name: str) -> ModelVersion:
        try:
            return self._core.find(name)
        except TritonError as error:
            raise OpenAIError(error.message, 404, "model", "model_not_found") from None

    def _facts_of(self, version: ModelVersion) -> Facts:
        found = self._facts.get(version)
        if found is None:
            found = self._facts[version] = Facts.from_version(version, self._core.clock.now())
        return found

    # -- answers in text

    async def _completions(self, request: Request) -> HttpReply:
        return await self._answer(request, TextRequest.from_json(_body(request), chat=False), "text_completion", "cmpl")

    async def _chat(self, request: Request) -> HttpReply:
        asked = TextRequest.from_json(_body(request), chat=True)
        return await self._answer(request, asked, "chat.completion", "chatcmpl")

    async def _answer(self, request: Request, asked: TextRequest, kind: str, prefix: str) -> HttpReply:
        version = self._find(asked.model)
        facts = self._facts_of(version)
        if TEXT not in facts.model.outputs:
            raise OpenAIError(f"the model '{asked.model}' gives embeddings, no text", 400, "model")
        if asked.options.get("logprobs") and "logprobs" not in facts.model.outputs:
            raise OpenAIError(f"the model '{asked.model}' has no output 'logprobs'", 400, "logprobs")
        prompts = asked.prompts or [self._prompt(facts, asked)]
        generations: list[Generation] = []
        try:
            for prompt in prompts:
                for number in range(asked.count):
                    options = {**asked.nth(number), PROMPT: prompt, MESSAGES: asked.messages or None}
                    generations.append(send(self._core, version, facts.model, options, self.metrics))
        except BaseException:
            for each in generations:
                each.leave()
            raise
        identifier = f"{prefix}-{uuid.uuid4().hex}"
        answer = TextAnswer(
            asked, kind, identifier, int(time.time()), prompts=prompts, generations=generations, facts=facts
        )
        request.call_when_gone(answer.leave)
        if not asked.stream:
            return _json(await answer.whole())
        events = answer.events()
        try:
            first = await anext(events)  # an error before the first text has a status
        except BaseException:
            answer.leave()
            raise
        return HttpReply(200, kind=_EVENTS, headers=_HEADERS, events=_chained(first, events))

    def _prompt(self, facts: Facts, asked: TextRequest) -> str:
        if PROMPT not in facts.model.inputs:
            return ""  # the model reads the messages themselves
        return facts.template.render(asked.messages, None if "tools" in facts.model.inputs else asked.tools)

    # -- embeddings

    async def _embeddings(self, request: Request) -> HttpReply:
        asked = EmbeddingRequest.from_json(_body(request))
        version = self._find(asked.model)
        facts = self._facts_of(version)
        form = facts.model.outputs.get(EMBEDDING)
        if form is None or PROMPT not in facts.model.inputs:
            raise OpenAIError(f"the model '{asked.model}' gives text, no embeddings", 400, "model")
        sent = [InferenceRequest(asked.model, facts.model.tensors({PROMPT: text})) for text in asked.texts]

        def cancel() -> None:
            for each in sent:
                each.cancel()

        request.call_when_gone(cancel)
        try:
            responses = await asyncio.gather(*(_one_response(self._core, version, each) for each in sent))
        except BaseException:
            cancel()
            raise
        vectors = [each.outputs[form.name].to_host().numpy().astype(np.float32).ravel() for each in responses]
        if asked.dimensions is not None and any(len(vector) != asked.dimensions for vector in vectors):
            raise OpenAIError(f"the model '{asked.model}' gives {len(vectors[0])} dimensions", 400, "dimensions")
        document: dict[str, Any] = {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": base64.b64encode(vector.tobytes()).decode() if asked.base64 else vector.tolist(),
                }
                for index, vector in enumerate(vectors)
            ],
            "model": asked.model,
        }
        if facts.count_tokens is not None:
            tokens = sum(map(facts.count_tokens, asked.texts))
            document["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json(document)


async def _one_response(core: InferenceServer, version: ModelVersion, request: InferenceRequest) -> InferenceResponse:
    """Send a request and return its one response. Raises OpenAIError."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    one = OneResponse()

    def on_response(request: InferenceRequest, response: InferenceResponse) -> None:
        one.add(response)
        if response.final:
            with contextlib.suppress(RuntimeError):  # the endpoint was stopped
                loop.call_soon_threadsafe(ended.set)

    request.on_response = on_response
    try:
        core.infer(request, version)
    except TritonError as error:
        raise OpenAIError.from_triton(error) from None
    await ended.wait()
    found = one.take()
    if found.error is not None:
        raise OpenAIError.from_triton(found.error)
    return found


@dataclass
class TextAnswer:
    """The answers to one request, as one document or as events."""

    asked: TextRequest
    kind: str
    identifier: str
    created: int
    prompts: Sequence[str]
    generations: Sequence[Generation]
    facts: Facts

    @property
    def _is_chat(self) -> bool:
        return not self.asked.prompts

    def leave(self) -> None:
        """Cancel what is still generated, and end `whole` and `events`."""
        for each in self.generations:
            each.leave()

    async def whole(self) -> dict[str, Any]:
        """Return the document with all answers. Raises OpenAIError."""
        try:
            choices = await asyncio.gather(*(self._choice(index) for index in range(len(self.generations))))
        except BaseException:
            self.leave()
            raise
        document = self._document(self.kind, [choice for choice, _ in choices])
        if (usage := self._usage([text for _, text in choices])) is not None:
            document["usage"] = usage
        return document

    async def _choice(self, index: int) -> tuple[dict[str, Any], str]:
        generation = self.generations[index]
        pieces = [piece async for piece in generation.pieces()]
        text = "".join(piece.text for piece in pieces)
        logs = [each for piece in pieces for each in piece.log_probabilities]
        choice: dict[str, Any] = {"index": index, "finish_reason": self._reason(index, text)}
        if self._is_chat:
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if generation.tool_calls is not None:
                message |= {"content": text or None, "tool_calls": generation.tool_calls}
            choice |= {"message": message, "logprobs": {"content": logs} if logs else None}
        else:
            prompt = self.prompts[index // self.asked.count] if self.asked.echo else ""
            choice |= {"text": prompt + text, "logprobs": _completion_logs(logs) if logs else None}
        return choice, text

    async def events(self) -> AsyncIterator[bytes]:
        """Return the events of all answers as they come, and at the end [DONE]."""
        # one place: pieces that a client does not read wait in their generation, which counts them
        queue: asyncio.Queue[tuple[int, Piece | None, OpenAIError | None]] = asyncio.Queue(1)
        texts = [""] * len(self.generations)

        async def read(index: int) -> None:
            try:
                async for piece in self.generations[index].pieces():
                    await queue.put((index, piece, None))
                await queue.put((index, None, None))
            except OpenAIError as error:
                await queue.put((index, None, error))
            except Exception as error:  # of an answer that cannot be read
                await queue.put((index, None, OpenAIError.unexpected(error)))

        tasks = [asyncio.create_task(read(index)) for index in range(len(self.generations))]
        begun: set[int] = set()
        left, sent = len(tasks), False
        try:
            while left:
                index, piece, error = await queue.get()
                if error is not None:
                    if not sent:
                        raise error
                    yield b"data: %b\n\n" % error.body()
                    return
                if index not in begun:
                    begun.add(index)
                    for document in self._beginning(index):
                        yield _event(document)
                if piece is None:
                    left -= 1
                    yield _event(self._end(index, texts[index]))
                else:
                    texts[index] += piece.text
                    yield _event(self._chunk(index, piece))
                sent = True
            if self.asked.usage:
                yield _event({**self._document(self._chunk_kind, []), "usage": self._usage(texts)})
            yield _DONE
        finally:
            for task in tasks:
                task.cancel()
            if left:
                self.leave()

    @property
    def _chunk_kind(self) -> str:
        return f"{self.kind}.chunk" if self._is_chat else self.kind

    def _beginning(self, index: int) -> list[dict[str, Any]]:
        """Return the documents before the first text: the role of a chat, the prompt that is echoed."""
        if self._is_chat:
            choice = {"index": index, "delta": {"role": "assistant", "content": ""}}
        elif self.asked.echo:
            choice = {"index": index, "text": self.prompts[index // self.asked.count], "logprobs": None}
        else:
            return []
        return [self._document(self._chunk_kind, [{**choice, "finish_reason": None}])]

    def _chunk(self, index: int, piece: Piece) -> dict[str, Any]:
        logs = piece.log_probabilities
        choice: dict[str, Any] = {"index": index, "finish_reason": None}
        if self._is_chat:
            choice |= {"delta": {"content": piece.text}, "logprobs": {"content": logs} if logs else None}
        else:
            choice |= {"text": piece.text, "logprobs": _completion_logs(logs) if logs else None}
        return self._document(self._chunk_kind, [choice])

    def _reason(self, index: int, text: str) -> str:
        """Return why an answer ended: the model's word, else `length` if it has as many tokens as were allowed."""
        generation = self.generations[index]
        if not generation.finish_reason and generation.stopped:
            return "stop"
        count = self._count(generation.output_tokens, text)
        is_full = count is not None and count >= self.asked.options["max_tokens"]
        return generation.finish_reason or ("length" if is_full else "stop")

    def _end(self, index: int, text: str) -> dict[str, Any]:
        generation = self.generations[index]
        choice: dict[str, Any] = {"index": index, "finish_reason": self._reason(index, text), "logprobs": None}
        if self._is_chat:
            calls = generation.tool_calls
            numbered = [{"index": number, **call} for number, call in enumerate(calls or ())]
            choice["delta"] = {"tool_calls": numbered} if calls is not None else {}
        else:
            choice["text"] = ""
        return self._document(self._chunk_kind, [choice])

    def _document(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.identifier,
            "object": kind,
            "created": self.created,
            "model": self.asked.model,
            "choices": choices,
        }

    def _usage(self, texts: Sequence[str]) -> dict[str, int] | None:
        """Return the counts of tokens: the model's own, else those of its tokenizer; None if they are not known."""
        firsts = self.generations[:: self.asked.count]
        asked = [self._count(one.input_tokens, text) for one, text in zip(firsts, self.prompts, strict=True)]
        given = [self._count(one.output_tokens, text) for one, text in zip(self.generations, texts, strict=True)]
        known = [count for count in (*asked, *given) if count is not None]
        if len(known) < len(asked) + len(given):
            return None
        prompts = sum(known[: len(asked)])
        return {"prompt_tokens": prompts, "completion_tokens": sum(known) - prompts, "total_tokens": sum(known)}

    def _count(self, own: int | None, text: str) -> int | None:
        """Return the number of tokens of a text: `own`, the model's, else its tokenizer's."""
        if own is None and self.facts.count_tokens is not None:
            return self.facts.count_tokens(text)
        return own


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for event in rest:
        yield event


def _completion_logs(logs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return log probabilities in the form of completions."""
    return {
        "tokens": [each["token"] for each in logs],
        "token_logprobs": [each["logprob"] for each in logs],
        "top_logprobs": [{top["token"]: top["logprob"] for top in each["top_logprobs"]} for each in logs],
        "text_offset": np.cumsum([0, *(len(each["token"]) for each in logs)])[:-1].tolist(),
    }


def _model_document(facts: Facts) -> dict[str, Any]:
    return {"id": facts.model.name, "object": "model", "created": facts.created, "owned_by": "tritonlab"}


def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(request.body)
    except ValueError as error:
        raise OpenAIError(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OpenAIError("the body must be a JSON object")
    return found


def _json(document: Any) -> HttpReply:
    return HttpReply(body=json.dumps(document).encode())


def _event(document: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(document).encode()
