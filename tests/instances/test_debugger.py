"""`breakpoint()` in a model: its prompts reach the desk on the thread that waits, and nobody waits for ever."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from tests.serving import Lab, Script, eventually
from tritonlab.core.status import ModelError, NotFoundError, UnsupportedError
from tritonlab.instances.debug_session import DebugSession
from tritonlab.server.api.response_iterator import RequestInterrupted
from tritonlab.stub._pb_stub.wire.debugger_bodies import Prompt

STOP = """
x = 20
breakpoint()
x = x + 1
return [answer(OUT=np.float32([x]))]
"""


class FakeDesk:
    """Types `lines`, and keeps what it was shown. A line may be an exception, or a function that returns one."""

    def __init__(self, *lines: Any, reads: bool = True, here: bool = True) -> None:
        self.lines: SimpleQueue[Any] = SimpleQueue()
        for line in lines:
            self.lines.put(line)
        self.reads, self.here = reads, here
        self.shown: list[str] = []
        self.said: list[str] = []
        self.threads: list[threading.Thread] = []

    def can_read(self) -> bool:
        return self.reads

    def reads_here(self) -> bool:
        return self.here and threading.current_thread() is threading.main_thread()

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        self.shown.append(prompt.text)
        self.threads.append(threading.current_thread())
        line = self.lines.get(timeout=60)
        line = line() if callable(line) else line
        if isinstance(line, BaseException):
            raise line
        assert line is None or isinstance(line, str)
        return line

    def say(self, session: DebugSession, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def desk(lab: Lab) -> Iterator[Callable[..., FakeDesk]]:
    def sit(*lines: Any, **more: bool) -> FakeDesk:
        lab.server.debugger.desk = found = FakeDesk(*lines, **more)
        return found

    yield sit
    lab.server.debugger.desk = None
    assert eventually(lambda: not lab.server.debugger.sessions())


def test_the_thread_that_waits_types_the_lines(script: Script, desk: Any) -> None:
    sat = desk("p x", "x = 40", "n", "p x", "c")
    assert script(STOP)["OUT"].tolist() == [41]
    assert sat.shown[0].startswith("> <string>(4)script()")
    assert [text.strip() for text in (sat.shown[1], sat.shown[4])] == ["20", "41"]
    assert set(sat.threads) == {threading.main_thread()}


@pytest.mark.parametrize("stop", ["import pdb; pdb.set_trace()", "import pdb; pdb.Pdb().set_trace()"])
def test_every_way_to_stop(script: Script, desk: Any, stop: str) -> None:
    desk("x = 6", "c")
    assert script(STOP.replace("breakpoint()", stop))["OUT"].tolist() == [7]


def test_only_the_authors_frames_are_shown(script: Script, desk: Any) -> None:
    sat = desk("w", "u", "u", "c")
    script(STOP)
    assert "model.py" in sat.shown[1]  # SCRIPTED's own execute, which runs the text
    assert "_pb_stub" not in "".join(sat.shown)
    assert "Oldest frame" in sat.shown[3]


def test_steps_past_the_end_let_the_next_request_alone(script: Script, desk: Any) -> None:
    sat = desk(*["n"] * 6)
    assert script(STOP)["OUT"].tolist() == [21]
    count = len(sat.shown)
    assert script.value("1") == 1
    assert len(sat.shown) == count
    assert script.text("sys.gettrace()") == "None"


def test_a_breakpoint_of_the_debugger_stops_the_next_request(script: Script, desk: Any) -> None:
    sat = desk("import bdb", "c")
    script(STOP)
    sat.lines.put(f"b {script.model.directory}/1/model.py:24")  # scope = …
    sat.lines.put("c")
    script(STOP)
    sat.lines.put("clear 1")
    sat.lines.put("c")
    assert script.value("1") == 1
    assert "model.py(24)execute()" in sat.shown[-2]
    assert script.text("sys.gettrace()") == "None"


@pytest.mark.parametrize("line", ["q", "EOF"])
def test_quit_fails_the_request(script: Script, desk: Any, line: str) -> None:
    desk(line)
    with pytest.raises(ModelError, match="BdbQuit: the debugger was left"):
        script(STOP)
    assert script.value("1") == 1


def test_an_interrupt_leaves_the_debugger(script: Script, desk: Any) -> None:
    desk(KeyboardInterrupt())
    with pytest.raises(RequestInterrupted, match=r"left at File \"<string>\", line 4 \(interrupted\)"):
        script(STOP)
    desk()
    assert script.value("1") == 1  # the stub has left it, too
    assert any("BdbQuit" in line for line in script.lines())


def test_where_nobody_can_type_the_model_goes_on(lab: Lab, script: Script, desk: Any) -> None:
    assert script(STOP)["OUT"].tolist() == [21]  # no desk at all
    (line,) = [line for line in script.lines() if "nobody can type here" in line]
    assert 'File "<string>", line 4, in script' in line
    assert "  x = 20" in line
    sat = desk(reads=False)
    script(STOP.replace("x = 20", "x = 20\nx = 21"))
    assert sat.shown == []
    assert "  x = 21" in sat.said[0]


def test_a_front_end_that_refuses_lets_the_model_go_on(script: Script, desk: Any) -> None:
    desk(None)
    assert script(STOP)["OUT"].tolist() == [21]


def test_a_request_of_another_thread_is_typed_to_by_whoever_follows(lab: Lab, script: Script, desk: Any) -> None:
    sat = desk("x = 1", "c")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(script(STOP)["OUT"].tolist()))
    thread.start()
    session = eventually(lab.server.debugger.waiting)
    assert lab.server.debugger.words() == "'script_0_0' is paused in the debugger at File \"<string>\", line 4"
    assert "paused in the debugger" in script.instance.awaited()
    assert sat.shown == []
    lab.server.debugger._seek(session)
    assert "%triton debug script" in sat.said[0]
    script.model.debug()
    assert session.ended
    thread.join(60)
    assert found == [[2]]


def test_nobody_typed_anything(lab: Lab, script: Script, desk: Any) -> None:
    desk(here=False)
    responses = script.infer(STOP)
    session = eventually(lab.server.debugger.waiting)
    lab.server.debugger._give_up(session)
    (response,) = responses
    assert response.outputs["OUT"].numpy().tolist() == [21]
    assert any("nobody typed anything" in line for line in script.lines())


def test_a_stub_that_dies_in_the_debugger(lab: Lab, script: Script, desk: Any) -> None:
    desk("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ModelError, match="is not healthy"):
        script(STOP)
    assert lab.server.debugger.sessions() == []
    assert script.instance.debugged == []


def test_a_call_of_another_model_pauses_under_the_caller(lab: Lab, script: Script, desk: Any) -> None:
    lab.script("inner")
    desk("x = 9", "c")
    code = np.array([STOP.strip().encode()], dtype=np.object_)
    text = f"""
inner = pb_utils.Tensor("CODE", np.array([{code[0]!r}], dtype=object))
call = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["OUT"], inputs=[inner])
response = call.exec()
return [answer(OUT=pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy())]
"""
    assert script(text)["OUT"].tolist() == [10]


def test_a_fork_of_the_model_pauses_too(script: Script, desk: Any) -> None:
    sat = desk("p x", "x = 5", "c")
    text = """
pid = os.fork()
if pid == 0:
    x = 3
    breakpoint()
    os._exit(x)
return [answer(OUT=np.float32([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]))]
"""
    assert script(text)["OUT"].tolist() == [5]
    assert sat.shown[1].strip() == "3"


def test_initialize_pauses_under_the_load(lab: Lab, desk: Any) -> None:
    sat = desk("p args['model_name']", "c")
    source = "class TritonPythonModel:\n    def initialize(self, args):\n        breakpoint()\n        self.ready = 1\n"
    lab.load("starts", source + "    def execute(self, requests):\n        return []\n")
    assert sat.shown[1].strip() == "'starts'"
    lab.server.unload("starts")


def test_the_import_goes_on_as_nothing_can_be_asked_there(lab: Lab, desk: Any) -> None:
    sat = desk()
    source = "breakpoint()\nX = 1\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    model = lab.load("imports", source)
    assert sat.shown == []
    assert any('model.py", line 2' in record.text for record in model.logs())
    lab.server.unload("imports")


def test_stopping_the_server_lets_a_paused_model_go_on(tmp_path: Any) -> None:
    lab = Lab(tmp_path)
    script = lab.script()
    lab.server.debugger.desk = FakeDesk(here=False)
    responses = script.infer(STOP)
    eventually(lab.server.debugger.waiting)
    lab.server.stop()
    (response,) = responses
    assert response.outputs["OUT"].numpy().tolist() == [21]


#: Fails with an object in its frame, and tells whether that lives.
WATCHED = "import weakref\nclass Big: pass\nbig = Big()\nself.kept['ref'] = weakref.ref(big)\nraise ValueError"
FAIL = """
kept = [x for x in range(3)]
raise ValueError("too odd")
"""


@pytest.fixture
def keeping(tmp_path: Any) -> Iterator[Lab]:
    """A server whose stubs keep the last exception of `execute`."""
    lab = Lab(tmp_path, postmortem_seconds=600)
    yield lab
    lab.server.stop()


def test_the_last_exception_is_looked_at_while_the_model_serves(keeping: Lab) -> None:
    script = keeping.script()
    answers: list[Any] = []

    def asks_on() -> str:
        answers.append(script.value("5"))  # between two lines of the debugger
        return "p len(kept)"

    lines = ("p kept", asks_on, "u", "p requests[0].request_id()", "d", "kept.append(1)", "q")
    keeping.server.debugger.desk = sat = FakeDesk(*lines)
    script.fails("raise KeyError('an earlier one')")
    script.fails(FAIL, request_id="seven")
    script.model.postmortem()
    assert sat.shown[0].startswith("ValueError: too odd\n> <string>(3)script()")
    assert [sat.shown[1].strip(), sat.shown[2].strip()] == ["[0, 1, 2]", "3"]
    assert "model.py" in sat.shown[3]
    assert sat.shown[4].strip() == "'seven'"
    assert answers == [5]
    sat.lines.put("p kept")
    sat.lines.put("c")
    script.model.postmortem()  # the very objects: it can be looked at as often as one likes
    assert sat.shown[-1].strip() == "[0, 1, 2, 1]"


def test_where_nobody_can_type_a_postmortem_is_a_snapshot(keeping: Lab) -> None:
    script = keeping.script()
    keeping.server.debugger.desk = sat = FakeDesk(reads=False)
    script.fails(FAIL)
    script.model.postmortem()
    assert sat.shown == []
    assert "  kept = [0, 1, 2]" in sat.said[0]


def test_an_exception_is_kept_until_its_time_is_up_or_the_next_comes(tmp_path: Any) -> None:
    lab = Lab(tmp_path, postmortem_seconds=0.3)
    script = lab.script()
    gone = "self.kept['ref']() is None"
    script.fails(WATCHED)
    eventually(lambda: script.value(f"float({gone})"))
    with pytest.raises(NotFoundError, match="no exception of 'script' is alive"):
        script.model.postmortem()
    lab.server.stop()


def test_the_next_exception_takes_the_place_of_the_last(keeping: Lab) -> None:
    script = keeping.script()
    script.fails(WATCHED)
    assert script.value("float(self.kept['ref']() is None)") == 0
    script.fails("raise KeyError")
    assert script.value("float(self.kept['ref']() is None)") == 1


def test_without_the_option_nothing_is_kept(script: Script) -> None:
    script.fails(WATCHED)
    assert script.value("float(self.kept['ref']() is None)") == 1
    with pytest.raises(NotFoundError, match="postmortem_seconds"):
        script.model.postmortem()


def test_an_editor_can_attach(script: Script, tmp_path: Any) -> None:
    pytest.importorskip("debugpy")
    found = script.model.attach()
    (configuration,) = found.to_dict()["configurations"]
    assert json.loads(repr(found).partition("\n")[2]) == found.to_dict()
    served = f"{script.model.directory}/1"
    assert configuration["pathMappings"] == [{"localRoot": served, "remoteRoot": served}]
    body = json.dumps({"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "test"}})
    with socket.create_connection((configuration["connect"]["host"], configuration["connect"]["port"]), 10) as editor:
        editor.sendall(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        editor.settimeout(10)
        heard = b""
        while b'"initialize"' not in heard:
            more = editor.recv(4096)
            assert more, heard
            heard += more
    assert script.model.attach(str(tmp_path)).to_dict()["configurations"][0]["pathMappings"][0] == {
        "localRoot": str(tmp_path),
        "remoteRoot": served,
    }
    assert script.value("1") == 1


def test_a_python_without_debugpy_is_named(lab: Lab) -> None:
    script = lab.script("bare")
    script.value("sys.modules.setdefault('debugpy', None) is None")
    with pytest.raises(UnsupportedError, match=r"python.*, which runs 'bare_0_0', has no debugpy: pip install it"):
        script.model.attach()
