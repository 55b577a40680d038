"""The stub link's messages: one table with number, name, direction, way, body and answer of everything that can cross
the process border.

A message is a header, the offsets of the receiver's blocks that the sender no longer reads (8 bytes each), and a
JSON body:

    sum u32 | command u8 | freed count u16 | body length u32 | id u64 | freed offsets | body

The sum is of the wire version, command, count and length: a reader never waits for the bytes of a damaged header.
`id` ties an answer to its question; for EXECUTE it numbers the batch, for RESPONSE it is the request's handle. A body
is the list of the fields of its NamedTuple (`message_bodies`), and so is each NamedTuple in it. The parts of every
request, the headers of its tensors and its fields in EXECUTE and EXECUTED, stay such a list (`Row`) when they are read:
making types of them took a tenth of a request's time. The reader of a row unpacks it, in one place.
"""

from __future__ import annotations

import signal
import struct
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Type

from . import fork_bodies
from . import message_bodies as bodies
from .serialization import Buffer, WireError, decode_body, encode_body

#: A stub whose monitor thread cannot run, because C code holds the interpreter's lock, answers this signal with the
#: stacks of its threads on stderr (faulthandler). None on systems without such signals.
STACKS_SIGNAL = getattr(signal, "SIGRTMAX", 0) - 1 if hasattr(signal, "SIGRTMAX") else None

HEADER = struct.Struct("<IBHIQ")
FREED = struct.Struct("<Q")
MAX_FREED = 0xFFFF
#: Added to the command of a message whose body is packed.
PACKED = 0x80
#: The most bytes of a body. Bodies hold headers and texts; the largest is a LOAD_MODEL with files.
MAX_BODY = 1 << 30

# -- from a body's fields to its type

Read = Callable[[Any], Any]

_new = tuple.__new__  # a third of the time of a NamedTuple's constructor; only here, where the fields are counted


def _reader(kind: Type[Any], **parts: Read) -> Read:
    """Return a function that makes a `kind` of the list of its fields; `parts` read those that are not plain data."""
    names = kind._fields
    indexes = [(names.index(name), part) for name, part in parts.items()]
    size = len(names)

    def read_plain(fields: Any) -> Any:
        if type(fields) is not list or len(fields) != size:
            raise _other_layout(kind, fields)
        return _new(kind, fields)

    def read(fields: Any) -> Any:
        if type(fields) is not list or len(fields) != size:
            raise _other_layout(kind, fields)
        for index, part in indexes:
            if fields[index] is not None:
                fields[index] = part(fields[index])
        return _new(kind, fields)

    return read if parts else read_plain


def _other_layout(kind: Type[Any], fields: Any) -> WireError:
    return WireError("%s of another layout: %.200r" % (kind.__name__, fields))


def _each(read: Read) -> Read:
    return lambda rows: [read(row) for row in rows]


_error, _failure, _trace = _reader(bodies.ResponseError), _reader(bodies.Failure), _reader(bodies.TraceRef)

#: Readers of the types with fields that are not plain data.
_READERS: Dict[Type[Any], Read] = {
    bodies.Executed: _reader(bodies.Executed, failure=_failure),
    bodies.Response: _reader(bodies.Response, error=_error),
    bodies.Infer: _reader(bodies.Infer, request=_reader(bodies.BlsRequest, trace=_trace)),
    bodies.InferResponse: _reader(bodies.InferResponse, error=_error),
    bodies.Result: _reader(bodies.Result, failure=_failure),
    bodies.Reply: _reader(bodies.Reply, failure=_failure),
    bodies.Failed: _reader(bodies.Failed, failure=_failure, frames=_each(_reader(bodies.FrameState))),
    bodies.DeviceGrant: _reader(bodies.DeviceGrant),
    bodies.GivenBack: _reader(bodies.GivenBack, returned=_each(_reader(bodies.DeviceGrant))),
    bodies.Needs: _reader(bodies.Needs, calls=_each(_reader(bodies.NeededCall))),
    bodies.ReadsRecorded: _reader(
        bodies.ReadsRecorded,
        files=_each(_reader(bodies.ReadFile)),
        variables=_each(_reader(bodies.ReadVariable)),
        programs=_each(_reader(bodies.ReadVariable)),
        connections=_each(_reader(bodies.ReadVariable)),
    ),
    bodies.Profiled: _reader(bodies.Profiled),
    fork_bodies.Grow: _reader(fork_bodies.Grow, steps=_each(_reader(fork_bodies.ImportStep))),
}


class CommandRow(NamedTuple):
    """One row of COMMANDS.

    `answer` is the type of the message that answers this one, or of the value in RESULT or REPLY; None if there is no
    answer. `read` makes the body from the list of its fields, and raises WireError or TypeError if they have another
    layout.
    """

    number: int
    name: str
    direction: str
    way: str
    body: Type[Any]
    answer: Any
    read: Read


def _row(number: int, name: str, direction: str, way: str, body: Type[Any], answer: Any = None) -> CommandRow:
    return CommandRow(number, name, direction, way, body, answer, read=_READERS.get(body) or _reader(body))


TO_STUB, TO_KERNEL = ">", "<"
#: The ways: the control socket (of a forked process: its own), the monitor socket, the door of a stub's forked
#: processes, signals, and a zygote's socket (`zygote_message`).
CONTROL, MONITOR, DOOR, SIGNAL, ZYGOTE = "control", "monitor", "door", "signal", "zygote"
Nothing = type(None)

COMMANDS = (
    # life cycle; each is answered by RESULT with the same id
    _row(1, "IMPORT", TO_STUB, CONTROL, bodies.Import, bool),  # whether AUTO_COMPLETE may do anything
    _row(2, "AUTO_COMPLETE", TO_STUB, CONTROL, bodies.AutoComplete, Optional[str]),  # None: the method does not exist
    _row(3, "INITIALIZE", TO_STUB, CONTROL, bodies.Initialize, Nothing),
    _row(4, "FINALIZE", TO_STUB, CONTROL, bodies.Finalize, Nothing),
    # on the monitor socket, whatever execute does; answered by RESULT
    _row(5, "IS_READY", TO_STUB, MONITOR, bodies.IsReady, Optional[bool]),  # None: the method does not exist
    _row(6, "DUMP_STACKS", TO_STUB, MONITOR, bodies.DumpStacks, str),
    _row(7, "WAKE", TO_STUB, MONITOR, bodies.Wake, Nothing),
    _row(8, "WAITS", TO_STUB, MONITOR, bodies.Waits, bodies.Needs),
    _row(9, "GIVE_BACK", TO_STUB, CONTROL, bodies.GiveBack, bodies.GivenBack),
    _row(13, "POSTMORTEM", TO_STUB, MONITOR, bodies.Postmortem, Optional[float]),  # None: there is none
    _row(14, "ATTACH", TO_STUB, MONITOR, bodies.Attach, Nothing),
    _row(15, "TELL_READS", TO_STUB, MONITOR, bodies.TellReads, bodies.ReadsRecorded),
    _row(16, "LIST_MODULES", TO_STUB, MONITOR, bodies.ListModules, Dict[str, str]),  # the file of each that has one
    _row(17, "PROFILE", TO_STUB, MONITOR, bodies.Profile, bodies.Profiled),
    # execution
    _row(10, "EXECUTE", TO_STUB, CONTROL, bodies.Execute, bodies.Executed),
    _row(11, "REPLY", TO_STUB, CONTROL, bodies.Reply),
    _row(12, "INFER_RESPONSE", TO_STUB, CONTROL, bodies.InferResponse),
    # answers, and messages without a request
    _row(32, "HELLO", TO_KERNEL, CONTROL, bodies.Hello),
    _row(33, "RESULT", TO_KERNEL, CONTROL, bodies.Result),
    _row(34, "EXECUTED", TO_KERNEL, CONTROL, bodies.Executed),
    _row(35, "RESPONSE", TO_KERNEL, CONTROL, bodies.Response),
    _row(36, "LOG", TO_KERNEL, CONTROL, bodies.Log),
    _row(37, "AWAKE", TO_KERNEL, CONTROL, bodies.Awake),
    _row(38, "RAISED", TO_KERNEL, CONTROL, bodies.Raised),
    _row(39, "FAILED", TO_KERNEL, CONTROL, bodies.Failed),
    # calls of the stub and of processes that it forked; each is answered by REPLY with the same id
    _row(48, "IS_CANCELLED", TO_KERNEL, CONTROL, bodies.IsCancelled, bool),
    _row(49, "METRIC_FAMILY_NEW", TO_KERNEL, CONTROL, bodies.MetricFamilyNew, int),
    _row(50, "METRIC_FAMILY_DEL", TO_KERNEL, CONTROL, bodies.MetricFamilyDel, Nothing),
    _row(51, "METRIC_NEW", TO_KERNEL, CONTROL, bodies.MetricNew, int),
    _row(52, "METRIC_OP", TO_KERNEL, CONTROL, bodies.MetricOp, Optional[float]),
    _row(53, "LOAD_MODEL", TO_KERNEL, CONTROL, bodies.LoadModel, Nothing),
    _row(54, "UNLOAD_MODEL", TO_KERNEL, CONTROL, bodies.UnloadModel, Nothing),
    _row(55, "IS_MODEL_READY", TO_KERNEL, CONTROL, bodies.IsModelReady, bool),
    # answered by INFER_RESPONSE until the final one
    _row(56, "INFER", TO_KERNEL, CONTROL, bodies.Infer, bodies.InferResponse),
    _row(57, "INFER_CANCEL", TO_KERNEL, CONTROL, bodies.InferCancel),
    # None: no line can be typed, and the model must continue
    _row(58, "PROMPT", TO_KERNEL, CONTROL, bodies.Prompt, Optional[str]),
    _row(59, "RESUMED", TO_KERNEL, CONTROL, bodies.Resumed, Nothing),
    _row(60, "DEVICE_MEMORY", TO_KERNEL, CONTROL, bodies.DeviceMemory, bodies.DeviceGrant),
    # the door: with descriptors
    _row(64, "KNOCK", TO_KERNEL, DOOR, fork_bodies.Knock, fork_bodies.ForkLink),
    _row(65, "FORK_LINK", TO_STUB, DOOR, fork_bodies.ForkLink),
    # the number is not that of the signal, which differs between systems
    _row(72, "STACKS", TO_STUB, SIGNAL, bodies.Stacks, str),
    # with descriptors; a new zygote sends GROWN over its own socket, without a request
    _row(80, "GROW", TO_STUB, ZYGOTE, fork_bodies.Grow, fork_bodies.Forked),
    _row(81, "FORK", TO_STUB, ZYGOTE, fork_bodies.Fork, fork_bodies.Forked),
    _row(82, "GROWN", TO_KERNEL, ZYGOTE, fork_bodies.Grown),
    _row(83, "FORKED", TO_KERNEL, ZYGOTE, fork_bodies.Forked),
)

BY_NUMBER: Dict[int, CommandRow] = {command.number: command for command in COMMANDS}
NUMBER: Dict[str, int] = {command.name: command.number for command in COMMANDS}
#: The row of a body's type.
ROW: Dict[Type[Any], CommandRow] = {command.body: command for command in COMMANDS}
NUMBER_OF: Dict[Type[Any], int] = {command.body: command.number for command in COMMANDS}
#: The calls from the author's objects to the server, also in processes that the model forked.
CALLS: Tuple[CommandRow, ...] = tuple(command for command in COMMANDS if 48 <= command.number < 64)


_ZYGOTE_HEADER = struct.Struct("<BI")


def zygote_message(number: int, body: Any) -> bytes:
    """Return a message of a zygote's socket: the number of its row, the number of the request, and its body. An answer
    has the number of its request, so that an unread answer is not mistaken for the next.
    """
    return _ZYGOTE_HEADER.pack(NUMBER_OF[type(body)], number) + encode_body(body)


def read_zygote_message(data: Buffer) -> Tuple[int, Any]:
    """Return number and body of such a message. Raises WireError or TypeError if it has another layout."""
    if len(data) < _ZYGOTE_HEADER.size or data[0] not in BY_NUMBER:
        raise WireError("no message of a zygote: %.200r" % bytes(data))
    command, number = _ZYGOTE_HEADER.unpack_from(data)
    return number, BY_NUMBER[command].read(decode_body(data[_ZYGOTE_HEADER.size :]))


def read_answer(command: CommandRow, value: Any) -> Any:
    """Read the value of a RESULT or REPLY to that command."""
    read = _READERS.get(command.answer)
    return value if read is None else read(value)
