from __future__ import annotations

import errno
import os
import resource
import tempfile
from pathlib import Path

import pytest

from tritonlab.core.os_limits import explained


def test_too_many_open_files_names_the_limit() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    text = explained(OSError(errno.EMFILE, "Too many open files"))
    assert text is not None and f"may have {limit};" in text and "`ulimit -n`" in text
    text = explained(OSError(errno.ENFILE, "Too many open files in system"))
    assert text is not None and "on this machine" in text


def test_a_full_disk_names_the_directory() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        text = explained(OSError(number, os.strerror(number), "/scratch/models/x"))
        assert text == (
            "no space left in /scratch/models; make room there, or set TMPDIR to a directory with more space"
        )
    assert f" in {tempfile.gettempdir()};" in str(explained(OSError(errno.ENOSPC, "No space left on device")))


def test_a_long_name_and_a_long_path(tmp_path: Path) -> None:
    for name, text in (
        ("n" * 300, f"a file name is too long: '{'n' * 40}...' has 300 bytes, and may have 255"),
        (
            "d/" * 3000,
            f"a path is too long: it has {len(os.fsencode(tmp_path / ('d/' * 3000)))} bytes, and may have 4095",
        ),
    ):
        with pytest.raises(OSError) as raised:
            (tmp_path / name).write_text("")
        assert explained(raised.value) == text


def test_the_cause_counts_and_other_errors_have_no_words() -> None:
    try:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError as error:
            raise RuntimeError("cannot start") from error
    except RuntimeError as error:
        assert str(explained(error)).startswith("too many open files")
    assert explained(FileNotFoundError(errno.ENOENT, "No such file")) is None
    assert explained(ValueError()) is None


def test_a_full_target_is_named_and_not_the_temporary_directory() -> None:
    named = OSError(errno.ENOSPC, "No space left on device", "/models/m/model.bin", None, "/exports/.m/model.bin")
    for error in (OSError(errno.ENOSPC, "No space left on device"), named):
        assert explained(error, "/exports") == "no space left in /exports; make room there, or name another directory"
    temporary = OSError(errno.ENOSPC, "No space left on device", os.path.join(tempfile.gettempdir(), "x"))
    assert "set TMPDIR" in str(explained(temporary, "/exports"))
