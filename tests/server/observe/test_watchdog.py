from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest

from tests.models import executes
from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script, config, eventually
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.engine.calls.blocked_calls import BlsCall
from tritonlab.engine.debugging.debug_session import DebugSession, DebugSessions
from tritonlab.engine.life.model_instance import ModelInstance
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.server.observe.requests_in_flight import HeldRequest, survey
from tritonlab.server.observe.watchdog import WaitReport, Watchdog
from tritonlab.testing import MS, FakeTimer, MockClock, RecordingInstrument

SECOND = 1000 * MS


class FakeInstance:
    def __init__(self, model: str, number: int = 0) -> None:
        self.name = f"{model}_0_{number}"
        self.plan = SimpleNamespace(name=f"{model}_0_{number}", source=SimpleNamespace(model=model))
        self.state = SimpleNamespace(value="ready")
        self.pid = 100 + number
        self.stub = SimpleNamespace(dump_stacks=lambda timeout: f"stacks of {self.plan.name}")
        self.inflight: dict[int, InferenceRequest] = {}
        self.running: list[InferenceRequest] = []
        self.debugged = DebugSessions(self.name, Mock(), Mock(), Mock())
        self.limiter = None

    def executes(self, request: InferenceRequest) -> bool:
        return request in self.running


class World:
    """Models with instances, requests in flight, and a watchdog of 10 s over them."""

    def __init__(self, **instances: int) -> None:
        self.clock = MockClock(now=5 * SECOND)
        self.timer = FakeTimer(self.clock)
        self.queues: dict[str, list[InferenceRequest]] = {name: [] for name in instances}
        self.versions = {
            name: SimpleNamespace(
                name=name,
                version=1,
                scheduler=SimpleNamespace(waiting=lambda name=name: list(self.queues[name])),
                instances=[FakeInstance(name, number) for number in range(count)],
                leaving=[],
                warming=[],
            )
            for name, count in instances.items()
        }
        self.calls: list[BlsCall] = []
        self.reports: list[tuple[int, str]] = []
        self.came = threading.Semaphore(0)
        self.watchdog = Watchdog(10, self.clock, self.timer, self.survey, lambda: self.calls, self.warn)
        self._serial = 0

    def survey(self) -> list[HeldRequest]:
        return survey(cast(Any, self.versions.values()), self.calls, self.clock.now())

    def warn(self, held: HeldRequest, text: str) -> None:
        self.reports.append((held.request.serial, text))
        self.came.release()

    def instance(self, name: str) -> FakeInstance:
        model, _, number = name.rpartition("_0_")
        return cast(FakeInstance, self.versions[model].instances[int(number)])

    def request(
        self, place: str, *, request_id: str = "", caller: str = "", returned: bool = False
    ) -> InferenceRequest:
        """Add a request that comes now: to a model's queue, or to an instance, whose execute may have returned."""
        model = place.rpartition("_0_")[0] or place
        request = InferenceRequest(model, {}, request_id=request_id)
        self._serial += 1
        request.serial = self._serial
        request.request_start = request.queue_start = self.clock.now()
        if model == place:
            self.queues[model].append(request)
        else:
            instance = self.instance(place)
            request.execute_start = self.clock.now()
            instance.inflight[request.serial] = request
            if not returned:
                instance.running.append(request)
        if caller:
            call = BlsCall(cast(ModelInstance, self.instance(caller)), cast(Any, None), 0, cast(Any, None), request)
            self.calls.append(call)
        if not self.watchdog.armed:
            self.watchdog.arm()
        return request

    def pass_(self, seconds: float, reports: int = 0) -> list[tuple[int, str]]:
        """Let time pass and return the reports that came meanwhile, which must be so many."""
        self.reports.clear()
        self.timer.advance(int(seconds * SECOND))
        for _ in range(reports):
            assert self.came.acquire(timeout=60)
        assert len(self.reports) == reports
        return self.reports


# -- when


def test_a_request_is_reported_once_when_its_time_has_come() -> None:
    world = World(a=1)
    world.request("a_0_0")
    world.pass_(9.9)
    ((serial, text),) = world.pass_(0.1, 1)
    assert serial == 1
    assert text.splitlines()[0] == "request 1 of model 'a' waits for 10.0 s: a_0_0 (process 100) executes it."
    world.pass_(100)


def test_a_pause_in_the_debugger_is_named_and_a_request_that_somebody_types_for_is_not_reported() -> None:
    world = World(a=1)
    session = SimpleNamespace(live=True, place='File "model.py", line 7', attended=False)
    world.instance("a_0_0").debugged.append(cast(DebugSession, session))
    world.request("a_0_0")
    ((_, text),) = world.pass_(10, 1)
    assert ': a_0_0 (process 100) is paused in the debugger at File "model.py", line 7.' in text
    session.attended = True
    world.instance("a_0_0").inflight.clear()
    world.request("a_0_0")
    world.request("a")
    ((serial, text),) = world.pass_(11, 1)
    assert serial == 3
    assert "a_0_0 of model 'a' is paused in the debugger at File \"model.py\", line 7 with request 2." in text


def test_a_request_that_ends_in_time_is_not_reported_and_nothing_runs_after_it() -> None:
    world = World(a=1)
    request = world.request("a_0_0")
    world.pass_(5)
    del world.instance("a_0_0").inflight[request.serial]
    world.pass_(20)
    assert world.timer.deadlines == []
    assert not world.watchdog.armed
    world.request("a_0_0")
    assert world.watchdog.armed
    world.pass_(10, 1)


def test_later_requests_have_times_of_their_own() -> None:
    world = World(a=2)
    world.request("a_0_0")
    world.pass_(4)
    world.request("a_0_1")
    assert [serial for serial, _ in world.pass_(6, 1)] == [1]
    assert [serial for serial, _ in world.pass_(4, 1)] == [2]


@pytest.mark.parametrize("sign", ["queue_start", "execute_start", "responded"])
def test_a_sign_of_life_puts_it_off(sign: str) -> None:
    """Rescheduled, executed after long waiting, or one of many responses: it moves."""
    world = World(a=1)
    request = world.request("a_0_0")
    world.pass_(8)
    setattr(request, sign, world.clock.now())
    world.pass_(9.9)
    world.pass_(0.1, 1)


def test_many_requests_are_looked_at_together() -> None:
    world = World(a=1)
    for _ in range(50):
        world.request("a")
        world.pass_(0.02)
    looks = 0
    while len(world.watchdog._reported) < 50:
        world.timer.advance(world.timer.deadlines[0] - world.clock.now())
        looks += 1
    assert looks < 8  # of which some are only for the end of all work


def test_zero_seconds_are_never() -> None:
    world = World(a=1)
    world.watchdog = Watchdog(0, world.clock, world.timer, world.survey, list, world.warn)
    world.request("a_0_0")
    world.pass_(1e6)


# -- the end of all work


def test_it_says_when_there_is_nothing_to_do_any_more() -> None:
    for seconds in (0, 10, 1):
        world = World(a=1)
        quiet: list[int] = []

        def on_quiet(world: World = world, quiet: list[int] = quiet) -> bool:
            quiet.append(world.clock.now())
            return False

        world.watchdog = Watchdog(seconds, world.clock, world.timer, world.survey, list, lambda *report: None, on_quiet)
        request = world.request("a_0_0")
        world.pass_(60)
        assert quiet == []
        del world.instance("a_0_0").inflight[request.serial]
        ended = world.clock.now()
        world.pass_(7)
        assert len(quiet) == 1 and quiet[0] - ended <= 6 * SECOND
        world.pass_(60)
        assert len(quiet) == 1 and world.timer.deadlines == []


def test_requests_that_follow_one_another_are_work() -> None:
    world = World(a=1)
    quiet: list[int] = []
    more = (world.clock, world.timer, world.survey, list, world.warn, lambda: bool(quiet.append(1)))
    world.watchdog = Watchdog(10, *more)
    for _ in range(100):
        request = world.request("a_0_0")
        del world.instance("a_0_0").inflight[request.serial]
        world.pass_(1)
    assert quiet == []


def test_a_request_that_arrives_during_a_look_adds_no_second_series_of_looks() -> None:
    world = World(a=1)
    looks: list[int] = []

    def survey() -> list[HeldRequest]:
        looks.append(world.clock.now())
        world.request("a")
        return world.survey()

    world.watchdog = Watchdog(10, world.clock, world.timer, survey, list, lambda *report: None)
    world.request("a_0_0")
    world.pass_(9)
    assert len(looks) == 3
    assert len(world.timer.deadlines) <= 2


def test_it_says_so_again_until_it_was_enough_or_a_request_comes() -> None:
    world = World(a=1)
    quiet: list[int] = []
    enough = 5

    def on_quiet() -> bool:
        quiet.append(world.clock.now() // SECOND)
        return len(quiet) < enough

    world.watchdog = Watchdog(1, world.clock, world.timer, world.survey, list, lambda *report: None, on_quiet)

    def execute_one() -> None:
        request = world.request("a_0_0")
        del world.instance("a_0_0").inflight[request.serial]

    execute_one()
    world.pass_(1000)
    assert [later - quiet[0] for later in quiet] == [0, 3, 9, 21, 45]
    quiet.clear()
    enough = 100
    execute_one()
    world.pass_(5)
    assert len(quiet) == 1
    execute_one()  # seen and over before the next call is due: one row of calls goes on, not two
    world.pass_(3.5)
    assert len(quiet) == 1
    world.pass_(20)
    assert [later - quiet[1] for later in quiet[1:]] == [0, 3, 9]
    world.pass_(1000)
    assert quiet[-1] - quiet[-2] == 30


# -- what


def report(world: World, count: int = 1) -> list[list[str]]:
    return [text.splitlines() for _, text in sorted(world.pass_(10, count))]


def test_a_queued_request_tells_what_the_instances_do() -> None:
    world = World(a=2)
    world.request("a_0_0", request_id="first")
    world.request("a", request_id="second")
    (lines,) = report(world)
    assert lines == [
        "request 1 (id 'first') of model 'a' waits for 10.0 s: a_0_0 (process 100) executes it.",
        "request 2 (id 'second') of model 'a' waits for 10.0 s: it is in the queue.",
        "  a_0_0 of model 'a' executes request 1.",
        "  a_0_1 of model 'a' is ready and executes nothing.",
        "-- a_0_0 (process 100):",
        "stacks of a_0_0",
        "-- a_0_1 (process 101):",
        "stacks of a_0_1",
    ]


def test_a_request_whose_execute_has_returned_needs_its_sender() -> None:
    world = World(a=1)
    world.request("a_0_0", returned=True)
    (lines,) = report(world)
    assert lines[0] == (
        "request 1 of model 'a' waits for 10.0 s: the execute call of a_0_0 (process 100) has returned, and its "
        "response sender has not sent the final flag."
    )


def test_calls_are_followed_and_a_circle_is_named() -> None:
    world = World(a=1, b=1, c=1)
    world.request("a_0_0")
    world.request("b_0_0", caller="a_0_0")
    world.request("a", caller="b_0_0")
    world.request("c_0_0", caller="b_0_0")
    found = report(world, 3)
    assert found[0][2:7] == [
        "  a_0_0 of model 'a' executes request 1.",
        "  a_0_0 has called model 'b': request 2, with b_0_0 for 10.0 s.",
        "  b_0_0 has called model 'a': request 3, in the queue for 10.0 s.",
        "  They may wait for one another: a -> b -> a.",
        "  b_0_0 has called model 'c': request 4, with c_0_0 for 10.0 s.",
    ]
    # the stacks of each stub are in one of the reports that come together
    assert sum("stacks of b_0_0" in line for lines in found for line in lines) == 1


def test_many_requests_of_a_model_share_a_report() -> None:
    world = World(a=1)
    for _ in range(12):
        world.request("a")
    (lines,) = report(world)
    assert sum(line.startswith("request ") for line in lines) == 5
    assert "and 7 more requests of model 'a'." in lines


def test_a_stub_that_does_not_say_anything() -> None:
    world = World(a=1)
    world.request("a_0_0")
    world.instance("a_0_0").stub = SimpleNamespace(dump_stacks=lambda timeout: "")
    (lines,) = report(world)
    assert lines[-1] == "It did not answer within 2 s: C code may hold the interpreter's lock (the GIL)."


def test_a_call_that_was_answered_meanwhile_is_left_out() -> None:
    world = World(a=1, b=1)
    world.request("a_0_0")
    called = world.request("b_0_0", caller="a_0_0")
    held = [one for one in world.survey() if one.request is not called]
    assert WaitReport(held, held, world.calls).lines == []


def test_the_survey_names_the_caller_and_the_state() -> None:
    world = World(a=1, b=1)
    world.request("a_0_0")
    world.request("b", caller="a_0_0", request_id="x")
    world.request("b_0_0", returned=True)
    world.clock.advance(2 * SECOND)
    first, second, third = [held.to_dict() for held in world.survey()]
    assert first == {
        "model": "a",
        "version": 1,
        "request_id": "",
        "serial": 1,
        "state": "executing",
        "cancelled": False,
        "age": 2.0,
        "waited": 2.0,
        "instance": "a_0_0",
        "pid": 100,
        "called_by": "",
    }
    assert (second["state"], second["instance"], second["pid"]) == ("pending", "", None)
    assert (second["called_by"], second["request_id"]) == ("a_0_0", "x")
    assert third["state"] == "open"


# -- real stubs


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = Lab(tmp_path_factory.mktemp("repository"), watchdog_seconds=0.2)
    yield lab
    lab.server.stop()


def warnings(lab: Lab, model: str) -> list[LogRecord]:
    return [r for r in lab.server.logs(model) if (r.stream, r.level) == ("server", "WARNING")]


def held_script(lab: Lab, name: str, text: str = SCRIPTED_CONFIG) -> tuple[Script, Callable[[], None], str]:
    """Return a model, a function that lets it go on, and code that waits until then."""
    script = lab.script(name, text)
    release = lab.repository / f"{name}.release"
    release.unlink(missing_ok=True)
    return script, release.touch, f"while not os.path.exists({str(release)!r}): time.sleep(0.005)\n"


def test_a_slow_request_is_reported_with_the_line_it_is_in(quick: Lab) -> None:
    script, release, wait = held_script(quick, "slow")
    instrument = RecordingInstrument()
    quick.server.core.instruments.add(instrument)
    responses = script.infer(wait + "return [answer(OUT=np.float32([1]))]", request_id="mine")
    (record,) = eventually(lambda: warnings(quick, "slow"))
    ((model, text, _),) = eventually(lambda: instrument.named("requests_wait"))
    quick.server.core.instruments.remove(instrument)
    assert (model, text) == ("slow", record.text)
    assert (record.model, record.version, record.instance) == ("slow", 1, "slow_0_0")
    head, *rest = record.text.splitlines()
    assert head.startswith("request ")
    assert " (id 'mine') of model 'slow' waits for " in head
    assert f"slow_0_0 (process {script.pid}) executes it." in head
    assert rest[0] == f"-- slow_0_0 (process {script.pid}):"
    assert "Thread 'MainThread' (most recent call last):" in rest
    assert any("in script" in line for line in rest)
    (request,) = [r for r in quick.server.requests() if r["model"] == "slow"]
    assert (request["state"], request["instance"], request["pid"]) == ("executing", "slow_0_0", script.pid)
    assert request["age"] >= 0.2
    release()
    next(responses)
    assert [r for r in quick.server.requests() if r["model"] == "slow"] == []
    assert len(warnings(quick, "slow")) == 1


def test_a_stream_that_moves_is_not_reported_and_one_that_stops_is(quick: Lab) -> None:
    script, release, wait = held_script(quick, "stream", SCRIPTED_CONFIG + DECOUPLED)
    code = "s = request.get_response_sender()\nfor n in range(40):\n    s.send(answer(OUT=np.float32([n])))\n"
    responses = script.infer(code + "    time.sleep(0.01)\n" + wait + "s.send(flags=1)")
    for _ in range(40):
        next(responses)
        assert warnings(quick, "stream") == []
    eventually(lambda: warnings(quick, "stream"))
    release()
    assert list(responses) == []


def test_model_stacks_show_threads_and_coroutines(quick: Lab) -> None:
    source = SCRIPTED.replace("def execute(", "async def execute(").replace(
        'return scope["script"](', 'scope["script"]('
    )
    source = source.replace(
        "        try:\n", "        import asyncio\n        await asyncio.sleep(0.5)\n        try:\n"
    )
    model = quick.load("coroutine", source, SCRIPTED_CONFIG)
    assert model.stacks()["coroutine_0_0"] == "Thread 'MainThread':\n  nothing of the model"
    responses = Script(model).infer("pass", raise_on_error=False)
    eventually(lambda: "await asyncio.sleep(0.5)" in model.stacks()["coroutine_0_0"])
    list(responses)


def test_requests_of_a_version_that_is_unloaded_are_still_in_flight(quick: Lab) -> None:
    script, release, wait = held_script(quick, "leaving")
    responses = script.infer(wait + "return [answer(OUT=np.float32([1]))]")
    quick.server.unload("leaving", wait=False)
    assert [r["model"] for r in quick.server.requests()] == ["leaving"]
    release()
    next(responses)


def test_the_watchdog_can_be_switched_off(tmp_path: Any) -> None:
    lab = Lab(tmp_path, watchdog_seconds=0, warm=0)
    model = lab.load("m", executes("return []"), config("A FP32 1"))
    list(model.infer(inputs={"A": np.zeros(1, np.float32)}, raise_on_error=False))
    watchdog = lab.server.core._watchdog
    watchdog._look(watchdog._next_look)
    assert json.dumps(lab.server.requests()) == "[]"
    lab.server.stop()
