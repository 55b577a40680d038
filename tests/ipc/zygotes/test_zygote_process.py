"""The kernel's end of a zygote, alone; test_stub_pool.py and test_warm_traps.py have it with the rest."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving import alive, eventually
from tritonlab.ipc.processes.interpreter import Interpreter
from tritonlab.ipc.zygotes.zygote_process import ZygoteError, ZygoteProcess
from tritonlab.stub._pb_stub.wire.fork_bodies import ImportStep


@pytest.fixture
def zygote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZygoteProcess]:
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    interpreter = Interpreter(sys.executable)
    zygote = ZygoteProcess.start(interpreter, interpreter.variables(os.environ))
    zygote.await_grown()
    yield zygote
    zygote.end()


def test_a_process_that_is_forked_while_the_zygote_ends_is_known(
    zygote: ZygoteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would end one that hangs in an import."""
    before = psutil.Process().children(recursive=True)
    receive, forked, ending = zygote._receive, threading.Event(), threading.Event()
    grown: list[ZygoteProcess] = []

    def late(timeout: float) -> Any:
        forked.set()
        assert ending.wait(60)
        return receive(timeout)

    monkeypatch.setattr(zygote, "_receive", late)
    step = ImportStep("hangs", [], False, False)
    asking = threading.Thread(target=lambda: grown.append(zygote.grow([step], dict(os.environ), "")))
    asking.start()
    assert forked.wait(60)
    end = threading.Thread(target=zygote.end)
    end.start()
    eventually(lambda: not zygote.alive)
    ending.set()
    asking.join(60)
    end.join(60)
    grown[0].end()
    eventually(lambda: set(psutil.Process().children(recursive=True)) < set(before))


def test_an_ended_zygote_answers_nobody(zygote: ZygoteProcess) -> None:
    zygote.end()
    with pytest.raises(ZygoteError):
        zygote.grow([], {}, "")


def test_an_answer_that_was_not_read_is_not_taken_for_the_next(
    zygote: ZygoteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt may come between a question and its answer."""

    def interrupt(timeout: float) -> Any:
        raise KeyboardInterrupt

    before = psutil.Process().children(recursive=True)
    with monkeypatch.context() as patch:
        patch.setattr(zygote, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            zygote.grow([], dict(os.environ), "")
    grown = zygote.grow([], dict(os.environ), "")
    grown.await_grown()
    grown.child.kill()  # the very process that answers
    with pytest.raises(ZygoteError):
        grown.grow([], dict(os.environ), "")
    grown.end()
    # what the killed process had forked for a trial may stay behind as a zombie
    eventually(
        lambda: not {child for child in psutil.Process().children(recursive=True) if alive(child.pid)} - set(before)
    )
