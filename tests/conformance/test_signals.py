"""The moments at which a model's signal handlers run: Triton's own code is C++, which no handler interrupts."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from tests.models import executes

from .clients import Client
from .models import SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, code, marked, run

#: Its second request has a thread send SIGALRM a little later, and then make a file. (Triton's first imports asyncio.)
ALARMED = executes(
    """
    self.calls += 1
    if self.calls == 2:
        threading.Timer(0.1, self.send).start()
    return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([self.calls], np.int32))])]
    """,
    initialize="""
    signal.signal(signal.SIGALRM, self.handle)
    self.calls = 0
    """,
    more="""
    def handle(self, number, frame):
        raise ValueError("the alarm came")

    def send(self):
        os.kill(os.getpid(), signal.SIGALRM)
        with open("SENT.part", "w") as file:
            file.write("0")
        os.rename("SENT.part", "SENT")
    """,
    imports="import os; import signal; import threading",
)
MODELS = {"one": model(SCRIPTED, config(*TENSORS)), "other": model(SCRIPTED, config(*TENSORS))}

HANDLED = """
import signal
self.handled = []
handled = self.handled
signal.signal(signal.SIGALRM, lambda number, frame: handled.append((time.monotonic(), frame is not None)))
def later(pid=os.getpid(), kill=os.kill, number=signal.SIGALRM, mark=mark, sent=sent):
    kill(pid, number)
    mark(sent)
"""


@rule("4.1.6")
def test_a_handler_waits_for_exec_to_return(client: Client) -> None:
    body = (
        "import signal\n"
        "def handler(number, frame):\n"
        "    raise ValueError('late')\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "began = time.monotonic()\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
        "try:\n"
        "    request_to('other', slow).exec()\n"
        "    end = 'returned'\n"
        "except ValueError as late:\n"
        "    end = str(late)\n"
        "return reply([end, time.monotonic() - began >= 0.5, got(request_to('other', five).exec())])"
    )
    slow, five = code("time.sleep(0.5)\nreturn [number(4)]"), code("return [number(5)]")
    assert run(client, "one", body, slow=slow, five=five) == ["late", True, {"OUT": [5]}]


@rule("3.5.7")
def test_a_handler_waits_for_the_next_request(client: Client, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    body = HANDLED + "threading.Timer(0.1, later).start()\nreturn reply('first')"
    assert run(client, "one", body, sent=str(sent)) == "first"
    marked(sent)
    sent_at = time.monotonic()
    ((handled, framed),) = run(client, "one", "return reply(self.handled)")
    assert framed
    assert handled >= sent_at


@rule("3.5.7")
def test_what_it_raises_fails_the_next_request(side: Client, tmp_path: Path) -> None:
    """A request without texts, so that `execute` is the first code that runs: Triton makes objects of texts in Python,
    before, and its stub dies if that raises."""
    sent = tmp_path / "sent"
    alarmed = model(ALARMED.replace("SENT", str(sent)), config("X INT32 1", "Y INT32 1"))
    assert side.placed("alarmed", alarmed) is None
    inputs = {"X": np.array([0], np.int32)}
    for _ in range(2):
        assert side.infer("alarmed", inputs).error == ""
    marked(sent)
    assert "message: ValueError: the alarm came\n" in side.infer("alarmed", inputs).error
    assert side.infer("alarmed", inputs).outputs["Y"].tolist() == [3]
    side.unload("alarmed")
