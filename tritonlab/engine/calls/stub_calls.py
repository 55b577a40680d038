"""`StubCalls`, the answers to a stub's calls to the server, one method per call of the COMMANDS table."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.inference.infer_request import InferenceRequest
from ...core.metrics.metric_registry import MetricRegistry
from ...core.status import InternalError, TritonError
from ...ipc.link.stub_link import (
    DeviceMemory,
    Infer,
    InferCancel,
    IsCancelled,
    IsModelReady,
    LoadModel,
    MetricFamilyDel,
    MetricFamilyNew,
    MetricNew,
    MetricOp,
    Prompt,
    Resumed,
    StubLink,
    UnloadModel,
)
from ..debugging.debugger import Debugger
from ..life.model_instance import ModelInstance
from .request_executor import RequestExecutor

_log = logging.getLogger(__name__)


class StubCalls:
    """The answers to calls: quick ones on the thread that read them, model control on a thread of its own, since it
    waits.

    Guarantees: everything made over a link ends with it (`end`): the metric families of a stub that died, was unloaded
    or was replaced vanish from /metrics.
    """

    def __init__(
        self,
        metrics: MetricRegistry,
        executor: RequestExecutor,
        polled: Callable[[InferenceRequest], None],
        debugger: Debugger,
        *,
        load: Callable[[str, str | None, dict[str, bytes] | None], object],
        unload: Callable[[str, bool, bool], object],
        ready: Callable[[str, str], bool],
    ) -> None:
        """`polled` is called with each request whose model checks its cancellation; the last three are functions of the
        server, for models that control others (rule 1.15).
        """
        self._metrics = metrics
        self._polled = polled
        self._executor = executor
        self._load_model = load
        self._debugger = debugger
        self._lock = threading.Lock()  # guards _families
        self._families: dict[StubLink, set[int]] = {}
        self._special: dict[type[Any], Callable[[ModelInstance, StubLink, int, Any], None]] = {
            Infer: executor.start,
            InferCancel: lambda instance, link, ident, call: executor.cancel(link, ident),
            Prompt: lambda instance, link, ident, call: debugger.prompt(
                instance.debugged, instance.plan.source.model, link, call=ident, prompt=call
            ),
        }
        self._quick: dict[type[Any], Callable[[ModelInstance, StubLink, Any], Any]] = {
            IsCancelled: self._is_cancelled,
            DeviceMemory: lambda instance, link, call: link.devices.grant(call),
            Resumed: lambda instance, link, call: debugger.resumed(link, call),
            MetricFamilyNew: self._new_family,
            MetricFamilyDel: self._delete_family,
            MetricNew: self._new_metric,
            MetricOp: lambda instance, link, call: metrics.operate(call.metric, call.operation, call.number),
        }
        self._slow: dict[type[Any], Callable[[ModelInstance, StubLink, Any], Any]] = {
            LoadModel: self._load,
            UnloadModel: lambda instance, link, call: unload(call.name, call.dependents, False),
            IsModelReady: lambda instance, link, call: ready(call.name, call.version),
        }

    def __call__(self, instance: ModelInstance, link: StubLink, ident: int, call: Any) -> None:
        kind = type(call)
        if kind in self._special:
            self._special[kind](instance, link, ident, call)
        elif kind in self._quick:
            self._answer(instance, link, ident, function=self._quick[kind], call=call)
        else:
            threading.Thread(
                target=self._answer,
                args=(instance, link, ident, self._slow[kind], call),
                name="model control",
                daemon=True,
            ).start()

    def end(self, link: StubLink) -> None:
        """Remove everything made by the process behind `link`, which has ended. Calling it again is harmless."""
        self._debugger.end(link)
        with self._lock:
            families = self._families.pop(link, ())
        for family in families:
            self._metrics.delete_family(family)

    def _answer(
        self,
        instance: ModelInstance,
        link: StubLink,
        ident: int,
        function: Callable[[ModelInstance, StubLink, Any], Any],
        call: Any,
    ) -> None:
        try:
            value = function(instance, link, call)
        except TritonError as error:
            text = f"Failed to process the request for model '{instance.plan.name}', message: {error.message}"
            answer = partial(link.refuse, ident, text, int(error.code))
        except Exception as error:
            _log.exception("a call of %r failed", instance)
            answer = partial(link.refuse, ident, f"{type(error).__name__}: {error}", int(InternalError.code))
        else:
            answer = partial(link.reply, ident, value)
        if not link.lost:
            answer()

    def _is_cancelled(self, instance: ModelInstance, link: StubLink, call: IsCancelled) -> bool:
        request = instance.inflight.get(call.handle)
        if request is None:
            return False
        self._polled(request)
        return request.cancelled

    def _new_family(self, instance: ModelInstance, link: StubLink, call: MetricFamilyNew) -> int:
        model = instance.plan.source.model
        family = self._metrics.family(call.name, call.description, call.kind, model)
        with self._lock:
            self._families.setdefault(link, set()).add(family)
        if link.lost:
            self.end(link)
        return family

    def _new_metric(self, instance: ModelInstance, link: StubLink, call: MetricNew) -> int:
        metric = self._metrics.metric(call.family, call.labels, call.buckets)
        buckets = self._metrics.buckets(metric)
        if call.buckets is not None and buckets != call.buckets and instance.stub is not None:
            # Triton prints nothing, and /metrics puzzles the author
            text = (
                f"the histogram with the labels {call.labels} keeps its buckets {buckets} and does not get "
                f"{call.buckets}: it was made before, perhaps by the version of the model that still serves. Unload "
                "that first."
            )
            instance.stub.log("server", "WARNING", text)
        return metric

    def _delete_family(self, instance: ModelInstance, link: StubLink, call: MetricFamilyDel) -> None:
        with self._lock:
            self._families.get(link, set()).discard(call.family)
        self._metrics.delete_family(call.family)

    def _load(self, instance: ModelInstance, link: StubLink, call: LoadModel) -> None:
        contents = {path: base64.b64decode(data) for path, data in call.files.items()} if call.files else None
        self._load_model(call.name, call.config or None, contents)
