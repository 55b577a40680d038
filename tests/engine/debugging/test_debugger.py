"""`breakpoint()` in a model: its prompts reach the desk on the thread that waits, and nobody waits for ever."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from tests.serving import SOON, Lab, Script, config, eventually, instances
from tritonlab.core.status import ModelError, NotFoundError, UnsupportedError
from tritonlab.engine.debugging.debug_session import DebugSession, Desk
from tritonlab.server.api.model import Model
from tritonlab.server.api.response_iterator import RequestInterrupted
from tritonlab.stub._pb_stub.wire.message_bodies import Prompt

STOP = """
x = 20
breakpoint()
x = x + 1
return [answer(OUT=np.float32([x]))]
"""


class FakeDesk(Desk):
    """A desk that types `lines` and records the prompts. A line may be an exception, or a function that returns one."""

    def __init__(self, *lines: Any, reads: bool = True, here: bool = True) -> None:
        self.lines: SimpleQueue[Any] = SimpleQueue()
        for line in lines:
            self.lines.put(line)
        self.reads, self.here = reads, here
        self.prompts: list[str] = []
        self.texts: list[str] = []
        self.threads: list[threading.Thread] = []

    def can_read(self) -> bool:
        return self.reads

    def reads_here(self) -> bool:
        return self.here and threading.current_thread() is threading.main_thread()

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        self.prompts.append(prompt.text)
        self.threads.append(threading.current_thread())
        line = self.lines.get(timeout=60)
        line = line() if callable(line) else line
        if isinstance(line, BaseException):
            raise line
        assert line is None or isinstance(line, str)
        return line

    def say(self, session: DebugSession, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def desk(lab: Lab) -> Iterator[Callable[..., FakeDesk]]:
    def sit(*lines: Any, **more: bool) -> FakeDesk:
        lab.server.debugger.desk = found = FakeDesk(*lines, **more)
        return found

    yield sit
    lab.server.debugger.desk = Desk()
    assert eventually(lambda: not lab.server.debugger.sessions())


def test_the_thread_that_waits_types_the_lines(script: Script, desk: Any) -> None:
    sat = desk("p x", "x = 40", "n", "p x", "c")
    assert script(STOP)["OUT"].tolist() == [41]
    assert sat.prompts[0].startswith("> <string>(4)script()")
    assert [text.strip() for text in (sat.prompts[1], sat.prompts[4])] == ["20", "41"]
    assert set(sat.threads) == {threading.main_thread()}


@pytest.mark.parametrize("stop", ["import pdb; pdb.set_trace()", "import pdb; pdb.Pdb().set_trace()"])
def test_every_way_to_stop(script: Script, desk: Any, stop: str) -> None:
    desk("x = 6", "c")
    assert script(STOP.replace("breakpoint()", stop))["OUT"].tolist() == [7]


def test_only_the_authors_frames_are_listed(script: Script, desk: Any) -> None:
    sat = desk("w", "u", "u", "c")
    script(STOP)
    assert "model.py" in sat.prompts[1]  # SCRIPTED's own execute, which runs the text
    assert "_pb_stub" not in "".join(sat.prompts)
    assert "Oldest frame" in sat.prompts[3]


def test_steps_past_the_end_let_the_next_request_alone(script: Script, desk: Any) -> None:
    sat = desk(*["n"] * 6)
    assert script(STOP)["OUT"].tolist() == [21]
    count = len(sat.prompts)
    assert script.value("1") == 1
    assert len(sat.prompts) == count
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
    assert "model.py(24)execute()" in sat.prompts[-2]
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
    assert sat.prompts == []
    assert "  x = 21" in sat.texts[0]


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
    assert sat.prompts == []
    lab.server.debugger._seek(session)
    assert "%triton debug script" in sat.texts[0]
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
    assert sat.prompts[1].strip() == "3"


def test_initialize_pauses_under_the_load(lab: Lab, desk: Any) -> None:
    sat = desk("p args['model_name']", "c")
    source = "class TritonPythonModel:\n    def initialize(self, args):\n        breakpoint()\n        self.ready = 1\n"
    lab.load("starts", source + "    def execute(self, requests):\n        return []\n")
    assert sat.prompts[1].strip() == "'starts'"
    lab.server.unload("starts")


def test_an_import_does_not_stop_in_the_debugger(lab: Lab, desk: Any) -> None:
    sat = desk()
    source = "breakpoint()\nX = 1\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    model = lab.load("imports", source)
    assert sat.prompts == []
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
    """Yield a server whose stubs keep the last exception of `execute`."""
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
    assert sat.prompts[0].startswith("ValueError: too odd\n> <string>(3)script()")
    assert [sat.prompts[1].strip(), sat.prompts[2].strip()] == ["[0, 1, 2]", "3"]
    assert "model.py" in sat.prompts[3]
    assert sat.prompts[4].strip() == "'seven'"
    assert answers == [5]
    sat.lines.put("p kept")
    sat.lines.put("c")
    script.model.postmortem()  # the very objects: it can be looked at as often as one likes
    assert sat.prompts[-1].strip() == "[0, 1, 2, 1]"


def test_where_nobody_can_type_a_postmortem_is_a_snapshot(keeping: Lab) -> None:
    script = keeping.script()
    keeping.server.debugger.desk = sat = FakeDesk(reads=False)
    script.fails(FAIL)
    script.model.postmortem()
    assert sat.prompts == []
    assert "  kept = [0, 1, 2]" in sat.texts[0]


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


class Editor:
    """An editor that starts the debug adapter of a launch.json as VS Code does."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.configuration = configuration
        command = [sys.executable, configuration["debugAdapterPath"]]
        self.adapter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._number = itertools.count(1)
        self._aside: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> int:
        number = next(self._number)
        body = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        assert self.adapter.stdin is not None
        self.adapter.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.adapter.stdin.flush()
        return number

    def read(self) -> dict[str, Any] | None:
        assert self.adapter.stdout is not None
        head = self.adapter.stdout.readline()
        if not head:
            return None
        assert self.adapter.stdout.readline() == b"\r\n"
        message: dict[str, Any] = json.loads(self.adapter.stdout.read(int(head.partition(b":")[2])))
        return message

    def until(self, **wanted: Any) -> dict[str, Any]:
        """Return the first message with these members, whether it was read already or comes."""
        while True:
            for message in self._aside:
                if wanted.items() <= message.items():
                    self._aside.remove(message)
                    return message
            received = self.read()
            assert received is not None, (wanted, self._aside)
            self._aside.append(received)

    def answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        answer = self.until(type="response", request_seq=self.send(command, **arguments))
        assert answer["success"], answer
        body: dict[str, Any] = answer.get("body") or {}
        return body

    def attach(self, *lines: int) -> None:
        """Attach with a breakpoint at each of the lines of model.py."""
        assert self.answer("initialize", clientID="vscode", adapterID="debugpy")["supportsConfigurationDoneRequest"]
        # what VS Code's extension adds to a configuration of launch.json
        added = {"host": "localhost", "clientOS": "unix", "debugOptions": ["RedirectOutput", "ShowReturnValue"]}
        attached = self.send("attach", **self.configuration, **added, showReturnValue=True, __sessionId="1")
        self.until(type="event", event="initialized")
        (mapping,) = self.configuration["pathMappings"]
        source = {"path": f"{mapping['localRoot']}/model.py"}
        found = self.answer("setBreakpoints", source=source, breakpoints=[{"line": line} for line in lines])
        assert [each["verified"] for each in found["breakpoints"]] == [True] * len(lines)
        self.answer("configurationDone")
        assert self.until(type="response", request_seq=attached)["success"]

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *error: object) -> None:
        with self.adapter:
            self.adapter.kill()


TWICE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        twice = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy() * 2
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", twice)])]
"""


@pytest.fixture
def twice(lab: Lab, tmp_path: Path) -> Model:
    """Return a model whose author has its file in `tmp_path`."""
    pytest.importorskip("debugpy")
    (tmp_path / "model.py").write_text(TWICE)
    return lab.load("twice", TWICE, config("IN FP32 1", "OUT FP32 1"))


def send(model: Model) -> Iterator[Any]:
    return iter(model.infer(inputs={"IN": np.array([21], np.float32)}))


def test_an_editor_attaches_and_stops_at_its_breakpoint(twice: Model, tmp_path: Path) -> None:
    found = twice.attach(str(tmp_path))
    assert json.loads(repr(found).partition("\n")[2]) == found.to_dict()
    (configuration,) = found.to_dict()["configurations"]
    assert configuration["processId"] == instances(twice)[0].pid
    served = f"{twice.directory}/1"
    assert configuration["pathMappings"] == [{"localRoot": str(tmp_path), "remoteRoot": served}]
    with Editor(configuration) as editor:
        editor.attach(8)
        answers = send(twice)
        thread = editor.until(type="event", event="stopped")["body"]["threadId"]
        frame = editor.answer("stackTrace", threadId=thread, levels=1)["stackFrames"][0]
        assert (frame["line"], frame["source"]["path"]) == (8, str(tmp_path / "model.py"))
        assert "42" in editor.answer("evaluate", expression="twice", frameId=frame["id"])["result"]
        editor.answer("continue", threadId=thread)
        assert next(answers).outputs["OUT"].numpy() == [42]


def test_an_editor_that_goes_without_a_word_lets_the_model_go_on(twice: Model, tmp_path: Path) -> None:
    (configuration,) = twice.attach(str(tmp_path)).to_dict()["configurations"]
    with Editor(configuration) as editor:
        editor.attach(8)
        answers = send(twice)
        editor.until(type="event", event="stopped")
        editor.adapter.kill()
        assert next(answers).outputs["OUT"].numpy() == [42]
    assert next(send(twice)).outputs["OUT"].numpy() == [42]  # nor is its breakpoint left
    assert twice.attach(str(tmp_path)).to_dict()["configurations"] == [configuration]
    with Editor(configuration) as editor:
        editor.attach(8)
        with Editor(configuration) as second:
            assert second.read() is None  # one at a time
        answers = send(twice)
        thread = editor.until(type="event", event="stopped")["body"]["threadId"]
        editor.answer("disconnect", terminateDebuggee=False)
        assert thread
        assert next(answers).outputs["OUT"].numpy() == [42]


def test_an_editor_learns_that_the_model_has_ended(twice: Model, tmp_path: Path) -> None:
    (configuration,) = twice.attach().to_dict()["configurations"]
    with Editor(configuration) as editor:
        editor.attach()
        os.kill(configuration["processId"], signal.SIGKILL)
        editor.until(type="event", event="terminated")
        assert editor.adapter.wait(SOON) == 0
    eventually(lambda: not Path(configuration["debugAdapterPath"]).exists())


#: Tries, as another user, every way to the debuggers of the processes given: the printed adapter, its socket, and each
#: TCP port that one of them listens at. Prints what let it in.
OTHER_USER = r"""
import os, socket, subprocess, sys
path, *inodes = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
body = b'{"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "test"}}'
message = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
try:
    open(path).close()
    print("the adapter can be read")
except PermissionError:
    print("refused: the file")
try:
    socket.socket(socket.AF_UNIX).connect(os.path.join(os.path.dirname(path), "socket"))
    print("the socket lets it in")
except PermissionError:
    print("refused: the socket")
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    fields = line.split()
    if fields[3] == "0A" and fields[9] in inodes:
        port = int(fields[1].partition(":")[2], 16)
        with socket.create_connection(("127.0.0.1", port), 10) as link:
            link.settimeout(10)
            link.sendall(message)
            try:
                reply = link.recv(4096)
            except OSError:
                reply = b""
            print("port", port, "answered", reply)
"""


def sockets_of(*processes: int) -> list[str]:
    """Return the inodes of the sockets that processes have open."""
    links = (link for pid in processes for link in Path(f"/proc/{pid}/fd").iterdir())
    found = []
    for link in links:
        with contextlib.suppress(OSError):
            found += re.findall(r"^socket:\[(\d+)]$", os.readlink(link))
    return found


def family_of(session: int) -> list[int]:
    """Return the processes of a session, which those that a stub starts are part of."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(path.name)) == session:
                found.append(int(path.name))
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_attach(twice: Model, tmp_path: Path) -> None:
    before = set(sockets_of(os.getpid()))
    (configuration,) = twice.attach().to_dict()["configurations"]
    opened = set(sockets_of(os.getpid())) - before
    pid = configuration["processId"]
    sockets = [*opened, *sockets_of(*{pid, *family_of(os.getsid(pid))} - {os.getpid()})]
    command = [sys.executable, "-c", OTHER_USER, configuration["debugAdapterPath"], *sockets]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/")
    assert tried.stderr == ""
    assert tried.stdout.splitlines() == ["refused: the file", "refused: the socket"]
    secrets = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    token = instances(twice)[0].stub.process.monitor.editor_relay.token  # type: ignore[union-attr]
    assert not [command for command in secrets if token.encode() in command]


def test_a_python_without_debugpy_is_named(lab: Lab) -> None:
    script = lab.script("bare")
    script.value("sys.modules.setdefault('debugpy', None) is None")
    with pytest.raises(UnsupportedError, match=r"python.*, which runs 'bare_0_0', has no debugpy: pip install it"):
        script.model.attach()
