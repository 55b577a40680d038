"""The answer of a model to one prompt, as pieces of text that the event loop reads as they come."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.status import TritonError
from ...frontends.shared.request_memory import OVERHEAD, too_much_unread
from ...server.inference_server import InferenceServer
from ...server.models.model_lifecycle import ModelVersion
from .openai_errors import OpenAIError
from .text_model import TEXT, TextModel
from .token_metrics import TokenMetrics, TokenRequest


@dataclass
class Piece:
    """A part of an answer. `log_probabilities`: of its tokens, as the model gives them."""

    text: str
    log_probabilities: list[dict[str, Any]] = field(default_factory=list)


class StopTexts:
    """The end of a text at the first of some sequences, which may be split between pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """Return the text up to here that no sequence can begin in, and whether one was found behind it."""
        text = self._held + text
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self._held = ""
            return text[: min(ends)], True
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def rest(self) -> str:
        """Return the text that was held back, at the end of all pieces."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Return how many last letters of a text are the first ones of `stop`."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


class Generation:
    """The request for one answer. Runs on an event loop, which `start` and `pieces` are called on.

    After the last piece it has OpenAI's `finish_reason`, empty if it is not known; the `tool_calls` of the model, if it
    gives any; and the model's own counts, `input_tokens` and `output_tokens`, or None.
    """

    def __init__(
        self,
        core: InferenceServer,
        model: TextModel,
        request: InferenceRequest,
        options: Mapping[str, Any],
        metrics: TokenMetrics,
    ) -> None:
        self.finish_reason = ""
        self.tool_calls: list[Any] | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        #: whether a stop sequence ended the text
        self.stopped = False
        self._core = core
        self._model = model
        self._request = request
        self._stops = StopTexts(options.get("stop") or ())
        self._gives_log_probabilities = bool(options.get("logprobs"))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()  # guards the next three, which the model's thread and the loop change
        self._came: deque[InferenceResponse] = deque()
        self._unread = 0
        #: the client does not read its responses
        self._is_overrun = False
        self._has_failed = False
        self._left = False
        self._tokens = TokenRequest(metrics, model.outputs[TEXT].name, monotonic_ns())
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def start(self, version: ModelVersion) -> None:
        """Send the request. Raises TritonError; then nothing was executed."""
        self._request.on_response = self._on_response
        self._core.infer(self._request, version)

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        self._count(response)
        with self._lock:
            was_overrun = self._is_overrun
            if not was_overrun:
                self._unread += _size(response)
                self._came.append(response)
                if self._unread > self._core.max_unread_size > 0 and len(self._came) > 1:
                    self._is_overrun = True
                    self._came.clear()
        if self._is_overrun and not was_overrun:
            self.cancel()
        with contextlib.suppress(RuntimeError):  # the endpoint was stopped
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _count(self, response: InferenceResponse) -> None:
        now = monotonic_ns()
        self._has_failed |= response.error is not None
        if not response.empty and response.error is None:
            self._tokens.take(response, now)
        if response.final and not (self._has_failed or self._left):
            self._tokens.end(response, now)

    def cancel(self) -> None:
        """Cancel the request; its responses still come."""
        self._request.cancel()

    def leave(self) -> None:
        """Cancel the request, whose client is gone, and end `pieces` at once."""
        self._left = True
        self.cancel()
        self._arrived.set()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Return the answer piece by piece, up to a stop sequence. Raises OpenAIError for an error of the model, and
        for a client that leaves too much unread."""
        final = False
        while not (final or self._left):
            while not self._is_ready:
                self._arrived.clear()
                if not self._is_ready:
                    await self._arrived.wait()
            if self._left:
                return
            with self._lock:
                if self._is_overrun:
                    raise OpenAIError(too_much_unread(self._core.max_unread_size), 400)
                response = self._came.popleft()
                self._unread -= _size(response)
            final = response.final
            if response.empty or self.stopped:
                continue  # after a stop sequence only the end counts
            piece = self._read(response)
            if piece.text:
                piece.text, self.stopped = self._stops.feed(piece.text)
                if self.stopped:
                    self.cancel()
            if piece.text or piece.log_probabilities:
                yield piece
        if self.stopped:
            self.finish_reason = "stop"
        elif rest := self._stops.rest() + self._decoder.decode(b"", True):
            yield Piece(rest)

    @property
    def _is_ready(self) -> bool:
        return bool(self._came) or self._left or self._is_overrun

    def _read(self, response: InferenceResponse) -> Piece:
        if response.error is not None:
            raise OpenAIError.from_triton(response.error)
        found = {
            key: response.outputs[form.name].to_host()
            for key, form in self._model.outputs.items()
            if form.name in response.outputs
        }
        texts = {key: _join(tensor.numpy()) for key, tensor in found.items() if tensor.datatype.name == "BYTES"}
        if reason := texts.get("finish_reason"):
            self.finish_reason = reason.decode("utf-8", "replace")
        if calls := texts.get("tool_calls"):
            self.tool_calls = (self.tool_calls or []) + _json_list(calls, "tool_calls")
            self.finish_reason = "tool_calls"
        for key in ("num_input_tokens", "num_output_tokens"):
            if key in found:
                count = int(found[key].numpy().sum())
                if key == "num_input_tokens":
                    self.input_tokens = count
                else:
                    self.output_tokens = (self.output_tokens or 0) + count
        piece = Piece(self._decoder.decode(texts.get(TEXT, b"")))
        if self._gives_log_probabilities and "logprobs" in found:
            given = texts.get("logprobs")
            values = found["logprobs"].numpy().ravel().tolist() if given is None else _json_list(given, "logprobs")
            piece.log_probabilities = read_log_probabilities(values, piece.text)
        return piece


def _size(response: InferenceResponse) -> int:
    return OVERHEAD + sum(tensor.byte_size for tensor in response.outputs.values())


def _join(array: Any) -> bytes:
    return b"".join(each if isinstance(each, bytes) else str(each).encode() for each in array.ravel())


def _json_list(text: bytes, name: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise OpenAIError(f"the model's output '{name}' is not a JSON list", 500)
    return found


def read_log_probabilities(values: Sequence[Any], text: str) -> list[dict[str, Any]]:
    """Return tokens with their logarithms of probabilities, in the form of OpenAI's chat.

    values: numbers, one for each token, of which a single one has the whole text; or objects of vLLM's backend, one for
    each token: token id -> `{"logprob": ..., "decoded_token": ...}`, the chosen token first.
    """
    found = []
    for value in values:
        if isinstance(value, Mapping):
            options = [
                _token(str(each.get("decoded_token", "")), float(each.get("logprob", 0.0)))
                for each in value.values()
                if isinstance(each, Mapping)
            ]
            if options:
                found.append({**options[0], "top_logprobs": options[1:]})
        else:
            found.append({**_token(text if len(values) == 1 else "", float(value)), "top_logprobs": []})
    return found


def _token(text: str, value: float) -> dict[str, Any]:
    return {"token": text, "logprob": value, "bytes": list(text.encode())}


def send(
    core: InferenceServer, version: ModelVersion, model: TextModel, options: Mapping[str, Any], metrics: TokenMetrics
) -> Generation:
    """Send the request for one answer and return it. options: OpenAI's, with the prompt. Raises OpenAIError."""
    request = InferenceRequest(model.name, model.tensors(options))
    request.parameters = dict(model.parameters(options)) or None
    found = Generation(core, model, request, options, metrics)
    try:
        found.start(version)
    except TritonError as error:
        raise OpenAIError.from_triton(error) from None
    return found
