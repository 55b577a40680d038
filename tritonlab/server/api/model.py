"""This module has the handle on a model of a server in this process: it tells what the model is and how it does, and
sends it requests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, Unpack

from numpy.typing import NDArray

from ...core.infer_request import InferenceRequest
from ...core.instrument import Instruments
from ...core.model_config import print_pbtxt, to_dict
from ...core.status import InternalError, TritonError, UnsupportedError
from ...ipc.interrupts import shielded
from ...ipc.stub_log import LogRecord
from ..inference_server import InferenceServer
from ..models.model_lifecycle import ModelVersion
from .model_signature import HelpOfModel, SignatureOfModel, spelt_out
from .request_check import check_said
from .request_maker import RequestFields, make_request, make_tensors
from .response_iterator import AsyncResponseIterator, ResponseIterator

_Asked: TypeAlias = tuple[InferenceRequest, ModelVersion | None]


class Host(Protocol):
    """Names the part of `Server` that its models need."""

    #: (model, input) pairs whose cast of lists was warned of
    casts: set[tuple[str, str]]

    @property
    def core(self) -> InferenceServer: ...

    @property
    def instruments(self) -> Instruments: ...

    def model(self, name: str, version: int = -1) -> Model: ...

    def logs(self, model: str | None = None) -> list[LogRecord]: ...


class Model:
    """A handle on a model of a server is cheap: it looks the model up at each use, so it follows reloads."""

    __signature__ = SignatureOfModel()
    __doc__ = HelpOfModel(__doc__)
    #: opens a view of a model; handed in by `runtime`, as notebooks are above this
    viewer: ClassVar[Callable[[Any, str], Any] | None] = None

    def __init__(self, server: Host, name: str, version: int = -1) -> None:
        self._server = server
        self._core = server.core
        self.name = name
        self.version = version

    def _found(self) -> ModelVersion:
        return self._core.find(self.name, self.version)

    def _version(self) -> str:
        """Returns the version as clients write it."""
        return "" if self.version == -1 else str(self.version)

    @property
    def server(self) -> Host:
        return self._server

    @property
    def state(self) -> str:
        """Returns LOADING, READY, UNLOADING, UNAVAILABLE, or UNKNOWN for a model that was never loaded."""
        return self._state()[0]

    @property
    def reason(self) -> str:
        """Returns why the model is UNAVAILABLE; empty if nothing is wrong."""
        return self._state()[1]

    def _state(self) -> tuple[str, str]:
        model = self._core.model(self.name)
        if model is None:
            return "UNKNOWN", ""
        number = self.version
        if number == -1:
            number = max([*model.versions, *model.ended], default=-1) if not model.versions else max(model.versions)
        if number in model.versions:
            return model.versions[number].state.value, model.versions[number].reason
        state, reason = model.ended.get(number, (None, ""))
        return (state.value if state is not None else "UNKNOWN"), reason

    @property
    def directory(self) -> Path:
        """Returns the model directory that the running version was read from."""
        return self._found().files.directory

    @property
    def load_ns(self) -> int:
        """Returns how many nanoseconds it took to load the running version."""
        return self._found().load_ns

    def ready(self) -> bool:
        """Tells whether the model can answer now: it is READY, its stubs are alive, and its own `is_ready()` agrees."""
        try:
            return self._found().ready()
        except TritonError:
            return False

    def metadata(self) -> dict[str, Any]:
        """Returns the name, READY versions, platform, inputs and outputs, with the shapes that a client sends (rule
        6.1.2).
        """
        return self._core.facts.model_metadata(self.name, self._version())

    def config(self) -> dict[str, Any]:
        """Returns the complete configuration in the JSON form that Triton's config endpoint prints (rule 5.2)."""
        return to_dict(self._found().config)

    def config_pbtxt(self) -> str:
        """Returns the complete configuration as the text of a config.pbtxt."""
        return print_pbtxt(self._found().config)

    def statistics(self) -> dict[str, Any]:
        """Returns the statistics of rule 5.12.1; times are nanoseconds."""
        return self._core.facts.statistics(self.name, self._version())

    def instances(self) -> list[dict[str, Any]]:
        """Returns each instance's name, kind, device, process id, state, restarts and the reason of its last death.

        If an instance does not run, `failure` says why, and `next_try` in how many seconds it is started again.
        """
        now = self._core.clock.now()
        return [
            {
                "name": instance.plan.name,
                "kind": instance.plan.kind,
                "device_id": instance.plan.device_id,
                "pid": instance.pid,
                "state": instance.state.value,
                "restarts": instance.replacement.count,
                "last_death": instance.replacement.last_death,
                "failure": instance.replacement.failure,
                "next_try": _seconds_until(instance.replacement.next_try, now),
            }
            for instance in self._found().instances
        ]

    def called(self) -> list[str]:
        """Returns the names of the models that its BLS calls have named since it was loaded, loaded or not, in
        alphabetical order.
        """
        return sorted(set().union(*(instance.called for instance in self._found().instances)))

    def logs(self) -> list[LogRecord]:
        return self._server.logs(self.name)

    def stacks(self, timeout: float = 2.0) -> dict[str, str]:
        """Returns by instance name the Python stacks of what each instance's threads and coroutines are doing now.

        The text is empty for an instance that did not answer within `timeout` seconds: it is being restarted, or C code
        holds its interpreter.
        """
        stubs = {instance.plan.name: instance.stub for instance in self._found().instances}
        return {name: stub.dump_stacks(timeout) if stub is not None else "" for name, stub in stubs.items()}

    def view(self, kind: str = "timeline") -> Any:
        """Returns what a notebook shows of what the model does and did: `timeline` (its batches and why they
        closed), `streams` (the responses of a decoupled one, and what has not ended), `metrics`
        or `memory` (of its instances, and the --shm-size that Triton needs for the same).

        It moves while a cell shows it; `text()` states the facts, `figure()` is an SVG."""
        if Model.viewer is None:
            raise UnsupportedError("views need `import tritonlab`")
        return Model.viewer(self, kind)

    def expected_shape(self, name: str) -> str:
        """Returns the shape that a client must send for an input, with the batch dimension; -1 is any size."""
        return self._found().rules.expected_shape(name)

    # -- inference

    @spelt_out(RequestFields)
    def create_request(self, **fields: Unpack[RequestFields]) -> InferenceRequest:
        """Makes a request for `infer`. A list that is cast to the input's datatype brings a warning, once, because
        Triton reads lists as numpy does.
        """
        return self._asked(None, fields)[0]

    def _asked(self, request: InferenceRequest | None, fields: RequestFields) -> _Asked:
        """Returns the given request, or makes one for the version that is there. Only the function that the user calls
        may call this, because warnings point at its caller.
        """
        if request is not None:
            check_said(request)
            return request, None
        found = self._found()
        return make_request(self, found.rules.input_types, fields, self._server.casts), found

    @spelt_out(RequestFields)
    def infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> ResponseIterator:
        """Starts a request (given, or made of the arguments of `create_request`) and returns the iterator over its
        responses.

        Raises TritonError at once if the request is refused. `enable_empty_final_response`: also yield a final response
        that carries nothing but its flag (gRPC's `triton_enable_empty_final_response`). `raise_on_error`: the iterator
        raises a response's error instead of yielding it.
        """
        request, found = self._asked(request, fields)
        iterator = ResponseIterator(request, raise_on_error, enable_empty_final_response, self._core.explain)
        return self._start(self._core.infer, iterator, found)

    @staticmethod
    def _start(infer: Callable[..., None], iterator: ResponseIterator, found: ModelVersion | None) -> ResponseIterator:
        request = iterator.request
        try:
            shielded(infer, request, found)
        except KeyboardInterrupt:
            try:
                iterator.interrupted()
            finally:
                request.cancel()  # nobody would get the iterator
        return iterator

    @spelt_out(RequestFields)
    def async_infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> AsyncResponseIterator:
        """Starts a request as `infer` does, for asyncio: `async for response in model.async_infer(…)`. Call it on the
        running loop.
        """
        request, found = self._asked(request, fields)
        iterator = AsyncResponseIterator(request, raise_on_error, enable_empty_final_response)
        shielded(self._core.infer, request, found)
        return iterator

    def __call__(self, /, **inputs: Any) -> dict[str, NDArray[Any]]:
        """Sends one request and returns its one answer: `model(INPUT0=a, INPUT1=b)["OUTPUT0"]`. BYTES outputs are
        object arrays of `bytes`.

        Raises the model's or the request's TritonError; UnsupportedError for a decoupled model, which may answer any
        number of times. An interrupt cancels the request and says where the model was (RequestInterrupted).
        """
        found = self._found()
        if found.rules.decoupled:
            instead = f": iterate over model.infer(inputs={{…}}) of '{self.name}' instead"
            raise found.rules.refusal_of_single("ModelInfer RPC", instead)
        # no warning of lists: only notebooks have this form, no program for Triton has it
        tensors = make_tensors(inputs, found.rules.input_types)
        request = InferenceRequest(self.name, tensors, model_version=self.version)
        try:
            iterator = ResponseIterator(request, True, False, self._core.explain)
            response = next(self._start(self._core.infer_here, iterator, found), None)
        except KeyboardInterrupt:
            request.cancel()  # nobody can get its answer any more
            raise
        if response is None:
            raise InternalError(f"model '{self.name}' ended the request without a response")
        return {name: tensor.numpy() for name, tensor in response.outputs.items()}

    def __repr__(self) -> str:
        version = "" if self.version == -1 else f"/{self.version}"
        return f"<Model {self.name}{version} [{self.state}]>"


def _seconds_until(when: int | None, now: int) -> float | None:
    return max(when - now, 0) / 1e9 if when is not None else None
