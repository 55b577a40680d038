"""The handle on a model of a server in this process: its facts, its state, and requests to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

from numpy.typing import NDArray

from ...core.config.model_config import print_pbtxt, to_dict
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import Outputs
from ...core.observe.failure_capsule import FailureCapsule
from ...core.observe.instrument import Instruments
from ...core.process_bound import ProcessBound
from ...core.status import InternalError, InvalidArgumentError, ModelError, TritonError
from ...engine.life.model_stub import ModelStub
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...ipc.link.interrupts import shielded
from ...ipc.link.stub_link import Profiled, ReadsRecorded
from ...ipc.processes.stub_log import LogRecord
from ..inference_server import InferenceServer
from ..models.model_lifecycle import ModelVersion
from ..observe.why import Why
from .debugging import EditorAttach, attach_editor, follow_pauses, look_at_last_error
from .failures import KeptFailure, ModelFailures
from .model_signature import HelpOfModel, SignatureOfModel, with_field_parameters
from .request_check import check_fields
from .request_maker import RequestFields, make_request, make_tensors
from .response_iterator import AsyncResponseIterator, ResponseIterator

if TYPE_CHECKING:
    from ...figures.rows_table import RowsTable


class Host(Protocol):
    """The part of `Server` that models use."""

    @property
    def core(self) -> InferenceServer: ...

    @property
    def instruments(self) -> Instruments: ...

    def model(self, name: str, version: int = -1) -> Model: ...

    def logs(self, model: str | None = None) -> list[LogRecord]: ...

    def metrics(self, model: str = "") -> str: ...


class CalledOutputs(Outputs[Any]):
    """Arrays by the names of their outputs."""

    def table(self, **more: Any) -> RowsTable:
        """Return the outputs as a table with a row for each row of the batch. `more`: arrays for further columns, such
        as the inputs, before them. JupyterLab lets it sort, filter and save; `to_csv(path)` writes all of it.
        """
        from ...figures.rows_table import RowsTable

        return RowsTable({**more, **self})


_Resolved: TypeAlias = tuple[InferenceRequest, ModelVersion | None]


class Model(ProcessBound):
    """A model of a server, loaded or not. It is looked up at each use, so the handle follows reloads."""

    __signature__ = SignatureOfModel()
    __doc__ = HelpOfModel(__doc__)

    def __init__(self, server: Host, name: str, version: int = -1) -> None:
        self._server = server
        self._core = server.core
        self.name = name
        self.version = version

    def serving_version(self) -> ModelVersion:
        """Return the version that answers requests now. Raises NotFoundError, UnavailableError."""
        try:
            return self._core.find(self.name, self.version)
        except TritonError as error:
            self._explain(error)
            raise

    # Each caller catches errors itself: a context manager in its place takes 0.14 us more (timeit, 2 busy cores, Python
    # 3.11, 2026-11-26), and a request passes two or three of them, each with more moments for an interrupt.
    def _explain(self, error: TritonError) -> None:
        """Add further knowledge to an error before the author gets it; a notebook knows cells."""

    def _version(self) -> str:
        """Return the version as clients write it."""
        return "" if self.version == -1 else str(self.version)

    def versions(self) -> list[ModelVersion]:
        """Return the versions that serve, for views of their work."""
        model = self._core.model(self.name)
        return list(model.versions.values()) if model is not None else []

    @property
    def server_gpus(self) -> VisibleGpus:
        """The GPUs that its server may use."""
        return self._core.gpus

    @property
    def server(self) -> Host:
        return self._server

    @property
    def state(self) -> str:
        """Return LOADING, READY, UNLOADING, UNAVAILABLE, or UNKNOWN for a model that was never loaded."""
        return self._state()[0]

    @property
    def reason(self) -> str:
        """Why the model is UNAVAILABLE; empty if nothing is wrong."""
        return self._state()[1]

    def _state(self) -> tuple[str, str]:
        model = self._core.model(self.name)
        if model is None:
            return "UNKNOWN", ""
        states = model.states()
        number = max(model.versions or states, default=-1) if self.version == -1 else self.version
        return states.get(number, ("UNKNOWN", ""))

    @property
    def directory(self) -> Path:
        """The model directory that the running version was read from."""
        return self.serving_version().files.directory

    @property
    def load_ns(self) -> int:
        """The nanoseconds that the load of the running version took."""
        return self.serving_version().load_ns

    def ready(self) -> bool:
        """Return whether the model can answer now: it is READY, its stubs are alive, and its own `is_ready()` returns
        True.
        """
        try:
            return self.serving_version().ready()
        except TritonError:
            return False

    def metadata(self) -> dict[str, Any]:
        """Return the name, READY versions, platform, inputs and outputs, with the shapes for clients (rule 6.1.2)."""
        return self._core.model_metadata(self.name, self._version())

    def config(self) -> dict[str, Any]:
        """Return the complete configuration in the JSON form of Triton's config endpoint (rule 5.2)."""
        return to_dict(self.serving_version().config)

    def config_pbtxt(self) -> str:
        """Return the complete configuration as the text of a config.pbtxt."""
        return print_pbtxt(self.serving_version().config)

    def statistics(self) -> dict[str, Any]:
        """Return the number of executions and the times of requests, as Triton's statistics endpoint does; times are
        nanoseconds.
        """
        return self._core.statistics(self.name, self._version())

    def instances(self) -> list[dict[str, Any]]:
        """Return each instance's name, kind, device, process id, state, restarts and the reason of its last death.

        `simulated`: whether the server's GPUs are simulated. `gpu_memory`: the bytes that its process holds on each
        GPU, as far as they are visible. If an instance does not run, `failure` is the reason, and `next_try` the
        seconds until its next start. `imports_again`: the modules that it had to import itself at its start, and why;
        empty if it had them already.
        """
        return instance_facts(self.serving_version(), self._core)

    def called(self) -> list[str]:
        """Return the names of the models that it has called (BLS) since it was loaded, existing or not, in alphabetical
        order.
        """
        return sorted(set().union(*(instance.called for instance in self.serving_version().instances)))

    def logs(self, request: str | int | None = None) -> list[LogRecord]:
        """Return what the model printed, logged and raised, oldest first. With `request`, an id or a serial number,
        return only the lines of that request's execution or stream.
        """
        records = self._server.logs(self.name)
        return records if request is None else [record for record in records if record.is_of_request(str(request))]

    def stacks(self, timeout: float = 2.0) -> dict[str, str]:
        """Return the current Python stacks of each instance's threads and coroutines, by instance name.

        The text is empty for an instance that did not answer within `timeout` seconds: it is being restarted, or C code
        holds its interpreter.
        """
        stubs = {instance.name: instance.stub for instance in self.serving_version().instances}
        return {name: stub.dump_stacks(timeout) if stub is not None else "" for name, stub in stubs.items()}

    def reads(self, record: bool = False, timeout: float = 10.0) -> list[ReadsRecorded]:
        """Return the files outside of the model's directory and the environment variables that each instance's code has
        read while it was loaded. `record`: include executions from now on, until the next call.

        An instance that does not answer within `timeout` seconds is left out. An ensemble has none.
        """
        found = [stub.reads(record, timeout) for stub in self._stubs()]
        return [each for each in found if each is not None]

    def modules(self, timeout: float = 5.0) -> dict[str, str]:
        """Return the file of every module that its instances have imported since they were started, by name; for a
        namespace package its directory. Modules without a file are left out.
        """
        return {name: file for stub in self._stubs() for name, file in stub.modules(timeout).items()}

    def look_at_lines(self, begin: bool, memory: bool = False) -> dict[int, Profiled]:
        """Begin or end a profile of the lines that its instances execute, and return the results so far, by process id.
        `memory`: profile the memory that they keep, not their time. An instance that does not answer within 10
        seconds is left out. `profile` of a notebook's model shows the results as a table.
        """
        batching = bool(self.serving_version().config.max_batch_size)
        found = {stub.process.pid: stub.profile(begin, memory, batching, 10.0) for stub in self._stubs()}
        return {pid: each for pid, each in found.items() if each is not None}

    def _stubs(self) -> list[ModelStub]:
        """Return the processes of the running version's instances."""
        return [stub for instance in self.serving_version().instances if (stub := instance.stub) is not None]

    def expected_shape(self, name: str) -> str:
        """Return the shape of an input that a client must send, with the batch dimension; -1 is any size."""
        return self.serving_version().rules.expected_shape(name)

    @property
    def failures(self) -> ModelFailures:
        """The last failures of the model's code, with their requests and places: `failures[-1].replay()` sends the
        requests again.
        """
        capsules, total, answered_with_error = self._core.failures.of_model(self.name)
        failures = [self._failure(capsule) for capsule in capsules]
        return ModelFailures(self.name, failures, total, answered_with_error)

    def _failure(self, capsule: FailureCapsule) -> KeptFailure:
        return KeptFailure(self, capsule)

    def debug(self) -> None:
        """Type to the debugger that has paused the model at `breakpoint()`, until the model continues. Raises
        NotFoundError if none has.
        """
        follow_pauses(self._core.debugger, self.name)

    def attach(self, local: str = "") -> EditorAttach:
        """Allow an editor of this user to attach to the model's processes, and return the configuration for VS Code.
        `local`: the editor's directory of model.py, if it differs from the served one. Raises UnsupportedError if the
        model's Python has no debugpy.
        """
        return attach_editor(self.serving_version().instances, local)

    def postmortem(self) -> None:
        """Open a debugger on the last exception of `execute`, whose frames are still alive; the model continues to
        serve. Raises NotFoundError if none is kept (`Options.postmortem_seconds`).
        """
        look_at_last_error(self._core.debugger, self.name, self.serving_version().instances)

    def why(self) -> Why:
        """Return, in sentences, the reasons why the model's requests, instances, sequences and load wait."""
        return self._core.why(self.name)

    # -- inference

    @with_field_parameters(RequestFields)
    def create_request(self, **fields: Unpack[RequestFields]) -> InferenceRequest:
        """Make a request for `infer`. A list becomes a tensor of the input's datatype; a warning is given once if
        Triton would use another one, as numpy does.
        """
        return self._resolve_request(None, fields)[0]

    def _resolve_request(self, request: InferenceRequest | None, fields: RequestFields) -> _Resolved:
        """Return the given request, or make one for the current version. Only functions called by the user may call
        this, because warnings point at their caller.
        """
        if request is not None:
            check_fields(request)
            return request, None
        found = self.serving_version()
        try:
            types, casts = found.rules.input_types, self._core.casts
            return make_request(self.name, self.version, types, fields, casts), found
        except TritonError as error:
            self._explain(error)
            raise

    @with_field_parameters(RequestFields)
    def infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> ResponseIterator:
        """Start a request (given, or made of the arguments of `create_request`) and return the iterator over its
        responses.

        Raises TritonError at once if the request is refused. `enable_empty_final_response`: also yield a final response
        that is empty but for its flag (gRPC's `triton_enable_empty_final_response`). `raise_on_error`: the iterator
        raises a response's error instead of yielding it. An interrupt cancels the request and raises RequestInterrupted
        with the model's place.
        """
        request, found = self._resolve_request(request, fields)
        core = self._core
        iterator = ResponseIterator(
            request,
            raise_on_error,
            enable_empty_final_response,
            waits_for=core.explain,
            explain=self._explain,
            debugger=core.debugger,
        )
        try:
            shielded(core.infer, request, found)
        except TritonError as error:
            self._explain(error)
            raise
        except KeyboardInterrupt:
            iterator.interrupted()
        return iterator

    @with_field_parameters(RequestFields)
    def async_infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> AsyncResponseIterator:
        """Start a request like `infer`, for asyncio: `async for response in model.async_infer(…)`. Call it on the
        running loop.
        """
        request, found = self._resolve_request(request, fields)
        iterator = AsyncResponseIterator(request, raise_on_error, enable_empty_final_response, explain=self._explain)
        try:
            shielded(self._core.infer, request, found)
        except TritonError as error:
            self._explain(error)
            raise
        return iterator

    def __call__(self, /, *unnamed: Any, **inputs: Any) -> dict[str, NDArray[Any]]:
        """Send one request and return its one answer: `model(INPUT0=a, INPUT1=b)["OUTPUT0"]`. BYTES outputs are
        object arrays of `bytes`. `table()` of the answer shows its rows, one of the batch each.

        Raises the model's or the request's TritonError; UnsupportedError for a decoupled model, which may answer any
        number of times. An interrupt cancels the request and raises RequestInterrupted with the model's place.
        """
        found = self.serving_version()
        if unnamed:
            form = ", ".join(f"{name}=…" for name in found.rules.input_types)
            raise InvalidArgumentError(f"inputs are given by name: {self.name}({form})")
        if found.rules.decoupled:
            form = ", ".join(f"{name!r}: …" for name in found.rules.input_types)
            name = self.name if self.name.isidentifier() else "model"
            instead = f": iterate over {name}.infer(inputs={{{form}}}) instead"
            raise found.rules.refusal_of_single("ModelInfer RPC", instead)
        # no warning of lists: only notebooks have this form, no program for Triton has it
        tensors = make_tensors(inputs, found.rules.input_types)
        request, core = InferenceRequest(self.name, tensors, model_version=self.version), self._core
        try:
            answers = ResponseIterator(
                request,
                raise_on_error=True,
                waits_for=core.explain,
                explain=self._explain,
                debugger=core.debugger,
            )
            try:
                shielded(core.infer_here, request, found)
            except TritonError as error:
                self._explain(error)
                raise
            except KeyboardInterrupt:
                answers.interrupted()
            response = next(answers, None)
            if response is not None and not response.final:
                _await_end(answers)
        except KeyboardInterrupt:
            request.cancel()  # its answer can no longer be received
            raise
        if response is None:
            raise InternalError(f"model '{self.name}' ended the request without a response")
        return CalledOutputs({name: tensor.numpy() for name, tensor in response.outputs.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the name, version, state, reason and, while it serves, `metadata()`, as JSON values."""
        state, reason = self._state()
        metadata = self.metadata() if state == "READY" else {}
        return {**metadata, "name": self.name, "version": self._version() or None, "state": state, "reason": reason}

    def __repr__(self) -> str:
        version = "" if self.version == -1 else f"/{self.version}"
        return f"<Model {self.name}{version} [{self.state}]>"


def instance_facts(version: ModelVersion, core: InferenceServer) -> list[dict[str, Any]]:
    """Return the facts of `Model.instances` about a version of the server `core`."""
    now = core.clock.now()
    return [
        {
            "name": instance.plan.name,
            "kind": instance.plan.kind,
            "device_id": instance.plan.device_id,
            "simulated": core.gpus.simulated,
            "gpu_memory": core.gpus.held(pid) if (pid := instance.pid) else {},
            "pid": pid,
            "state": instance.state.value,
            "restarts": instance.replacement.count,
            "last_death": instance.replacement.last_death,
            "failure": instance.replacement.failure,
            "imports_again": stub.process.imports_again if (stub := instance.stub) is not None else "",
            "next_try": max(when - now, 0) / 1e9 if (when := instance.replacement.next_try) is not None else None,
        }
        for instance in version.instances
    ]


def _await_end(answers: ResponseIterator) -> None:
    """Wait for the final flag of a request that has its answer. Raises an error of the model after the answer, with the
    text that clients get instead of it (rule 6.7.4).
    """
    try:
        next(answers, None)
    except ModelError as error:
        text = "expected a single response, got 2"
        refused = ModelError(text, reason=error.message, exception=error.exception, log=error.log)
        refused.capsule = error.capsule
        raise refused from None
