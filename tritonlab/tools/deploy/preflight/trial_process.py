"""The process in which pre-flight tries models: `python -m tritonlab.tools.deploy.preflight.trial_process JOB`."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pickle
import resource
import struct
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ....core.status import TritonError
from ....exchanges.exchange import Exchange
from ....exchanges.sending import ask
from ....repository.layout import LEFT_BEHIND
from ....server.api.server import Server
from ..verify.hiding import is_in
from .trial import Job, LoadedAgain, Seen

_REQUEST_SECONDS = 60.0
_MS_BIND, _MS_REC = 4096, 16384
_IN_OPEN, _IN_NONBLOCK = 0x20, 0o4000
_EVENT = struct.Struct("iIII")
#: The most directories that are watched.
_MOST_WATCHED = 20_000
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(file: str) -> None:
    """Do the job in the file, and write the observations next to it."""
    job: Job = pickle.loads(Path(file).read_bytes())
    hide(job)
    os.chdir(job.cwd)
    watch = FolderWatch(job.watched, besides=job.shown)
    options = {**job.options, "warm": None if len(job.models) > 1 else 0, "audit_reads": not job.hidden}
    with Server((), model_control_mode="explicit", recording=False, watchdog_seconds=0.0, **options) as server:
        _register(server, [*job.others, *job.models])
        for model in (*job.others, *job.models):
            with suppress(TritonError):  # a model that needs it fails, too
                if model in job.others:
                    server.load(model.name, config=model.config)
        watch.take()
        found = {model.name: _load_and_look(server, model, watch) for model in job.models}
    (job.scratch / "seen").write_bytes(pickle.dumps(found))


def _register(server: Server, models: Iterable[LoadedAgain]) -> None:
    """Register the directories with the models, once each, with the names under which they are served."""
    repositories: dict[Path, dict[str, str]] = {}
    for model in models:
        names = repositories.setdefault(model.directory.parent, {})
        if model.directory.name != model.name:
            names[model.directory.name] = model.name
    for repository, names in repositories.items():
        server.register_model_repository(repository, names)


def _load_and_look(server: Server, model: LoadedAgain, watch: FolderWatch) -> Seen:
    try:
        loaded = server.load(model.name, config=model.config)
    except TritonError as error:
        return Seen(problem=error.message, opened=watch.take())
    seen = Seen(answers=tuple(_answer(ask(loaded, request, _REQUEST_SECONDS)) for request in model.requests))
    with suppress(TritonError):
        reads, modules = tuple(loaded.reads()), loaded.modules()
        is_whole = bool(reads) and not any(instance["last_death"] for instance in loaded.instances())
        seen = replace(seen, reads=reads, modules=modules, is_whole=is_whole)
    with suppress(TritonError):
        server.unload(model.name, timeout=3.0)
    return replace(seen, opened=watch.take())


def _answer(exchange: Exchange) -> tuple[str, str]:
    digest = hashlib.sha256()
    for response in exchange.responses:
        for name, tensor in sorted(response.outputs.items()):
            digest.update(f"{name} {tensor.datatype.name} {tensor.shape} ".encode())
            digest.update(tensor.to_host().data.tobytes())
    return (exchange.error.message if exchange.error is not None else ""), digest.hexdigest()


def hide(job: Job) -> None:
    """Empty the hidden directories and files for this process and its children, which have their own mount namespace.
    The shown files, and the files that this process has mapped, are bound to their places again."""
    if not job.hidden:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.chdir("/")
    # such as the library of its Python
    mapped = (line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line)
    shown = {os.path.abspath(path) for path in (*job.shown, *mapped, str(job.scratch)) if os.path.isabs(path)}
    inside = [path for path in sorted(shown) if is_in(path, *job.hidden) and os.path.exists(path)]
    inside = [path for number, path in enumerate(inside) if not is_in(path, *inside[:number])]
    passed = [(path, os.readlink(path) if os.path.islink(path) else "") for path in sorted(job.passed)]
    opened = [(path, os.path.isdir(path), os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in inside]
    empty = job.scratch / "empty"
    empty.touch()
    for path in sorted(job.hidden, key=os.path.isdir):  # files first: the empty one may be in a hidden directory
        if os.path.isdir(path):
            mode = oct(os.stat(path).st_mode & 0o7777)[2:]
            _mount("tmpfs", path, "tmpfs", 0, f"mode={mode}")
        else:
            with suppress(FileNotFoundError):  # another program's file, which was removed meanwhile
                _mount(str(empty), path, "", _MS_BIND)
    for path, is_directory, fd in opened:
        if is_directory:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).touch()
        _mount(f"/proc/self/fd/{fd}", path, "", _MS_BIND | _MS_REC)
        os.close(fd)
    for path, link in passed:
        if link and not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(link, path)
        elif is_in(path, *job.hidden) and not os.path.lexists(path):
            os.makedirs(path)
    os.makedirs(job.cwd, exist_ok=True)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}, mounting {target}")


class FolderWatch:
    """A record of the files in some directories, and below them, that any process opens (inotify)."""

    def __init__(self, folders: Iterable[str], besides: Iterable[str]) -> None:
        self._folders: dict[int, str] = {}
        left_out = set(besides)
        waiting = deque(folders)
        self._fd = _LIBC.inotify_init1(_IN_NONBLOCK) if waiting else -1
        while waiting and self._fd >= 0 and len(self._folders) < _MOST_WATCHED:
            folder = waiting.popleft()  # breadth first: a tree of packages must not use up all watches
            number = _LIBC.inotify_add_watch(self._fd, os.fsencode(folder), ctypes.c_uint32(_IN_OPEN))
            if number < 0:
                continue
            self._folders[number] = folder
            with suppress(OSError), os.scandir(folder) as entries:
                inside = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
                waiting += [path for path in inside if path not in left_out and not path.endswith(LEFT_BEHIND)]

    def take(self) -> frozenset[str]:
        """Return the files that were opened since the last call."""
        found = set()
        while self._fd >= 0:
            try:
                data = os.read(self._fd, 1 << 20)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                number, _, _, size = _EVENT.unpack_from(data, at)
                name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0"))
                if name and number in self._folders:
                    found.add(os.path.join(self._folders[number], name))
                at += _EVENT.size + size
        return frozenset(path for path in found if os.path.isfile(path))


if __name__ == "__main__":
    main(sys.argv[1])
