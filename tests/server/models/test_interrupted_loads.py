"""The Stop button, pressed at any moment of a load: it leaves no process, and the next load is as good as ever."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from tests.models import executes
from tests.serving import config, eventually, write_model
from tritonlab import Server

MODEL = executes('return [pb_utils.InferenceResponse([pb_utils.Tensor("N", np.array([1]))]) for _ in requests]')
PACKAGE = str(Path(sys.modules["tritonlab"].__file__ or "").parent)


class Interrupt:
    """An interrupt of `call`, when code of `folder` has begun or ended its `moment`th call."""

    def __init__(self, folder: str, moment: int) -> None:
        self.came = False
        self._folder = str(Path(PACKAGE, folder))
        self._left = moment

    def during(self, call: Callable[[], object]) -> None:
        sys.setprofile(self._profile)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Interrupt where Python handles signals: where a function begins and after a call of C code."""
        code = frame.f_code
        # what is raised in a generator that is closed, or inside the handler, is lost
        if event not in ("call", "c_return") or not code.co_filename.startswith(self._folder):
            return
        if code.co_name in ("<genexpr>", "__del__") or code.co_filename.endswith("interrupts.py"):
            return
        self._left -= 1
        if self._left == 0:
            self.came = True
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("models")
    write_model(repository, "m", MODEL, config("", "N INT64 1"))
    with Server(repository, model_control_mode="explicit") as server:
        server.load("m")
        server.unload("m", timeout=10)
        assert server.core.pool.wait_warm()
        yield server


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize(
    ("folder", "step"),
    [("ipc/zygotes", 2), ("ipc", 9), ("engine", 2), ("engine/schedulers", 2), ("server", 3), ("core", 11)],
)
def test_an_interrupt_at_any_moment_of_a_load_leaves_nothing(server: Server, folder: str, step: int) -> None:
    before = children()
    moment = 1
    while True:
        interrupt = Interrupt(folder, moment)
        interrupt.during(lambda: server.load("m"))
        server.load("m")
        assert server.model("m")()["N"].tolist() == [1], f"after an interrupt at moment {moment}"
        server.unload("m", timeout=10)
        eventually(lambda: children() <= before)  # processes of earlier tests may still be ending
        if not interrupt.came:
            break
        moment += step
    assert moment > 3 * step
    assert not server.core.control.loading()
