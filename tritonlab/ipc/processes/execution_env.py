"""`ExecutionEnvironments`, the search for the Python that a model names in the parameter EXECUTION_ENV_PATH
(section 2.10 of the rule book)."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from ...core.scratch_directory import ScratchDirectory
from .env_archive import ArchiveError, extract
from .interpreter import InterpreterError

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


class ExecutionEnvironments:
    """The environments of one server. An archive is unpacked once for all models that name it. If it changes it
    is unpacked again into another directory, because models that still serve run in the first.

    Guarantees: `find` may be called from any thread; two models that name the same archive wait for one extraction.
    `close`, or else the end of the process, removes the directories.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below, and is held while an archive is unpacked
        self._base: ScratchDirectory | None = None
        self._count = 0
        #: canonical path of an archive -> (its modification time ns and size, where it lies unpacked)
        self._unpacked: dict[str, tuple[tuple[int, int], Path]] = {}

    def find(
        self, path: str, model_directory: Path, say: Callable[[str, str], None] = lambda level, text: None
    ) -> Path | None:
        """Return the directory of the environment at `path`, the parameter's value; None if that is empty. Raises
        InterpreterError, with Triton's text where it has one (rule 2.10.3). `say(level, text)` logs a text."""
        named = path.replace(MODEL_DIRECTORY, str(model_directory))
        say("INFO", f"Using Python execution env {named}")
        if not path:
            return None
        try:
            found = Path(os.path.realpath(named, strict=True))
        except OSError:
            raise InterpreterError(f"Failed to get the canonical path for {named}.") from None
        directory = found if found.is_dir() else self._unpack(found, say)
        activate = directory / "bin" / "activate"
        if not activate.exists():
            raise InterpreterError(
                f"Path {activate} does not exist. The Python environment should contain an 'activate' script."
            )
        return directory

    def _unpack(self, archive: Path, say: Callable[[str, str], None]) -> Path:
        with self._lock:
            status = archive.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._unpacked.get(str(archive))
            if known is not None and known[0] == stamp:
                return known[1]
            say("VERBOSE", f"Extracting Python execution env {archive}")
            if self._base is None:
                self._base = ScratchDirectory("python_env_")
            directory = self._base.path / str(self._count)
            self._count += 1
            directory.mkdir()
            try:
                extract(archive, directory)
            except ArchiveError as error:
                shutil.rmtree(directory, ignore_errors=True)
                raise InterpreterError(str(error)) from error
            self._unpacked[str(archive)] = (stamp, directory)
            return directory

    def close(self) -> None:
        """Remove the unpacked environments; no model may run there any more."""
        with self._lock:
            self._unpacked.clear()
            base, self._base = self._base, None
        if base is not None:
            base.remove()
