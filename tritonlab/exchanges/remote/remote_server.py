"""Servers elsewhere: `connect("host:port")` reaches any server with KServe's protocol, version 2, over HTTP or gRPC.

A model there takes requests and returns an `Exchange`, as tritonlab's own models do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
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
from ...tool_table import tool_function
from ..exchange import Exchange, PhaseTimes, addressed, collect
from ..http_document import version_text
from .http_link import HttpLink
from .port_forward import PortForward
from .transport import Tls, Transport

if TYPE_CHECKING:
    from ...server.api.model import Model as ServedModel
    from ...tools.capture.push.push_result import Push
    from .grpc_link import GrpcLink

    Link = HttpLink | GrpcLink

#: Seconds to find out which protocol a server has.
_FIND_SECONDS = 3.0
#: Seconds for a model to load.
_LOAD_SECONDS = 600.0
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
    token: str = "",
    timeout: float = 60.0,
    ca: str | PathLike[str] | None = None,
    certificate: str | PathLike[str] | None = None,
    key: str | PathLike[str] | None = None,
    server_name: str = "",
    kubernetes: Mapping[str, Any] | None = None,
    verify: bool = True,
    advise: Advise = no_advice,
    find_model: Callable[[str], Any] | None = None,
) -> RemoteServer:
    """Connect to a server, as `tritonlab.connect` does.

    advise: returns the `fix` of the server's errors. find_model: returns a model of the notebook by its name.
    """
    if verify is not True:
        raise ValueError(
            "every certificate is checked: give the server's own certificate, or that of its authority, as `ca` "
            "(`openssl s_client -showcerts -connect HOST:PORT` prints it; compare it with its owner's)"
        )
    scheme, _, place = address.rpartition("://")
    scheme, place = scheme.lower(), place.rstrip("/")
    kinds = _kinds(scheme, has_tls=any((ca, certificate, key, server_name)))
    tls = Tls.from_options(ca, certificate, key, server_name) if kinds[0].endswith("s") else None
    if kubernetes is not None and scheme != "kube":
        raise ValueError("`kubernetes` is for addresses of the form kube://namespace/service:port")
    if token and any(name.lower() == "authorization" for name in headers or ()):
        raise ValueError("give either `token` or the header 'authorization', not both")
    sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    transport = Transport(place, sent, timeout, tls)
    forward = None
    if scheme == "kube":
        forward = PortForward(place, kubernetes or {})
        transport = replace(transport, address=forward.address, shown=f"kube://{place}")
    try:
        link = _find_link(transport, kinds)
    except BaseException:
        if forward is not None:
            forward.close()
        raise
    return RemoteServer(link, advise, find_model, forward)


def _kinds(scheme: str, has_tls: bool) -> list[str]:
    """Return the protocols to try. Raises ValueError for an unknown scheme, or options of TLS without it."""
    if scheme in ("", "kube"):
        return ["https", "grpcs"] if has_tls else ["http", "grpc"]
    if scheme not in ("http", "grpc", "https", "grpcs"):
        raise ValueError(f"'{scheme}' is neither http nor grpc, https, grpcs or kube")
    if has_tls and not scheme.endswith("s"):
        raise ValueError(f"{scheme}:// has no certificates: write {scheme}s://")
    return [scheme]


def _find_link(transport: Transport, kinds: Sequence[str]) -> Link:
    """Return the way to the server over the first protocol that it has. Raises UnavailableError if it has none."""
    protocols = {"http": ("HTTP", HttpLink), "grpc": ("gRPC", _grpc_link)}
    tried = []
    for kind in kinds:
        protocol, make = protocols[kind.removesuffix("s")]
        link: Link = make(transport)
        if link.live(min(transport.timeout, _FIND_SECONDS)):
            return link
        link.close()
        tried.append(protocol)
    reasons = dict.fromkeys(transport.find_reason(protocol) for protocol in tried)
    reason = next(filter(None, reasons), "")
    words = " nor over ".join(tried) + (" with TLS" if transport.tls is not None else "")
    raise UnavailableError(f"no server answers at {transport.name}, over {words}" + (f": {reason}" if reason else ""))


def _grpc_link(transport: Transport) -> Link:
    """Make the way over gRPC. gRPC is imported only here, so that HTTP works without it."""
    from .grpc_link import GrpcLink

    return GrpcLink(transport)


class RemoteServer(ProcessBound):
    """A server elsewhere. Close it, or use it in `with`."""

    _elsewhere = _ELSEWHERE

    def __init__(
        self, link: Link, advise: Advise, find_model: Callable[[str], Any] | None, forward: PortForward | None
    ) -> None:
        """forward: the port of this machine that leads there, which `close` closes."""
        self._link = link
        self._advise = advise
        self._find_model = find_model
        self._forward = forward
        self.address = link.address
        self.protocol = link.protocol

    def metadata(self) -> dict[str, Any]:
        """Return the server's name, version and extensions."""
        return self._link.server()

    def model(self, name: str, version: int = -1) -> RemoteModel:
        return RemoteModel(self._link, name, version, self._advise)

    def index(self) -> list[dict[str, Any]]:
        """Return the rows of the repository index: `name`, `version`, `state` and `reason` of each version."""
        return self._link.index()

    def load(
        self,
        name: str,
        config: str | None = None,
        files: Mapping[str, bytes] | None = None,
        *,
        timeout: float = _LOAD_SECONDS,
    ) -> None:
        """Load a model of the server's repository, and wait until it is READY; `push` loads one of this notebook.

        config: its configuration in JSON. files: contents by the path in the model directory, in place of all of its
        files; they need a `config`. timeout: seconds.

        Raises the server's TritonError; a version that served before serves on.
        """
        self._link.load(name, config, files or {}, timeout)

    def unload(self, name: str) -> None:
        """Unload a model. It returns before its requests have ended. Raises the server's TritonError."""
        self._link.unload(name)

    def push(
        self,
        model: ServedModel | str,
        *,
        targets: Sequence[RemoteServer] = (),
        proof: Any = None,
        timeout: float = _LOAD_SECONDS,
        say: Callable[[str], object] = lambda text: None,
    ) -> Push:
        """Load a model of this notebook on the server, in place of its own of that name, and prove it there.

        The files that an export would write are sent with the configuration; the server's repository stays as it is,
        so a restart of the server ends a push. Meanwhile the former model answers. If the load fails, a request of the
        proof has another answer, or another model stops serving, the former model is loaded again. `undo()` of the
        result does this later. The server needs `--model-control-mode=explicit`.

        Args:
            model: the model, or its name.
            targets: further servers, one after the other; the first that fails ends the push, and is undone as those
                before it are.
            proof: requests with their answers: the cases of this model in the notebook's golden set (None), of another
                `GoldenSet` or its directory, of a capture or its path, or `"last"`, the last requests to it here; False
                sends none.
            timeout: seconds for each load.
            say: called with each step in words.

        Returns the result for all servers, whose `ok` is False after a failure.

        Raises UnsupportedError, before anything is changed, for a model that cannot be pushed, and for a server that
        does not allow its control.
        """
        if isinstance(model, str):
            if self._find_model is None:
                raise TypeError("give the model itself: a name is one of a notebook's, to tritonlab.connect()")
            model = self._find_model(model)
        run: Callable[..., Push] = tool_function("RemoteServer.push")
        return run(self, model, targets=targets, proof=proof, timeout=timeout, say=say)

    def close(self) -> None:
        self._link.close()
        if self._forward is not None:
            self._forward.close()

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

    _elsewhere = _ELSEWHERE

    def __init__(self, link: Link, name: str, version: int, advise: Advise) -> None:
        self.link = link
        self._advise = advise
        self.name = name
        self.version = version

    def metadata(self) -> dict[str, Any]:
        return self.link.metadata(self.name, version_text(self.version))

    def config(self) -> dict[str, Any]:
        """Return the model's configuration. Raises TritonError for servers without configurations."""
        return self.link.config(self.name, version_text(self.version))

    def statistics(self) -> dict[str, Any]:
        return self.link.statistics(self.name, version_text(self.version))

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
            return self.link.config(name, version_text(self.version) if name == self.name else "")
        except TritonError:
            return None

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
    """Return the times of the only request counted between `before` and `after`; None if it was not exactly one."""
    if before is None or after is None or _moved(before, after, "queue", "count") != 1:
        return None
    return PhaseTimes(*(_moved(before, after, field.name, "ns") for field in fields(PhaseTimes)))


def _moved(before: Mapping[str, Any], after: Mapping[str, Any], name: str, unit: str) -> int:
    # gRPC's JSON writes 64-bit integers as text
    return int(after[name].get(unit, 0)) - int(before[name].get(unit, 0))
