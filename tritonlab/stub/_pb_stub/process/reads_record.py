"""The reads of the author's code outside of its model: files and environment variables, recorded while the model is
loaded, and on request while it executes.

While recording, `open`, `os.mkdir` and the class of `os.environ` and `os.environb` are replaced. In pre-flight's own
processes an audit hook sees more, from the load to the last request: listed directories, files that are only checked,
databases, libraries, programs and connections. Other stubs lack it, because it cannot be removed, and the reading of
every message is an event: 1.6 us each, measured (`marshal.loads` 0.28 us without a hook, 1.93 us with one that returns
at once; Python 3.11, 2026-11-24), of the 60 us that a request takes. A read counts if the author's code makes it,
directly or through a call; reads of libraries at their import do not.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import shlex
import stat
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..wire.message_bodies import ReadFile, ReadsRecorded, ReadVariable

#: Directories of a deployed server's own files; within them, those that only this machine may have; within these, those
#: that all have.
_EVERYWHERE = (
    *("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/opt/tritonserver/"),
)
_HERE = ("/etc/", "/usr/local/", "/usr/share/", "/dev/shm/")
_COMMON = re.compile(
    "/etc/(passwd|group|hosts|host.conf|hostname|resolv.conf|nsswitch.conf|gai.conf|services|protocols|localtime|timezone|"
    "os-release|lsb-release|debian_version|machine-id|mtab|fstab|profile|environment|shells|login.defs|ld.so.*|ssl/.*|"
    "ca-certificates.*|mime.types|alternatives/.*|python3.*)$|/usr/share/(zoneinfo|ca-certificates|locale|i18n|misc)/|"
    "/usr/local/(cuda[^/]*|lib/python3[^/]*|share/ca-certificates)/|/usr/local/bin/python3?[^/]*$"
)
#: Directories that every machine has, whatever is in them.
_DIRECTORIES = {"/", "/tmp", "/var", "/var/tmp", "/home", "/root", "/opt", "/mnt", "/media", "/srv", "/run"}
#: Programs that every image has.
_PROGRAMS = set(
    re.findall(
        r"\S+",
        "sh bash env cat cp mv rm ls ln mkdir rmdir touch echo printf true false test uname hostname id whoami date "
        "sleep head tail wc sort uniq cut tr grep sed awk find xargs chmod chown stat du df pwd cd dirname basename "
        "readlink realpath mktemp tar gzip gunzip md5sum sha256sum ldconfig ldd kill nproc nvidia-smi tritonserver",
    )
)
_SHELLS = {"sh", "bash", "dash"}
_PACKAGES = ("%ssite-packages%s" % (os.sep, os.sep), "%sdist-packages%s" % (os.sep, os.sep))
#: The most records kept of each kind.
_MOST = 200
_LIBRARY = os.path.dirname(os.__file__)
_STUB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MAPPINGS = os.path.join(_LIBRARY, "_collections_abc.py")
_MAPPING_FILES = {"<frozen os>", "<frozen _collections_abc>", os.__file__, _MAPPINGS}
#: Functions of mappings that read all variables, or set one.
_BULK = {"copy", "__iter__", "setdefault", "__eq__", "__repr__", "__or__", "__ror__"}

#: The uses of a file. A held one was opened by code that is not Python; a passed one is a directory before a `..`.
OPENED, LISTED, LOOKED, STARTED, LOADED, HELD, PASSED = "open", "list", "look", "start", "load", "hold", "pass"
#: Links of a process to any place, below a directory that every machine has.
_LINKS = re.compile("/proc/(self|thread-self|[0-9]+)/(cwd|root)(/|$)")
#: Modules whose functions check a file, or start a program, on behalf of their caller.
_ASKING = (
    *("<frozen genericpath>", "<frozen posixpath>"),
    *(os.path.join(_LIBRARY, name) for name in ("genericpath.py", "posixpath.py", "pathlib")),
)
_STARTING = tuple(os.path.join(_LIBRARY, name) for name in ("subprocess.py", "os.py", "asyncio", "multiprocessing"))

Place = Tuple[str, int]


class ReadsRecord:
    """The record of this process. Threads may read files at the same time, which a dict supports."""

    def __init__(self) -> None:
        self.recording = False
        self._open = _RecordedOpen(self)
        self._mkdir = _RecordedMkdir(self)
        self._model_directory = ""
        self._working_directory = ""
        self._files: Dict[str, Tuple[str, int, bool, str]] = {}
        self._variables: Dict[str, Place] = {}
        #: variables that the model has set itself, then files that it has written and directories that it has made
        self._own: Set[str] = set()
        self._written: Set[str] = set()
        self._environment_class: Any = None
        #: None without an audit hook
        self._audit: Optional[_Audit] = None

    def begin(self, version_directory: str, audits: bool = False) -> None:
        """Record from now on, before the author's module is imported. `audits`: the endless events of an audit hook."""
        self._model_directory = os.path.dirname(os.path.realpath(version_directory))
        self._working_directory = _working_directory()
        self.set_recording(True)
        if audits:
            self._audit = _Audit(self)

    def set_recording(self, on: bool) -> None:
        """Resume or end a recording."""
        if on == self.recording or self._audit is not None:
            return
        self.recording = on
        modules: Tuple[Any, ...] = (builtins, io)
        for module in modules:
            if module.open is (self._open.real if on else self._open):  # otherwise a library has replaced it
                module.open = self._open if on else self._open.real
        if os.mkdir is (self._mkdir.real if on else self._mkdir):
            vars(os)["mkdir"] = self._mkdir if on else self._mkdir.real  # os.makedirs looks it up there
        if on:
            self._environment_class = type(os.environ)
        kind = _recorded_class(self._environment_class, self) if on else self._environment_class
        for environment in (os.environ, os.environb):
            with contextlib.suppress(TypeError):  # a library has replaced it
                environment.__class__ = kind

    def recorded(self) -> ReadsRecorded:
        """Return the reads so far. May be called on any thread."""
        version = "%d.%d.%d" % sys.version_info[:3]
        files = [ReadFile(path, *found) for path, found in list(self._files.items())]
        variables = [ReadVariable(name, *place) for name, place in list(self._variables.items())]
        found = ReadsRecorded(version, self._working_directory, files, variables, sorted(self._written.copy()))
        if self._audit is None:
            return found
        files += [ReadFile(path, "", 0, how=HELD) for path in self._held() if path not in self._files]
        named = [[ReadVariable(name, *place) for name, place in list(each.items())] for each in self._audit.named]
        return found._replace(programs=named[0], connections=named[1])

    def _held(self) -> Iterator[str]:
        """Yield the files outside of the model that this process has open or mapped."""
        modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        for path in sorted(_open_files()):
            mode = os.stat(path).st_mode if os.path.exists(path) else 0
            packaged = path in modules or any(part in path for part in _PACKAGES)
            if stat.S_ISREG(mode) and not (packaged or self.is_written(path) or self._is_brought(path)):
                yield path

    # -- files

    def note_file(self, path: Any, mode: Any, frame: Any, how: str = OPENED) -> None:
        """Note a file that is opened by `frame`, or another use of it."""
        if isinstance(path, int):
            return
        given = os.fsdecode(path)
        path = _absolute(given)
        if set(mode) & set("wxa"):
            self.note_written(path)
            return
        earlier = self._files.get(path)
        if (earlier is not None and (earlier[3] != LOOKED or how == LOOKED)) or len(self._files) >= _MOST:
            return
        if self.is_written(path) or self._is_brought(path):
            return
        place = self.authors_place(frame)
        if place is not None:
            self._files[path] = (*place, not os.path.isabs(given), how)
            for passed in _passed(given):
                if not self._is_brought(passed):
                    self._files.setdefault(passed, (*place, False, PASSED))

    def note_written(self, path: Any) -> None:
        """Note a file that is opened for writing, or a directory that was made: its contents are the model's own."""
        if isinstance(path, int) or len(self._written) >= _MOST:
            return
        path = _absolute(os.fsdecode(path))
        if not self.is_written(path):
            self._written.add(path)

    def is_written(self, path: str) -> bool:
        """Return whether the model has written the file itself, or made its directory."""
        while path not in self._written:
            path, below = os.path.dirname(path), path
            if path == below:
                return False
        return True

    def _is_brought(self, path: str) -> bool:
        """Return whether a deployed server has the file, too, or a package of the environment includes it."""
        real = os.path.realpath(path)
        if real == self._model_directory or real.startswith(self._model_directory + os.sep):
            return True
        return is_everywhere(path) or any(real.startswith(os.path.realpath(root) + os.sep) for root in _roots())

    def authors_place(self, frame: Any) -> Optional[Place]:
        """Return the author's line behind this call; None without one, or for an import."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib"):
                return None
            if self.is_authors(name):
                return name, frame.f_lineno
            frame = frame.f_back
        return None

    def is_authors(self, file: str) -> bool:
        if file.startswith(("<", _LIBRARY + os.sep, _STUB_DIRECTORY + os.sep)) or any(p in file for p in _PACKAGES):
            return False  # such as `<frozen os>`
        return any(
            root and os.path.realpath(file).startswith(root + os.sep)
            for root in (self._model_directory, self._working_directory)
        )

    # -- variables

    def note_variable(self, name: Any, frame: Any) -> None:
        """Note a variable that is read by `frame`, the caller of the mapping's method."""
        while frame is not None and frame.f_code.co_filename in _MAPPING_FILES:
            if frame.f_code.co_name in _BULK:
                return
            frame = frame.f_back
        name = os.fsdecode(name) if isinstance(name, bytes) else name
        if not isinstance(name, str) or name in self._own or name in self._variables or len(self._variables) >= _MOST:
            return
        if frame is not None and self.is_authors(frame.f_code.co_filename):
            self._variables[name] = (frame.f_code.co_filename, frame.f_lineno)

    def note_set(self, name: Any) -> None:
        self._own.add(os.fsdecode(name) if isinstance(name, bytes) else name)


class _Audit:
    """The audit hook, and `os.stat` and `os.access`, which raise no event. `named`: the started programs, then the
    connected addresses, and the author's lines.
    """

    def __init__(self, record: ReadsRecord) -> None:
        self._record = record
        self._inside = threading.local()
        self.named: Tuple[Dict[str, Place], Dict[str, Place]] = ({}, {})
        #: ports on which the model itself listens
        self._bound: Set[Any] = set()
        self._handlers: Dict[str, Callable[..., None]] = {
            "open": self.heed_open,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "glob.glob": self._glob,
            "pathlib.Path.glob": lambda frame, path, *more: self._look(frame, path),
            "os.mkdir": lambda frame, path, *more: None if os.path.exists(path) else record.note_written(path),
            **dict.fromkeys(("os.rename", "os.link", "os.symlink"), self._make),
            "sqlite3.connect": self._connect_database,
            "ctypes.dlopen": self._load,
            "subprocess.Popen": lambda frame, program, words, *more: self._start(frame, words),
            "os.exec": lambda frame, path, words, *more: self._start(frame, words),
            "os.posix_spawn": lambda frame, path, words, *more: self._start(frame, words),
            "os.system": self._start,
            "socket.bind": lambda frame, sock, address: self._bound.add(_port(address)),
            "socket.connect": lambda frame, sock, address: self._connect(frame, address),
            "socket.getaddrinfo": lambda frame, host, port, *more: self._connect(frame, (host, port)),
            "urllib.Request": lambda frame, url, *more: self._connect(frame, url),
        }
        for name in ("stat", "access"):
            vars(os)[name] = _WatchedCall(getattr(os, name), self)
        vars(os)["open"] = _WatchedOpen(os.open, self)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        handler = self._handlers.get(event)
        if handler is not None:
            self.note(handler, sys._getframe(1), *arguments)

    def note(self, handler: Callable[..., None], *arguments: Any) -> None:
        """Call a handler, unless a handler causes the event. An error here would reach the author."""
        if getattr(self._inside, "is_noting", False):
            return
        self._inside.is_noting = True
        try:
            with contextlib.suppress(Exception):
                handler(*arguments)
        finally:
            self._inside.is_noting = False

    def unheard(self, function: Any, *arguments: Any, **settings: Any) -> Any:
        """Call a function whose events do not count, and return its result."""
        before = getattr(self._inside, "is_noting", False)
        self._inside.is_noting = True
        try:
            return function(*arguments, **settings)
        finally:
            self._inside.is_noting = before

    def heed_open(self, frame: Any, path: Any, mode: Any, flags: int) -> None:
        if mode is None:  # os.open
            mode = "w" if flags & (os.O_CREAT | os.O_TRUNC | os.O_WRONLY) else "r"
        self._record.note_file(path, mode, frame)

    def _list(self, frame: Any, path: Any) -> None:
        self._record.note_file("." if path is None else path, "r", frame, LISTED)

    def _glob(self, frame: Any, pattern: Any, *more: Any) -> None:
        folder = re.split(r"[^/]*[*?[]", os.fsdecode(pattern), maxsplit=1)[0]
        self._look(frame, folder or ".")

    def _look(self, frame: Any, path: Any) -> None:
        if _absolute(os.fsdecode(path)) not in _DIRECTORIES:
            self._record.note_file(os.fspath(path), "r", frame, LOOKED)

    def ask(self, path: Any, frame: Any) -> None:
        """Note that `frame` checks an existing file. A library's checks of directories do not count: it may be about to
        make one below.
        """
        if not isinstance(path, int):
            while frame is not None and frame.f_code.co_filename.startswith(_ASKING):
                frame = frame.f_back
            if self._record.is_authors(frame.f_code.co_filename) or os.path.isfile(path):
                self._look(frame, path)

    def _make(self, frame: Any, source: Any, target: Any, *more: Any) -> None:
        if self._record.is_written(_absolute(os.fsdecode(source))) or not os.path.exists(target):
            self._record.note_written(target)

    def _connect_database(self, frame: Any, database: Any) -> None:
        path = os.fsdecode(database)
        if path.startswith("file:"):
            path = path[5:].partition("?")[0]
        if path and path != ":memory:":
            self._record.note_file(path, "r" if os.path.exists(path) else "w", frame)

    def _load(self, frame: Any, name: Any) -> None:
        if name and os.sep in os.fsdecode(name):  # others are searched like on the target
            self._record.note_file(name, "r", frame, LOADED)

    def _start(self, frame: Any, command: Any) -> None:
        """Note a program and the files in its words."""
        while frame is not None and frame.f_code.co_filename.startswith(_STARTING):
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(_LIBRARY + os.sep):
            return  # such as `platform`, which has an answer without it, too
        if isinstance(command, (str, bytes)):
            words = shlex.split(os.fsdecode(command))
        else:
            words = [os.fsdecode(word) for word in command]
        if os.path.basename(words[0]) in _SHELLS and "-c" in words[1:-1]:
            words = shlex.split(words[words.index("-c") + 1])
        self._start_words(frame, words)

    def _start_words(self, frame: Any, words: Sequence[str]) -> None:
        program = words[0]
        name = os.path.basename(program)
        if os.sep in program and not is_everywhere(program):
            self._record.note_file(program, "r", frame, STARTED)
        elif name not in _PROGRAMS and not name.startswith("python"):
            place = self._record.authors_place(frame)
            if place is not None:
                self.named[0].setdefault(name, place)
        for word in words[1:]:
            path = word.partition("=")[2] if word.startswith("-") else word
            if path and os.path.isfile(path):
                self._record.note_file(path, "r", frame, STARTED)

    def _connect(self, frame: Any, address: Any) -> None:
        connections = self.named[1]
        place = self._record.authors_place(frame)
        if place is None or place in connections.values() or len(connections) >= _MOST:
            return  # a line looks up a name, then connects with its address
        if _port(address) in self._bound or (0 in self._bound and address[0] in ("localhost", "127.0.0.1", "::1")):
            return
        if isinstance(address, tuple):
            address = "%s:%s" % tuple(address[:2])
        connections[re.sub(r"(\w+://)?([^/@]*@)?([^/?]*)(/.*)?", r"\1\3", os.fsdecode(address)) or "?"] = place


def _port(address: Any) -> Any:
    return address[1] if isinstance(address, tuple) else address


class _WatchedCall:
    """`os.stat` or `os.access` with an audit hook."""

    def __init__(self, real: Any, audit: _Audit) -> None:
        self._real = real
        self._audit = audit
        for kinds in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if real in kinds:
                kinds.add(self)

    def __call__(self, path: Any, *arguments: Any, **settings: Any) -> Any:
        found = self._real(path, *arguments, **settings)  # raises for a missing one, on which nothing depends
        if found:
            self._audit.note(self._audit.ask, _below(settings.get("dir_fd"), path), sys._getframe(1))
        return found


class _WatchedOpen(_WatchedCall):
    """`os.open` with an audit hook, whose event lacks the directory of a path."""

    def __call__(self, path: Any, flags: Any, *arguments: Any, **settings: Any) -> Any:
        if settings.get("dir_fd") is None:
            return self._real(path, flags, *arguments, **settings)
        self._audit.note(self._audit.heed_open, sys._getframe(1), _below(settings["dir_fd"], path), None, flags)
        return self._audit.unheard(self._real, path, flags, *arguments, **settings)


def _below(directory: Optional[int], path: Any) -> Any:
    """Return the path of a file that is named relative to an open directory."""
    if directory is None or isinstance(path, int):
        return path
    return os.path.join(os.readlink("/proc/self/fd/%d" % directory), os.fsdecode(path))


def _absolute(path: str) -> str:
    """Return the absolute path without `..`, which leads from a link to another place than the text says."""
    path = os.path.join(os.getcwd(), path)
    head, tail = os.path.split(path.rstrip(os.sep))
    if os.pardir in path.split(os.sep) or _LINKS.match(path):
        is_name = tail != os.pardir and not (_LINKS.match(path) and tail in ("cwd", "root"))
        path = os.path.join(os.path.realpath(head), tail) if is_name else os.path.realpath(path)
    return os.path.normpath(os.sep + path.lstrip(os.sep))  # two slashes at the start would stay


def _passed(path: str) -> Set[str]:
    """Return the directories that must be there because a `..` follows them."""
    parts = os.path.join(os.getcwd(), path).split(os.sep)
    before = [os.sep.join(parts[:number]) for number, part in enumerate(parts) if part == os.pardir]
    return {found for each in before for found in (_absolute(each), os.path.realpath(each))} - {os.sep}


def is_everywhere(path: str) -> bool:
    """Return whether a deployed server has a file at this absolute path, too."""
    if path.startswith(_HERE):
        return _COMMON.match(path) is not None
    return path.startswith(_EVERYWHERE)


def _roots() -> Iterator[str]:
    """Yield the directories whose files come with a Python, or with this package."""
    yield from (_LIBRARY, _STUB_DIRECTORY)
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        yield prefix if prefix not in ("/usr", "/usr/local") else os.path.join(prefix, "lib")


def _open_files() -> Set[str]:
    """Return the files that this process has mapped, or has open for reading."""
    found = set()
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        found = {line.split(None, 5)[5].rstrip() for line in maps if line.count("/")}
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError), open("/proc/self/fdinfo/" + number) as about:
                flags = int(re.findall(r"flags:\s*(\d+)", about.read())[0], 8)
                if flags & os.O_ACCMODE != os.O_WRONLY:
                    found.add(os.readlink("/proc/self/fd/" + number))
    return found


class _RecordedOpen:
    """`open` while recording. An object, because a function would become a method in a class that keeps it."""

    def __init__(self, record: ReadsRecord) -> None:
        self.real = open
        self._record = record

    def __call__(self, file: Any, mode: Any = "r", *arguments: Any, **settings: Any) -> Any:
        if self._record.recording:
            with contextlib.suppress(Exception):  # an error here would reach the author
                self._record.note_file(file, mode, sys._getframe(1))
        return self.real(file, mode, *arguments, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _RecordedMkdir:
    """`os.mkdir` while recording."""

    def __init__(self, record: ReadsRecord) -> None:
        self.real = os.mkdir
        self._record = record

    def __call__(self, path: Any, *arguments: Any, **settings: Any) -> None:
        self.real(path, *arguments, **settings)  # raises for an existing directory, whose files are not the model's
        if self._record.recording and settings.get("dir_fd") is None:
            with contextlib.suppress(Exception):  # an error here would reach the author
                self._record.note_written(path)


def _recorded_class(kind: Any, record: ReadsRecord) -> Any:
    """Return a subclass of the class of `os.environ` and `os.environb` that notes reads."""
    bulk: List[Tuple[int, int]] = [(0, 0)]

    class Recorded(kind):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            value = super().__getitem__(key)  # raises for an unset one, on which nothing depends
            frame = sys._getframe(1)
            if (id(frame), frame.f_lasti) != bulk[0]:
                record.note_variable(key, frame)
            return value

        def keys(self) -> Any:
            frame = sys._getframe(1)
            bulk[0] = (id(frame), frame.f_lasti)  # dict(os.environ) reads each of them, at the same instruction
            return super().keys()

        def __setitem__(self, key: Any, value: Any) -> None:
            record.note_set(key)
            super().__setitem__(key, value)

    Recorded.__name__, Recorded.__qualname__ = kind.__name__, kind.__qualname__
    return Recorded


def _working_directory() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return ""
