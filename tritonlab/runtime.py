"""The notebook's server: one per process, made at first use, ended with the process.

The way of a request, names = modules:

    cell, playground             notebook/
      | Model.infer              server/api/model.py                caller's thread; finds the version, once
    HTTP, gRPC                   frontends/
      | InferExchange.submit     frontends/shared/infer_exchange.py  the same for every protocol
      v
    InferenceServer.infer        server/inference_server.py         checks the request against the configuration
      v
    Scheduler.enqueue            engine/schedulers/                 the pure take_batch decides under one lock
      v
    StubExecutor.send            engine/execution/                  tensors into the instance's region, EXECUTE
    ============ process border: one control socket, two shared-memory regions, a wire version ==========
    BatchExecutor, ModelContext  stub/_pb_stub/process/             headers into requests with numpy views
      v
    model.execute(requests)      the author's code                  may call back: log, metric, BLS, response
    =======================================================================================================
    StubLink                     ipc/link/stub_link.py              read by the caller, an event loop or the link reader
      v
    build_response               engine/execution/                  one, many, final, RESCHEDULE or an error
      v
    deliver                      core/inference/delivery.py         hooks, the client, the end of the request
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .core.scratch_directory import ScratchDirectory
from .core.unknown_option import UnknownOption, explains_unknown
from .core.version import DEFAULT_TARGET
from .exchanges.golden import GoldenSet
from .exchanges.sending import asks_of
from .notebook.authoring.config_options import ConfigOptions
from .notebook.authoring.draft import Files, Source
from .notebook.authoring.notebook_ports import NotebookPorts
from .notebook.authoring.workspace import NoShell, Workspace
from .notebook.model import Model, Server
from .notebook.views.card.opened_view import Repository
from .notebook.views.opener import open_playground, open_view
from .record.recorder import Recorder
from .record.recording import Recording
from .server.api.needed_models import stood_in_words
from .server.api.server import UNLOAD_SECONDS
from .server.build import check_options
from .server.options import Options
from .tool_table import tool_function

if TYPE_CHECKING:
    from .exchanges.exchange import Exchange
    from .exchanges.remote.remote_server import RemoteServer
    from .frontends.endpoints import Endpoints
    from .notebook.views.playground.playground import Playground
    from .notebook.views.record.record_view import RecordView
    from .tools.capture.capture_writer import CaptureReport
    from .tools.capture.server_capture import RunningCapture
    from .tools.deploy.environment.placed import EnvironmentOptions
    from .tools.deploy.report import ExportReport
    from .tools.deploy.verify.verdict import Verification
    from .tools.measure.load_testing.load_panel import Loadable, LoadPanel

_lock = threading.Lock()  # guards all fields below
_server: Server | None = None
_directory: ScratchDirectory | None = None
_workspace: Workspace | None = None
#: where `%load_ext tritonlab` was called
_shell: NoShell | None = None
#: Seconds after which a replaced version that still executes is killed: a hanging model that was fixed in its cell
#: would otherwise stay for ever. Triton leaves it.
DRAIN_SECONDS = 60.0
#: Seconds for which an exception is kept alive for `%triton postmortem`.
POSTMORTEM_SECONDS = 600.0
_NOTEBOOK: dict[str, Any] = {
    "model_control_mode": "explicit",
    "drain_seconds": DRAIN_SECONDS,
    "postmortem_seconds": POSTMORTEM_SECONDS,
}
_options = Options(**_NOTEBOOK)


def default_server() -> Server:
    """Return the server of this process, made at the first use. Its repository is a private temporary directory, and it
    loads models only on request.
    """
    global _server, _directory
    with _lock:
        if _server is None:
            _directory = ScratchDirectory("models-")
            _server = Server(_directory.path, _options)
            _server.prewarm(_remembered_imports())
            if _options.recording:
                Recorder.for_instruments(_server.instruments)  # so that a view opened late shows earlier events
            atexit.register(reset)
        return _server


def _remembered_imports() -> Path | None:
    """Return the file in the user's cache with the imports of this notebook's models: unlike the repository, it
    outlives the kernel.
    """
    # Jupyter names the notebook; other programs use the directory
    notebook = os.environ.get("JPY_SESSION_NAME") or os.path.abspath(os.curdir)
    digest = hashlib.sha256(f"{sys.executable}\0{notebook}".encode(errors="surrogateescape")).hexdigest()[:16]
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return cache / "tritonlab" / f"imports-{digest}.json"


def default_workspace() -> Workspace:
    """Return the workspace with the models that this process's notebook has written so far, served by
    `default_server`.
    """
    global _workspace
    server = default_server()
    with _lock:
        if _workspace is None:
            assert _directory is not None
            server.workspace = _workspace = Workspace(server, _directory.path, _shell)
        return _workspace


def show_in(shell: NoShell | None) -> None:
    """Make each workspace from now on, including after `reset`, one of this shell, so that a notebook shows the prints
    of all models.
    """
    global _shell
    _shell = shell


def load(
    name: str,
    source: Source | None = None,
    *,
    config: str | Mapping[str, Any] | PathLike[str] | None = None,
    files: Files | None = None,
    version: int | None = None,
    base: str | PathLike[str] | None = None,
    sample: Mapping[str, Any] | None = None,
    **options: Any,
) -> Model:
    """Load a model into the notebook's server and return it READY, as `%%triton_model` does.

    Args:
        name: the model's name.
        source: the text of model.py, a class, or a path to a model.py or to a model directory; None loads the present
            files again.
        config: config.pbtxt as text or path, or its JSON form as a dict.
        files: other files next to model.py: paths to copy, or a dict of name -> bytes or path.
        version: the number of the version.
        base: a model directory whose files are used, not copied, where none of these gives one.
        sample: the inputs of a request; the config describes them and the outputs of the model's answer.
        options: the fields of `ConfigOptions`, such as `max_batch_size=8`, `dynamic_batching=100` (microseconds),
            `instances=2`, `inputs=["INPUT0:FP32[-1,4]"]`.

    Raises:
        ModelLoadError, ConfigError, ValueError, OSError: the model was not loaded; an earlier version continues.
    """
    config_options = ConfigOptions.from_keywords(**options) if options else None
    default_workspace().load(
        name, source, config=config, files=files, version=version, options=config_options, base=base, sample=sample
    )
    return default_server().model(name)


def open_repository(
    directory: str | PathLike[str], models: Sequence[str] | None = None, *, into: str | PathLike[str] | None = None
) -> Repository:
    """Serve the models of a model repository in the notebook's server, in place, as `%triton open` does.

    A model that cannot be loaded does not stop the others: the returned repository, which a cell shows as a table, has
    the reason and the fix. A model whose files change is loaded again. `models`: the only ones to serve. `into`: for
    models without version directories, like NVIDIA's examples (`add_sub/model.py`, `bls/sync_model.py`), the repository
    to which they are first copied, and which is then served; existing models there stay unchanged.

    A cell's model takes precedence over one of the same name here. `opened["NAME"].to_cells()` returns the cells that
    write a model, `opened.export(directory)` writes the whole repository again, equal byte for byte except for edits in
    cells. A second call for the same directory checks it again; `opened.close()` and `tritonlab.reset()` end it.

    Raises FileError if the directory is not a repository, NotFoundError for a model that is not in it.
    """
    return Repository.open(default_workspace(), directory, models, into=into)


@explains_unknown
def export(
    models: Model | str | Sequence[Model | str],
    directory: str | PathLike[str],
    *,
    overwrite: bool | Literal["replace"] = False,
    alone: bool = False,
    include: str | Sequence[str] = (),
    target: str = DEFAULT_TARGET,
    env: str | EnvironmentOptions | None = None,
    deploy: str | Sequence[str] = (),
    capture: bool = False,
    artifacts: Mapping[str, Any] | None = None,
    verify: bool | str | Sequence[str] | None = None,
    last: int | None = None,
    dry_run: bool = False,
    about: str = "",
    progress: Callable[[int, int], object] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
    cancel: threading.Event | None = None,
) -> ExportReport:
    """Write models, or models of the notebook by their names, as a repository that a Triton server can load, and report
    it.

    For each model it writes `<directory>/<name>/config.pbtxt`, `<version>/model.py` and its other files, with their
    modes and the links within the directory. The config is complete: values that were filled in here are added to the
    author's text. Models that these need, for steps and BLS calls, are written too. If something prevents the export,
    or an error, an interrupt or `cancel` comes before the end, nothing is written.

    Args:
        models: a model or several, or their names.
        directory: the repository.
        overwrite: whether a directory that differs is moved to `<directory>.backup`; otherwise it raises
            ExportConflict.
        alone: whether the models that these need are left out.
        include: names or patterns of files that are otherwise left out because they are hidden, large (100 MB) or
            outside.
        target: a release of Triton as 2.49, its container as 24.08, or kserve; the report warns of incompatible parts.
        env: `requirements` writes the imports of the models as a lock, `dir` and `archive` put a relocatable
            environment into each model directory, a path packs a conda prefix or a whole Python; EnvironmentOptions
            choose its Python and limit its size.
        deploy: any of docker, k8s and kserve: files next to a repository called models/.
        capture: whether code of other cells that a model uses is written in front of it.
        artifacts: values by the file next to model.py that keeps them, `weights.pt`, or `NAME/weights.pt` with several
            models.
        verify: releases whose servers must answer the golden and the last requests like the notebook; True for the
            target's.
        last: how many of the last requests of each model are verified, all by default.
        dry_run: whether nothing is written, only reported; capture and artifacts are not examined.
        about: the purpose of the models in one line, for the README of the deploy files.
        progress: gets the bytes copied and the total.
        say: gets a line about the progress.
        cancel: ends the export when it is set.

    Raises:
        NoRepository, UnknownTarget, EnvironmentRefused, ExportOptionError, ExportConflict, Cancelled: nothing was
            written.
    """
    arguments = dict(locals())
    write: Callable[..., ExportReport] = tool_function("export")
    return write(default_workspace, **arguments)


def verify(
    directory: str | PathLike[str],
    *,
    triton: str | Sequence[str] = DEFAULT_TARGET,
    requests: str | PathLike[str] | Sequence[Exchange] = "golden",
    hide: Sequence[str | PathLike[str]] = (),
    reads: Sequence[Path] = (),
    open_findings: Mapping[str, Sequence[str]] | None = None,
    python: str = "",
    load_seconds: float = 120.0,
    say: Callable[[str], None] = lambda text: None,
    cancel: threading.Event | None = None,
) -> Verification:
    """Start real Triton servers on a copy of an exported repository, send them requests, and compare their answers with
    the notebook's, and with our server's on another copy.

    The requests, the verdict and its evidence stay with the export: a page, export.json and `requests/` in `directory`
    if it has `models/`, otherwise next to it. Differences of an earlier verdict on the same files stay open until their
    requests are sent again.

    Args:
        directory: a model repository, or a directory with `models/`.
        triton: releases (`2.51`, or tags of containers, `24.10`), or `path` for the tritonserver on PATH.
        requests: `golden` for the cases with the export and in `<directory>.golden`, a directory of golden cases, or
            cases.
        hide: more directories that the servers must not see.
        reads: files and directories that the models have read on the author's machine; they are hidden, too.
        open_findings: by model, the pre-flight findings about these reads; by default from the record.
        python: the version of the stub for models that bring no environment.
        load_seconds: how long a model may take to load; an environment in an archive is unpacked meanwhile.
        say: receives a line for each step.
        cancel: ends the verification when set; Cancelled is raised then.

    A release is fetched once, as a wheel; without a wheel its container is run, if the engine has the image. Requests
    without a notebook answer prove nothing.

    Raises NotADirectoryError, UnknownTarget, or ValueError for unreadable requests or a missing release.
    """
    arguments = dict(locals())
    prove: Callable[..., Verification] = tool_function("verify")
    return prove(**arguments)


def capture(
    path: str | PathLike[str],
    models: Model | str | Sequence[Model | str] | None = None,
    *,
    share: float = 1.0,
    per_minute: int = 0,
    only_errors: bool = False,
    slower_than: float | None = None,
    redact: Mapping[str, str] | None = None,
    key: bytes | None = None,
    most_bytes: int = 1 << 30,
    server: Server | None = None,
) -> RunningCapture:
    """Write the requests of clients, with their answers, to a new file from now on, until `stop()`, or the end of a
    `with` block or of the server.

    The file is one of Arrow, which pandas, polars and pyarrow read. A full or slow disk loses requests of the capture,
    which are counted, and never one of a client.

    Args:
        path: the file; it must not exist.
        models: the only models, or their names; all by default.
        share: the share of the requests that is kept, 0.01 for 1 %; a sequence is kept whole or not at all.
        per_minute: the most requests kept in a minute, 0 for no limit.
        only_errors: whether only requests that failed are kept.
        slower_than: keep only requests that took longer, in seconds; with `only_errors`, failed or slow ones.
        redact: by pattern of names of tensors and parameters, `drop`, `hash` or `shape` (its datatype and shape only);
            `input.`, `output.` or `parameter.` before a pattern restricts it. Also for `request_id`, `sequence_id`
            and `error`. Redacted values are never written.
        key: the key of the digests, 64 bytes at most; with a random one, the default, they are comparable within one
            capture only.
        most_bytes: the largest size of the file.
        server: the server, by default the notebook's.

    Raises FileExistsError and other OSErrors, NotFoundError for a model that the server does not have, ValueError for a
    rule that cannot be one, and UnsupportedError without pyarrow (`pip install 'tritonlab[capture]'`).
    """
    begin: Callable[..., RunningCapture] = tool_function("capture")
    rules: dict[str, Any] = {} if key is None else {"key": key}
    rules |= {
        "share": share,
        "per_minute": per_minute,
        "only_errors": only_errors,
        "slower_than": slower_than,
        "most_bytes": most_bytes,
        "redact": dict(redact or {}),
    }
    return begin(lambda: server or default_server(), path, models, rules)


def capture_from(
    files: str | PathLike[str] | Sequence[str | PathLike[str]], path: str | PathLike[str], **rules: Any
) -> CaptureReport:
    """Make a capture of files that another server's traffic has left, and return its counts.

    Args:
        files: trace files of Triton, with the levels TIMESTAMPS and TENSORS; or files of CloudEvents from the logger of
            KServe, as JSON or as HTTP messages.
        path: the new file.
        rules: the keyword arguments of `capture`, from `share` to `most_bytes`.

    A trace has floating-point numbers with six digits only; the capture marks these tensors `inexact`.

    Raises FileExistsError and other OSErrors, ValueError for a file of another kind, and UnsupportedError without
    pyarrow.
    """
    make: Callable[..., CaptureReport] = tool_function("capture_from")
    return make(files, path, rules)


def recording(server: Server | None = None) -> Recording:
    """Return the recording of a server's latest activity: its executions, requests, streams, failures and custom
    metrics.

    `save(path)` keeps it in a file, `perfetto(path)` writes a trace.json. The notebook's server is recorded from its
    start, unless `tritonlab.reset(recording=False)` was called; another server from the first call of this function.
    """
    return Recorder.for_instruments((server or default_server()).instruments).recording


@explains_unknown
def view(subject: Model | Recording | str | PathLike[str], kind: str = "timeline", model: str = "") -> RecordView:
    """Return a view, which a cell shows, of `subject`: a model, a recording, the path of a recording, or the path of a
    trace file of Triton's own.

    `kind` is a kind of `Model.view`. `model` names the model if a recording has several. Raises
    InvalidArgumentError for another kind or model, OSError for a file that cannot be read, RecordingError for a file
    that is not a recording.
    """
    return subject.view(kind) if isinstance(subject, Model) else open_view(subject, kind, model)


@explains_unknown
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
) -> RemoteServer:
    """Connect to a server.

    Args:
        address: `host:port`, `http://host:port` or `grpc://host:port`; with TLS `https://` or `grpcs://`;
            `kube://namespace/service:port` for a port of a Kubernetes service, to which a port is forwarded until
            `close()`, by kr8s (`pip install 'tritonlab[kubernetes]'`). Without http or grpc both are tried, with TLS if
            one of its options is given.
        headers: sent with every request.
        token: sent with every request, as `Authorization: Bearer TOKEN`.
        timeout: seconds for each request.
        ca: PEM file of the authorities, or of the server's own certificate, that are trusted in place of the system's.
        certificate: PEM file of the client's certificate, where the server requires one.
        key: PEM file of its key, if that is not in the same file.
        server_name: the name in the server's certificate, if it is not the host of the address.
        kubernetes: options of `kr8s.api`: `context`, `kubeconfig`; by default those of kubectl.
        verify: only True; certificates are always checked.

    Raises UnavailableError if no server answers there, with the reason as far as it is known; ValueError for options
    that do not fit, OSError for a file that cannot be read.
    """
    arguments = dict(locals())
    from .exchanges.remote import remote_server as remote
    from .notebook.authoring.hints import hint

    return remote.connect(**arguments, advise=hint, find_model=lambda name: default_server().model(name))


def playground(model: Model) -> Playground:
    """Return a form, which a cell shows, that sends requests to `model`. It needs ipywidgets."""
    return open_playground(default_workspace(), model)


def load_panel(model: Loadable) -> LoadPanel:
    """Return a form, which a cell shows, that tests a model under load, of a server here or elsewhere (`connect`). It
    runs `model.load_test`; its `result` is the latest measurement.
    """
    open_panel: Callable[..., LoadPanel] = tool_function("load_panel")
    return open_panel(model)


def golden(directory: str | PathLike[str] | None = None) -> GoldenSet:
    """Return the golden set in `directory`, by default the notebook's, `<notebook>.golden/`.

    A golden set keeps requests to models of the notebook's server with their answers: `check()` sends them again and
    reports differences.
    """
    server = default_server()
    place = Path(directory) if directory is not None else None
    return GoldenSet(place, asks_of(server), lambda model: stood_in_words(server.model(model)))


def serve(server: Server | None = None, **options: Any) -> Endpoints:
    """Open HTTP, gRPC and metrics ports on a server, by default the notebook's, for any client, as `%triton serve`
    does.

    options: fields of `EndpointOptions`, such as `http_port=8000`, `grpc=False`, `client_shm=True`; port 0 is any free
    one. Clients need a token, whose place is printed; `token="..."` sets another, `token=""` none. `model_control=True`
    allows clients to load and unload models, and so to run code here; `settings=True` allows them to change the
    settings of traces and log. An HTTP client that disconnects cancels its request, unless
    `http_cancel_on_disconnect=False`.

    The returned object shows the addresses; its `headers` are for clients, and its `stop()` closes the ports. Close the
    ports of your own server before you stop it. Raises TritonError for a port in use.
    """
    ports = NotebookPorts(server) if server is not None else default_workspace().ports
    return ports.open(**options)


def reset(*, timeout: float = UNLOAD_SECONDS, **options: Any) -> None:
    """End the default server and its models; the next use makes a new one. `options`: fields of `Options` for it, such
    as `cache_config="local,size=1048576"`. After `timeout` seconds, or at an interrupt, requests that still execute
    fail, and their processes are killed. Raises UnknownOption, or InvalidArgumentError for a value that no server can
    have; then the old server continues.
    """
    global _server, _directory, _workspace, _options
    UnknownOption.check("reset", options, ["timeout", *Options.__dataclass_fields__])
    wanted = Options(**{**_NOTEBOOK, **options})
    check_options(wanted)  # while the old server still runs
    with _lock:
        _options = wanted
        server, directory, workspace = _server, _directory, _workspace
        _server = _directory = _workspace = None
    try:
        if server is not None:
            atexit.unregister(reset)
            if workspace is not None:
                workspace.close()
            server.stop(timeout)
    finally:
        if directory is not None:
            directory.remove()


def _forget() -> None:
    """Drop the server and its directory in a forked child, because they belong to the parent, as does the lock."""
    global _lock, _server, _directory, _workspace
    _lock = threading.Lock()
    _server = _directory = _workspace = None


os.register_at_fork(after_in_child=_forget)
