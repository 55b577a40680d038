"""A stub may ask the server for these things, one row per call of the COMMANDS table."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..core.metrics import MetricRegistry
from ..core.status import InternalError, TritonError
from ..ipc.stub_connection import StubConnection
from ..stub._pb_stub.wire.ipc_message import NUMBER
from .model_instance import ModelInstance
from .request_executor import RequestExecutor

_log = logging.getLogger(__name__)

_REPLY = NUMBER["REPLY"]


class ModelControl(Protocol):
    """The server's model control, as a model may use it (rule 1.15)."""

    def load(self, name: str, config: str | None = None, files: dict[str, bytes] | None = None) -> object: ...

    def unload(self, name: str, unload_dependents: bool = False, wait: bool = True) -> None: ...

    def model_ready(self, name: str, version: str) -> bool: ...


class StubCalls:
    """Answers calls. Quick ones on the thread that read them; model control on a thread of its own, since it waits.

    Guarantees: what was made over a link ends with it (`end`): the metric families of a stub that died, was unloaded or
    replaced vanish from /metrics.
    """

    def __init__(self, metrics: MetricRegistry, executor: RequestExecutor, control: ModelControl) -> None:
        self._metrics = metrics
        self._executor = executor
        self._control = control
        self._lock = threading.Lock()  # guards _families
        self._families: dict[StubConnection, set[int]] = {}
        self._special: dict[int, Callable[[ModelInstance, StubConnection, int, Any], None]] = {
            NUMBER["INFER"]: executor.start,
            NUMBER["INFER_CANCEL"]: lambda instance, link, ident, body: executor.cancel(link, ident),
        }
        self._quick: dict[int, Callable[[ModelInstance, StubConnection, Any], Any]] = {
            NUMBER["IS_CANCELLED"]: self._is_cancelled,
            NUMBER["METRIC_FAMILY_NEW"]: self._new_family,
            NUMBER["METRIC_FAMILY_DEL"]: self._delete_family,
            NUMBER["METRIC_NEW"]: self._new_metric,
            NUMBER["METRIC_OP"]: lambda instance, link, body: metrics.operate(*body),
        }
        self._slow: dict[int, Callable[[ModelInstance, StubConnection, Any], Any]] = {
            NUMBER["LOAD_MODEL"]: self._load,
            NUMBER["UNLOAD_MODEL"]: lambda instance, link, body: control.unload(body[0], body[1], wait=False),
            NUMBER["IS_MODEL_READY"]: lambda instance, link, body: control.model_ready(*body),
        }

    def __call__(self, instance: ModelInstance, link: StubConnection, command: int, ident: int, body: Any) -> None:
        if command in self._special:
            self._special[command](instance, link, ident, body)
        elif command in self._quick:
            self._answer(instance, link, ident, self._quick[command], body)
        else:
            threading.Thread(
                target=self._answer,
                args=(instance, link, ident, self._slow[command], body),
                name="model control",
                daemon=True,
            ).start()

    def end(self, link: StubConnection) -> None:
        """Ends what the process behind `link` made, since it has ended; harmless if called again."""
        with self._lock:
            families = self._families.pop(link, ())
        for family in families:
            self._metrics.delete_family(family)

    def _answer(
        self,
        instance: ModelInstance,
        link: StubConnection,
        ident: int,
        function: Callable[[ModelInstance, StubConnection, Any], Any],
        body: Any,
    ) -> None:
        try:
            outcome = [True, function(instance, link, body)]
        except TritonError as error:
            text = f"Failed to process the request for model '{instance.plan.name}', message: {error.message}"
            outcome = [False, {"text": text, "code": int(error.code)}]
        except Exception as error:
            _log.exception("a call of %r failed", instance)
            outcome = [False, {"text": f"{type(error).__name__}: {error}", "code": int(InternalError.code)}]
        if not link.lost:
            link.post(_REPLY, ident, outcome)

    @staticmethod
    def _is_cancelled(instance: ModelInstance, link: StubConnection, handle: int) -> bool:
        request = instance.inflight.get(handle)
        return request is not None and request.cancelled

    def _new_family(self, instance: ModelInstance, link: StubConnection, body: list[Any]) -> int:
        family = self._metrics.family(*body)
        with self._lock:
            self._families.setdefault(link, set()).add(family)
        if link.lost:
            self.end(link)
        return family

    def _new_metric(self, instance: ModelInstance, link: StubConnection, body: list[Any]) -> int:
        metric = self._metrics.metric(*body)
        buckets = self._metrics.buckets(metric)
        if body[2] is not None and buckets != body[2] and instance.stub is not None:
            # Triton says nothing, and the author wonders at /metrics
            labels, wanted = body[1], body[2]
            text = (
                f"the histogram with the labels {labels or {}} keeps its buckets {buckets} and does not get {wanted}: "
                "it was made before, perhaps by the version of the model that still serves. Unload that first."
            )
            instance.stub.log("server", "WARNING", text)
        return metric

    def _delete_family(self, instance: ModelInstance, link: StubConnection, body: list[Any]) -> None:
        with self._lock:
            self._families.get(link, set()).discard(body[0])
        self._metrics.delete_family(body[0])

    def _load(self, instance: ModelInstance, link: StubConnection, body: list[Any]) -> None:
        name, config, files = body
        contents = {path: base64.b64decode(data) for path, data in files.items()} if files else None
        self._control.load(name, config or None, contents)
