"""The stub link's messages: one table says number, name, direction and layout of everything that can cross the
process border.

A message is a header, the offsets of the receiver's blocks that the sender no longer reads (8 bytes each), and a
JSON body:

    version u8 | command u8 | freed count u16 | body length u32 | id u64 | freed offsets | body

`id` ties an answer to its question; for EXECUTE it numbers the batch, for RESPONSE it is the request's handle. A tensor
is `[name, datatype, shape, memory type, device id, offset, byte size]` in the sender's region (`serialization.py`). An
outcome is `[true, value]` or `[false, {"text", "code", "exception"?}]`.
"""

from __future__ import annotations

import signal
import struct
from typing import NamedTuple

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


class Command(NamedTuple):
    """One row of COMMANDS. `direction` is `>` for kernel to stub, `<` for stub to kernel."""

    number: int
    name: str
    direction: str
    layout: str


COMMANDS = (
    # life cycle; each is answered by RESULT with the same id
    Command(1, "IMPORT", ">", "{module, paths, model_dir, instance, env, cwd, decoupled, outputs}; None"),
    Command(
        2,
        "AUTO_COMPLETE",
        ">",
        "config JSON text; value: returned config JSON text, or null if there is no such method",
    ),
    Command(3, "INITIALIZE", ">", "[args of initialize, output names, decoupled]"),
    Command(4, "FINALIZE", ">", "null"),
    Command(5, "IS_READY", ">", "null; on the monitor socket; value: bool, or null if there is no such method"),
    Command(6, "DUMP_STACKS", ">", "null; on the monitor socket; value: text of all thread stacks"),
    Command(7, "WAKE", ">", "null; on the monitor socket; the stub sends AWAKE; value: null"),
    Command(
        8,
        "WAITS",
        ">",
        "null; on the monitor socket; value: [wait as in INFER, [[id of an INFER, responses received]]], the calls "
        "that execute cannot go on without",
    ),
    Command(9, "GIVE_BACK", ">", "null; the stub returns the memory it does not use; value: null"),
    # execution
    Command(
        10,
        "EXECUTE",
        ">",
        "[spin us, block offset, "
        "[[handle, id, correlation id, flags, timeout, parameters, outputs|null, tensors, [trace, context] if any]]]",
    ),
    Command(11, "REPLY", ">", "outcome of a call (IS_CANCELLED and below)"),
    Command(
        12, "INFER_RESPONSE", ">", "[final, block offset|null, tensors, [code, text]|null, parameters] for an INFER"
    ),
    # answers
    Command(32, "HELLO", "<", "[wire version, python version, numpy version, pid]"),
    Command(33, "RESULT", "<", "outcome"),
    Command(
        34,
        "EXECUTED",
        "<",
        "[input ns, infer ns, output ns, error outcome|null, block offset|null, [response|null|'R', ...]]",
    ),
    Command(
        35, "RESPONSE", "<", "[flags, block offset|null, tensors, [code, text]|null, parameters] from a response sender"
    ),
    Command(36, "LOG", "<", "[level, file, line, text]; of the stub itself where file is empty"),
    Command(37, "AWAKE", "<", "null; so that a caller who reads the link looks whether its answer came another way"),
    Command(38, "RAISED", "<", "[file, line, text]; an exception of the author's, for the log"),
    # calls of the stub; each is answered by REPLY with the same id
    Command(48, "IS_CANCELLED", "<", "request handle; value: bool"),
    Command(49, "METRIC_FAMILY_NEW", "<", "[name, description, kind]; value: family id"),
    Command(50, "METRIC_FAMILY_DEL", "<", "[family id]"),
    Command(51, "METRIC_NEW", "<", "[family id, labels, buckets|null]; value: metric id"),
    Command(52, "METRIC_OP", "<", "[metric id, operation, number]; value: number|null"),
    Command(53, "LOAD_MODEL", "<", "[name, config, {path: base64}]"),
    Command(54, "UNLOAD_MODEL", "<", "[name, unload dependents]"),
    Command(55, "IS_MODEL_READY", "<", "[name, version]; value: bool"),
    Command(
        56,
        "INFER",
        "<",
        "[request fields, decoupled, block offset|null, tensors, wait]; answered by INFER_RESPONSE until final. wait: "
        "1 if execute waits for the next response, 2 if also no other thread could answer its requests, else 0",
    ),
    Command(57, "INFER_CANCEL", "<", "null; id of the INFER; no answer"),
)

BY_NAME = {command.name: command for command in COMMANDS}
BY_NUMBER = {command.number: command for command in COMMANDS}
NUMBER = {command.name: command.number for command in COMMANDS}
