"""What a stub may ask of the server, one row per call of the COMMANDS table."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..core.metrics import MetricRegistry
from ..core.status import InternalError, TritonError
from ..stub._pb_stub.ipc_message import NUMBER
from .model_instance import ModelInstance
from .request_executor import RequestExecutor

_log = logging.getLogger(__name__)


class ModelControl(Protocol):
    """The server's model control, as a model may use it (rule 1.15)."""

    def load(self, name: str, config: str | None = None, files: dict[str, bytes] | None = None) -> object: ...

    def unload(self, name: str, unload_dependents: bool = False, wait: bool = True) -> None: ...

    def model_ready(self, name: str, version: str) -> bool: ...


class StubCalls:
    """Answers calls. Quick ones on the thread that read them; model control on a thread of its own, since it waits."""

    def __init__(self, metrics: MetricRegistry, executor: RequestExecutor, control: ModelControl) -> None:
        self._metrics = metrics
        self._executor = executor
        self._control = control
        self._quick: dict[int, Callable[[ModelInstance, Any], Any]] = {
            NUMBER["IS_CANCELLED"]: self._is_cancelled,
            NUMBER["METRIC_FAMILY_NEW"]: lambda instance, body: metrics.family(*body),
            NUMBER["METRIC_FAMILY_DEL"]: lambda instance, body: metrics.delete_family(*body),
            NUMBER["METRIC_NEW"]: lambda instance, body: metrics.metric(*body),
            NUMBER["METRIC_OP"]: lambda instance, body: metrics.operate(*body),
        }
        self._slow: dict[int, Callable[[ModelInstance, Any], Any]] = {
            NUMBER["LOAD_MODEL"]: self._load,
            NUMBER["UNLOAD_MODEL"]: lambda instance, body: control.unload(body[0], body[1], wait=False),
            NUMBER["IS_MODEL_READY"]: lambda instance, body: control.model_ready(*body),
        }

    def __call__(self, instance: ModelInstance, command: int, ident: int, body: Any) -> None:
        if command == NUMBER["INFER"]:
            assert instance.stub is not None
            self._executor.start(instance, instance.stub.link, ident, body)
        elif command == NUMBER["INFER_CANCEL"]:
            assert instance.stub is not None
            self._executor.cancel(instance.stub.link, ident)
        elif command == NUMBER["INFER_WAIT"]:
            assert instance.stub is not None
            self._executor.wait(instance.stub.link, ident, body)
        elif command in self._quick:
            self._answer(instance, ident, self._quick[command], body)
        else:
            threading.Thread(
                target=self._answer,
                args=(instance, ident, self._slow[command], body),
                name="model control",
                daemon=True,
            ).start()

    def _answer(
        self, instance: ModelInstance, ident: int, function: Callable[[ModelInstance, Any], Any], body: Any
    ) -> None:
        try:
            outcome = [True, function(instance, body)]
        except TritonError as error:
            text = f"Failed to process the request for model '{instance.plan.name}', message: {error.message}"
            outcome = [False, {"text": text, "code": int(error.code)}]
        except Exception as error:
            _log.exception("a call of %r failed", instance)
            outcome = [False, {"text": f"{type(error).__name__}: {error}", "code": int(InternalError.code)}]
        instance.reply(ident, outcome)

    @staticmethod
    def _is_cancelled(instance: ModelInstance, handle: int) -> bool:
        request = instance.inflight.get(handle)
        return request is not None and request.cancelled

    def _load(self, instance: ModelInstance, body: list[Any]) -> None:
        name, config, files = body
        contents = {path: base64.b64decode(data) for path, data in files.items()} if files else None
        self._control.load(name, config or None, contents)
