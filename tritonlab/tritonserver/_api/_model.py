"""The handle on a model of a started server."""

from __future__ import annotations

from typing import Any, Protocol

from ...core.config.model_config import to_dict
from ...core.inference.infer_request import InferenceRequest as CoreRequest
from ...core.process_bound import ProcessBound
from ...ipc.link.interrupts import shielded
from .._c.triton_bindings import InvalidArgumentError
from .._c.triton_bindings import TRITONSERVER_ModelBatchFlag as ModelBatchFlag
from .._c.triton_bindings import TRITONSERVER_ModelTxnPropertyFlag as ModelTxnPropertyFlag
from ._checks import check_unsigned
from ._request import InferenceRequest
from ._response import AsyncResponseIterator, ResponseIterator
from ._running import RunningServer


class HasServer(Protocol):
    """A `Server`, or a `Model` of it."""

    @property
    def _server(self) -> Any: ...


class Model(ProcessBound):
    """A model by its name and version, -1 for the latest. Nothing is looked up before the handle is used. `state` and
    `reason` come from `Server.models`.
    """

    def __init__(
        self,
        server: HasServer,
        name: str,
        version: int = -1,
        state: str | None = None,
        reason: str | None = None,
    ) -> None:
        running = server._server
        if not isinstance(running, RunningServer):
            raise InvalidArgumentError("Server not started")
        self._server = running
        self.name = name
        self.version = version
        self.state = state
        self.reason = reason

    def _answering(self, version: int) -> Model:
        """Return a handle on the version that responded. NVIDIA's package changes the handle itself instead, which pins
        later requests to that version.
        """
        return Model(self, self.name, version)

    @property
    def _version(self) -> str:
        """Return the version in the core's form."""
        return "" if self.version == -1 else str(self.version)

    # -- inference

    def _request_from(self, request: InferenceRequest | None, fields: dict[str, Any]) -> InferenceRequest:
        if request is None:
            return InferenceRequest(self, **fields)
        if not isinstance(request, InferenceRequest):
            raise TypeError(
                f"inference_request must be an InferenceRequest, not {request!r}; inputs go by inputs={{…}}"
            )
        return request

    def create_request(self, **fields: Any) -> InferenceRequest:
        """Make a request for this model; `fields` are the fields of InferenceRequest."""
        fields.pop("model", None)
        return InferenceRequest(self, **fields)

    def infer(
        self, inference_request: InferenceRequest | None = None, raise_on_error: bool = True, **fields: Any
    ) -> ResponseIterator:
        """Send a request, given or made from `fields`, and return the iterator over its responses.

        With `raise_on_error` the iterator raises a response's error instead of returning the response. Raises
        TritonError or TypeError if the request is refused.
        """
        sent = self._request_from(inference_request, fields)
        request = sent._to_core()
        iterator = ResponseIterator(self, request, sent, raise_on_error)
        try:
            shielded(self._server.core.infer, request)
        except KeyboardInterrupt:
            request.cancel()  # the caller does not receive the iterator
            raise
        return iterator

    def async_infer(
        self, inference_request: InferenceRequest | None = None, raise_on_error: bool = True, **fields: Any
    ) -> AsyncResponseIterator:
        """Do what `infer` does, for asyncio."""
        sent = self._request_from(inference_request, fields)
        request: CoreRequest = sent._to_core()
        iterator = AsyncResponseIterator(self, request, sent, raise_on_error)
        shielded(self._server.core.infer, request)
        return iterator

    # -- the model's description

    def metadata(self) -> dict[str, Any]:
        return self._server.core.model_metadata(self.name, self._version)

    def ready(self) -> bool:
        """Return whether the model can be called; False for a missing model."""
        return self._server.core.model_ready(self.name, self._version)

    def batch_properties(self) -> ModelBatchFlag:
        config = self._server.core.model_config(self.name, self._version)
        return ModelBatchFlag.FIRST_DIM if config.max_batch_size > 0 else ModelBatchFlag.UNKNOWN

    def transaction_properties(self) -> ModelTxnPropertyFlag:
        config = self._server.core.model_config(self.name, self._version)
        decoupled = config.model_transaction_policy.decoupled
        return ModelTxnPropertyFlag.DECOUPLED if decoupled else ModelTxnPropertyFlag.ONE_TO_ONE

    def statistics(self) -> dict[str, Any]:
        return self._server.core.statistics(self.name, self._version)

    def config(self, config_version: int = 1) -> dict[str, Any]:
        """Return the complete configuration, in the form of Triton's config endpoint."""
        check_unsigned("config_version", config_version)
        found = self._server.core.model_config(self.name, self._version)
        if config_version != 1:
            raise InvalidArgumentError(
                f"model configuration version {config_version} not supported, supported versions are: 1"
            )
        return to_dict(found)

    def __repr__(self) -> str:
        return str({"name": self.name, "version": self.version, "state": self.state})
