from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving import Lab, alive, eventually, open_descriptors
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.ipc.link.stub_connection import Answer
from tritonlab.ipc.processes import stub_launcher
from tritonlab.ipc.processes.interpreter import STUB, Interpreter, InterpreterError
from tritonlab.ipc.processes.stub_launcher import ShmSettings, StubProcess, StubStartError
from tritonlab.stub._pb_stub.wire.ipc_message import HEADER
from tritonlab.stub._pb_stub.wire.serialization import WIRE_VERSION
from tritonlab.stub._pb_stub.wire.shm_manager import create_region_file

KERNEL_PY = Path(__file__).with_name("kernel.py")


@pytest.fixture
def stub_process(link_reader: LinkReader) -> Iterator[StubProcess]:
    stub = StubProcess(link_reader)
    stub.await_hello()
    yield stub
    stub.kill()


# -- the start


def test_a_stub_says_hello(stub_process: StubProcess) -> None:
    hello = stub_process.link.hello.value
    assert hello is not None
    version, python, numpy, pid = hello
    assert (version, pid) == (WIRE_VERSION, stub_process.pid)
    assert python == "{}.{}.{}".format(*sys.version_info[:3])
    assert numpy


def test_a_stub_that_is_ended_before_its_hello_prints_nothing() -> None:
    """A load that fails ends the other process of the model, which may just have begun."""
    (gone, control), (life, kept) = socket.socketpair(), os.pipe()
    gone.close()
    with control, socket.socket(socket.AF_UNIX) as monitor, socket.socket(socket.AF_UNIX) as door:
        regions = [create_region_file("kernel"), create_region_file("stub")]
        fds = [control.fileno(), monitor.fileno(), *regions, life, door.fileno()]
        arguments = [*fds[:4], 1 << 20, 1 << 20, 0, *fds[4:]]
        os.ftruncate(regions[1], 1 << 20)
        command = [sys.executable, str(STUB), *map(str, arguments)]
        done = subprocess.run(command, pass_fds=fds, capture_output=True, timeout=60, start_new_session=True)
    for fd in (*regions, life, kept):
        os.close(fd)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_stub_is_its_own_session(stub_process: StubProcess) -> None:
    assert os.getsid(stub_process.pid) == stub_process.pid != os.getsid(0)


def test_a_stub_inherits_its_own_descriptors_only(stub_process: StubProcess) -> None:
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        other = StubProcess(stub_process._link_reader)
        other.await_hello()
        targets = [os.readlink(f"/proc/{other.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{other.pid}/fd")]
        other.kill()
    finally:
        os.close(secret)
    assert sum(target.startswith("socket:") for target in targets) == 3  # control, monitor, the door for its forks
    assert {target for target in targets if "memfd:" in target} == {
        "/memfd:tritonlab kernel (deleted)",
        "/memfd:tritonlab stub (deleted)",
    }
    assert sum(target.startswith("pipe:") for target in targets) == 3  # stdout, stderr, life
    assert targets.count("/dev/null") == 1  # stdin


@pytest.fixture
def descriptors(lab: Lab) -> int:
    """Return how many descriptors are open, with no warm stub on its way."""
    assert lab.server.core.pool.wait_warm()
    return open_descriptors()


def test_a_stub_that_ends_leaves_no_descriptor(descriptors: int, link_reader: LinkReader) -> None:
    before = open_descriptors()
    for end in (StubProcess.kill, StubProcess.finalize, StubProcess.reap):
        stub = StubProcess(link_reader)
        stub.await_hello()
        end(stub)
        stub.kill()  # once more does no harm
        assert stub.child.returncode is not None
    eventually(lambda: open_descriptors() <= before)


def test_a_program_that_is_not_there(descriptors: int, link_reader: LinkReader) -> None:
    before = open_descriptors()
    with pytest.raises(StubStartError, match="cannot start the stub with '/nonexistent/python'"):
        StubProcess(link_reader, interpreter=Interpreter("/nonexistent/python"))
    eventually(lambda: open_descriptors() <= before)


def test_a_program_that_is_no_stub(descriptors: int, link_reader: LinkReader) -> None:
    before = open_descriptors()
    stub = StubProcess(link_reader, interpreter=Interpreter("/bin/true"))
    with pytest.raises((StubStartError, InterpreterError), match="/bin/true"):
        stub.await_hello()
    eventually(lambda: open_descriptors() <= before)


def test_a_kernel_without_descriptors(descriptors: int, link_reader: LinkReader) -> None:
    """However far it gets, what it opened is closed again and no process stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before, highest = open_descriptors(), max(map(int, os.listdir("/proc/self/fd")))
    children = psutil.Process().children()
    try:
        for more in range(1, 24):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, hard))
            try:
                stub = StubProcess(link_reader)
            except (StubStartError, OSError) as error:
                assert "Too many open files" in str(error)
            else:
                stub.kill()
                break
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            eventually(lambda: open_descriptors() <= before)
        else:
            raise AssertionError("there were never enough")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: set(psutil.Process().children()) <= set(children))


def test_a_region_larger_than_its_limit(descriptors: int, link_reader: LinkReader) -> None:
    before = open_descriptors()
    with pytest.raises(StubStartError, match="Failed to increase the shared memory pool size to 2097152 bytes"):
        StubProcess(link_reader, shm=ShmSettings(2 << 20, 1 << 20, 1 << 20))
    eventually(lambda: open_descriptors() <= before)


@pytest.fixture
def stub_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that replaces the stub's program with another text."""

    def replace(text: str) -> None:
        path = tmp_path / "stub.py"
        path.write_text(text)
        monkeypatch.setattr(stub_launcher, "STUB", path)

    return replace


def test_the_error_has_what_a_stub_printed_before_it_failed(
    link_reader: LinkReader, stub_file: Callable[[str], None]
) -> None:
    stub_file("print('about to fail', flush=True); raise ImportError('no numpy here')")
    with pytest.raises(
        StubStartError, match=r"exited with exit status 1:\n(?s:.*)ImportError: no numpy here"
    ) as raised:
        StubProcess(link_reader).await_hello()
    assert "about to fail" in str(raised.value)


def test_a_stub_that_never_answers(link_reader: LinkReader, stub_file: Callable[[str], None]) -> None:
    stub_file("import time; time.sleep(600)")
    stub = StubProcess(link_reader)
    with pytest.raises(StubStartError, match="did not answer within 0 s"):
        stub.await_hello(timeout=0.2)
    assert not alive(stub.pid)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (HEADER.pack(1 + 0x20, 0x20, 0, 0, 0), f"wire version 1, expected {WIRE_VERSION}"),
        (b"\4\x20\0\0\0\0\0\0" + bytes(16), f"wire version 8196, expected {WIRE_VERSION}"),  # of version 4
        (b"garbage and more of it, all day long", "or a damaged header"),
        (HEADER.pack(WIRE_VERSION + 0x20 + 4, 0x20, 0, 4, 0) + b"null", "the stub"),
        (HEADER.pack(WIRE_VERSION + 0x20 + 12, 0x20, 0, 12, 0) + b'[99,"","",0]', "wire version 99"),
    ],
)
def test_a_stub_of_another_release(
    link_reader: LinkReader, stub_file: Callable[[str], None], data: bytes, text: str
) -> None:
    stub_file(f"import os, sys, time; os.write(int(sys.argv[1]), {data!r}); time.sleep(600)")
    stub = StubProcess(link_reader)
    with pytest.raises(StubStartError, match=text):
        stub.await_hello()
    assert not alive(stub.pid)


def test_no_stub_starts_once_the_server_stops() -> None:
    reader = LinkReader()
    reader.close()
    before = psutil.Process().children()
    with pytest.raises(StubStartError, match="no more stubs can be started"):
        StubProcess(reader)
    assert set(psutil.Process().children()) <= set(before)


def test_a_region_may_be_limited(link_reader: LinkReader) -> None:
    stub = StubProcess(link_reader, shm=ShmSettings(2 << 20, 1 << 20, 4 << 20))
    stub.await_hello()
    assert stub.link.region.size == 2 << 20
    stub.kill()


# -- what a model sees


def test_a_warm_stub_sees_the_kernel_as_it_is_when_the_model_loads(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert lab.server.core.pool.wait_warm()
    monkeypatch.setenv("TRITONLAB_TEST", "set after the stub was started \u00e9")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    script = lab.script("late")
    assert script.text("os.environ['TRITONLAB_TEST']") == "set after the stub was started \u00e9"
    assert script.text("'HOME' in os.environ") == "False"
    assert script.text("os.getcwd()") == str(tmp_path)
    lab.server.unload("late")


def test_an_environment_that_python_reads_at_its_start(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm stub is too old for it: a new one is started."""
    assert lab.server.core.pool.wait_warm()
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script = lab.script("hashed")
    expected = subprocess.run([sys.executable, "-c", "print(hash('x'))"], capture_output=True, text=True).stdout
    assert script.text("hash('x')") == expected.strip()
    lab.server.unload("hashed")


@pytest.mark.parametrize("variables", [{"PYTHONSAFEPATH": "1"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}])
def test_environments_that_could_confuse_a_stub(
    link_reader: LinkReader, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stub = StubProcess(link_reader)
    stub.await_hello()
    stub.kill()


def test_text_is_utf8_whatever_the_locale(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    script = lab.script("latin")
    script("print('\\u00e9 \\u4f60'); return [answer()]")
    assert script.lines()[-1] == "\u00e9 \u4f60"
    lab.server.unload("latin")


def test_a_kernel_whose_directory_is_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    script = lab.script("nowhere")
    assert script.value("1") == 1
    lab.server.unload("nowhere")


# -- the end ladder

FINALIZING = """
import os, signal, sys, time

class TritonPythonModel:
    def finalize(self):
        print("finalize", flush=True)
        {finalize}
"""


def ended(lab: Lab, name: str, finalize: str, timeout: float = 5.0) -> tuple[StubProcess, Answer | None, list[str]]:
    model = lab.load(name, FINALIZING.format(finalize=finalize))
    (instance,) = lab.server.core.find(name).instances
    assert instance.stub is not None
    instance.stub.link.on_lost = None
    process = instance.stub.process
    outcome = process.finalize(timeout)
    assert not alive(process.pid)
    lines = [record.text for record in model.logs()]
    return process, outcome, lines


@pytest.fixture(autouse=True)
def short_rungs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub_launcher, "RUNG_TIMEOUT", 1.0)


def test_finalize_runs_and_the_process_leaves(lab: Lab) -> None:  # rule 2.8.1
    process, outcome, lines = ended(lab, "calm", "pass")
    assert outcome is not None
    assert (outcome.value, outcome.failure) == (None, None)
    assert process.child.exit_reason() == "exit status 0"
    assert lines == ["finalize"]


def test_what_finalize_raises_is_an_outcome(lab: Lab) -> None:  # rule 2.8.2
    process, outcome, _ = ended(lab, "raising", "raise ValueError('late')")
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.text.startswith("ValueError: late\n\nAt:\n")
    assert process.child.exit_reason() == "exit status 0"


def test_a_finalize_that_exits(lab: Lab) -> None:
    process, outcome, _ = ended(lab, "exiting", "os._exit(4)")
    assert outcome is None
    assert process.child.exit_reason() == "exit status 4"


def test_a_finalize_that_hangs_is_ended_by_the_end_of_its_link(lab: Lab) -> None:
    process, outcome, lines = ended(lab, "hanging", "time.sleep(600)", timeout=0.2)
    assert outcome is None
    assert process.child.exit_reason() == "exit status 1"
    assert lines == ["finalize"]


def test_the_process_leaves_as_any_program_does(lab: Lab) -> None:
    finalize = "import atexit; atexit.register(lambda: (time.sleep(0.2), print('exit function')))"
    process, _, lines = ended(lab, "polite", finalize)
    assert process.child.exit_reason() == "exit status 0"
    assert lines == ["finalize", "exit function"]


def test_one_that_holds_the_interpreter_is_terminated(lab: Lab) -> None:
    hold = "import ctypes; ctypes.PyDLL(None).sleep(600)"  # nothing of Python's runs meanwhile, its monitor included
    process, _, _ = ended(lab, "stuck", hold, timeout=0.2)
    assert process.child.exit_reason() == "signal SIGTERM (Terminated)"


def test_one_that_ignores_that_too_is_killed(lab: Lab) -> None:
    hold = "import ctypes; signal.signal(signal.SIGTERM, signal.SIG_IGN); ctypes.PyDLL(None).sleep(600)"
    process, _, _ = ended(lab, "stubborn", hold, timeout=0.2)
    assert process.child.exit_reason() == "signal SIGKILL (Killed)"


def test_what_the_model_started_goes_with_it(lab: Lab) -> None:
    model = lab.load("parent", FINALIZING.format(finalize="pass") + "\n    pid = os.fork() or time.sleep(600)\n")
    (instance,) = lab.server.core.find("parent").instances
    assert instance.pid is not None
    children = psutil.Process(instance.pid).children()
    assert children
    lab.server.unload(model)
    eventually(lambda: not any(alive(child.pid) for child in children))


# -- a kernel that is killed, interrupted or forks


class Kernel:
    """A process with a server, and what it prints."""

    def __init__(self, repository: Path, code: str) -> None:
        repository.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, str(KERNEL_PY), str(repository), code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read() if self.process.stderr else "")
        return json.loads(line)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Callable[[str], Kernel]]:
    started: list[Kernel] = []

    def start(code: str) -> Kernel:
        started.append(Kernel(tmp_path / f"repository{len(started)}", code))
        return started[-1]

    yield start
    for process in started:
        process.end()


def shared_memory_files(pids: list[int]) -> set[Path]:
    """Return the files in /dev/shm that processes have mapped; those of others come and go meanwhile. A process that
    has ended, as a helper of a zygote does, has none.
    """
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(Path, re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text())))
    return found


def test_a_kill_with_much_memory_is_suspicious(kernel: Callable[[str], Kernel]) -> None:
    process = kernel(
        "from tritonlab.ipc.processes import child_process; child_process.memory_limit = lambda: 400 << 20\n"
        "say(script.fails('self.kept = np.ones(250 << 17); os.kill(os.getpid(), 9)').reason)"
    )
    reason = process.hear()
    assert "Memory probably ran out: it had used up to " in reason
    assert reason.endswith(" MB of 400 MB.")


def test_the_memory_that_the_kernel_had_is_not_the_stubs(kernel: Callable[[str], Kernel]) -> None:
    """The operating system counts it among the stub's, which was a copy of the kernel until its exec."""
    process = kernel(
        "from tritonlab.ipc.processes.stub_launcher import StubProcess\n"
        "def peak():\n"
        "    stub = StubProcess(server.core._parts.link_reader)\n"
        "    stub.await_hello()\n"
        "    stub.kill()\n"
        "    return stub.child.peak\n"
        "held = b'x' * (300 << 20)\n"
        "say(peak())"
    )
    assert process.hear() == 0


PIDS = "server.core.pool.wait_warm(); say([p.pid for p in __import__('tests.serving').serving.stub_processes()])\n"
SLEEP = "__import__('time').sleep(600)\n"


@pytest.mark.parametrize(
    "busy",
    [
        "pass",
        "time.sleep(600)",
        "ctypes.PyDLL(None).sleep(600)",
        "import re; re.match(r'(a+)+$', 'a' * 50 + 'b')",
        "while True: print('x' * 1000)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(600)",
        "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 13, 14, 15, 29)]; time.sleep(600)",
    ],
    ids=[
        "idle",
        "sleeping",
        "holding the GIL in C",
        "in a regular expression",
        "printing",
        "signals blocked",
        "ignored",
    ],
)
def test_no_stub_outlives_a_killed_kernel(kernel: Callable[[str], Kernel], busy: str) -> None:
    process = kernel(f"script.infer({busy!r} + '\\nreturn [answer()]')\n" + PIDS + SLEEP)
    pids = process.hear()
    assert len(pids) >= 2  # the model's and a zygote
    # no file that a kill would leave behind: memfds go with the last process that has them
    assert not shared_memory_files([process.process.pid, *pids])
    os.kill(process.process.pid, signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in pids), timeout=10.0)


def test_what_a_model_forked_does_not_outlive_the_kernel_either(kernel: Callable[[str], Kernel]) -> None:
    process = kernel("say(script.text('os.fork() or time.sleep(600)'))\n" + SLEEP)
    child = int(process.hear())
    assert alive(child)
    os.kill(process.process.pid, signal.SIGKILL)
    eventually(lambda: not alive(child), timeout=10.0)


def test_a_fork_of_the_kernel_does_not_keep_stubs_alive(kernel: Callable[[str], Kernel]) -> None:
    process = kernel(PIDS + "say(os.fork() or __import__('time').sleep(600))\n" + SLEEP)
    pids, _ = process.hear(), process.hear()
    os.kill(process.process.pid, signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in pids), timeout=10.0)


def test_a_fork_of_the_kernel_that_ends_changes_nothing(kernel: Callable[[str], Kernel]) -> None:
    """It ends as scripts do: with its destructors and exit functions."""
    process = kernel(
        """
import atexit
atexit.register(server.stop)
script.value("1")
child = os.fork()
if not child:
    try:
        script.value("2")
    except Exception as error:
        say(str(error))
    sys.exit(0)
os.waitpid(child, 0)
say([script.value("3").item(), script.instance.replacement.count])
"""
    )
    assert process.hear().startswith("Request for unknown model: 'script' is not found; this process was forked from ")
    assert process.hear() == [3.0, 0]
    assert process.process.wait(60) == 0


def test_a_server_can_stop_when_its_interpreter_ends(kernel: Callable[[str], Kernel]) -> None:
    process = kernel(
        """
import atexit
from tests.serving import SCRIPTED, SCRIPTED_CONFIG, write_model
server.stop()
server = type(server)(script.model._server.core.repository.repositories, model_control_mode="explicit", warm=0)
pair = SCRIPTED_CONFIG.replace("count: 1", "count: 2")
write_model(server.core.repository.repositories[0], "pair", SCRIPTED, pair)
pids = [instance["pid"] for instance in server.load("pair").instances()]
atexit.register(lambda: (server.stop(), say([len(pids), [os.path.exists(f"/proc/{pid}") for pid in pids]])))
"""
    )
    assert process.hear() == [2, [False, False]]
    assert process.process.wait(60) == 0


def test_multiprocessing_by_fork_works_beside_stubs(kernel: Callable[[str], Kernel]) -> None:
    process = kernel(
        """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    squares = pool.map(abs, range(-4, 0))
say([squares, script.value("5").item(), script.instance.replacement.count])
"""
    )
    assert process.hear() == [[4, 3, 2, 1], 5.0, 0]
    assert process.process.wait(60) == 0


def test_an_interrupt_of_the_kernel_does_not_reach_its_stubs(kernel: Callable[[str], Kernel]) -> None:
    process = kernel(
        """
for attempt in range(3):
    iterator = script.infer("time.sleep(0.3); return [answer(OUT=np.float32([1]))]")
    try:
        say("waiting")
        next(iterator)
    except KeyboardInterrupt:
        say(float(next(iterator).outputs["OUT"].numpy()[0]))
    say([script.value("7").item(), script.instance.replacement.count])
"""
    )
    for _ in range(3):
        assert process.hear() == "waiting"
        os.killpg(process.process.pid, signal.SIGINT)
        assert process.hear() == 1.0
        assert process.hear() == [7.0, 0]
    assert process.process.wait(60) == 0


def test_lines_on_the_way_are_not_lost_at_the_end(lab: Lab) -> None:
    script = lab.script("last_words")
    error = script.fails("print('last words', end=''); sys.stdout.flush(); os._exit(1)")
    assert "last words" in script.lines()
    assert error.message == "Stub process 'last_words_0_0' is not healthy."
    lab.server.unload("last_words")


def test_many_stubs_start_and_end_at_once(descriptors: int, link_reader: LinkReader) -> None:
    before = open_descriptors()
    stubs = [StubProcess(link_reader) for _ in range(4)]
    for stub in stubs:
        stub.await_hello()
    threads = [threading.Thread(target=stub.kill) for stub in stubs for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(alive(stub.pid) for stub in stubs)
    eventually(lambda: open_descriptors() <= before)
