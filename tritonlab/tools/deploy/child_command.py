"""Commands that an export runs for the author: pip, conda-pack, an interpreter. They can be cancelled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from ...core.explained import Explained
from ...core.status import Code

#: Receives one line about the current step.
Say = Callable[[str], None]

#: The variable that Jupyter sets for the programs of a notebook: with it pip writes colours into its JSON.
_COLOURS = ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
_LOOK = 0.05
_LAST_LINES = 12


class Cancelled(Explained, Exception):
    """The author has cancelled the running work; all of it was undone."""

    code = Code.CANCELLED


class CommandFailed(Explained, OSError):
    """A command that failed, with the last lines that it printed."""

    code = Code.INTERNAL

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.own_remedy = remedy


def start_command(
    command: Sequence[str], *, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the command in `/` in its own process group, without input. Raises CommandFailed."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(f"'{command[0]}' cannot be run: {error.strerror or error}") from error


def run_command(
    command: Sequence[str], *, cancel: threading.Event, timeout: float = 900.0, printed: Say = lambda line: None
) -> str:
    """Run the command in `/` and return its stdout, without colours. Its whole process group ends with the call.
    `printed` receives each line of stdout meanwhile.

    Raises CommandFailed, or Cancelled once `cancel` is set.
    """
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        plain = {name: value for name, value in os.environ.items() if name not in _COLOURS}
        process = start_command(command, stdout=out, stderr=err, env=plain)
        try:
            new = _Lines(out)
            while process.poll() is None:
                for line in new.read():
                    printed(line)
                if cancel.wait(_LOOK):
                    raise Cancelled(f"{os.path.basename(command[0])} was cancelled")
                if time.monotonic() > deadline:
                    raise CommandFailed(f"'{' '.join(command[:4])} …' did not end within {timeout:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        text = out.read().decode(errors="replace")
        if process.returncode:
            lines = (err.read().decode(errors="replace").strip() or text.strip()).splitlines()[-_LAST_LINES:]
            raise CommandFailed(f"'{' '.join(command[:4])} …' ended with {process.returncode}:\n" + "\n".join(lines))
        return text


class _Lines:
    """The lines that are added to a file, read without moving its position."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0

    def read(self) -> list[str]:
        """Return the complete lines since the last call."""
        new = os.pread(self._file.fileno(), os.fstat(self._file.fileno()).st_size - self._at, self._at)
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.decode(errors="replace").splitlines()


def raise_if_cancelled(cancel: threading.Event) -> None:
    """Raise Cancelled if `cancel` is set."""
    if cancel.is_set():
        raise Cancelled("it was cancelled")
