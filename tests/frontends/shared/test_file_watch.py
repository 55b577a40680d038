from __future__ import annotations

import errno
import os

import pytest

from tritonlab.frontends.shared.file_watch import FileWatch


def test_each_shortage_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    watch = FileWatch(reports.append)

    def short(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    for turn in (0, 1, 2):
        assert len(reports) == turn
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", short)
            watch.look()
            watch.look()
        watch.look()
    assert all(text.startswith("no connection can be accepted: too many open files: ") for text in reports)
