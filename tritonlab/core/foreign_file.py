"""Files written by other programs: opened without waiting, with any fault raised as one kind of error."""

from __future__ import annotations

import errno
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


def open_file(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes. Raises OSError, also for a pipe or a device, which may have no end."""
    name = os.fspath(path)
    try:
        number = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not wait for the writer of a pipe
    except ValueError as error:  # a NUL
        raise OSError(errno.EINVAL, str(error), name) from None
    kind = os.fstat(number).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "A pipe or a device, not a file", name)


def read_text(path: str | Path) -> str:
    """Return the text of a file in UTF-8. Raises OSError and ValueError."""
    with open_file(path) as file:
        return file.read().decode()


def read_json(path: str | Path) -> Any:
    """Return the value of a JSON file. Raises OSError, and ValueError for a file that is not JSON in any way."""
    text = read_text(path)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_arrays(path: str | Path, most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file of numpy, without running a pickle. Raises OSError, and ValueError for another
    file or one of more than `most` bytes unpacked.
    """
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as members:
                size, names = sum(member.file_size for member in members.infolist()), set(members.namelist())
            if size > most:
                raise ValueError(f"it has {size:,} bytes when it is unpacked, more than there is memory for")
            with np.load(file, allow_pickle=False) as found:
                # for `a` beside `a.npy` numpy has the right names, and gives the first array for both
                arrays = {name: found[f"{name}.npy" if f"{name}.npy" in names else name] for name in found.files}
        except (OSError, ValueError):
            raise
        except Exception as error:  # numpy and zipfile raise their parts' errors: zlib.error, EOFError, SyntaxError ...
            raise ValueError(f"{type(error).__name__}: {error}") from None
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"{others[0]} is not an array")
    return arrays
