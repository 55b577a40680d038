"""Where stubs come from: forks of zygotes, which have imported what the model imports, or new processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .child_subreaper import can_inherit
from .first_imports import FirstImports, first_imports
from .interpreter import Interpreter
from .link_reader import LinkReader
from .remembered_imports import RememberedImports
from .stub_launcher import DEFAULT_SHM, KERNEL, ShmSettings, StubProcess, fork_of
from .zygote import ForkRefused, ZygoteError
from .zygotes import Steps, WarmMemory, Zygotes

#: How often a zygote may turn out to be stale, or to have ended, before a stub is started without.
_TRIES = 3


class StubPool:
    """Guarantees: `acquire` and `close` may be called from any thread. `warm`: bytes that zygotes may take, None a
    quarter of what there is, 0 for none."""

    def __init__(self, link_reader: LinkReader, *, warm: int | None = None, shm: ShmSettings = DEFAULT_SHM) -> None:
        self._link_reader = link_reader
        self._shm = shm
        self._zygotes = Zygotes(link_reader, warm) if warm != 0 and can_inherit() else None
        #: what was said last of each model
        self._told: dict[str, str] = {}

    def prewarm(self, remembered: RememberedImports | None = None) -> None:
        """Starts in the background what a first load would wait for, with the imports that are remembered, and has
        those remembered that models make from now on."""
        zygotes = self._zygotes
        if zygotes is None:
            return
        if remembered is None:
            zygotes.start(KERNEL)
            return
        file = remembered
        zygotes.on_grown = lambda interpreter, steps: file.add(steps) if interpreter == KERNEL else None
        zygotes.start(KERNEL, file.read())

    def acquire(
        self,
        interpreter: Interpreter = KERNEL,
        model: str = "",
        paths: Sequence[str] = (),
        say: Callable[[str], None] = lambda text: None,
    ) -> StubProcess:
        """A stub, which has imported what the source `model` begins with if there is one: the caller may send, and
        waits with `await_hello`. Blocking, as long as an import takes that no model before has made.

        `say` hears, once, which modules the model imports by itself, and why. Raises StubStartError.
        """
        if self._zygotes is None:
            return StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm)
        imports = first_imports(model, paths) if model else FirstImports()
        stub, why = self._fork(self._zygotes, interpreter, tuple(imports.steps), paths)
        if not why and imports.missed:
            why = f"'{imports.missed}', as {imports.ended_by} comes first and may change what it does"
        if self._told.get(model) != why:
            self._told[model] = why
            if why:
                say(f"The model imports anew at every start: {why}.")
        return stub

    def _fork(
        self, zygotes: Zygotes, interpreter: Interpreter, steps: Steps, paths: Sequence[str]
    ) -> tuple[StubProcess, str]:
        """The stub, and which of the imports it has to make itself, and why; empty if none."""
        why = ""
        for _ in range(_TRIES):
            zygote, left_out = zygotes.find(interpreter, steps)
            why = why or left_out
            if zygote is None:
                break
            try:
                begin = fork_of(zygote, paths)
                return StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm, begin=begin), why
            except ForkRefused as error:
                if error.stale:
                    zygotes.discard(zygote)
                else:
                    why, steps = f"all, as {error}", ()
            except ZygoteError:
                pass  # it has ended just now
        return StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm), why

    def wait_warm(self, timeout: float = 30.0) -> bool:
        """Waits until what was begun is there; for benchmarks and tests."""
        self.prewarm()
        return self._zygotes is None or self._zygotes.wait(timeout)

    def memory(self) -> WarmMemory | None:
        """What the zygotes take; None if they are switched off. Takes milliseconds."""
        return self._zygotes.memory() if self._zygotes is not None else None

    def close(self) -> None:
        """Ends the zygotes; none is started afterwards."""
        if self._zygotes is not None:
            self._zygotes.close()

    def __repr__(self) -> str:
        return f"<StubPool [{self._zygotes!r}]>"
