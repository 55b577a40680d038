"""The client of tritonlab: in this process, through the API a notebook uses."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

import tritonlab
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import ModelLoadError, TritonError

from .clients import DEADLINE, PLAIN, Answer, Client, Failure, Inputs, Logged, Options, Pending, Raw, to_array


class LabClient(Client):
    """tritonlab in this process, through the API a notebook uses. With TRITONLAB_TEST_WARM=0 every stub is a new
    process."""

    side = "lab"

    def __init__(self, repository: Path, **options: Any) -> None:
        super().__init__(repository)
        warm = int(text) if (text := os.environ.get("TRITONLAB_TEST_WARM")) else None
        self.server = tritonlab.Server(repository, **{"model_control_mode": "explicit", "warm": warm, **options})

    def close(self) -> None:
        self.server.stop()

    def load(self, name: str, config: str | None = None, files: Mapping[str, bytes] | None = None) -> Failure | None:
        try:
            self.server.load(name, config, dict(files) if files else None)
        except TritonError as error:
            return self._failure(error)
        return None

    def unload(self, name: str, dependents: bool = False) -> Failure | None:
        try:
            self.server.unload(name, unload_dependents=dependents, wait=False)
        except TritonError as error:
            return self._failure(error)
        return None

    def _failure(self, error: TritonError) -> Failure:
        reason = error.reason if isinstance(error, ModelLoadError) else error.message
        reason = re.sub(r"^Poll failed for model directory '[^']*': ", "", reason)
        return Failure(error.code.name, self.plain(error.message), self.plain(reason))

    def ready(self, name: str = "", version: int = -1) -> bool:
        if not name:
            return bool(self.server.ready())
        try:
            return bool(self.server.model(name, version).ready())
        except TritonError:
            return False

    def index(self, ready: bool = False) -> list[dict[str, Any]]:
        return list(self.server.index(ready))

    def config(self, name: str, version: int = -1) -> dict[str, Any] | Failure:
        return self._of_model(name, version, lambda model: model.config())

    def metadata(self, name: str = "", version: int = -1) -> dict[str, Any] | Failure:
        return self._of_model(name, version, lambda model: model.metadata()) if name else dict(self.server.metadata())

    def statistics(self, name: str, version: int = -1) -> list[dict[str, Any]] | Failure:
        found = self._of_model(name, version, lambda model: model.statistics())
        return found if isinstance(found, Failure) else list(found["model_stats"])

    def _of_model(self, name: str, version: int, read: Callable[[Any], dict[str, Any]]) -> dict[str, Any] | Failure:
        try:
            return read(self.server.model(name, version))
        except TritonError as error:
            return self._failure(error)

    def metrics(self) -> str:
        return str(self.server.metrics())

    def log(self) -> str:
        return self.plain("\n".join(record.text for record in self.server.logs()))

    def logged(self, message: str) -> list[Logged]:
        letters = {"INFO": "I", "WARNING": "W", "ERROR": "E", "VERBOSE": "I"}
        records = [r for r in self.server.logs() if r.stream == "log" and r.text == message]
        return [Logged(letters[r.level], r.file.rsplit("/", 1)[-1], r.line) for r in records]

    def log_verbosely(self, on: bool) -> None:
        """Do nothing: the server keeps every record with its level, and who shows them chooses."""

    def _responses(self, model: str, inputs: Inputs, options: Options) -> Any:
        return self.server.model(model, options.version).infer(
            raise_on_error=False,
            enable_empty_final_response=True,
            inputs={name: _tensor(value) if isinstance(value, Raw) else value for name, value in inputs.items()},
            request_id=options.request_id,
            correlation_id=options.correlation_id,
            flags=options.flags,
            priority=options.priority,
            timeout=options.timeout,
            parameters=dict(options.parameters),
            requested_outputs=tuple(options.outputs),
        )

    def _answers(self, responses: Iterator[InferenceResponse]) -> list[Answer]:
        answers = []
        for response in responses:
            answer = Answer(
                request_id=response.request_id,
                model=response.model_name,
                version=str(response.model_version),
                parameters=dict(response.parameters),
                final=response.final,
            )
            if response.error is not None:
                answer.error, answer.code = self.plain(response.error.message), response.error.code.name
            for name, tensor in response.outputs.items():
                answer.outputs[name] = to_array(tensor.datatype.name, tuple(tensor.shape), tensor.data.tobytes())
                answer.datatypes[name] = tensor.datatype.name
            answers.append(answer)
        return answers

    def submit(self, model: str, inputs: Inputs, options: Options = PLAIN) -> Pending:
        answer: Future[Answer] = Future()
        try:
            responses = self._responses(model, inputs, options)
        except TritonError as error:
            answer.set_result(Answer(error=self.plain(error.message), code=error.code.name))
            return Pending(answer, lambda: None)
        waiter = threading.Thread(target=lambda: self._settle(answer, responses), daemon=True)
        waiter.start()
        return Pending(answer, responses.cancel)

    def in_order(self, model: str, requests: Sequence[tuple[Inputs, Options]]) -> list[Answer]:
        pending = [self.submit(model, inputs, options) for inputs, options in requests]
        return [p.answer.result(DEADLINE) for p in pending]

    def _settle(self, answer: Future[Answer], responses: Iterator[InferenceResponse]) -> None:
        try:
            answer.set_result(self._single(self._answers(responses)))
        except BaseException as error:
            answer.set_exception(error)

    @staticmethod
    def _single(answers: list[Answer]) -> Answer:
        """Return the one answer of a model that is not decoupled; a separate empty final is the protocol's, not an
        answer."""
        found = [a for a in answers if a.outputs or a.error] or answers
        assert len(found) == 1, found
        return found[0]

    def stream(self, model: str, inputs: Inputs, options: Options = PLAIN) -> list[Answer]:
        try:
            responses = self._responses(model, inputs, options)
        except TritonError as error:
            return [Answer(error=self.plain(error.message), code=error.code.name)]
        answers: list[Answer] = []
        waiter = threading.Thread(target=lambda: answers.extend(self._answers(responses)), daemon=True)
        waiter.start()
        waiter.join(DEADLINE)
        return answers or [Answer(code="DEADLINE")]


def _tensor(raw: Raw) -> Tensor:
    datatype = DataType[raw.datatype]
    size = datatype.byte_size
    dtype = datatype.numpy if size and len(raw.data) % size == 0 else np.dtype(np.uint8)
    return Tensor(datatype, tuple(raw.shape), np.frombuffer(raw.data, dtype=dtype))
