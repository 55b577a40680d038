"""The link of a stub, with a typed method for each message between the server and the stub. Code above it has no
command numbers, message bodies or blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from ...core.inference.infer_request import InferenceRequest
from ...core.inference.tensor import Tensor
from ...core.json_text import encode_parameters
from ...stub._pb_stub.wire.ipc_message import CALLS, NUMBER, ROW
from ...stub._pb_stub.wire.message_bodies import (
    NO_RESPONSE,
    RESCHEDULED,
    Attach,
    AutoComplete,
    DeviceMemory,
    DumpStacks,
    Executed,
    Failed,
    Failure,
    Finalize,
    FrameState,
    GiveBack,
    Import,
    Infer,
    InferCancel,
    InferResponse,
    Initialize,
    IsCancelled,
    IsModelReady,
    IsReady,
    ListModules,
    LoadModel,
    Log,
    MetricFamilyDel,
    MetricFamilyNew,
    MetricNew,
    MetricOp,
    NeededCall,
    Needs,
    Postmortem,
    Profile,
    Profiled,
    Prompt,
    Raised,
    ReadFile,
    ReadsRecorded,
    Reply,
    Response,
    ResponseError,
    Resumed,
    Row,
    TellReads,
    UnloadModel,
    Waits,
    Wake,
)
from ...stub._pb_stub.wire.shm_manager import SharedMemoryError
from ...stub._pb_stub.wire.tensor_block import Wire, pack_tensors
from ..gpu.device_tensors import DeviceTensors
from ..gpu.gpu_buffers import GpuBuffers
from ..processes.editor_relay import EditorRelay
from .stub_connection import Answer, Handler, StubConnection

__all__ = [
    "NO_RESPONSE",
    "RESCHEDULED",
    "DeviceMemory",
    "Executed",
    "Failed",
    "Failure",
    "FrameState",
    "Infer",
    "InferCancel",
    "IsCancelled",
    "IsModelReady",
    "LoadModel",
    "Log",
    "MetricFamilyDel",
    "MetricFamilyNew",
    "MetricNew",
    "MetricOp",
    "MonitorLink",
    "NeededCall",
    "Needs",
    "PackedBatch",
    "Profiled",
    "Prompt",
    "Raised",
    "ReadFile",
    "ReadsRecorded",
    "Response",
    "ResponseError",
    "Resumed",
    "Row",
    "SharedMemoryError",
    "StubLink",
    "UnloadModel",
]

M = TypeVar("M")
#: Inputs of this many bytes or more are not kept next to the copy that the stub reads.
_MUCH = 1 << 22
_EXECUTE = NUMBER["EXECUTE"]
_INFER_RESPONSE = NUMBER["INFER_RESPONSE"]
_REPLY = NUMBER["REPLY"]


class PackedBatch(NamedTuple):
    """A batch whose inputs are in the region."""

    block: int | None
    entries: list[Row]


class StubLink(StubConnection):
    """The control link of a stub, or of a process that it forked."""

    # it only wakes a caller that reads the link but whose answer came another way
    FIRST_HANDLERS: ClassVar[Mapping[int, Handler]] = {NUMBER["AWAKE"]: lambda ident, fields: None}
    #: sends and receives tensors in the memory of GPUs; set when a model takes the stub, which sends none before
    devices = DeviceTensors(GpuBuffers(), inputs=False)

    # -- life cycle: each message waits with `await_answer`

    def import_model(
        self,
        *,
        module: str,
        path: str,
        paths: Sequence[str],
        model_dir: str,
        instance: str,
        env: dict[str, str],
        cwd: str,
        audits: bool = False,
    ) -> Answer:
        """Ask the stub to import the module. The value is whether `auto_complete` may do anything.

        `cwd` is empty if the working directory was removed. `audits`: whether an audit hook records the files that it
        reads.
        """
        body = Import(module, path, list(paths), model_dir, instance=instance, env=env, cwd=cwd, audits=audits)
        return self.ask(body)

    def auto_complete(self, config: str) -> Answer:
        """Ask for the auto-completed `config` (JSON text). The value is the completed config, or None if the model has
        no such method."""
        return self.ask(AutoComplete(config))

    def initialize(
        self,
        args: dict[str, str],
        outputs: Sequence[str],
        decoupled: bool,
        tells_failures: bool = False,
        postmortem_s: float = 0.0,
    ) -> Answer:
        """Ask the stub to construct and initialize the model. With `tells_failures` the stub sends FAILED, too. It
        keeps the last exception of `execute` alive for `postmortem_s` seconds."""
        return self.ask(
            Initialize(
                args,
                outputs=list(outputs),
                decoupled=decoupled,
                tells_failures=tells_failures,
                postmortem_s=postmortem_s,
            )
        )

    def finalize(self) -> Answer:
        """Ask the stub to finalize the model; then the process ends."""
        return self.ask(Finalize())

    def give_back(self) -> Answer:
        """Ask the stub to return the memory it does not use. The value is a GivenBack."""
        self.devices.ask_back()
        return self.ask(GiveBack())

    # -- execution

    def pack(self, requests: Sequence[InferenceRequest]) -> PackedBatch:
        """Put the inputs of a batch into the region, for `send_batch` or `drop`. Raises SharedMemoryError if there is
        no room, and the error of any field that cannot be sent."""
        wires: list[Wire] = [
            (
                name,
                int(tensor.datatype),
                tensor.shape,
                tensor.data if not tensor.memory_type else self.devices.input(tensor),
            )
            for request in requests
            for name, tensor in request.inputs.items()
        ]
        block, headers = pack_tensors(self.region, wires)
        try:
            entries = []
            position = 0
            for request in requests:
                end = position + len(request.inputs)
                entries.append(  # the row of an Entry
                    [
                        request.serial,
                        request.request_id,
                        request.correlation_id,
                        request.flags,
                        request.timeout,
                        encode_parameters(request.parameters),
                        list(request.requested_outputs) if request.requested_outputs or request.null else None,
                        headers[position:end],
                        None if request.trace is None else request.trace.wire(),
                    ]
                )
                position = end
        except Exception:
            if block is not None:
                self.region.free(block)
            raise
        if block is not None and sum(header[6] for header in headers) >= _MUCH:
            self._move_inputs(requests, block, iter(headers))
        return PackedBatch(block, entries)

    def _move_inputs(self, requests: Sequence[InferenceRequest], block: int, headers: Iterator[Row]) -> None:
        """Point the inputs of requests to their packed copies, so that the original memory, such as the body of an HTTP
        request or the region of a calling model, is free while the model executes."""
        hold = self.region.hold(block)
        for request in requests:
            moved = request.inputs.copy()
            for name, tensor in moved.items():
                _, _, _, _, _, offset, size = next(headers)
                if size >= _MUCH and type(tensor) is Tensor and not tensor.memory_type:
                    array = self.region.held_array(offset, size, hold).view(tensor.data.dtype)
                    moved[name] = Tensor(tensor.datatype, tensor.shape, array.reshape(tensor.data.shape))
            request.inputs = moved

    def send_batch(self, batch: int, packed: PackedBatch, spin_us: int) -> None:
        """Send the batch of number `batch`, which an EXECUTED of that number answers. Raises the error of any field
        that has no wire form; then nothing was sent."""
        try:
            self.post(_EXECUTE, batch, [spin_us, packed.block, packed.entries], packed=True)  # the row of an Execute
        except Exception:
            self.drop(packed)
            raise

    def drop(self, packed: PackedBatch) -> None:
        """Free a packed batch that is not to be executed."""
        if packed.block is not None:
            self.region.free(packed.block)

    # -- answers to the stub's calls

    def reply(self, call: int, value: Any) -> None:
        """Answer a call."""
        self.tell(Reply(value), call)

    def refuse(self, call: int, text: str, code: int) -> None:
        """Answer a call with an error."""
        self.tell(Reply(None, Failure(text, code)), call)

    def respond(self, infer: int, final: bool, outputs: Mapping[str, Tensor], parameters: Mapping[str, Any]) -> None:
        """Send a response to an INFER. Raises SharedMemoryError, and sends nothing, if the outputs have no room."""
        wires: list[Wire] = [
            (name, int(t.datatype), t.shape, t.data if not t.memory_type else self.devices.output(t))
            for name, t in outputs.items()
        ]
        block, headers = pack_tensors(self.region, wires)
        response = [final, block, headers, None, encode_parameters(parameters)]  # the row of an InferResponse
        self.post(_INFER_RESPONSE, infer, response, packed=True)

    def fail(self, infer: int, final: bool, code: int, text: str) -> None:
        """Send an error to an INFER."""
        self.tell(InferResponse(final, block=None, tensors=[], error=ResponseError(code, text), parameters=""), infer)

    def return_blocks(self) -> None:
        """Give the stub back the blocks that are no longer read; otherwise the next message does it."""
        self.post(_REPLY, 0, [None, None])  # a Reply, but to no call

    # -- messages of the stub: handlers run on the thread that reads, and must not block

    def on_message(self, kind: type[M], handler: Callable[[int, M], None]) -> None:
        """Call `handler(id, message)` for each message of a kind: Executed with the number of its batch, Response with
        the handle of its request, and with 0 Log, Raised and, before its requests end, Failed."""
        row = ROW[kind]
        read = row.read
        self.handlers[row.number] = lambda ident, fields: handler(ident, read(fields))

    def on_calls(self, handler: Callable[[int, Any], None]) -> None:
        """Call `handler(id, call)` for every kind of call; the call has to be answered."""
        for row in CALLS:
            self.handlers[row.number] = lambda ident, fields, read=row.read: handler(ident, read(fields))  # type: ignore[misc]


class MonitorLink(StubConnection):
    """The link of a stub's monitor thread, which answers even while the model executes."""

    #: leads editors to the debugger in the stub, once an editor may attach
    editor_relay: EditorRelay | None = None

    def is_ready(self) -> Answer:
        """Ask the stub to call `is_ready`; the value is None if the model has no such method."""
        return self.ask(IsReady())

    def dump_stacks(self) -> Answer:
        """Ask for the stacks of the threads; the value is a text."""
        return self.ask(DumpStacks())

    def list_modules(self) -> Answer:
        """Ask for the imported modules; the value is the file of each, by name."""
        return self.ask(ListModules())

    def waits(self) -> Answer:
        """Ask for the calls without which the running `execute` cannot go on; the value is a Needs."""
        return self.ask(Waits())

    def tell_reads(self, record: bool) -> Answer:
        """Ask for the reads of the author's code outside of its model; the value is a ReadsRecorded. `record`: whether
        to record from now on, too."""
        return self.ask(TellReads(record))

    def profile(self, begin: bool, memory: bool, batching: bool) -> Answer:
        """Ask the stub to begin or end a profile of the author's lines; the value is a Profiled."""
        return self.ask(Profile(begin, memory, batching))

    def postmortem(self, begin: bool) -> Answer:
        """Ask for the age in seconds of the exception of `execute` that is kept; with `begin` a debugger looks at it.
        The value is None if none is kept."""
        return self.ask(Postmortem(begin))

    def attach(self, port: int, token: str) -> Answer:
        """Ask the stub to connect its debugpy with an `EditorRelay`."""
        return self.ask(Attach(port, token))

    def wake(self) -> None:
        """Wake the caller that reads the control link."""
        self.ask(Wake())
