"""Prints of the author's code, which go out whatever it put in the place of stdout and stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tritonlab.stub._pb_stub.process.prints import flush_prints, print_error


class Refuses:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("make", [lambda: None, Refuses, closed])
def test_a_stream_that_refuses(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], make: Callable[[], Any]
) -> None:
    stream = make()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    flush_prints()
    print_error("half a pair: \udc80\n")
    assert capfd.readouterr().err == "half a pair: \\udc80\n"


def test_one_that_refuses_leaves_the_other(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    sys.stderr.write("kept back")
    flush_prints()
    print_error(", then told")
    sys.stderr.flush()
    assert capfd.readouterr().err == "kept back, then told"
