"""`ScratchModel`, a copy of a model in its own server, with which a check may do anything: the author's model still
serves, and neither its files nor its processes are touched.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...core.config.model_config import ModelConfig, from_json, to_dict
from ...core.config.model_config_rules import is_decoupled, is_ensemble
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.observe.instrument import Instrument
from ...core.scratch_directory import ScratchDirectory
from ...core.status import ModelError, ModelLoadError, TritonError, UnavailableError
from ...engine.life.model_instance import ModelInstance
from ...ipc.processes import own_stub
from ...ipc.processes.execution_env import PARAMETER
from ...repository.model_tree import leads_out
from ...server.api.server import Server
from ...server.models.model_lifecycle import ModelVersion
from ...server.options import Options
from .probe import Probe, append_to
from .sample import ModelAnswer

#: Files of more bytes are linked, not copied: weights are only read, and a copy would take minutes.
_LINKED = 256 << 20
_SLOW_END = 0.05
#: Seconds that a copy has for its `finalize` when the check no longer uses it.
_END = 3.0
#: The shortest time limit, in seconds, for a later load of a copy, and the limit as a multiple of its first load.
_LOAD, _LOAD_TIMES = 10.0, 5.0
#: The list of files that the copy has made in the shared temporary directory.
_MADE = "made"
#: The program in a copy's directory that starts this Python with another hash seed.
_PYTHON = "python-of-the-check"
#: Appended to the model.py of all copied models.
_KEEP_FILES = """

# -- added by tritonlab to this copy of the model: its temporary files are in a directory of its own
from _pb_stub.process.model_probe import keep_files as _tritonlab_keep_files
_tritonlab_keep_files({directory!r})
"""


@dataclass
class _SentRequest:
    """A request in progress. Hooks and callbacks run on any thread."""

    request: InferenceRequest
    started: float
    responses: list[Mapping[str, Tensor]] = field(default_factory=list)
    error: TritonError | None = None
    empty: int = 0
    after: int = 0
    ended_at: float = 0.0
    latest_at: float = 0.0
    cancel_at: int = -1
    #: responses and seconds after its cancellation; once both are reached, the wait ends
    enough: tuple[int, float] | None = None
    cancelled_at: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)

    def receive(self, request: InferenceRequest, response: InferenceResponse) -> None:
        self.latest_at = time.monotonic()
        self.after += request.cancelled and bool(response.outputs)
        if response.error is not None:
            self.error = response.error
        elif response.outputs:
            self.responses.append({name: _copy_to_host(one) for name, one in response.outputs.items()})
        elif not (response.final and response.empty):
            self.empty += 1
        if len(self.responses) == self.cancel_at:
            request.cancel()
            self.cancelled_at = self.latest_at
        if self.enough and self.after >= self.enough[0] and self.latest_at >= self.cancelled_at + self.enough[1]:
            self.done.set()
        if response.final:
            self.ended_at = time.monotonic()
            self.done.set()


def _copy_to_host(tensor: Tensor) -> Tensor:
    tensor = tensor.to_host()
    return Tensor(tensor.datatype, tensor.shape, tensor.data.copy())


class CopyWatch(Instrument):
    """A record of deaths of instances, and of requests for which the model has checked the cancellation."""

    def __init__(self) -> None:
        self.deaths: list[str] = []
        self.polled: set[int] = set()

    def instance_died(self, model: str, version: int, instance: str, reason: str, now: int) -> None:
        self.deaths.append(reason)

    def request_polled(self, request: InferenceRequest, now: int) -> None:
        self.polled.add(id(request))


class ScratchModel:
    """A copy of a model. `ask` sends it requests in exactly the given batch, or one after the other.

    `timeout`: the seconds after which a request counts as not answered; longer for a model that was found to be slow.
    Use it as a context manager.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        config: ModelConfig,
        options: Options,
        *,
        others: Sequence[tuple[str, Path]] = (),
        probe: Probe | None = None,
    ) -> None:
        """others: models that it calls or consists of, with their directories; they are copied, too. `probe` is
        attached to the copy before it is loaded."""
        self.name = name
        self.config = config
        self.timeout = 5.0
        self.watch = CopyWatch()
        #: traces its allocations; None if it has no Python code of its own
        self.probe = probe
        self._scratch = ScratchDirectory("check-")
        self.path = self._scratch.path
        for each, origin in ((name, directory), *others):
            _copy(origin, self.path / each)
        self._made = ScratchDirectory("made-")
        (self._made.path / "tmp").mkdir()
        main = config.default_model_filename or "model.py"
        for each, file in ((name, main), *((one, "model.py") for one, _ in others)):
            append_to(self.path / each, file, _KEEP_FILES.format(directory=str(self._made.path)))
        if probe is not None:
            probe.attach(self.path / name, main)
        own_options = replace(
            options,
            model_control_mode="explicit",
            startup_models=(),
            cache_config="",
            recording=False,
            postmortem_seconds=0.0,
            watchdog_seconds=0.0,
            trace_setting=None,
            model_namespacing=False,
            exit_on_error=True,
        )
        self.server = Server(self.path, own_options)
        self.server.instruments.add(self.watch)
        self._others = [each for each, _ in others]
        #: whether the others are its parts, whose processes start and end with it
        self.is_ensemble = bool(is_ensemble(config))
        #: fields of its config, in their JSON form, that always differ from the author's
        self.base: dict[str, Any] = {}
        self.override: dict[str, Any] = {}
        self.load_seconds = 0.0
        #: whether its `finalize` was found not to end; then it is killed at once
        self._ends_slowly = False
        self._has_started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.server.stop(0.5)
        finally:
            self._remove_made()
            self._scratch.remove()

    # -- its files

    def count_files(self) -> int:
        """Return how many files that the copy has made still exist: in its directory, and among temporary ones."""
        own = sum(len(files) for root in (self.path, self._made.path / "tmp") for _, _, files in os.walk(root))
        return own + sum(path.is_file() for path in self._find_made_elsewhere())

    def _find_made_elsewhere(self) -> set[Path]:
        """Return the files and directories that it has made in the temporary directory, outside of its own."""
        with suppress(OSError):
            return set(map(Path, (self._made.path / _MADE).read_text(errors="surrogateescape").split("\0")[:-1]))
        return set()

    def _remove_made(self) -> None:
        for path in sorted(self._find_made_elsewhere(), reverse=True):  # a directory comes after its contents
            with suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        self._made.remove()

    # -- its life cycle

    def start(self, **differing: Any) -> None:
        """Load the copy in new processes. `differing`: fields of its config, in their JSON form, that differ from the
        author's. Raises ModelLoadError."""
        self.stop()
        for each in self._others:
            if self.server.model(each).state != "READY":
                self.server.load(each)
        self.override = differing
        began = time.monotonic()
        try:
            self._load(differing)
        except TritonError:
            if not self._has_started or differing.get("instance_group"):
                raise
            # files of an earlier process, named after its directory, may be in its way
            self._move()
            self._load(differing)
        self._has_started = True
        self.load_seconds = time.monotonic() - began

    def _load(self, differing: Mapping[str, Any]) -> None:
        """Load the copy: the first time without a limit, later within a multiple of the first time. Raises
        ModelLoadError, also if that time is over."""
        config = self.written(**differing)
        if not self._has_started:
            self.server.load(self.name, config=config)
            return
        seconds = max(_LOAD, _LOAD_TIMES * self.load_seconds)
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            for version in self.server.core.control.loading(self.name):
                version.abort()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            self.server.load(self.name, config=config)
        except TritonError as error:
            if is_late.is_set():
                raise ModelLoadError(f"it is not READY after {seconds:.0f} s") from error
            raise
        finally:
            timer.cancel()

    def _move(self) -> None:
        """Copy everything to another directory, and load from there."""
        self.stop(_SLOW_END)
        scratch = ScratchDirectory("check-")
        for each in self.path.iterdir():
            shutil.copytree(each, scratch.path / each.name, symlinks=True)
        self.server.unregister_model_repository(self.path)
        self.server.register_model_repository(scratch.path)
        self._scratch.remove()
        self._scratch, self.path = scratch, scratch.path

    def written(self, **differing: Any) -> dict[str, Any]:
        """Return the config of the copy: the author's with `base` and `differing`, with one instance, and without a
        cache, which would keep answers."""
        found: dict[str, Any] = to_dict(self.config)
        found.pop("response_cache", None)
        if not self.is_ensemble:
            groups = found.get("instance_group") or [{"count": 1, "kind": "KIND_CPU"}]
            found["instance_group"] = [{**groups[0], "count": 1, "name": ""}]
        for key, value in {**self.base, **differing}.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        from_json(found)  # raises for an invalid config
        return found

    def fresh(self) -> None:
        """Load the copy again as it is now, in new processes."""
        self.start(**self.override)

    @property
    def is_hashable(self) -> bool:
        """Return whether its processes can be started with another hash seed: they run this Python."""
        own = self.path / self.name / own_stub.NAME
        return self.probe is not None and PARAMETER not in self.config.parameters and not own.exists()

    @contextmanager
    def with_hash_seeds(self) -> Iterator[Callable[[int], None]]:
        """Return a function that starts new processes with that PYTHONHASHSEED, which is fixed for the life of a
        process."""
        directory = self.path / self.name
        python = directory / _PYTHON

        def start(seed: int) -> None:
            python.unlink(missing_ok=True)
            python.write_text(f'#!/bin/sh\nPYTHONHASHSEED={seed} exec {shlex.quote(sys.executable)} "$@"\n')
            python.chmod(0o755)
            own_stub.write_own_stub(directory, str(python))
            self.fresh()

        try:
            yield start
        finally:
            python.unlink(missing_ok=True)
            (directory / own_stub.NAME).unlink(missing_ok=True)
            self.fresh()

    def stop(self, timeout: float | None = None) -> float:
        """Unload the copy and return how many seconds that took. It is killed after `timeout` seconds."""
        began = time.monotonic()
        default = _SLOW_END if self._ends_slowly else _END
        for each in (self.name, *(self._others if self.is_ensemble else ())):
            with suppress(TritonError):
                self.server.unload(each, timeout=timeout or default)
        seconds = time.monotonic() - began
        self._ends_slowly = self._ends_slowly or seconds >= _END - 0.1
        return seconds

    def load(self) -> None:
        """Load the copy again while it serves, like an author who has edited it."""
        self.server.load(self.name, config=self.written(**{**self.override, "parameters": self._marked()}))

    def _marked(self) -> dict[str, Any]:
        """Return its parameters and a new one, so that the next load is not skipped."""
        known = dict(to_dict(self.config).get("parameters", {}))
        return {**known, "tritonlab_check": {"string_value": str(time.monotonic_ns())}}

    @property
    def version(self) -> ModelVersion:
        return self.server.core.find(self.name)

    @property
    def instances(self) -> list[ModelInstance]:
        """Return the instances of the copy, or of the models that it consists of."""
        versions = [self.version]
        if self.is_ensemble:
            versions += [self.server.core.find(each) for each in self._others]
        return [one for version in versions for one in version.instances]

    @property
    def pids(self) -> list[int]:
        return [pid for one in self.instances if (pid := one.pid) is not None]

    @property
    def decoupled(self) -> bool:
        return bool(is_decoupled(self.config))

    @property
    def batches(self) -> bool:
        """Return whether the copy, as it is loaded now, can have several requests in one execution."""
        found = self.version.config
        return bool(found.max_batch_size > 0 and found.HasField("dynamic_batching"))

    # -- requests

    def ask(
        self,
        requests: Sequence[InferenceRequest],
        *,
        instance: int = 0,
        gather: bool = False,
        cancel: Mapping[int, int] | None = None,
        enough: tuple[int, float] | None = None,
    ) -> list[ModelAnswer]:
        """Send requests and wait for their ends.

        Args:
            gather: send them as one batch, in that order, to that instance.
            cancel: the numbers of the requests to cancel, each with the number of responses before that; -1 for as soon
                as they execute.
            enough: the responses and the seconds after a cancellation; once both are reached, the wait for a stream
                ends.
        """
        version = self.version
        self.watch.polled.clear()  # a number of an object is used again
        before = len(self.watch.deaths)
        held = self._hold(version) if gather else []
        sent = []
        for number, request in enumerate(requests):
            one = _SentRequest(request, time.monotonic(), cancel_at=(cancel or {}).get(number, -2), enough=enough)
            request.on_response = one.receive
            sent.append(one)
            self._send(one, version)
            if one.cancel_at == 0:
                request.cancel()
        scheduler: Any = version.scheduler
        if held:
            scheduler.instance_idle(held.pop(instance % len(held)))
        for one in sent:
            if one.cancel_at == -1:
                one.request.cancel()
        for other in held:
            scheduler.instance_idle(other)
        _wait(sent, self.timeout)
        died = len(self.watch.deaths) > before
        return [self._answer(one, died) for one in sent]

    def _send(self, one: _SentRequest, version: ModelVersion) -> None:
        try:
            self.server.core.infer(one.request, version)
        except TritonError as error:
            one.error, one.ended_at = error, time.monotonic()
            one.done.set()

    def _hold(self, version: ModelVersion) -> list[ModelInstance]:
        """Make requests wait until an instance is idle again, as if all were busy. Raises UnavailableError if one stays
        busy."""
        instances = list(version.instances)
        scheduler: Any = version.scheduler
        deadline = time.monotonic() + self.timeout
        for number, one in enumerate(instances):
            while not scheduler.instance_away(one):  # the message that an execution has ended may be on its way
                if time.monotonic() > deadline:
                    for held in instances[:number]:
                        scheduler.instance_idle(held)
                    raise UnavailableError(f"an instance of '{self.name}' is still busy")
                time.sleep(0.0005)
        return instances

    def _answer(self, one: _SentRequest, died: bool) -> ModelAnswer:
        ended = one.ended_at > 0
        executes = any(each.payload is not None for each in self.instances)
        sends = not ended and time.monotonic() - one.latest_at < self.timeout / 2
        if not ended:
            one.request.cancel()
        error = one.error
        exception = error.exception if isinstance(error, ModelError) else None
        return ModelAnswer(
            responses=tuple(one.responses),
            error=(error.message.strip() or "an error without a text") if error is not None else "",
            exception=exception,
            ended=ended,
            empty=one.empty,
            seconds=(one.ended_at or time.monotonic()) - one.started,
            after=one.after,
            polled=id(one.request) in self.watch.polled,
            died=died,
            busy=not ended and (executes or sends),
            sends=sends and bool(one.responses),
        )


def _wait(sent: Sequence[_SentRequest], timeout: float) -> None:
    """Wait for the ends of requests, until none has come for `timeout` seconds: they may be executed one by one."""
    for one in sent:
        ended = time.monotonic()
        while not one.done.wait(max(ended + timeout - time.monotonic(), 0.0)):
            latest = max(each.ended_at for each in sent)
            if latest <= ended:
                return
            ended = latest


def _copy(origin: Path, target: Path) -> None:
    def copy(source: str, destination: str) -> str:
        if Path(source).stat().st_size > _LINKED:
            Path(destination).symlink_to(Path(source).resolve())
            return destination
        return str(shutil.copy2(source, destination))

    elsewhere: list[Path] = []

    def leave(folder: str, names: list[str]) -> list[str]:
        """Return the links to directories elsewhere, which may be a whole home directory."""
        found = [name for name in names if (Path(folder) / name).is_dir() and leads_out(Path(folder) / name, roots)]
        elsewhere.extend(Path(folder) / name for name in found)
        return found

    roots = (origin, origin.parent)
    shutil.copytree(origin, target, copy_function=copy, ignore=leave, ignore_dangling_symlinks=True)
    for link in elsewhere:
        (target / link.relative_to(origin)).symlink_to(link.resolve())
