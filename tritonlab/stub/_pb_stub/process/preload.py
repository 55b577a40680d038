"""The imports that a zygote makes before a model exists, and whether a process with those imports may be forked.

A stub forked from it must not differ from a stub in which the model itself makes the same imports, in the same order.
So a module is left out if it does something that would not survive the fork, or that forks would share: it starts
threads or timers, opens descriptors (sockets, GPUs), maps shared memory, makes temporary files or changes where Python
looks for modules. Threads are counted after a trial fork: a library that supports forks, such as numpy's OpenBLAS, has
then ended its own.

jemalloc, which pyarrow and so pandas bring, supports forks too, but its thread stays: in a fork the allocator is
intact, and frees unused memory itself instead of by a thread (`background_thread_postfork_child`). Measured on two busy
cores, an edited cell with pandas: READY in 0.3 to 0.6 s if it is left out for that thread, 0.06 s if not.

Two facts are available only by private names: that `tempfile` has made a name (`_name_sequence`), and that torch would
refuse the GPU in a fork (`_is_in_bad_fork`). A library without them counts as harmless, and so does a stand-in; a
library that raises at such a check in a fork is left out.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
import warnings
from importlib import machinery
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Set, Tuple

from ..wire.fork_bodies import ImportStep
from .module_facts import file_of, own_names

#: Seconds within which ended threads must be gone.
_THREADS_END = 0.2
#: Names, in /proc, of threads that a fork does not need.
_SPARE_THREADS = frozenset({"jemalloc_bg_thd"})
#: Seconds by which the time of a file may lag behind the clock.
_FILE_TIME_LAG = 0.01
#: Exit statuses of a trial fork.
_USES_GPU, _FAILS = 1, 2
_PACKAGES = ("site-packages", "dist-packages")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_STANDARD_LIBRARY = os.path.dirname(os.__file__)  # `sysconfig` would import modules that a stub does not
_STUB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

#: The files that are modules in a directory, by the rules of Python's own finder.
_LOADERS: Any = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)


class LeftOut(Exception):
    """The reason why a module is not preloaded."""


class Stamp(NamedTuple):
    """A file at the time when it was read."""

    modified: int
    size: int


class Installed(NamedTuple):
    """The contents of a directory of pip's, and the time of its last change."""

    modified: int
    names: FrozenSet[str]


class Preload:
    """The imports of this process for future models, beyond the stub's own."""

    def __init__(self) -> None:
        #: names of the modules that were found, as Python searches them in directories; of modules that were not found;
        #: and of packages without `__init__.py`, which consist of all directories of that name
        self._found: Set[str] = set()
        self._missing: Set[str] = set()
        self._spread: Set[str] = set()
        self._stamps: Dict[str, Stamp] = {}
        self._installed: Dict[str, Installed] = {path: _look_into(path) for path in _package_directories()}
        self.settle(time.time())

    def add(self, step: ImportStep) -> None:
        """Import the modules for the model. Raises LeftOut; then the process must not be forked any more."""
        if step.own:
            if any(finder.find_spec(step.module, None) is not None for finder in sys.meta_path):
                raise LeftOut("'%s' lies beside model.py, and is installed, too" % step.module)
            return
        before, seen = set(sys.modules), _Seen()
        sys.meta_path.append(seen)
        try:
            __import__(step.module, fromlist=step.names)
        except ModuleNotFoundError as error:
            if not step.optional or set(sys.modules) != before:
                raise LeftOut("%s" % error) from None
        except BaseException as error:
            raise LeftOut("%s: %s" % (type(error).__name__, error)) from None
        finally:
            if seen in sys.meta_path:
                sys.meta_path.remove(seen)
        new = set(sys.modules) - before
        _check_origin(new)
        self._missing |= seen.missing
        for name in {name.partition(".")[0] for name in new}:
            (self._spread if _is_spread(name) else self._found).add(name)

    def settle(self, since: float) -> None:
        """Remember, after the last step, the files that were read, and hide the objects from the garbage collector of
        every process, so that their pages stay shared. `since`: `time.time()` before the first of them was read.
        """
        for path in {file for file in map(file_of, list(sys.modules)) if file} - set(self._stamps):
            self._stamps[path] = _stamp(path, since - _FILE_TIME_LAG)
        gc.collect()
        gc.freeze()

    def changed(self) -> str:
        """Return why a new process would now import something else; empty if it would not."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                return "%s has changed" % path
        for path, installed in self._installed.items():
            if _modified(path) != installed.modified:
                now = _look_into(path)
                if now.names != installed.names:
                    return "%s has changed" % path
                self._installed[path] = now
        return ""

    def shadowed(self, paths: Iterable[str]) -> str:
        """Return the file or directory that a model with the additional search path `paths`, after all others, would
        import instead; empty if none.
        """
        for directory in _other_directories():
            found = _module_of(directory, self._found, self._missing | self._spread)
            if found:
                return found
        for directory in paths:
            found = _module_of(directory, set(), self._missing | self._spread)
            if found:
                return found
        return ""


class _Seen:
    """The modules that were searched and not found: this finder is the last one, and finds nothing. A library to which
    such a module is optional would import one of that name from next to model.py.
    """

    def __init__(self) -> None:
        self.missing: Set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if path is None:  # otherwise it would be part of a package, and Python searches only there
            self.missing.add(name)


def _check_origin(names: Iterable[str]) -> None:
    """Raise LeftOut for modules that are neither Python's own nor installed, because they may be under development."""
    installed = _installed()
    for name in sorted(names):
        file = file_of(name)
        if file and not file.startswith(installed):
            raise LeftOut("'%s' is not in site-packages" % name)


def _installed() -> Tuple[str, ...]:
    return tuple(path + os.sep for path in (_STANDARD_LIBRARY, _STUB_DIRECTORY, *_package_directories()))


def _package_directories() -> List[str]:
    return [path for path in sys.path if os.path.basename(path) in _PACKAGES]


def _other_directories() -> List[str]:
    """Return the directories in which Python searches modules besides the installed ones, the current one first."""
    installed = _installed()
    return ["", *(path for path in sys.path if path and not (path + os.sep).startswith(installed))]


def _module_of(directory: str, files: Set[str], any_kind: Set[str]) -> str:
    """Return the path of a module of the directory with one of these names; empty if none exists. For a name of `files`
    a directory without `__init__.py` does not count, because a module found elsewhere takes precedence.
    """
    wanted = files | any_kind
    try:
        stems = {name.partition(".")[0] for name in os.listdir(directory or ".")} if wanted else set()
    except OSError:
        return ""
    for name in sorted(wanted & stems):
        # a new finder, because those of `sys.path_importer_cache` may not see a file of the last milliseconds
        spec = machinery.FileFinder(directory or os.getcwd(), *_LOADERS).find_spec(name)
        if spec is not None and (spec.loader is not None or name in any_kind):
            return spec.origin or os.path.join(directory or os.getcwd(), name)
    return ""


def _is_spread(name: str) -> bool:
    """Return whether a module is a package without `__init__.py`."""
    names = own_names(name)
    return names.get("__path__") is not None and names.get("__file__") is None


def _stamp(path: str, before: float = float("inf")) -> Stamp:
    """Return the file's stamp; if it was changed or added since `before`, a stamp that it never has again."""
    try:
        status = os.stat(path)
    except OSError:
        return Stamp(0, 0)
    return Stamp(status.st_mtime_ns, status.st_size) if status.st_ctime < before else Stamp(-1, -1)


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _look_into(path: str) -> Installed:
    """Read a directory. Python's own `__pycache__` there does not count as a change."""
    modified = _modified(path)
    try:
        return Installed(modified, frozenset(os.listdir(path)) - {"__pycache__"})
    except OSError:
        return Installed(modified, frozenset())


class ProcessState:
    """The state of the process that an import must not change, as it was before."""

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._directory = _directory()
        self._descriptors = _descriptors()
        self._shared = _shared_memory()

    def check(self) -> None:
        """Raise LeftOut if a fork of this process would not equal a new process."""
        if sys.path != self._path:
            raise LeftOut("it changes sys.path")
        if _directory() != self._directory:
            raise LeftOut("it changes the working directory")
        opened = _descriptors() - self._descriptors
        if opened:
            raise LeftOut("it opens %s" % min(opened))
        if _shared_memory() - self._shared:
            raise LeftOut("it shares memory with what it forks")
        if any(signal.getitimer(timer)[0] for timer in _TIMERS):
            raise LeftOut("it sets a timer")
        if _made_temporary_files():
            raise LeftOut("it makes temporary files")
        bad = _try_fork()
        if bad:
            raise LeftOut(bad)
        end = time.monotonic() + _THREADS_END
        while any(name not in _SPARE_THREADS for name in _other_threads()):
            if time.monotonic() > end:
                raise LeftOut("it starts threads")
            time.sleep(0.001)


def fork() -> int:
    """Fork without the warning of Python 3.12 about threads: a zygote has only threads that a fork does not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _descriptors() -> FrozenSet[str]:
    """Return the open descriptors, by number and target. The listing's own descriptor is closed when it is checked."""
    found: Dict[str, str] = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[number] = os.readlink("/proc/self/fd/" + number)
    return frozenset("%s (descriptor %s)" % (target, number) for number, target in found.items())


def _shared_memory() -> FrozenSet[str]:
    """Return the mappings into which this process and its forks write together, such as a `multiprocessing.Lock`'s."""
    with open("/proc/self/maps", "rb") as maps:
        rows = [line.split(None, 5) for line in maps]
    return frozenset(os.fsdecode(row[0]) for row in rows if row[1].startswith(b"rw") and row[1].endswith(b"s"))


def _other_threads() -> Iterator[str]:
    """Yield the names of all threads except the first."""
    for number in os.listdir("/proc/self/task"):
        if int(number) != os.getpid():
            with contextlib.suppress(OSError), open("/proc/self/task/%s/comm" % number) as comm:
                yield comm.read().strip()


def _made_temporary_files() -> bool:
    """Return whether a temporary directory was made at import, which is removed when its maker ends, and thus by each
    of the forks.
    """
    return own_names("tempfile").get("_name_sequence") is not None


def _try_fork() -> str:
    """Make a fork that ends at once; libraries also end their threads before a fork. Return why a fork would differ
    from a new process; "" if it would not."""
    pid = fork()
    if pid == 0:
        status = _FAILS
        try:
            seed_random_numbers()
            asks_for_gpu = own_names("torch.cuda").get("_is_in_bad_fork")
            status = _USES_GPU if asks_for_gpu is not None and asks_for_gpu() else 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status):
        return {0: "", _USES_GPU: "it uses the GPU"}.get(os.WEXITSTATUS(status), "it fails in a fork")
    return "a fork of it ends with signal %d" % os.WTERMSIG(status)


def seed_random_numbers() -> None:
    """Draw seeds, in a fork, that no other fork has; Python's `random` does so itself. Raises the error of a library
    that cannot be seeded.
    """
    seed = own_names("numpy.random").get("seed")
    if seed is not None:
        seed()
    generator = own_names("torch").get("default_generator")
    if generator is not None:
        generator.seed()
