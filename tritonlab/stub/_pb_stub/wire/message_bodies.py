"""The bodies of the stub link's messages: one NamedTuple for each, and for their parts.

`ipc_message.COMMANDS` has the body, the sender and the answer of each message. On the wire a NamedTuple is
the list of its fields.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

#: The start of warnings of outputs that Triton passes on silently although they do not fit the config.
UNCHECKED = "Triton checks no outputs: "

# -- the parts of bodies


class TensorHeader(NamedTuple):
    """A tensor in the sender's region; `offset` counts from its start. Memory type and device id allow the same format
    for device memory.
    """

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
    """The reason of a failure: Triton's text and error code, and `core.status.RemoteException` as plain data."""

    text: str
    code: int = 1
    exception: Optional[Dict[str, Any]] = None


class FrameState(NamedTuple):
    """A call of the author's code that an exception passed. `source`: the lines around `line`, from line `start` on.
    `variables`: name and text of each.
    """

    file: str
    line: int
    function: str
    start: int
    source: List[str]
    variables: List[List[str]]


class ResponseError(NamedTuple):
    """The error of one response. `code` is the code of the author's TritonError, or None if the model has failed; then
    `exception` may have the details.
    """

    code: Optional[int]
    text: str
    exception: Optional[Dict[str, Any]] = None


class Output(NamedTuple):
    """A model's answer to one request of a batch. `error`: a ResponseError's row. `parameters`: JSON text, or empty."""

    tensors: List[Row]
    error: Optional[Row]
    parameters: str


class TraceRef(NamedTuple):
    """The trace of a request: the server's number of it, and the client's context."""

    number: int
    context: Optional[str]


class Entry(NamedTuple):
    """One request of a batch. `outputs` None: all of the model's. `trace`: the row of a TraceRef."""

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
    trace: Optional[TraceRef]


class DeviceGrant(NamedTuple):
    """Device memory of the kernel that a stub may use for its outputs: `nbytes` at `offset` of the allocation of
    `handle`, as hex text.
    """

    handle: str
    offset: int
    nbytes: int


class GivenBack(NamedTuple):
    """The kernel's device memory that a stub still maps, as handles in hex text, and the parts it has returned."""

    mapped: List[str]
    returned: List[DeviceGrant]


class NeededCall(NamedTuple):
    """A call whose answer `execute` needs: the id of its INFER, and the number of its responses so far."""

    infer: int
    received: int


class ReadFile(NamedTuple):
    """A file that was read, and the author's line that did it. `is_relative`: by a path relative to the working
    directory. `how`: `open`, or another use: only checked, a listed directory, a started program, a loaded library, or
    held by the process without a known line.
    """

    path: str
    file: str
    line: int
    is_relative: bool = False
    how: str = "open"


class ReadVariable(NamedTuple):
    """An environment variable that was set, and the author's line that read it."""

    name: str
    file: str
    line: int


class ReadsRecorded(NamedTuple):
    """The reads of the author's code outside of its model, with the Python and the working directory. `written`: the
    files that it has written itself, and the directories that it has made. `programs` and `connections`: the names of
    programs and the addresses, with the author's lines, if an audit hook saw them.
    """

    python: str
    working_directory: str
    files: List[ReadFile]
    variables: List[ReadVariable]
    written: Sequence[str] = ()
    programs: Sequence[ReadVariable] = ()
    connections: Sequence[ReadVariable] = ()


class Profiled(NamedTuple):
    """The results of a profile so far; empty at the begin.

    `times`: for each line `[file, line, size, own_ns, total_ns, hits]`; `size` is the size of the batch of `execute`, 0
    for threads next to it; `total_ns` includes the author's functions that the line calls; `hits` is 0 if it is not
    counted. `memory`: for each line `[file, line, bytes, blocks, growth]` that are still held; `growth` are bytes since
    the middle of the profile. `way`: `monitoring`, `sampling`, `monitoring, then sampling` or `tracemalloc`; empty if
    nothing was profiled. `looks`: how often lines were sampled.
    """

    times: List[Any]
    memory: List[Any]
    way: str
    nanoseconds: int
    looks: int = 0


class Needs(NamedTuple):
    """The needs of the running `execute`; `wait` as in INFER."""

    wait: int
    calls: List[NeededCall]


# -- bodies, in the order of the COMMANDS table


class Import(NamedTuple):
    """Import the module `module` of the file `path`, with these environment variables and this working directory ("" if
    it was removed). `audits`: record all events of an audit hook, from now on."""

    module: str
    path: str
    paths: List[str]
    model_dir: str
    instance: str
    env: Dict[str, str]
    cwd: str
    audits: bool = False


class AutoComplete(NamedTuple):
    """Call `auto_complete_config` with the config, as JSON text."""

    config: str


class Initialize(NamedTuple):
    """Construct the model and call its `initialize` with `args`. `tells_failures`: send FAILED. `postmortem_s`: the
    seconds for which to keep an exception of `execute` alive.
    """

    args: Dict[str, str]
    outputs: List[str]
    decoupled: bool
    tells_failures: bool
    postmortem_s: float = 0.0


class Finalize(NamedTuple):
    """Call `finalize`, then leave."""


class IsReady(NamedTuple):
    """Call `is_ready`."""


class DumpStacks(NamedTuple):
    """Return the stacks of all threads."""


class ListModules(NamedTuple):
    """Return the file of each imported module, by name."""


class Wake(NamedTuple):
    """Send AWAKE."""


class Waits(NamedTuple):
    """Return the waits of `execute`."""


class TellReads(NamedTuple):
    """Return the reads of the author's code outside of its model; start or stop recording them during executions."""

    record: bool


class GiveBack(NamedTuple):
    """Return unused memory."""


class Postmortem(NamedTuple):
    """Return the age in seconds of the kept exception of `execute`; with `begin`, start a debugger on it."""

    begin: bool


class Attach(NamedTuple):
    """Connect debugpy with `port` of 127.0.0.1, where `EditorRelay` recognises it by `token`."""

    port: int
    token: str


class Profile(NamedTuple):
    """Begin a profile of the author's lines, or end it and return its results. `memory`: the memory that each line
    keeps, instead of its time. `batching`: whether the first dimension of an input is the batch.
    """

    begin: bool
    memory: bool
    batching: bool


class Execute(NamedTuple):
    """Execute a batch; its tensors are in `block`. `spin_us`: how long to poll for the next command."""

    spin_us: int
    block: Optional[int]
    entries: List[Row]


class Reply(NamedTuple):
    """The answer to a call: its value, or why it failed. With the id 0, which no call has, it only returns blocks."""

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


#: The entry in EXECUTED for a request that was released with RESCHEDULE.
RESCHEDULED = "R"


class Executed(NamedTuple):
    """The batch is done. `outputs` has one entry for each request: the row of an Output, RESCHEDULED, or None if the
    request is answered through its sender, before or later."""

    input_ns: int
    infer_ns: int
    output_ns: int
    failure: Optional[Failure]
    block: Optional[int]
    outputs: List[Any]


#: The bits of `flags` in a RESPONSE: it is the last one, and it is only the end, without a response.
LAST, NO_RESPONSE = 1, 2


class Response(NamedTuple):
    """A response of a response sender. `flags`: LAST and NO_RESPONSE, or 0."""

    flags: int
    block: Optional[int]
    tensors: List[Row]
    error: Optional[ResponseError]
    parameters: str


class Log(NamedTuple):
    """A record of pb_utils.Logger; of the stub itself if `file` is empty."""

    level: int
    file: str
    line: int
    text: str


class Awake(NamedTuple):
    """Wake the reader of the link, which then checks whether its answer came another way."""


class Raised(NamedTuple):
    """The exception that the author's code raised, for the log."""

    file: str
    line: int
    text: str


class Failed(NamedTuple):
    """The author's code failed, in this phase; `handles` are the requests that an EXECUTED or a RESPONSE ends for this
    reason. `frames`: outermost first.
    """

    handles: List[int]
    phase: str
    failure: Failure
    frames: List[FrameState]


class IsCancelled(NamedTuple):
    """Return whether the client of that request has cancelled it."""

    handle: int


class MetricFamilyNew(NamedTuple):
    """Make or join a family of metrics."""

    name: str
    description: str
    kind: int


class MetricFamilyDel(NamedTuple):
    """Forget the family: the author's last object of it is gone."""

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
    """Load a model; `files` maps paths to contents in base64."""

    name: str
    config: str
    files: Dict[str, str]


class UnloadModel(NamedTuple):
    """Unload a model."""

    name: str
    dependents: bool


class IsModelReady(NamedTuple):
    """Return whether that model can be called."""

    name: str
    version: str


class DeviceMemory(NamedTuple):
    """Lend at least `nbytes` of memory of that device, until GIVE_BACK returns it or the stub ends."""

    device: int
    nbytes: int


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


class Prompt(NamedTuple):
    """Read a line for a debugger, which has paused a thread. `session` counts the pauses of a process; `live` False: it
    examines an exception, and nothing is paused. `text`: its output since the last line, `file` and `line`: the place
    it shows. `snapshot`: frames and variables, in case no line can be typed; only with a session's first prompt.
    """

    session: int
    live: bool
    text: str
    prompt: str
    file: str
    line: int
    snapshot: str


class Resumed(NamedTuple):
    """The debugger has continued the thread; `text` is its last output."""

    session: int
    text: str


class Stacks(NamedTuple):
    """Write the stacks of all threads, now. A signal has no fields."""
