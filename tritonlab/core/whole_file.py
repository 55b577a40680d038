"""Files that are written completely or not at all, even if the disk becomes full."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write its bytes. Once complete it replaces an earlier file and gets its mode.

    Raises OSError that names `path`; an earlier file then stays. A pipe or device is written directly.
    """
    target = Path(os.path.realpath(path))
    name = os.fsdecode(os.fsencode(target.name)[:200])  # the longest name of a file has 255 bytes
    unfinished = target.with_name(f".{name}.{threading.get_native_id()}.part")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        with unfinished.open("wb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        unfinished.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a UTF-8 text to a file by `whole_file`."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
