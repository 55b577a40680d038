"""Servers elsewhere: `connect("host:port")` reaches any server with KServe's protocol, version 2, over HTTP or gRPC.

A model there takes requests and returns an `Exchange`, as tritonlab's own models do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...core.explained import Explained, Explanation
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import Outputs
from ...core.inference.tensor import Tensor
from ...core.process_bound import ProcessBound
from ...core.status import InternalError, TritonError, UnavailableError
from ...server.api.load_tested import LoadTested
from ...server.api.replayable import Replayable
from ..exchange import Exchange, PhaseTimes, addressed, collect
from .http_link import HttpLink

if TYPE_CHECKING:
    from .grpc_link import GrpcLink

    Link = HttpLink | GrpcLink

#: Seconds to find out which protocol a server has.
_FIND_SECONDS = 3.0
#: Seconds to wait until the server has counted an answered request.
_SETTLE_SECONDS = 0.2
_ELSEWHERE = "call tritonlab.connect(ADDRESS, headers=…) in the other process, too"

#: Returns advice for the text of an error, "" if it has none; it may get a model's configuration by name.
Advise = Callable[[str, Callable[[str], dict[str, Any] | None]], str]


def no_advice(text: str, config_of: Callable[[str], dict[str, Any] | None]) -> str:
    """Return no advice."""
    return ""


def connect(
    address: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    advise: Advise = no_advice,
) -> RemoteServer:
    """Connect to a server.

    Args:
        address: `host:port`, `http://host:port` or `grpc://host:port`.
        headers: sent with every request, a token for example.
        timeout: seconds for each request.
        advise: returns the `fix` of the server's errors.

    Raises UnavailableError if no such server answers.
    """
    scheme, _, rest = address.rpartition("://")
    kinds = {"HTTP": _http_link, "gRPC": _grpc_link}
    if scheme:
        kinds = {protocol: kind for protocol, kind in kinds.items() if protocol.lower() == scheme.lower()}
        if not kinds:
            raise ValueError(f"'{scheme}' is neither http nor grpc")
    for kind in kinds.values():
        link = kind(rest.rstrip("/"), headers or {}, timeout)
        if link.live(min(timeout, _FIND_SECONDS)):
            return RemoteServer(link, advise)
        link.close()
    words = " nor over ".join(kinds)
    raise UnavailableError(f"no server answers at {rest}, over {words}")


def _http_link(*arguments: Any) -> Link:
    return HttpLink(*arguments)


def _grpc_link(*arguments: Any) -> Link:
    """Make the way over gRPC. gRPC is imported only here, so that HTTP works without it."""
    from .grpc_link import GrpcLink

    return GrpcLink(*arguments)


class RemoteServer(ProcessBound):
    """A server elsewhere. Close it, or use it in `with`."""

    elsewhere = _ELSEWHERE

    def __init__(self, link: Link, advise: Advise = no_advice) -> None:
        self._link = link
        self._advise = advise
        self.address = link.address
        self.protocol = link.protocol

    def metadata(self) -> dict[str, Any]:
        """Return the server's name, version and extensions."""
        return self._link.server()

    def model(self, name: str, version: int = -1) -> RemoteModel:
        return RemoteModel(self._link, name, version=version, advise=self._advise)

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> RemoteServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def to_dict(self) -> dict[str, Any]:
        """Return where the server is as JSON values."""
        return {"protocol": self.protocol, "address": self.address}

    def __repr__(self) -> str:
        return f"<RemoteServer {self.protocol} {self.address}>"


class RemoteModel(ProcessBound, LoadTested, Replayable):
    """A model of a server elsewhere."""

    elsewhere = _ELSEWHERE

    def __init__(self, link: Link, name: str, version: int = -1, advise: Advise = no_advice) -> None:
        self.link = link
        self._advise = advise
        self.name = name
        self.version = version

    def metadata(self) -> dict[str, Any]:
        return self.link.metadata(self.name, self._version())

    def config(self) -> dict[str, Any]:
        """Return the model's configuration. Raises TritonError for servers without configurations."""
        return self.link.config(self.name, self._version())

    def statistics(self) -> dict[str, Any]:
        return self.link.statistics(self.name, self._version())

    def send(self, request: InferenceRequest, decoupled: bool | None = None) -> Exchange:
        """Send `request` to this model, and wait for all of its responses.

        The outcome has the server's error, if there was one, and the server's own times, if it counts them and no other
        request comes meanwhile.
        """
        sent = addressed(request, self.name, self.version)
        decoupled = self._decoupled() if decoupled is None else decoupled
        before = self._counted()
        sent.request_start = time.monotonic_ns()
        found = collect(sent, self.link.send(sent, decoupled))
        for error in (found.error, *(response.error for response in found.responses)):
            if error is not None:
                error.explained_by = self._explain
        return replace(found, split=_split(before, self._counted_after(before)))

    def __call__(self, /, **inputs: Any) -> dict[str, NDArray[Any]]:
        """Send one request and return its one answer. Raises the server's TritonError."""
        types = {tensor["name"]: DataType[tensor["datatype"]] for tensor in self.metadata()["inputs"]}
        typed = {name: Tensor.from_any(value, types.get(name, DataType.INVALID)) for name, value in inputs.items()}
        tensors = {name: tensor.to_host() for name, tensor in typed.items()}
        outcome = self.send(InferenceRequest(self.name, tensors), decoupled=False)
        if outcome.error is not None:
            raise outcome.error
        if not outcome.arrivals:
            raise InternalError(f"model '{self.name}' did not answer")
        return Outputs({name: tensor.numpy() for name, tensor in outcome.outputs.items()})

    def _explain(self, error: Explained) -> Explanation:
        return Explanation(advice=self._advise(error.symptom(), self._config_of))

    def _config_of(self, name: str) -> dict[str, Any] | None:
        try:
            return self.link.config(name, self._version() if name == self.name else "")
        except TritonError:
            return None

    def _version(self) -> str:
        return str(self.version) if self.version != -1 else ""

    def _decoupled(self) -> bool:
        try:
            return bool(self.config().get("model_transaction_policy", {}).get("decoupled"))
        except TritonError:  # a server without configurations has no decoupled models either
            return False

    def _counted(self) -> Mapping[str, Any] | None:
        """Return Triton's counters of the model; None if the server has none."""
        try:
            (found,) = self.statistics()["model_stats"]
        except (TritonError, KeyError, ValueError):
            return None
        return dict(found["inference_stats"])

    def _counted_after(self, before: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the counters once they have moved, because Triton counts a request after it has answered it."""
        after = self._counted() if before is not None else None
        end = time.monotonic() + _SETTLE_SECONDS
        while before is not None and after is not None and time.monotonic() < end:
            if _moved(before, after, "queue", "count") or _moved(before, after, "fail", "count"):
                break
            time.sleep(0.01)
            after = self._counted()
        return after

    def to_dict(self) -> dict[str, Any]:
        """Return the model and its server as JSON values."""
        version = self.version if self.version != -1 else None
        return {"model": self.name, "version": version, "protocol": self.link.protocol, "address": self.link.address}

    def __repr__(self) -> str:
        return f"<RemoteModel {self.name} at {self.link.protocol} {self.link.address}>"


def _split(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> PhaseTimes | None:
    """Return the times of the one request that was counted between `before` and `after`; None if it was not exactly
    one.
    """
    if before is None or after is None or _moved(before, after, "queue", "count") != 1:
        return None
    return PhaseTimes(*(_moved(before, after, field.name, "ns") for field in fields(PhaseTimes)))


def _moved(before: Mapping[str, Any], after: Mapping[str, Any], name: str, unit: str) -> int:
    # gRPC's JSON writes 64-bit integers as text
    return int(after[name].get(unit, 0)) - int(before[name].get(unit, 0))
