from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.models import executes, initializes
from tests.serving import (
    SCRIPTED,
    SCRIPTED_CONFIG,
    Lab,
    Script,
    alive,
    config,
    eventually,
    in_threads,
    instances,
    meeting_at,
    stub_processes,
    warm_pids,
    write_model,
)
from tritonlab.core.status import (
    Code,
    InvalidArgumentError,
    LoadInterrupted,
    ModelError,
    ModelLoadError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from tritonlab.ipc.link.stub_link import StubLink
from tritonlab.ipc.processes.stub_launcher import StubProcess
from tritonlab.server.api.server import Server
from tritonlab.server.observe import idle_memory
from tritonlab.testing import RecordingInstrument

#: Answers with a number; `{n}` is it.
NUMBER = executes('return [pb_utils.InferenceResponse([pb_utils.Tensor("N", np.array([{n}]))]) for _ in requests]')
NUMBER_CONFIG = config("", "N INT64 1")
AUTO_COMPLETES = """
    @staticmethod
    def auto_complete_config(config): return config
"""


@pytest.fixture
def strangers(lab: Lab) -> set[psutil.Process]:
    """Return the stubs of servers that are not the test's own."""
    lab.server.core.pool.wait_warm()
    return set(stub_processes())


@pytest.fixture
def name(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """Return a model name of the test's own, and unload at the end what was loaded by it."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name.removeprefix("test_"))[:60]
    yield name
    lab.server.unload(name)


def number(lab: Lab, name: str, version: int = -1) -> int:
    return int(lab.server.model(name, version)()["N"][0])


def repair(lab: Lab, name: str) -> None:
    """Make a model that failed loadable and unload it: unloading alone would leave the server not ready."""
    lab.load(name, NUMBER.format(n=0), NUMBER_CONFIG)
    lab.server.unload(name)


def load_failure(lab: Lab, name: str, **more: Any) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as raised:
        lab.server.load(name, **more)
    return raised.value


# -- loading again


def test_loading_what_has_not_changed_does_nothing(lab: Lab, name: str) -> None:  # rule 5.11.2
    model = lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    events = RecordingInstrument()
    lab.server.instruments.add(events)
    lab.server.load(name)
    lab.server.instruments.remove(events)
    assert model.instances()[0]["pid"] == pid
    assert events.named("model_state") == []


def test_a_change_is_swapped_in(lab: Lab, name: str) -> None:
    model = lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    lab.load(name, NUMBER.format(n=22), NUMBER_CONFIG)
    assert number(lab, name) == 22
    assert model.instances()[0]["pid"] != pid
    eventually(lambda: not alive(pid))
    assert [e for e in lab.server.index() if e["name"] == name] == [{"name": name, "version": "1", "state": "READY"}]


def test_a_comment_in_the_configuration_is_no_change(lab: Lab, name: str) -> None:  # measured on 2.51
    model = lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    path = lab.repository / name / "config.pbtxt"
    path.write_text(path.read_text() + "# nothing\n")
    lab.server.load(name)
    assert model.instances()[0]["pid"] == pid
    path.write_text(path.read_text() + 'parameters { key: "a" value { string_value: "b" } }\n')
    lab.server.load(name)
    assert model.instances()[0]["pid"] != pid


@pytest.mark.parametrize("file", ["1/helper.py", "data/weights.bin"])
def test_any_file_of_the_model_is_a_change(lab: Lab, name: str, file: str) -> None:
    model = lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    path = lab.repository / name / file
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "\n")
    lab.server.load(name)
    assert model.instances()[0]["pid"] != pid


def test_a_request_in_flight_is_answered_by_the_version_that_took_it(lab: Lab, name: str) -> None:
    lab.load(name, SCRIPTED, SCRIPTED_CONFIG)
    script = Script(lab.server.model(name))
    hold = lab.repository / f"{name}.hold"
    hold.touch()
    old = script.pid
    waiting = script.infer(
        f"while os.path.exists({str(hold)!r}): time.sleep(0.005)\nreturn [answer(OUT=np.float32([os.getpid()]))]"
    )
    lab.load(name, SCRIPTED + "\n# changed\n", SCRIPTED_CONFIG)
    assert script.value("os.getpid()") == script.pid != old
    assert alive(old)
    hold.unlink()
    assert next(waiting).outputs["OUT"].numpy() == [old]
    eventually(lambda: not alive(old))


def test_nobody_sees_a_gap_while_versions_are_swapped(lab: Lab, name: str) -> None:  # rule 5.11.2
    lab.load(name, NUMBER.format(n=0), NUMBER_CONFIG)
    stop = threading.Event()

    def read_numbers(index: int) -> list[int]:
        numbers = []
        while not stop.is_set():
            numbers.append(number(lab, name))
        return numbers

    def reload() -> None:
        try:
            for n in range(1, 6):
                lab.load(name, NUMBER.format(n=n) + "#" * n, NUMBER_CONFIG)
        except ModelLoadError as error:
            failures.append(error.reason)
        finally:
            stop.set()

    failures: list[str] = []
    reloader = threading.Thread(target=reload)
    reloader.start()
    answers = in_threads(4, read_numbers)
    reloader.join()
    assert failures == []
    for numbers in answers:
        assert numbers == sorted(numbers)  # never back to an older one
        assert numbers[-1] >= 4


# -- failing to load


BROKEN = {
    "import": ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
    "syntax": ("def broken(:\n", "SyntaxError: invalid syntax (model.py, line 1)"),
    "no class": ("x = 1", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
    "constructor": (
        "class TritonPythonModel:\n    def __init__(self, x): pass",
        "TypeError: TritonPythonModel.__init__() missing 1 required positional argument: 'x'",
    ),
    "initialize": (
        "class TritonPythonModel:\n    def initialize(self, args): raise ValueError('init boom')",
        "ValueError: init boom",
    ),
    "exit": ("import sys\nsys.exit(3)", "SystemExit: 3"),
    "auto_complete": (
        "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c): return 1",
        "auto_complete_config function in model '{name}' must return a valid pb.ModelConfig object.",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_model_that_cannot_be_loaded(lab: Lab, what: str) -> None:  # rules 2.5.1, 2.5.5
    source, text = BROKEN[what]
    name = "broken_" + what.replace(" ", "_")
    lab.write(name, f"print('started')\n{source}" if what != "syntax" else source, "")
    error = load_failure(lab, name)
    expected = f"load failed for model '{name}': version 1 is at UNAVAILABLE state: Internal: {text.format(name=name)}"
    assert error.message.startswith(expected)
    assert error.message.endswith(";\n")
    assert error.code is Code.INVALID_ARG
    if what != "auto_complete":
        assert error.exception is not None
    assert what == "syntax" or error.log[0] == "started"
    entry = next(e for e in lab.server.index() if e["name"] == name)
    assert entry["state"] == "UNAVAILABLE"
    assert entry["reason"].startswith(f"Internal: {text.format(name=name)}")
    assert not lab.server.ready()  # rule 5.11.9: until it is repaired
    with pytest.raises(NotFoundError, match=f"^Request for unknown model: '{name}' has no available versions$"):
        lab.server.model(name)()
    lab.load(name, NUMBER.format(n=5), NUMBER_CONFIG)
    assert number(lab, name) == 5
    assert lab.server.ready()
    lab.server.unload(name)


@pytest.mark.parametrize("where", ["import", "initialize"])
def test_a_stub_that_dies_while_it_loads(lab: Lab, where: str) -> None:
    exits = "import os\nprint('bye')\nos._exit(6)"
    name = f"dies_in_{where}"
    lab.write(name, exits if where == "import" else initializes(exits), "")
    error = load_failure(lab, name)
    assert "is not healthy.;\n" in error.message
    assert "ended with exit status 6." in error.reason
    assert error.log[-1] == "bye"
    repair(lab, name)


def test_a_failed_reload_keeps_the_last_good_version(lab: Lab, name: str) -> None:  # rule 2.5.8
    model = lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    for broken in (*(source for source, _ in BROKEN.values()), "import os; os._exit(1)"):
        lab.write(name, broken, NUMBER_CONFIG)
        load_failure(lab, name)
        assert number(lab, name) == 1
    lab.write(name, NUMBER.format(n=3), "max_batch_size: many")
    load_failure(lab, name)
    assert number(lab, name) == 1
    assert model.instances()[0]["pid"] == pid
    assert model.state == "READY"
    assert [e for e in lab.server.index() if e["name"] == name] == [{"name": name, "version": "1", "state": "READY"}]
    lab.load(name, NUMBER.format(n=4), NUMBER_CONFIG)
    assert number(lab, name) == 4


def test_a_failed_load_leaves_no_process(lab: Lab) -> None:
    assert lab.server.core.pool.wait_warm()
    before = {p.pid for p in stub_processes()}
    lab.write("no_trace", initializes("raise ValueError"), config(count=3))
    load_failure(lab, "no_trace")
    assert lab.server.core.pool.wait_warm()
    warm = warm_pids(lab.server)
    eventually(lambda: {p.pid for p in stub_processes()} - before <= warm)
    repair(lab, "no_trace")


def test_an_unknown_model(lab: Lab) -> None:
    assert load_failure(lab, "no_such_model").code is Code.INTERNAL
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'no_such_model' is not found$"):
        lab.server.model("no_such_model")()
    assert "no_such_model" not in {e["name"] for e in lab.server.index()}
    lab.server.unload("no_such_model")  # rule 5.11.5: no error
    assert lab.server.model("no_such_model").state == "UNKNOWN"


def test_no_version_at_all(lab: Lab) -> None:  # rule 2.1.1
    (lab.repository / "empty").mkdir()
    (lab.repository / "empty" / "config.pbtxt").write_text('backend: "python"')
    text = "at least one version must be available under the version policy of model 'empty'"
    assert load_failure(lab, "empty").message == f"load failed for model 'empty': {text}\n"
    repair(lab, "empty")


@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupted_load_leaves_nothing(lab: Lab, name: str, count: int) -> None:
    assert lab.server.core.pool.wait_warm()
    before = {p.pid for p in stub_processes()}
    lab.write(name, "import time\n" + initializes("time.sleep(600)"), config(count=count))

    def when_it_initializes() -> None:
        eventually(lambda: len({p.pid for p in stub_processes()} - before) >= 1)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=when_it_initializes, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        lab.server.load(name)
    assert lab.server.model(name).state == "UNKNOWN"
    assert {"name": name} in lab.server.index()
    assert lab.server.core.pool.wait_warm()
    warm = warm_pids(lab.server)
    eventually(lambda: {p.pid for p in stub_processes()} - before <= warm)
    lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    assert number(lab, name) == 1


@pytest.mark.parametrize(
    ("kind", "verb"), [(StubProcess, "await_hello"), (StubLink, "auto_complete"), (StubLink, "initialize")]
)
def test_an_interrupt_between_two_waits_of_a_load_says_so(
    lab: Lab, name: str, kind: type, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = getattr(kind, verb)

    def interrupted(*args: Any, **more: Any) -> Any:
        method(*args, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, verb, interrupted)
    lab.write(name, NUMBER.format(n=1) + AUTO_COMPLETES, NUMBER_CONFIG)
    with pytest.raises(LoadInterrupted, match=rf"^the load of '{name}\w*' was interrupted\.$"):
        lab.server.load(name)
    monkeypatch.undo()
    lab.server.load(name)
    assert number(lab, name) == 1


# -- versions


def test_every_version_of_the_policy_serves(lab: Lab, name: str) -> None:  # rule 5.11.6
    policy = NUMBER_CONFIG + "version_policy { specific { versions: [ 1, 3 ] } }"
    for version in (1, 2, 3):
        lab.write(name, NUMBER.format(n=version * 11), policy, version=version)
    lab.server.load(name)
    assert [number(lab, name, version) for version in (-1, 1, 3)] == [33, 11, 33]
    with pytest.raises(NotFoundError, match=f"^Request for unknown model: '{name}' version 2 is not found$"):
        number(lab, name, 2)
    assert lab.server.model(name).metadata()["versions"] == ["1", "3"]
    assert {key for key in lab.server.models() if key[0] == name} == {(name, 1), (name, 3)}


def test_a_new_version_replaces_the_latest(lab: Lab, name: str) -> None:
    lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    lab.load(name, NUMBER.format(n=2), NUMBER_CONFIG, version=2)
    assert number(lab, name) == 2
    eventually(lambda: lab.server.model(name, 1).state == "UNAVAILABLE")
    entries = [e for e in lab.server.index() if e["name"] == name]
    assert entries == [
        {"name": name, "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
        {"name": name, "version": "2", "state": "READY"},
    ]
    assert lab.server.ready()


def test_one_version_that_fails_fails_the_load(lab: Lab, name: str) -> None:
    policy = NUMBER_CONFIG + "version_policy { all { } }"
    lab.write(name, NUMBER.format(n=1), policy)
    lab.write(name, "raise ValueError('two')", policy, version=2)
    error = load_failure(lab, name)
    assert "version 2 is at UNAVAILABLE state: Internal: ValueError: two" in error.message
    assert "version 1" not in error.message
    lab.write(name, NUMBER.format(n=2), policy, version=2)
    lab.server.load(name)
    assert lab.server.ready()


def test_unloading_a_model_that_failed_changes_nothing(lab: Lab) -> None:  # measured on 2.51
    lab.write("hopeless", "1 / 0", "")
    load_failure(lab, "hopeless")
    before = lab.server.index()
    lab.server.unload("hopeless")
    assert lab.server.index() == before
    assert not lab.server.ready()
    repair(lab, "hopeless")
    assert lab.server.ready()


# -- overrides


def test_a_load_may_bring_its_own_config_and_files(lab: Lab, name: str) -> None:  # rule 5.11.3
    lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)
    lab.server.load(name, {"backend": "python", "output": [{"name": "N", "data_type": "TYPE_INT64", "dims": [5]}]})
    assert lab.server.model(name).config()["output"][0]["dims"] == [5]
    files = {"file:7/model.py": NUMBER.format(n=7).encode()}
    lab.server.load(name, lab.server.model(name).config(), files)
    assert (number(lab, name), number(lab, name, 7)) == (7, 7)
    directory = Path(lab.server.core.find(name).files.directory)
    assert directory.exists()
    lab.server.load(name)
    assert number(lab, name) == 1
    eventually(lambda: (gc.collect(), not directory.exists())[1])


# -- unloading


def test_unloading_ends_the_model(lab: Lab) -> None:  # rules 2.8.1, 5.11.5, 5.11.7
    model = lab.load("leaving", NUMBER.format(n=1) + "\n    def finalize(self): print('finalized')\n", NUMBER_CONFIG)
    pid = model.instances()[0]["pid"]
    lab.server.unload("leaving")
    assert not alive(pid)
    assert [r.text for r in model.logs()] == ["finalized"]
    assert (model.state, model.reason, model.ready()) == ("UNAVAILABLE", "unloaded", False)
    assert ("leaving", 1) in lab.server.models()
    assert ("leaving", 1) not in lab.server.models(exclude_not_ready=True)
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'leaving' has no available versions$"):
        model()
    assert lab.server.ready()
    lab.server.unload("leaving")  # once more is no error
    lab.server.load("leaving")
    assert number(lab, "leaving") == 1
    lab.server.unload("leaving")


def test_unloading_waits_for_requests_but_takes_no_more(lab: Lab) -> None:
    script = lab.script("draining")
    hold = lab.repository / "draining.hold"
    hold.touch()
    waiting = [
        script.infer(f"while os.path.exists({str(hold)!r}): time.sleep(0.005)\nreturn [answer(OUT=np.float32([{n}]))]")
        for n in range(3)
    ]
    lab.server.unload("draining", wait=False)
    assert script.model.state == "UNLOADING"
    with pytest.raises(NotFoundError, match="has no available versions"):
        script.value("1")
    assert not lab.server.ready()
    hold.unlink()
    assert [float(next(w).outputs["OUT"].numpy()[0]) for w in waiting] == [0, 1, 2]
    eventually(lambda: script.model.state == "UNAVAILABLE")


def test_an_error_in_finalize_is_logged_and_ignored(lab: Lab) -> None:  # rule 2.8.2
    source = NUMBER.format(n=1) + "\n    def finalize(self): raise ValueError('too late')\n"
    model = lab.load("complaining", source, NUMBER_CONFIG)
    lab.server.unload("complaining")
    (record,) = model.logs()
    assert (record.stream, record.level) == ("server", "INFO")
    assert record.text.startswith("finalize failed: ValueError: too late")


# -- control modes


def test_without_explicit_control_all_models_are_loaded_and_stay(tmp_path: Path) -> None:  # rule 5.11.1
    for n in (1, 2):
        write_model(tmp_path, f"m{n}", NUMBER.format(n=n), NUMBER_CONFIG)
    with Server(tmp_path) as server:
        assert [int(server.model(f"m{n}")()["N"][0]) for n in (1, 2)] == [1, 2]
        for act in (lambda: server.load("m1"), lambda: server.unload("m1")):
            with pytest.raises(
                UnavailableError, match=r"^explicit model load / unload is not allowed if polling is enabled$"
            ):
                act()


@pytest.mark.parametrize(("startup", "ready"), [([], []), (["m2"], ["m2"]), (["*"], ["m1", "m2"])])
def test_with_it_only_what_is_named(tmp_path: Path, startup: list[str], ready: list[str]) -> None:
    for n in (1, 2):
        write_model(tmp_path, f"m{n}", NUMBER.format(n=n), NUMBER_CONFIG)
    with Server(tmp_path, model_control_mode="explicit", startup_models=startup) as server:
        assert [e["name"] for e in server.index() if e.get("state") == "READY"] == ready
        assert [e["name"] for e in server.index()] == ["m1", "m2"]
        assert server.ready()


def test_a_model_that_fails_at_the_start_fails_the_server(tmp_path: Path, strangers: set[psutil.Process]) -> None:
    write_model(tmp_path, "good", NUMBER.format(n=1), NUMBER_CONFIG)
    write_model(tmp_path, "wrong", "1 / 0", "")
    with pytest.raises(ModelLoadError, match="ZeroDivisionError"):
        Server(tmp_path)
    eventually(lambda: strangers.issuperset(stub_processes()))


def test_unknown_control_mode() -> None:
    with pytest.raises(InvalidArgumentError, match="model_control_mode is 'magic', expected one of none, poll"):
        Server(model_control_mode="magic")


# -- several at once


def known_stubs(lab: Lab) -> set[int | None]:
    """Return the process ids of the zygotes, and of the stubs that serve."""
    core = lab.server.core
    core.pool.wait_warm()
    serving = {
        instance.pid for model in core.models.known() for v in model.versions.values() for instance in v.instances
    }
    return {*warm_pids(lab.server), *serving}


def test_loads_of_one_model_at_once_load_it_once(lab: Lab, name: str) -> None:
    lab.write(name, NUMBER.format(n=1), NUMBER_CONFIG)
    before = {p.pid for p in stub_processes()}
    in_threads(4, lambda index: lab.server.load(name))
    assert number(lab, name) == 1
    assert len(instances(lab.server.model(name))) == 1
    eventually(lambda: {p.pid for p in stub_processes()} - before <= known_stubs(lab))


def test_loads_of_different_models_overlap(lab: Lab) -> None:
    meeting = lab.repository.parent / "load_meeting"
    meeting.mkdir(exist_ok=True)
    for n in range(3):
        lab.write(f"together{n}", meeting_at(meeting, 3), "")
    in_threads(3, lambda index: lab.server.load(f"together{index}"))
    for n in range(3):
        lab.server.unload(f"together{n}")


def test_loading_and_unloading_at_once_ends_in_one_of_both(lab: Lab, name: str) -> None:
    before = {p.pid for p in stub_processes()}  # servers of the whole session have some, too
    lab.load(name, NUMBER.format(n=1), NUMBER_CONFIG)

    def act(index: int) -> None:
        for turn in range(4):
            if (index + turn) % 2:
                lab.server.load(name)
            else:
                lab.server.unload(name, wait=bool(turn % 2))

    in_threads(4, act)
    lab.server.load(name)
    assert number(lab, name) == 1
    assert len(instances(lab.server.model(name))) == 1
    eventually(lambda: {p.pid for p in stub_processes()} - before <= known_stubs(lab))


# -- the end


def test_stop_is_final_and_leaves_nothing(tmp_path: Path, strangers: set[psutil.Process]) -> None:
    write_model(tmp_path, "m", NUMBER.format(n=1), NUMBER_CONFIG)
    threads = threading.active_count()
    server = Server(tmp_path)
    server.prewarm()
    assert server.live()
    assert server.ready()
    server.stop()
    server.stop()
    assert not server.live()
    assert not server.ready()
    with pytest.raises(TritonError):
        server.model("m")()
    with pytest.raises(UnavailableError):
        server.core.control.load_model("m", None, None)
    eventually(lambda: strangers.issuperset(stub_processes()) and threading.active_count() <= threads)


def test_stop_gives_memory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    monkeypatch.setattr(idle_memory, "trim_heap", lambda: freed.append(1))
    monkeypatch.setattr(idle_memory, "private", lambda pid: 1 << 30)  # more than it began with
    Server(tmp_path).stop()
    assert freed == [1]


def test_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    write_model(tmp_path, "stuck", SCRIPTED, SCRIPTED_CONFIG)
    server = Server(tmp_path)
    script = Script(server.model("stuck"))
    pid = script.pid
    running = script.infer("time.sleep(600)")
    queued = script.infer("return [answer()]")
    server.stop(timeout=0.1)
    for waiting in (running, queued):
        with pytest.raises(TritonError, match="Server exited before the request completed"):
            next(waiting)
    assert not alive(pid)


def test_stop_while_stubs_die_and_start(tmp_path: Path, strangers: set[psutil.Process]) -> None:
    write_model(tmp_path, "m", executes("os._exit(1)", imports="import os"))
    server = Server(tmp_path)
    server.prewarm()
    iterator = server.model("m").infer()
    with pytest.raises(ModelError):
        next(iterator)
    server.stop()
    eventually(lambda: strangers.issuperset(stub_processes()))


# -- texts


def test_statistics_and_metrics_follow_the_requests(lab: Lab, name: str) -> None:
    lab.load(name, SCRIPTED, SCRIPTED_CONFIG)
    script = Script(lab.server.model(name))
    for _ in range(3):
        script.value("1")
    script.fails("raise ValueError")
    with pytest.raises(InvalidArgumentError):
        script.model(CODE=np.zeros(3, np.float32))
    (stats,) = script.model.statistics()["model_stats"]
    assert (stats["name"], stats["version"]) == (name, "1")
    assert stats["inference_stats"]["success"]["count"] == 3
    assert stats["inference_stats"]["fail"]["count"] == 1
    assert (stats["inference_count"], stats["execution_count"]) == (3, 4)
    assert stats["inference_stats"]["compute_infer"]["ns"] > 0
    assert f'nv_inference_request_success{{model="{name}",version="1"}} 3' in lab.server.metrics()
