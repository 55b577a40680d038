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
from .exchanges.golden import GoldenSet
from .exchanges.sending import asks_of
from .notebook.authoring.config_options import ConfigOptions
from .notebook.authoring.draft import Files, Source
from .notebook.authoring.notebook_ports import open_endpoints
from .notebook.authoring.workspace import NoShell, Workspace
from .notebook.model import Model, Server
from .notebook.views.card.opened_view import Repository
from .notebook.views.opener import open_load_panel, open_playground, open_view, show_progress
from .record.recorder import Recorder
from .record.recording import Recording
from .server.api.needed_models import stood_in_words
from .server.api.server import UNLOAD_SECONDS
from .server.build import check_options
from .server.options import Options
from .tools.deploy.releases import DEFAULT_TARGET

if TYPE_CHECKING:
    from .exchanges.remote.remote_server import RemoteServer
    from .frontends.endpoints import Endpoints
    from .notebook.views.card.load_panel import Loadable, LoadPanel
    from .notebook.views.playground.playground import Playground
    from .notebook.views.record.record_view import RecordView
    from .tools.deploy.environment.placed import EnvironmentOptions
    from .tools.deploy.report import ExportReport

_lock = threading.Lock()  # guards everything below
_server: Server | None = None
_directory: ScratchDirectory | None = None
_workspace: Workspace | None = None
#: where `%load_ext tritonlab` was called
_shell: NoShell | None = None
#: Seconds after which a version that a reload has replaced is killed if it still executes: a model that hangs and is
#: mended in its cell would else stay for ever. Triton leaves it.
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
    """Return the server of this process, made at the first use. Its repository is a private temporary directory, and
    it loads a model on request only.
    """
    global _server, _directory
    with _lock:
        if _server is None:
            _directory = ScratchDirectory("models-")
            _server = Server(_directory.path, _options)
            _server.prewarm(_remembered_imports())
            if _options.recording:
                Recorder.for_instruments(_server.instruments)  # so that a view opened late shows what came before
            atexit.register(reset)
        return _server


def _remembered_imports() -> Path | None:
    """Return the file in the user's cache that keeps what this notebook's models import: unlike the repository, it
    outlives the kernel.
    """
    # Jupyter names the notebook; for anything else it is the directory
    notebook = os.environ.get("JPY_SESSION_NAME") or os.path.abspath(os.curdir)
    digest = hashlib.sha256(f"{sys.executable}\0{notebook}".encode(errors="surrogateescape")).hexdigest()[:16]
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return cache / "tritonlab" / f"imports-{digest}.json"


def default_repository() -> Path:
    """Return the directory of `default_server`'s model repository."""
    default_server()
    assert _directory is not None
    return _directory.path


def default_workspace() -> Workspace:
    """Return the workspace that holds what this process's notebook has written so far, served by `default_server`."""
    global _workspace
    server = default_server()
    with _lock:
        if _workspace is None:
            assert _directory is not None
            server.workspace = _workspace = Workspace(server, _directory.path, _shell)
        return _workspace


def show_in(shell: NoShell | None) -> None:
    """Make each workspace from now on one of this shell, as after `reset`. So a notebook shows what models print,
    whatever loads them."""
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

    source: the text of model.py, a class, or a path to a model.py or to a model directory; None loads again what is
    there. config: config.pbtxt as text or path, or its JSON form as a dict. files: what else lies beside model.py,
    paths to copy or a dict of name -> bytes or path. base: a model directory whose files count where none of these
    gives one, and are not copied. options: the fields of `ConfigOptions`, such as `max_batch_size=8`,
    `dynamic_batching=100` (microseconds), `instances=2`, `inputs=["INPUT0:FP32[-1,4]"]`. sample: the inputs of a
    request; those, and the outputs that the model answers it with, are the config's.

    Raises ModelLoadError, ConfigError, ValueError or OSError; a version that served before goes on serving then.
    """
    config_options = ConfigOptions.from_keywords(**options) if options else None
    default_workspace().load(
        name, source, config=config, files=files, version=version, options=config_options, base=base, sample=sample
    )
    return default_server().model(name)


def open_repository(
    directory: str | PathLike[str], models: Sequence[str] | None = None, *, into: str | PathLike[str] | None = None
) -> Repository:
    """Serve the models of a model repository in the notebook's server, from where they lie, as `%triton open` does.

    A model that cannot be loaded does not stop the others: what is returned, which a cell shows as a table, has the
    reason and what to do. A model whose files change is loaded again. `models`: the only ones to serve. `into`: for
    models without version directories, as NVIDIA's examples are (`add_sub/model.py`, `bls/sync_model.py`), the
    repository to which they are copied first, and which is served then; a model that is there stays as it is.

    Models that cells write count before those of the same name here. `opened["NAME"].to_cells()` returns the cells that
    write a model, `opened.export(directory)` writes the whole repository again: equal byte for byte, but for what cells
    have edited. A second call for the same directory looks again; `opened.close()` and `tritonlab.reset()` end it.

    Raises FileError for what is not a repository, NotFoundError for a model that is not in it.
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
    progress: Callable[[int, int], object] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
    cancel: threading.Event | None = None,
) -> ExportReport:
    """Write models, or models of the notebook by their names, as a repository that a Triton server can load, and report
    what it did: for each `<directory>/<name>/config.pbtxt`, `<version>/model.py` and its other files, with their modes
    and the links that lead within the directory. The config is complete: what was filled in here is added to the
    author's text. A directory that differs raises ExportConflict; with `overwrite` it is moved to `<directory>.backup`.

    The models that these need, for steps and BLS calls, are written with them, unless `alone` is set. If something is
    in the way, or an error, an interrupt or `cancel` comes before the end, nothing is written.

    include: names or patterns of files that are else left out, as they are hidden, large (100 MB) or outside. target: a
    release of Triton as 2.49, its container as 24.08, or kserve; the report warns of what will not work there. env:
    `requirements` writes what the models have imported as a lock, `dir` and `archive` put a relocatable environment
    into each model directory, a path packs a conda prefix or a whole Python; EnvironmentOptions choose its Python and
    limit its size. deploy: of docker, k8s and kserve, files beside a repository called models/. capture: write what
    other cells define and a model uses in front of it. artifacts: values by the file that keeps them beside model.py,
    `weights.pt`, or `NAME/weights.pt` with several models. verify: releases whose servers have to answer the golden and
    the last requests (`last` of each model, all by default) as the notebook does, True for the target's. dry_run: write
    nothing, report it; capture and artifacts are not looked at. progress gets the bytes copied and of all, say a line.

    Raises NoRepository, UnknownTarget, EnvironmentRefused, ExportOptionError, Cancelled.
    """
    from .notebook.authoring.exporting import export_models
    from .tools.deploy.export_options import ExportOptions  # with what makes environments and deploy files

    options = ExportOptions.from_keywords(
        overwrite=overwrite,
        alone=alone,
        include=include,
        target=target,
        env=env,
        deploy=deploy,
        capture=capture,
        artifacts=artifacts,
        verify=verify,
        last=last,
        dry_run=dry_run,
        progress=progress,
        say=say,
        cancel=cancel,
    )
    return export_models(default_workspace, models, directory, options)


def recording(server: Server | None = None) -> Recording:
    """Return the recording of what a server did last: its executions, requests, streams, failures and custom metrics.

    `save(path)` keeps it in a file, `perfetto(path)` writes a trace.json. The notebook's server is recorded from its
    start, unless `tritonlab.reset(recording=False)` was called; another server from the first call of this function.
    """
    return Recorder.for_instruments((server or default_server()).instruments).recording


@explains_unknown
def view(subject: Model | Recording | str | PathLike[str], kind: str = "timeline", model: str = "") -> RecordView:
    """Return a view, which a cell shows, of `subject`: a model, a recording, the path of a recording, or the path of a
    trace file of Triton's own.

    `kind` is one of those of `Model.view`. `model` names the model where a recording has several. Raises
    InvalidArgumentError for another kind or model, OSError for a file that cannot be read, RecordingError for a file
    that is not a recording.
    """
    return subject.view(kind) if isinstance(subject, Model) else open_view(subject, kind, model)


@explains_unknown
def connect(address: str, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> RemoteServer:
    """Connect to a server at `host:port`, `http://host:port` or `grpc://host:port`. `headers` go with every request, a
    token for example; `timeout`: seconds for each request.

    Raises UnavailableError if no such server is there.
    """
    from .exchanges.remote import remote_server as remote
    from .notebook.authoring.hints import hint

    return remote.connect(address, headers=headers, timeout=timeout, show_progress=show_progress, advise=hint)


def playground(model: Model) -> Playground:
    """Return a form, which a cell shows, that sends requests to `model`. It needs ipywidgets."""
    return open_playground(default_workspace(), model)


def load_panel(model: Loadable) -> LoadPanel:
    """Return a form, which a cell shows, that tests a model under load: one of a server here, or of one elsewhere
    (`connect`). What it does is `model.load_test`, and its `result` is what was measured last.
    """
    return open_load_panel(model)


def golden(directory: str | PathLike[str] | None = None) -> GoldenSet:
    """Return the golden set in `directory`, by default the one of this notebook in `<notebook>.golden/`.

    A golden set keeps requests to models of the notebook's server with their answers: `check()` asks again and says
    what differs.
    """
    server = default_server()
    place = Path(directory) if directory is not None else None
    return GoldenSet(place, asks_of(server), lambda model: stood_in_words(server.model(model)))


def serve(server: Server | None = None, **options: Any) -> Endpoints:
    """Open HTTP, gRPC and metrics ports on a server, the notebook's if none is named, for clients of any kind; what
    `%triton serve` does.

    options: fields of `EndpointOptions`, such as `http_port=8000`, `grpc=False`, `client_shm=True`; port 0 is any free
    one. Clients need a token, and how they get it is printed; `token="..."` sets another, `token=""` none.
    `model_control=True` lets them load and unload models, and so run code here; `settings=True` lets them change the
    settings of traces and log. An HTTP client that leaves cancels its request, unless
    `http_cancel_on_disconnect=False`.

    What is returned shows the addresses; its `headers` are what clients send, and its `stop()` closes the ports. Close
    those of a server of your own before you stop it. Raises TritonError for a port in use.
    """
    if server is not None:
        return open_endpoints(server, **options)
    return default_workspace().ports.open(**options)


def reset(*, timeout: float = UNLOAD_SECONDS, **options: Any) -> None:
    """End the default server and its models; the next use makes a new one. `options`: fields of `Options` for it, such
    as `cache_config="local,size=1048576"`. Requests that still execute after `timeout` seconds, or at an interrupt,
    fail, and their processes are killed. Raises UnknownOption, or InvalidArgumentError for a value that no server can
    have; then nothing has ended."""
    global _server, _directory, _workspace, _options
    UnknownOption.check("reset", options, ["timeout", *Options.__dataclass_fields__])
    wanted = Options(**{**_NOTEBOOK, **options})
    check_options(wanted)  # while there is a server that goes on
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
    """Drop the server and its directory in a forked child, because they are the parent's."""
    global _server, _directory, _workspace
    _server = _directory = _workspace = None


os.register_at_fork(after_in_child=_forget)
