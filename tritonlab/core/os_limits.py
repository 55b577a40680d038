"""The limits of the operating system, in words: the limit behind an OSError, and the remedy."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile


def explained(error: BaseException, target: str | os.PathLike[str] = "") -> str | None:
    """Return the limit behind the error or its cause, and the remedy; None if it is not about a limit. `target`: the
    directory written to besides the temporary one.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _WORDS:
            if target and seen.errno in _FULL and not _is_temporary(seen):
                return f"no space left in {os.fspath(target)}; make room there, or name another directory"
            return _WORDS[seen.errno](seen)
        seen = seen.__cause__
    return None


def _too_many_files(error: OSError) -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"too many open files: this process may have {limit}; raise the limit (`ulimit -n`) before it is started, or "
        "unload models"
    )


def _too_many_files_everywhere(error: OSError) -> str:
    return "too many open files on this machine (fs.file-max); end other programs, or raise the limit"


def _is_temporary(error: OSError) -> bool:
    """Return whether the temporary directory is full."""
    temporary, name = tempfile.gettempdir(), error.filename2 or error.filename
    if isinstance(name, (str, bytes)):
        return os.fsdecode(name).startswith(os.path.join(temporary, ""))
    return shutil.disk_usage(temporary).free == 0


def _no_space(error: OSError) -> str:
    name = error.filename2 or error.filename  # a copy has two paths; the second one is written
    where = os.path.dirname(os.fsdecode(name)) if isinstance(name, (str, bytes)) else tempfile.gettempdir()
    return f"no space left in {where}; make room there, or set TMPDIR to a directory with more space"


def _long_name(error: OSError) -> str:
    name = os.fsencode(error.filename) if isinstance(error.filename, (str, bytes)) else b""
    longest = max(name.split(b"/"), key=len)
    start = longest[:40].decode("utf-8", "replace")
    if len(longest) > _NAME_MAX:
        return f"a file name is too long: '{start}...' has {len(longest)} bytes, and may have {_NAME_MAX}"
    return f"a path is too long: it has {len(name)} bytes, and may have {_PATH_MAX}"


_FULL = (errno.ENOSPC, errno.EDQUOT)
_NAME_MAX, _PATH_MAX = 255, 4095
_WORDS = {
    errno.EMFILE: _too_many_files,
    errno.ENFILE: _too_many_files_everywhere,
    errno.ENOSPC: _no_space,
    errno.EDQUOT: _no_space,
    errno.ENAMETOOLONG: _long_name,
}
