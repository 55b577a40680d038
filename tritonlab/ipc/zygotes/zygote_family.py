"""`ZygoteFamily`, the zygotes of one interpreter: their imports, the imports that are left out, and whether a process
started now would still be like them.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...stub._pb_stub.wire.fork_bodies import ImportStep
from ..link.interrupts import interruptible
from .zygote_process import ForkRefused, ImportLeftOut, ZygoteError, ZygoteProcess

Steps = tuple[ImportStep, ...]

#: Variables that the dynamic loader, the C library (locale, time zone), the interpreter (HOME, for the user's own
#: packages) or numpy's libraries read when a process starts. A zygote takes over all other variables before it imports
#: more, and a stub before it imports the model.
_START_PREFIXES = (
    "LD_",
    "PYTHON",
    "HOME",
    "LANG",
    "LC_",
    "TZ",
    "OMP_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "MKL_",
    "NUMEXPR_",
    "BLIS_",
    "GOTO_",
    "MALLOC_",
    "GLIBC_",
    "NPY_",
)
#: Other things that a new process inherits from this one, in the words of /proc/self/status.
_INHERITED = ("Umask:", "SigIgn:", "Uid:", "Gid:", "Groups:", "Cpus_allowed:")
_LIMITS = tuple(sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_")))


class Origin(NamedTuple):
    """The state that a new process inherits from this one at its start, and the version of its program: inode, size and
    time of change in nanoseconds."""

    program: tuple[int, ...]
    variables: Mapping[str, str]
    limits: tuple[tuple[int, int], ...]
    status: str

    @staticmethod
    def now(executable: str, variables: Mapping[str, str]) -> Origin:
        program: tuple[int, ...] = ()
        with contextlib.suppress(OSError):
            found = os.stat(executable)
            program = (found.st_ino, found.st_size, found.st_mtime_ns)
        read = {name: value for name, value in variables.items() if name.startswith(_START_PREFIXES)}
        lines = ""
        with contextlib.suppress(OSError):
            text = Path("/proc/self/status").read_text()
            lines = "\n".join([line for line in text.splitlines() if line.startswith(_INHERITED)])
        return Origin(program, read, tuple(map(resource.getrlimit, _LIMITS)), lines)


@dataclass(frozen=True)
class ImportContext:
    """The state of a process that its modules can read when they are imported."""

    variables: Mapping[str, str]
    directory: str

    @staticmethod
    def now(variables: Mapping[str, str]) -> ImportContext:
        try:
            return ImportContext(variables, os.getcwd())
        except OSError:
            return ImportContext(variables, "")  # the working directory was removed


class Growth:
    """One set of imports and its zygote, which is up or on its way. `zygote` is None while it grows, and if it failed;
    `growing` is its process, as soon as there is one. `standby` is a fork of the zygote that takes its place if it is
    killed. The lock of `Zygotes` guards the last two."""

    def __init__(self, steps: Steps, context: ImportContext) -> None:
        self.steps = steps
        self.begun_with = 0  # how many of the steps its parent zygote had already made
        self.context = context
        self.zygote: ZygoteProcess | None = None
        self.growing: ZygoteProcess | None = None
        self.standby: ZygoteProcess | None = None
        self._used = 0.0  # when the zygotes that this one replaced last forked
        self.failure: ImportLeftOut | ZygoteError | ForkRefused | OSError | None = None
        self.done = threading.Event()

    def is_over(self) -> bool:
        """Return whether to grow it again: it and its standby have ended, or it failed for a reason that may be gone. A
        standby takes the place of a zygote that has ended."""
        if not self.done.is_set() or isinstance(self.failure, ImportLeftOut):
            return False
        if self.zygote is not None and self.zygote.alive:
            return False
        if self.zygote is not None and self.standby is not None:
            self._used = self.zygote.used  # its watch closes the process
            self.zygote, self.standby = self.standby, None
        return self.zygote is None or not self.zygote.alive

    def processes(self) -> list[ZygoteProcess]:
        """Return the zygote and its standby, as far as they exist."""
        return [zygote for zygote in (self.standby, self.zygote) if zygote is not None]

    def used(self) -> float:
        """Return the time of the zygote's last fork (`time.monotonic()`)."""
        return max(self._used, self.zygote.used) if self.zygote is not None else 0.0

    def memory(self) -> int:
        return sum(share(zygote.child.pid) for zygote in self.processes())

    def names(self) -> str:
        """Return its imports, for a sentence."""
        return quoted(self.steps) or "numpy"

    def ended_within(self, seconds: float) -> bool:
        """Wait until it is up or has failed. Raises KeyboardInterrupt that names the running step."""
        try:
            return self.done.is_set() or interruptible(self.done.wait, seconds)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"during the import of {self.names()}") from None

    def fork_of(self, parent: Growth) -> ZygoteProcess:
        """Start the process as a fork of another zygote's, once that is up. Raises as `ZygoteProcess.grow` does."""
        parent.done.wait()
        if parent.zygote is None:
            raise ZygoteError(f"the one before it failed: {parent.failure}")
        return parent.zygote.grow(self.steps[len(parent.steps) :], self.context.variables, self.context.directory)


@dataclass
class ZygoteFamily:
    """The zygotes of one interpreter, all of which began as forks of `root`. The lock of `Zygotes` guards it."""

    origin: Origin
    root: Growth
    grown: dict[Steps, Growth] = field(default_factory=dict)
    #: sets of steps -> why the last of these steps is left out
    left_out: dict[Steps, str] = field(default_factory=dict)

    def all(self) -> list[Growth]:
        return [self.root, *self.grown.values()]

    def allowed(self, steps: Steps, why: str) -> tuple[Steps, str]:
        """Return the steps before the first that is left out, and why the rest is not made."""
        for end in range(1, len(steps) + 1):
            if steps[:end] in self.left_out:
                after = quoted(steps[end:])
                why = self.left_out[steps[:end]] + (
                    f"; also {after}, which the model imports after it" if after else ""
                )
                return steps[: end - 1], why
        return steps, why

    def leave_out(self, failed: Growth) -> None:
        """Note the import that made a growth fail, so that it is not tried again."""
        failure = failed.failure
        made = failed.begun_with + (failure.steps if isinstance(failure, ImportLeftOut) else 0)
        bad = failed.steps[: made + 1]
        self.left_out[bad] = f"'{bad[-1].module}', because {failure}"

    def leave_out_large(self, grown: Growth) -> None:
        """Note that the last import of a growth takes too much memory."""
        self.left_out[grown.steps] = f"'{grown.steps[-1].module}', because it takes more memory than `warm` allows"

    def nearest(self, steps: Steps) -> Growth:
        """Return the growth that has made most of these imports, and no others."""
        begun = (growth for growth in self.all() if steps[: len(growth.steps)] == growth.steps)
        return max(begun, key=lambda growth: len(growth.steps))

    def drop_outdated(self, context: ImportContext) -> None:
        """End the zygotes whose imports were made in another context, and forget the ended ones."""
        old = [growth for growth in self.grown.values() if growth.context != context or growth.is_over()]
        for growth in old:
            del self.grown[growth.steps]
        retire(old)


def quoted(steps: Steps) -> str:
    """Return the names of the modules that these steps import, for a sentence: at most three of them."""
    names = [f"'{name}'" for name in dict.fromkeys(step.module for step in steps if not step.own)]
    if len(names) > 3:
        names[2:] = [f"{len(names) - 2} more"]
    return ", ".join(names[:-1]) + " and " + names[-1] if names[1:] else "".join(names)


def retire(growths: Sequence[Growth]) -> None:
    """End these zygotes on a separate thread, because it waits for processes to end."""
    zygotes = [zygote for growth in reversed(growths) for zygote in growth.processes()]

    def work() -> None:
        for zygote in zygotes:
            zygote.end()

    if zygotes:
        threading.Thread(target=work, name="end of zygotes", daemon=True).start()


def share(pid: int) -> int:
    """Return a process's bytes in memory, with a part of its shared pages; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
