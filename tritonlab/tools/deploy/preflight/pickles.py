"""P14: pickles of classes and functions that were defined in a notebook, which no other process has. The opcodes of a
pickle are read; nothing is executed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickletools
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from .finding import Finding, Prediction
from .subject import Subject

_SUFFIXES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".sav", ".dill"}
#: The most bytes read of a pickle: its classes come first, and the rest are numbers.
_MOST = 64 << 20
#: The first bytes of compressed files, as joblib writes them.
_COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"]\0\0": lzma.LZMAFile,
    b"x": lambda file: io.BytesIO(zlib.decompressobj().decompress(file.read(_MOST), _MOST)),
}
#: A class of the notebook in a pickle that cannot be read to its end: joblib puts arrays between its opcodes.
_NAMED = re.compile(rb"c__main__\n([\w.]+)\n|\x8c\x08__main__(?:\x94|q.)?\x8c.([\w.]+)(?:\x94|q.)?\x93", re.DOTALL)
#: A class of any module in such a pickle.
_OF_MODULE = re.compile(rb"c([\w.]+)\n[\w.]+\n|\x8c.([\w.]+)(?:\x94|q.)?\x8c.[\w.]+(?:\x94|q.)?\x93", re.DOTALL)


def pickles_of_the_notebook(subject: Subject) -> Iterator[Finding]:
    """P14: files that no deployed model can load, because their classes were defined in a notebook."""
    for file in _pickle_files(subject):
        if names := names_in_main(subject.directory / file):
            named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            yield Finding(
                row="P14",
                sentence=f"{file} is a pickle that needs {named} of __main__, the notebook in which it was made",
                remedy=f"define {named} in a helper file beside model.py, import it from there, and pickle it again",
                source_line=str(subject.directory / file),
                # a model that was loaded here did without them
                outcome=Prediction.ATTENTION if subject.reads else Prediction.LOAD,
            )


def modules_of_pickles(subject: Subject) -> dict[str, str]:
    """Return the top-level modules that a model's pickles name, each with a file that needs it."""
    found: dict[str, str] = {}
    for file in _pickle_files(subject):
        path = subject.directory / file
        for module, _ in _names_in(path):
            found.setdefault(module.partition(".")[0], str(path))
    return found


def _pickle_files(subject: Subject) -> Iterator[str]:
    environment = subject.environment
    for file in subject.tree.files:
        if Path(file).suffix.lower() in _SUFFIXES and not (environment and file.startswith(f"{environment}/")):
            yield file


def names_in_main(path: Path) -> list[str]:
    """Return the classes and functions of `__main__` that are needed to unpickle a file: a pickle, a joblib file, also
    compressed, or a torch zip file. Other files need none.
    """
    return [name for module, name in _names_in(path) if module == "__main__"]


def _names_in(path: Path) -> list[tuple[str, str]]:
    """Return (module, name) of each object that is needed to unpickle a file."""
    found: dict[tuple[str, str], None] = {}
    try:
        with path.open("rb") as file:
            for opened in _pickles(file):
                found |= dict.fromkeys(_names(opened.read(_MOST)))
    except (OSError, EOFError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, NotImplementedError, RuntimeError):
        pass  # in other forms Python cannot unpickle it
    return list(found)


def _pickles(file: IO[bytes]) -> Iterator[IO[bytes]]:
    start = file.read(8)
    file.seek(0)
    if start.startswith(b"PK\3\4"):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    with archive.open(name) as member:
                        yield member
        return
    opener = next((opener for magic, opener in _COMPRESSED.items() if start.startswith(magic)), None)
    yield opener(file) if opener is not None else file


def _names(data: bytes) -> Iterator[tuple[str, str]]:
    stream = io.BytesIO(data)
    try:
        while stream.tell() < len(data):  # a file may contain several, one after the other
            yield from _names_of_one(stream)
    except Exception:  # not a complete pickle; pickletools has no specific error
        for found in _NAMED.finditer(data):
            yield "__main__", (found[1] or found[2]).decode("ascii", "replace")
        for found in _OF_MODULE.finditer(data):
            if (module := (found[1] or found[2]).decode("ascii", "replace")) != "__main__":
                yield module, ""


def _names_of_one(stream: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each object that a pickle needs, in its order. Raises pickletools' errors."""
    memo: dict[int, object] = {}
    pushed: list[object] = []  # strings; the last two before an opcode may be its arguments
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            pushed.append(None)
        elif opcode.name == "STACK_GLOBAL":
            module, name = map(str, pushed[-2:])
            pushed.append(None)
        elif opcode.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if argument is None else int(argument)] = pushed[-1] if pushed else None
            continue
        else:
            if opcode.name in ("GET", "BINGET", "LONG_BINGET"):
                pushed.append(memo.get(int(str(argument))))
            elif opcode.stack_after:
                pushed.append(argument if isinstance(argument, str) else None)
            continue
        yield module, name
