"""The stub link's messages: one table says number, name, direction, way, body and answer of everything that can cross
the process border.

A message is a header, the offsets of the receiver's blocks that the sender no longer reads (8 bytes each), and a
JSON body:

    version u8 | command u8 | freed count u16 | body length u32 | id u64 | freed offsets | body

`id` ties an answer to its question; for EXECUTE it numbers the batch, for RESPONSE it is the request's handle. A body
is the list of the fields of its NamedTuple, and so is each NamedTuple in it. What every request has, the headers of its
tensors and what EXECUTE and EXECUTED say of it, stays such a list (`Row`) when it is read: making types of them took 7
of a request's 69 us. Whoever reads a row unpacks it, in one place.
"""

from __future__ import annotations

import signal
import struct
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, Union

from .serialization import WireError

#: A stub whose monitor thread cannot run, because C code holds the interpreter's lock, answers this signal with the
#: stacks of its threads on stderr (faulthandler). None where there are no such signals.
STACKS_SIGNAL = getattr(signal, "SIGRTMAX", 0) - 1 if hasattr(signal, "SIGRTMAX") else None

HEADER = struct.Struct("<BBHIQ")
FREED = struct.Struct("<Q")
MAX_FREED = 0xFFFF
#: Bodies hold headers and texts; the largest honest one is a LOAD_MODEL with files.
MAX_BODY = 1 << 30

#: How a warning begins of what Triton lets pass without a word.
UNCHECKED = "Triton checks no outputs: "

# -- what bodies are made of


class TensorHeader(NamedTuple):
    """A tensor in the sender's region; `offset` counts from its start. Memory type and device id are there so that
    device memory needs no other format."""

    name: str
    datatype: int
    shape: List[int]
    memory_type: int
    device_id: int
    offset: int
    size: int


#: The list of the fields of a TensorHeader (unpacked by `tensor_block.check_header`), an Entry (by `BatchExecutor`), or
#: an Output (by `response_factory`).
Row = Any


class Failure(NamedTuple):
    """Why something failed: Triton's text and error code, and `core.status.RemoteException` as plain data."""

    text: str
    code: int = 1
    exception: Optional[Dict[str, Any]] = None


class ResponseError(NamedTuple):
    """The error of one response. `code` is that of the author's TritonError, or None: then the model has failed, and
    `exception` may say how."""

    code: Optional[int]
    text: str
    exception: Optional[Dict[str, Any]] = None


class Output(NamedTuple):
    """What a model answered to one request of a batch. `error`: the row of a ResponseError. `parameters`: JSON text, or
    empty."""

    tensors: List[Row]
    error: Optional[Row]
    parameters: str


class Trace(NamedTuple):
    """The trace of a request: the server's number of it, and the client's context."""

    number: int
    context: Optional[str]


class Entry(NamedTuple):
    """One request of a batch. `outputs` None: all of the model's. `trace`: the row of a Trace."""

    handle: int
    request_id: str
    correlation_id: Union[int, str]
    flags: int
    timeout: int
    parameters: str
    outputs: Optional[List[str]]
    tensors: List[Row]
    trace: Optional[Row]


class BlsRequest(NamedTuple):
    """A request that a model built. `memory`: type (0 GPU, 1 CPU) and device id of the preferred memory."""

    model: str
    version: int
    request_id: str
    correlation_id: Union[int, str]
    flags: int
    timeout: int
    outputs: List[str]
    parameters: str
    memory: Optional[List[int]]
    trace: Optional[Trace]


class NeededCall(NamedTuple):
    """A call without whose answer `execute` cannot go on: the id of its INFER, and the responses it has had."""

    infer: int
    received: int


class Needs(NamedTuple):
    """What the running `execute` cannot go on without. `wait` as in INFER."""

    wait: int
    calls: List[NeededCall]


# -- bodies, in the order of the table


class Import(NamedTuple):
    """Import the module `module` of the file `path`, with these environment variables and working directory ("": it was
    removed)."""

    module: str
    path: str
    paths: List[str]
    model_dir: str
    instance: str
    env: Dict[str, str]
    cwd: str


class AutoComplete(NamedTuple):
    """Call `auto_complete_config` with the config, as JSON text."""

    config: str


class Initialize(NamedTuple):
    """Construct the model and call its `initialize` with `args`."""

    args: Dict[str, str]
    outputs: List[str]
    decoupled: bool


class Finalize(NamedTuple):
    """Call `finalize`, then leave."""


class IsReady(NamedTuple):
    """Call `is_ready`."""


class DumpStacks(NamedTuple):
    """Say what all threads do."""


class Wake(NamedTuple):
    """Send AWAKE."""


class Waits(NamedTuple):
    """Say what `execute` waits for."""


class GiveBack(NamedTuple):
    """Return the memory that is not used."""


class Execute(NamedTuple):
    """Execute a batch; its tensors are in `block`. `spin_us`: how long to poll for the next command."""

    spin_us: int
    block: Optional[int]
    entries: List[Row]


class Reply(NamedTuple):
    """The answer to a call: its value, or why there is none."""

    value: Any
    failure: Optional[Failure] = None


class InferResponse(NamedTuple):
    """One response for an INFER."""

    final: bool
    block: Optional[int]
    tensors: List[Row]
    error: Optional[ResponseError]
    parameters: str


class Hello(NamedTuple):
    """The stub is up."""

    wire_version: int
    python: str
    numpy: str
    pid: int


class Result(NamedTuple):
    """The answer to a command of the life cycle, or of the monitor socket."""

    value: Any
    failure: Optional[Failure] = None


#: What stands in EXECUTED for a request that was released with RESCHEDULE.
RESCHEDULED = "R"


class Executed(NamedTuple):
    """The batch is done. `outputs`: one for each request, the row of an Output, RESCHEDULED, or None if it is answered
    through its sender, before or later."""

    input_ns: int
    infer_ns: int
    output_ns: int
    failure: Optional[Failure]
    block: Optional[int]
    outputs: List[Any]


class Response(NamedTuple):
    """What a response sender sent. `flags` 1: it is the last."""

    flags: int
    block: Optional[int]
    tensors: List[Row]
    error: Optional[ResponseError]
    parameters: str


class Log(NamedTuple):
    """A record of pb_utils.Logger; of the stub itself where `file` is empty."""

    level: int
    file: str
    line: int
    text: str


class Awake(NamedTuple):
    """So that a caller who reads the link looks whether its answer came another way."""


class Raised(NamedTuple):
    """An exception of the author's, for the log."""

    file: str
    line: int
    text: str


class IsCancelled(NamedTuple):
    """Has the client of that request given it up?"""

    handle: int


class MetricFamilyNew(NamedTuple):
    """Make or join a family of metrics."""

    name: str
    description: str
    kind: int


class MetricFamilyDel(NamedTuple):
    """The family is gone."""

    family: int


class MetricNew(NamedTuple):
    """Make or join a metric."""

    family: int
    labels: Dict[str, str]
    buckets: Optional[List[float]]


class MetricOp(NamedTuple):
    """Read or change a metric."""

    metric: int
    operation: str
    number: float


class LoadModel(NamedTuple):
    """Load a model; `files` are base64 by path."""

    name: str
    config: str
    files: Dict[str, str]


class UnloadModel(NamedTuple):
    """Unload a model."""

    name: str
    dependents: bool


class IsModelReady(NamedTuple):
    """Can that model be called?"""

    name: str
    version: str


class Infer(NamedTuple):
    """Run a request. `wait`: 1 if `execute` waits for the next response, 2 if also no other thread could answer its
    requests, else 0."""

    request: BlsRequest
    decoupled: bool
    block: Optional[int]
    tensors: List[Row]
    wait: int


class InferCancel(NamedTuple):
    """Cancel the INFER of this id."""


class Knock(NamedTuple):
    """A process that the model forked asks for a link; with one end of a socket pair."""

    pid: int


class ForkLink(NamedTuple):
    """The descriptors of its regions go with this, over the other end. `limit` 0: none."""

    size: int
    growth: int
    limit: int


class Stacks(NamedTuple):
    """Write the stacks of all threads, now: a signal has no fields."""


# -- from a body's fields to its type

Read = Callable[[Any], Any]

_new = tuple.__new__  # a third of the time of a NamedTuple's constructor; only here, where the fields are counted


def _reader(kind: Type[Any], **parts: Read) -> Read:
    """Makes a `kind` of the list of its fields; `parts` read those that are more than plain data."""
    names = kind._fields
    places = [(names.index(name), part) for name, part in parts.items()]
    size = len(names)

    def read_plain(fields: Any) -> Any:
        if type(fields) is not list or len(fields) != size:
            raise _other_layout(kind, fields)
        return _new(kind, fields)

    def read(fields: Any) -> Any:
        if type(fields) is not list or len(fields) != size:
            raise _other_layout(kind, fields)
        for place, part in places:
            if fields[place] is not None:
                fields[place] = part(fields[place])
        return _new(kind, fields)

    return read if parts else read_plain


def _other_layout(kind: Type[Any], fields: Any) -> WireError:
    return WireError("%s of another layout: %.200r" % (kind.__name__, fields))


def _each(read: Read) -> Read:
    return lambda rows: [read(row) for row in rows]


_error, _failure, _trace = _reader(ResponseError), _reader(Failure), _reader(Trace)

#: Of the types that are more than plain data.
_READERS: Dict[Type[Any], Read] = {
    Executed: _reader(Executed, failure=_failure),
    Response: _reader(Response, error=_error),
    Infer: _reader(Infer, request=_reader(BlsRequest, trace=_trace)),
    InferResponse: _reader(InferResponse, error=_error),
    Result: _reader(Result, failure=_failure),
    Reply: _reader(Reply, failure=_failure),
    Needs: _reader(Needs, calls=_each(_reader(NeededCall))),
}


class Command(NamedTuple):
    """One row of COMMANDS. `answer`: the type of the message that answers this one, or of the value in RESULT or REPLY;
    None if there is no answer. `read`: makes the body of its fields; raises WireError or TypeError for others."""

    number: int
    name: str
    direction: str
    way: str
    body: Type[Any]
    answer: Any
    read: Read


def _row(number: int, name: str, direction: str, way: str, body: Type[Any], answer: Any = None) -> Command:
    return Command(number, name, direction, way, body, answer, _READERS.get(body) or _reader(body))


TO_STUB, TO_KERNEL = ">", "<"
#: The ways: the control socket (of a forked process: its own), the monitor socket, the door of a stub's forked
#: processes, and signals.
CONTROL, MONITOR, DOOR, SIGNAL = "control", "monitor", "door", "signal"
Nothing = type(None)

COMMANDS = (
    # life cycle; each is answered by RESULT with the same id
    _row(1, "IMPORT", TO_STUB, CONTROL, Import, Nothing),
    _row(2, "AUTO_COMPLETE", TO_STUB, CONTROL, AutoComplete, Optional[str]),  # None: there is no such method
    _row(3, "INITIALIZE", TO_STUB, CONTROL, Initialize, Nothing),
    _row(4, "FINALIZE", TO_STUB, CONTROL, Finalize, Nothing),
    # on the monitor socket, whatever execute does; answered by RESULT
    _row(5, "IS_READY", TO_STUB, MONITOR, IsReady, Optional[bool]),  # None: there is no such method
    _row(6, "DUMP_STACKS", TO_STUB, MONITOR, DumpStacks, str),
    _row(7, "WAKE", TO_STUB, MONITOR, Wake, Nothing),
    _row(8, "WAITS", TO_STUB, MONITOR, Waits, Needs),
    _row(9, "GIVE_BACK", TO_STUB, CONTROL, GiveBack, Nothing),
    # execution
    _row(10, "EXECUTE", TO_STUB, CONTROL, Execute, Executed),
    _row(11, "REPLY", TO_STUB, CONTROL, Reply),
    _row(12, "INFER_RESPONSE", TO_STUB, CONTROL, InferResponse),
    # answers, and what is said unasked
    _row(32, "HELLO", TO_KERNEL, CONTROL, Hello),
    _row(33, "RESULT", TO_KERNEL, CONTROL, Result),
    _row(34, "EXECUTED", TO_KERNEL, CONTROL, Executed),
    _row(35, "RESPONSE", TO_KERNEL, CONTROL, Response),
    _row(36, "LOG", TO_KERNEL, CONTROL, Log),
    _row(37, "AWAKE", TO_KERNEL, CONTROL, Awake),
    _row(38, "RAISED", TO_KERNEL, CONTROL, Raised),
    # calls of the stub and of what it forked; each is answered by REPLY with the same id
    _row(48, "IS_CANCELLED", TO_KERNEL, CONTROL, IsCancelled, bool),
    _row(49, "METRIC_FAMILY_NEW", TO_KERNEL, CONTROL, MetricFamilyNew, int),
    _row(50, "METRIC_FAMILY_DEL", TO_KERNEL, CONTROL, MetricFamilyDel, Nothing),
    _row(51, "METRIC_NEW", TO_KERNEL, CONTROL, MetricNew, int),
    _row(52, "METRIC_OP", TO_KERNEL, CONTROL, MetricOp, Optional[float]),
    _row(53, "LOAD_MODEL", TO_KERNEL, CONTROL, LoadModel, Nothing),
    _row(54, "UNLOAD_MODEL", TO_KERNEL, CONTROL, UnloadModel, Nothing),
    _row(55, "IS_MODEL_READY", TO_KERNEL, CONTROL, IsModelReady, bool),
    # answered by INFER_RESPONSE until the final one
    _row(56, "INFER", TO_KERNEL, CONTROL, Infer, InferResponse),
    _row(57, "INFER_CANCEL", TO_KERNEL, CONTROL, InferCancel),
    # the door: with descriptors
    _row(64, "KNOCK", TO_KERNEL, DOOR, Knock, ForkLink),
    _row(65, "FORK_LINK", TO_STUB, DOOR, ForkLink),
    # the number is not that of the signal, which differs between systems
    _row(72, "STACKS", TO_STUB, SIGNAL, Stacks, str),
)

BY_NUMBER: Dict[int, Command] = {command.number: command for command in COMMANDS}
NUMBER: Dict[str, int] = {command.name: command.number for command in COMMANDS}
#: Of a body's type.
ROW: Dict[Type[Any], Command] = {command.body: command for command in COMMANDS}
NUMBER_OF: Dict[Type[Any], int] = {command.body: command.number for command in COMMANDS}
#: What the author's objects ask the server, and its processes too.
CALLS: Tuple[Command, ...] = tuple(command for command in COMMANDS if 48 <= command.number < 64)


def read_answer(command: Command, value: Any) -> Any:
    """The value of a RESULT or REPLY to that command."""
    read = _READERS.get(command.answer)
    return value if read is None else read(value)
