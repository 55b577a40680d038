"""The notebook's own server: one per process, made at first use, ended with the process.

The way of a request, names = modules:

    cell / playground                       notebook/
      | Model.infer                         server/in_process.py         caller's thread
      v
    InferenceServer.infer                   server/inference_server.py   find the version, check the request
      v
    DynamicBatchScheduler.enqueue           schedulers/                  under one lock the pure take_batch decides;
    I/O after the lock
      v
    ModelInstance.execute                   instances/                   tensors into the instance's region, EXECUTE
    ======================= process border: one control socket, two shared-memory regions =======================
    MainLoop -> ModelContext                stub/_pb_stub/               headers -> InferenceRequest objects with
    numpy views
      v
    model.execute(requests)                 the author's code; may call back: LOG, METRIC, INFER (BLS), RESPONSE
    ==============================================================================================================
    StubConnection                          ipc/                         read by the waiting caller or the link reader
      v
    response_factory                        instances/                   one / many / final / RESCHEDULE / error
      v
    request.respond -> the waiting caller, an asyncio queue
"""

from __future__ import annotations

import atexit
import tempfile
import threading
from pathlib import Path

from .server.in_process import Server

_lock = threading.Lock()  # guards everything below
_server: Server | None = None
_directory: tempfile.TemporaryDirectory[str] | None = None


def default_server() -> Server:
    """The server of this process, with a repository in a private temporary directory and models loaded on demand."""
    global _server, _directory
    with _lock:
        if _server is None:
            _directory = tempfile.TemporaryDirectory(prefix="tritonlab-", ignore_cleanup_errors=True)
            _server = Server(_directory.name, model_control_mode="explicit")
            _server.prewarm()
            atexit.register(reset)
        return _server


def default_repository() -> Path:
    """The model repository of `default_server`."""
    default_server()
    assert _directory is not None
    return Path(_directory.name)


def reset() -> None:
    """Ends the default server and its models; the next use makes a new one."""
    global _server, _directory
    with _lock:
        server, directory = _server, _directory
        _server = _directory = None
    if server is not None:
        atexit.unregister(reset)
        server.stop()
    if directory is not None:
        directory.cleanup()
