"""`StubPool`, the source of stubs: forks of zygotes that have made the model's imports, or new processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..gpu.gpu_buffers import GpuBuffers
from ..link.link_reader import LinkReader
from ..zygotes.first_imports import FirstImports, first_imports
from ..zygotes.remembered_imports import RememberedImports
from ..zygotes.zygote_family import Steps
from ..zygotes.zygote_process import ForkRefused, ZygoteError
from ..zygotes.zygotes import WarmMemory, Zygotes
from .child_subreaper import can_inherit
from .interpreter import Interpreter
from .stub_launcher import DEFAULT_SHM, KERNEL, ShmSettings, StubProcess, fork_of

#: How often a zygote may turn out to be stale or ended before a stub is started without a zygote.
_TRIES = 3


class StubPool:
    """The stubs of one server. `warm`: how many bytes zygotes may take; None means a quarter of the memory, 0 no
    zygotes. `gpu_buffers`: the GPU memory that they share with the server. `audits`: whether an audit hook records the
    files that their models read. Guarantees: `acquire` and `close` may be called from any thread."""

    def __init__(
        self,
        link_reader: LinkReader,
        *,
        warm: int | None = None,
        shm: ShmSettings = DEFAULT_SHM,
        gpu_buffers: GpuBuffers | None = None,
        audits: bool = False,
    ) -> None:
        self.audits = audits
        self.gpu_buffers = gpu_buffers or GpuBuffers()
        self._link_reader = link_reader
        self._shm = shm
        self._zygotes = Zygotes(link_reader, warm) if warm != 0 and can_inherit() else None
        #: the last text of `say`, by model
        self._reported: dict[str, str] = {}

    def prewarm(self, remembered: RememberedImports | None = None) -> None:
        """Start zygotes in the background, with the remembered imports, so that a first load need not wait for them.
        From now on the models' imports are remembered, too."""
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
        like: StubProcess | None = None,
    ) -> StubProcess:
        """Return a stub that has made the first imports of the source file `model`, if given. The caller may send at
        once, and waits with `await_hello`. It blocks while imports are made for the first time.

        `say` is called once with the modules that the model has to import itself, and why. `like`: a stub that was
        acquired just now for the same source; its imports and zygote are used again. Raises StubStartError.
        """
        if self._zygotes is None:
            return StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm)
        imports = like.first_imports if like is not None else None
        if imports is None:
            imports = first_imports(model, paths) if model else FirstImports()
        stub, why = self._fork(self._zygotes, interpreter, steps=tuple(imports.steps), paths=paths, like=like)
        if not why and imports.missed:
            why = f"'{imports.missed}', because {imports.ended_by} comes first and may change what it does"
        stub.imports_again, stub.first_imports = why, imports
        if self._reported.get(model) != why:
            self._reported[model] = why
            if why:
                say(f"The model repeats imports at every start: {why}.")
        return stub

    def _fork(
        self,
        zygotes: Zygotes,
        interpreter: Interpreter,
        steps: Steps,
        paths: Sequence[str],
        like: StubProcess | None,
    ) -> tuple[StubProcess, str]:
        """Return the stub, and the imports that the model has to make itself, with the reason; empty if none."""
        zygote, why = (like.zygote, like.imports_again) if like is not None else (None, "")
        for _ in range(_TRIES):
            if zygote is None:
                zygote, left_out = zygotes.find(interpreter, steps)
                why = why or left_out
            if zygote is None:
                break
            try:
                begin = fork_of(zygote, paths)
                stub = StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm, begin=begin, like=like)
                stub.zygote = zygote
                return stub, why
            except ForkRefused as error:
                if error.stale:
                    zygotes.discard(zygote)
                else:
                    why, steps = f"all, because {error}", ()
            except ZygoteError:
                pass  # the zygote has ended just now
            zygote = None
        return StubProcess(self._link_reader, interpreter=interpreter, shm=self._shm), why

    def wait_warm(self, timeout: float = 30.0) -> bool:
        """Wait until the zygotes under way are up, at most `timeout` seconds; for benchmarks and tests."""
        self.prewarm()
        return self._zygotes is None or self._zygotes.wait(timeout)

    def memory(self) -> WarmMemory | None:
        """Return the memory that the zygotes take; None if they are switched off. The call takes milliseconds."""
        return self._zygotes.memory() if self._zygotes is not None else None

    def close(self) -> None:
        """End the zygotes, start no more, and release the GPU memory."""
        self.gpu_buffers.close()
        if self._zygotes is not None:
            self._zygotes.close()

    def __repr__(self) -> str:
        return f"<StubPool [{self._zygotes!r}]>"
