"""The bodies of the stub link's messages: one NamedTuple for each, and for what they are made of.

`ipc_message.COMMANDS` says which message has which body, who sends it, and what answers it. On the wire a NamedTuple is
the list of its fields.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

#: How warnings begin of outputs that Triton passes on without a word though they do not fit the config.
UNCHECKED = "Triton checks no outputs: "

# -- what bodies are made of


class TensorHeader(NamedTuple):
    """A tensor in the sender's region; `offset` counts from its start. Memory type and device id are there so
    that device memory needs no other format."""

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


class FrameState(NamedTuple):
    """A call of the author's code when an exception passed it. `source`: the lines around `line`, the first
    of which is `start`. `variables`: name and text of each."""

    file: str
    line: int
    function: str
    start: int
    source: List[str]
    variables: List[List[str]]


class ResponseError(NamedTuple):
    """The error of one response. `code` is that of the author's TritonError, or None: then the model has failed, and
    `exception` may say how."""

    code: Optional[int]
    text: str
    exception: Optional[Dict[str, Any]] = None


class Output(NamedTuple):
    """What a model answered to one request of a batch. `error`: the row of a ResponseError. `parameters`: JSON text,
    or empty."""

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
    """Device memory of the kernel that a stub may use for what it sends: `nbytes` at `offset` of the allocation
    that `handle`, as hex text, stands for."""

    handle: str
    offset: int
    nbytes: int


class GivenBack(NamedTuple):
    """The device memory of the kernel that a stub still has mapped, as handles in hex text, and what of it the stub
    has returned."""

    mapped: List[str]
    returned: List[DeviceGrant]


class NeededCall(NamedTuple):
    """A call that `execute` needs the answer of: the id of its INFER, and how many responses it has had."""

    infer: int
    received: int


class ReadFile(NamedTuple):
    """A file that was opened for reading, and the author's line that did it. `is_relative`: by a path relative to the
    working directory. `how`: `open`, or that it was only looked for, a directory listed, a program started, a library
    loaded, or that the process holds it and no line is known."""

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
    """What the author's code has read outside of its model, and with which Python, in which directory. `written`: the
    files that it has written itself, and the directories that it has made. `programs` and `connections`: the names of
    programs and the addresses, with the author's lines, where an audit hook saw them."""

    python: str
    working_directory: str
    files: List[ReadFile]
    variables: List[ReadVariable]
    written: Sequence[str] = ()
    programs: Sequence[ReadVariable] = ()
    connections: Sequence[ReadVariable] = ()


class Profiled(NamedTuple):
    """What was found until now; nothing at the begin.

    `times`: for each line `[file, line, size, own_ns, total_ns, hits]`; `size` is that of the batch that `execute` had,
    0 for threads that work beside it; `total_ns` includes the author's functions that the line calls; `hits` is 0 where
    it is not counted. `memory`: for each line `[file, line, bytes, blocks, growth]` that are still held; `growth` are
    bytes since the middle of the profile. `way`: `monitoring`,
    `sampling`, `monitoring, then sampling` or `tracemalloc`; empty if nothing was looked at.
    """

    times: List[Any]
    memory: List[Any]
    way: str
    nanoseconds: int


class Needs(NamedTuple):
    """What the running `execute` cannot go on without; `wait` as in INFER."""

    wait: int
    calls: List[NeededCall]


# -- bodies, in the order of the COMMANDS table


class Import(NamedTuple):
    """Import the module `module` of the file `path`, with these environment variables and this working directory ("" if
    it was removed). `audits`: record all that an audit hook sees, from now on."""

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
    """Construct the model and call its `initialize` with `args`. `tells_failures`: send FAILED. `postmortem_s`: for
    how long to keep an exception of `execute` alive."""

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
    """Say what all threads do."""


class ListModules(NamedTuple):
    """Return the file of each imported module, by name."""


class Wake(NamedTuple):
    """Send AWAKE."""


class Waits(NamedTuple):
    """Say what `execute` waits for."""


class TellReads(NamedTuple):
    """Tell what the author's code has read outside of its model, and record it while executing, or no more."""

    record: bool


class GiveBack(NamedTuple):
    """Return the memory that is not used."""


class Postmortem(NamedTuple):
    """Say how many seconds ago `execute` raised the exception that is kept; with `begin`, let a debugger look at it."""

    begin: bool


class Attach(NamedTuple):
    """Connect debugpy with `port` of 127.0.0.1, where `EditorRelay` knows it by `token`."""

    port: int
    token: str


class Profile(NamedTuple):
    """Begin to look at the author's lines, or end it and tell what was found. `memory`: what each line keeps of what it
    allocates, instead of its time. `batching`: whether the first dimension of an input is that of a batch."""

    begin: bool
    memory: bool
    batching: bool


class Execute(NamedTuple):
    """Execute a batch; its tensors are in `block`. `spin_us`: how long to poll for the next command."""

    spin_us: int
    block: Optional[int]
    entries: List[Row]


class Reply(NamedTuple):
    """The answer to a call: its value, or why there is none. With the id 0, which no call has, it only returns
    blocks."""

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
    """The batch is done. `outputs` has one entry for each request: the row of an Output, RESCHEDULED, or None if the
    request is answered through its sender, before or later."""

    input_ns: int
    infer_ns: int
    output_ns: int
    failure: Optional[Failure]
    block: Optional[int]
    outputs: List[Any]


#: What `flags` of a RESPONSE is made of: it is the last, and it is the end alone, without a response.
LAST, NO_RESPONSE = 1, 2


class Response(NamedTuple):
    """What a response sender sent. `flags`: LAST and NO_RESPONSE, or 0."""

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
    """A message that wakes the reader of the link, to look whether its answer came another way."""


class Raised(NamedTuple):
    """The author's code raised this; it is for the log."""

    file: str
    line: int
    text: str


class Failed(NamedTuple):
    """The author's code failed, in this phase of its life; `handles` are the requests that an EXECUTED or a RESPONSE
    ends for this. `frames`: outermost first."""

    handles: List[int]
    phase: str
    failure: Failure
    frames: List[FrameState]


class IsCancelled(NamedTuple):
    """Tell whether the client of that request has given it up."""

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
    """Tell whether that model can be called."""

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
    looks at an exception, and nothing is paused. `text`: what it printed since the last line, `file` and `line`: the
    place it shows. `snapshot`: frames and variables, for where nobody can type; only with a session's first prompt."""

    session: int
    live: bool
    text: str
    prompt: str
    file: str
    line: int
    snapshot: str


class Resumed(NamedTuple):
    """The debugger has let the thread go on; `text` is what it printed last."""

    session: int
    text: str


class Stacks(NamedTuple):
    """Write the stacks of all threads, now. A signal has no fields."""
