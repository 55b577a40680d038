"""`Zygotes`, all zygotes of one server: for each interpreter one without imports, and a fork of it for each set of
imports that models make.

A zygote is made, or grown, when a model first needs it. Growing takes as long as the model's own imports would; later
models need not make these imports. A zygote that is up is forked once more: if it is killed, this standby takes its
place at once, while a new process would need 0.2 s of CPU time for numpy, and 1.1 s more for torch. A zygote is
discarded when a process started now would differ: other environment variables, another working directory, a package
that pip has changed, other limits. If zygotes take too much memory, the one unused for longest is ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ...stub._pb_stub.wire.fork_bodies import ImportStep
from ..link.link_reader import LinkReader, Watch
from ..processes.interpreter import Interpreter
from ..processes.out_of_memory import memory_limit
from .zygote_family import Growth, ImportContext, Origin, Steps, ZygoteFamily, retire, share
from .zygote_process import ForkRefused, ImportLeftOut, ZygoteError, ZygoteProcess

_log = logging.getLogger(__name__)

#: How many sets of imports are kept at most, however small.
_MOST = 8
_MOST_INTERPRETERS = 4
#: Seconds that a load waits for a zygote. After that the model's own process makes the imports: there the stacks and
#: an interrupt show the line of an import that hangs. An import that is only slow is made twice.
_PATIENCE = 20.0
#: How often a growth is begun again because the zygote that has to fork it was killed.
_TRIES = 3
#: A zygote that ended sooner, and was never used, is not grown again automatically.
_LIVED = 5.0
#: Seconds from the growth of a zygote to the growth of its standby. The stubs that wait for the zygote come first.
_STANDBY_AFTER = 0.5


class WarmMemory(NamedTuple):
    """The bytes of zygotes, with a part of shared pages, and the imports of each process id."""

    used: int
    limit: int
    imports: dict[int, str]


class Zygotes:
    """The zygotes of one server. `limit`: how many bytes they may take; None means a quarter of the memory.

    Guarantees: any thread may call any method. A set of imports has one zygote, and a thread that needs it while it
    grows waits for it."""

    def __init__(self, link_reader: LinkReader, limit: int | None = None) -> None:
        #: called with each set of imports that was made
        self.on_grown: Callable[[Interpreter, Steps], None] = lambda interpreter, steps: None
        self._link_reader = link_reader
        self._limit = limit if limit is not None else (memory_limit() or 4 << 30) // 4
        self._lock = threading.Lock()  # guards the next two
        self._families: dict[Interpreter, ZygoteFamily] = {}
        self._closed = threading.Event()

    def find(self, interpreter: Interpreter, steps: Sequence[ImportStep]) -> tuple[ZygoteProcess | None, str]:
        """Return the zygote that has made these imports, or the imports before the first that must not be made, with
        the reason; None instead of a zygote if there can be none. Blocks while it grows, for some time. Raises
        KeyboardInterrupt with the running step."""
        wanted, why = tuple(steps), ""
        while True:
            with self._lock:
                if self._closed.is_set():
                    return None, ""
                family = self._family(interpreter)
                wanted, why = family.allowed(wanted, why)
                growth = self._growth(interpreter, family, wanted)
            if not growth.ended_within(_PATIENCE):
                return None, f"{growth.names()}, because that has taken more than {_PATIENCE:g} s"
            if growth.zygote is not None:
                return growth.zygote, why
            if not wanted:
                _log.debug("no zygote of %s: %s", interpreter.executable, growth.failure)
                return None, why
            with self._lock:
                if not (isinstance(growth.failure, ForkRefused) and growth.failure.stale):
                    family.leave_out(growth)  # the import that made it fail
                elif self._families.get(interpreter) is family:
                    retire(self._families.pop(interpreter).all())

    def discard(self, zygote: ZygoteProcess) -> None:
        """Drop the zygote and all others of its interpreter, because imported files have changed."""
        with self._lock:
            found = [i for i, family in self._families.items() if any(g.zygote is zygote for g in family.all())]
            gone = [growth for interpreter in found for growth in self._families.pop(interpreter).all()]
        retire(gone)

    def start(self, interpreter: Interpreter, sets: Sequence[Steps] = ()) -> None:
        """Begin to grow a zygote for each of `sets`, and the zygote without imports, in the background."""
        with self._lock:
            if not self._closed.is_set():
                family = self._family(interpreter)
                for steps in sets:
                    self._growth(interpreter, family, steps)

    def wait(self, timeout: float) -> bool:
        """Wait until no zygote is growing. Returns False if that takes more than that many seconds."""
        end = time.monotonic() + timeout
        with self._lock:
            growths = self._growths()
        return all(growth.done.wait(max(end - time.monotonic(), 0)) for growth in growths)

    def memory(self) -> WarmMemory:
        """Return the memory that the zygotes take. It reads /proc, which takes milliseconds."""
        found = {zygote.child.pid: zygote.steps for zygote in self._zygotes()}
        names = {pid: ", ".join(step.module for step in steps if not step.own) for pid, steps in found.items()}
        with self._lock:
            standbys = [growth.standby.child.pid for growth in self._growths() if growth.standby is not None]
        return WarmMemory(sum(map(share, [*found, *standbys])), self._limit, names)

    def close(self) -> None:
        """End all zygotes; no more are started."""
        with self._lock:
            self._closed.set()
            growths = self._growths()
            self._families.clear()
        for growth in reversed(growths):
            for zygote in growth.processes():
                zygote.end()
            if growth.growing is not None:
                growth.growing.end()

    # -- under the lock

    def _growths(self) -> list[Growth]:
        return [growth for family in self._families.values() for growth in family.all()]

    def _family(self, interpreter: Interpreter) -> ZygoteFamily:
        """Return the interpreter's zygotes, begun again if a process started now would differ from them."""
        variables = interpreter.variables(os.environ)
        origin = Origin.now(interpreter.executable, variables)
        family = self._families.get(interpreter)
        if family is not None and family.origin != origin:
            retire(family.all())
            family = None
        if family is None:
            family = ZygoteFamily(origin, self._root(interpreter, variables))
            while len(self._families) >= _MOST_INTERPRETERS:
                retire(self._families.pop(next(iter(self._families))).all())
        elif family.root.is_over():  # its forks go on
            retire([family.root])
            family.root = self._root(interpreter, variables)
        self._families.pop(interpreter, None)
        self._families[interpreter] = family  # the order is that of the last use
        return family

    def _root(self, interpreter: Interpreter, variables: Mapping[str, str]) -> Growth:
        root = Growth((), ImportContext(variables, ""))
        self._begin(root, lambda: ZygoteProcess.start(interpreter, variables))
        return root

    def _growth(self, interpreter: Interpreter, family: ZygoteFamily, steps: Steps) -> Growth:
        if not steps:
            return family.root
        context = ImportContext.now(interpreter.variables(os.environ))
        family.drop_outdated(context)
        found = family.grown.get(steps)
        if found is None:
            parent = family.nearest(steps)
            found = family.grown[steps] = Growth(steps, context)
            found.begun_with = len(parent.steps)
            start = partial(self._fork_of, interpreter, parent, found)
            self._begin(found, start, lambda: self._grown(interpreter, family, found))
        return found

    def _fork_of(self, interpreter: Interpreter, parent: Growth, growth: Growth) -> ZygoteProcess:
        """Start the process of a growth as a fork of its parent; if that is killed, of the standby or of a new root.
        Called without the lock."""
        for _ in range(_TRIES):
            try:
                return growth.fork_of(parent)
            except ZygoteError:
                with self._lock:
                    if parent.failure is not None or not self._is_kept(growth):
                        raise
                    if parent.is_over():
                        parent, growth.begun_with = self._family(interpreter).root, 0
        return growth.fork_of(parent)

    def _is_kept(self, growth: Growth) -> bool:
        return any(growth in family.all() for family in self._families.values())

    # -- growths, their standbys and their ends, each on a thread of its own

    def _begin(
        self, growth: Growth, start: Callable[[], ZygoteProcess], then: Callable[[], None] = lambda: None
    ) -> None:
        """Grow a zygote of the process that `start` starts, and call `then` once it is up."""

        def work() -> None:
            try:
                growth.growing = zygote = start()
                if self._closed.is_set():
                    zygote.end()
                zygote.await_grown()
                self._watch(growth, zygote)
                with self._lock:
                    closed = self._closed.is_set()
                    if not closed:
                        growth.zygote = zygote
                if closed:
                    zygote.end()
            except (ImportLeftOut, ZygoteError, ForkRefused, OSError) as error:
                growth.failure = error
            finally:
                growth.done.set()
            if growth.zygote is not None:
                then()
                self.stand_by(growth)

        threading.Thread(target=work, name="tritonlab zygote", daemon=True).start()

    def stand_by(self, growth: Growth) -> None:
        """Give the growth a standby a little later, if it has none."""
        self._closed.wait(_STANDBY_AFTER)
        with self._lock:
            zygote = growth.zygote if growth.standby is None and self._is_kept(growth) else None
        if zygote is None:
            return
        try:
            standby = zygote.twin(growth.context.variables, growth.context.directory)
        except (ImportLeftOut, ZygoteError, ForkRefused, OSError) as error:
            _log.debug("no standby of %s: %s", zygote, error)
            return
        self._watch(growth, standby)
        with self._lock:
            is_wanted = growth.standby is None and self._is_kept(growth)
            if is_wanted:
                growth.standby = standby
        if not is_wanted:
            standby.end()

    def _watch(self, growth: Growth, zygote: ZygoteProcess) -> None:
        """Replace the zygote, or the standby, if it is killed."""
        born = time.monotonic()

        def ended(events: int) -> None:
            is_again = bool(zygote.used) or time.monotonic() - born > _LIVED
            work = partial(self._replace, growth, zygote, is_again)
            threading.Thread(target=work, name="tritonlab zygote", daemon=True).start()

        zygote.watch = Watch(self._link_reader, zygote.child.exit_fd, ended)
        with contextlib.suppress(OSError):  # raised once the server stops
            zygote.watch.start()

    def _replace(self, growth: Growth, ended: ZygoteProcess, is_again: bool) -> None:
        """Close the ended processes of a growth. If `is_again`, grow the missing ones again."""
        with self._lock:
            if growth.standby is ended:
                growth.standby = None
            if growth.is_over() and is_again:
                for interpreter in [i for i, family in self._families.items() if growth in family.all()]:
                    self._growth(interpreter, self._family(interpreter), growth.steps)
        ended.end()  # closes its descriptors
        if is_again:
            self.stand_by(growth)

    def _grown(self, interpreter: Interpreter, family: ZygoteFamily, newest: Growth) -> None:
        """End the zygotes that have been unused for longest, until all keep within their limits."""
        self.on_grown(interpreter, newest.steps)
        with self._lock:
            grown = [growth for each in self._families.values() for growth in each.grown.values()]
        older = sorted((g for g in grown if g.zygote is not None and g is not newest), key=lambda g: g.used())
        total = sum(growth.memory() for growth in [*older, newest])
        while older and (total > self._limit or len(older) >= _MOST):
            oldest = older.pop(0)
            total -= oldest.memory()
            self._drop(oldest)
        if total > self._limit:
            with self._lock:
                family.leave_out_large(newest)
            self._drop(newest)

    def _drop(self, growth: Growth) -> None:
        with self._lock:
            for family in self._families.values():
                if family.grown.get(growth.steps) is growth:
                    del family.grown[growth.steps]
        retire([growth])

    def _zygotes(self) -> Iterator[ZygoteProcess]:
        with self._lock:
            growths = self._growths()
        return (growth.zygote for growth in growths if growth.zygote is not None and growth.zygote.alive)

    def __repr__(self) -> str:
        return f"<Zygotes {list(self._zygotes())}>"
