from __future__ import annotations

import os
from pathlib import Path

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.ipc.link import wait_policy
from tritonlab.ipc.link.wait_policy import (
    IN_A_ROW,
    PAUSE,
    SPIN_US,
    STUB_SPIN_US,
    AnswerPace,
    Cores,
    SoleSender,
    WaitPolicy,
)

MICROSECOND = 1e-6
SECOND = 1_000_000_000


def policies(cores: Cores, count: int) -> list[WaitPolicy]:
    return [WaitPolicy(cores) for _ in range(count)]


def test_polling_is_allowed_while_a_core_is_left() -> None:
    cores = Cores(2)
    first, second, third = policies(cores, 3)
    assert cores.may_poll(0)
    first.begin_execution()
    assert cores.may_poll(0)
    first.begin_execution()  # the same stub again counts once
    assert cores.may_poll(0)
    second.begin_execution()
    assert not cores.may_poll(0)
    first.end_execution()
    assert cores.may_poll(0)
    first.end_execution()
    third.end_execution()
    assert cores.may_poll(0)


def test_an_execute_that_waits_for_another_model_needs_no_core() -> None:
    cores = Cores(2)
    first, second, third = policies(cores, 3)
    assert not cores.relaying
    first.begin_execution()
    first.block(True)
    second.begin_execution()
    assert cores.may_poll(0)
    assert cores.relaying
    assert first.is_blocked and not second.is_blocked
    third.begin_execution()
    assert not cores.relaying  # no core is left to poll on
    third.end_execution()
    first.block(False)
    assert not cores.may_poll(0)
    assert not cores.relaying
    second.end_execution()
    first.block(True)
    first.end_execution()  # its stub died
    assert not cores.relaying


def test_it_counts_the_cores_this_process_may_use() -> None:
    cores = Cores()
    *most, last = policies(cores, len(os.sched_getaffinity(0)))
    for policy in most:
        policy.begin_execution()
    assert cores.may_poll(0)
    last.begin_execution()
    assert not cores.may_poll(0)


class Paced:
    """Answers that take so many microseconds, awaited so many after the one before."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pace = AnswerPace()

    def answer(self, takes: float, after: float = 0.0) -> float:
        """Return for how many microseconds it was polled for."""
        self.now += after * MICROSECOND
        spin = self.pace.begin(self.now)
        self.now += takes * MICROSECOND
        self.pace.end(self.now)
        return spin / MICROSECOND


def test_answers_that_come_soon_are_polled_for() -> None:
    paced = Paced()
    assert paced.answer(60) == 0  # the first one finds the stub asleep
    assert [paced.answer(60) for _ in range(3)] == [pytest.approx(SPIN_US)] * 3


def test_a_stub_that_sleeps_is_not_polled_for() -> None:
    paced = Paced()
    assert [paced.answer(60, after=STUB_SPIN_US + 1) for _ in range(3)] == [0] * 3


def test_answers_that_come_late_are_not_polled_for_until_they_come_soon_again() -> None:
    paced = Paced()
    paced.answer(60)
    assert paced.answer(10 * SPIN_US) > 0
    assert paced.answer(10 * SPIN_US) == 0
    assert paced.answer(SPIN_US + 50) == 0  # 50 of it are for waking up
    assert paced.answer(60) > 0


class Answers:
    """Answers of stubs that were polling, one each 100 us; those that are late come a millisecond after they were
    due."""

    def __init__(self) -> None:
        self.now = SECOND
        self.cores = Cores(2)

    def come(self, late: int, of: int = 16) -> bool:
        """Return whether polling rests after these."""
        for number in range(of):
            self.now += 100_000
            self.cores.answered(1_000_000 if number < late else 20_000, self.now)
        return self.cores.rests

    def rest(self) -> int:
        """Return for how many milliseconds nobody polls now."""
        began = self.now
        while not self.cores.may_poll(self.now):
            self.now += 1_000_000
        return (self.now - began) // 1_000_000


def test_polling_rests_when_answers_come_late_too_often() -> None:
    answers = Answers()
    assert not any(answers.come(late=4) for _ in range(100))
    assert not answers.come(late=15, of=15)  # not before there are enough
    assert answers.come(late=0, of=1)
    assert answers.rest() == 10
    assert not answers.cores.rests


def test_polling_rests_longer_each_time_that_it_does_harm_again() -> None:
    answers = Answers()
    rests = []
    for _ in range(9):
        assert answers.come(late=16)
        rests.append(answers.rest())
    assert rests == [10, 20, 40, 80, 160, 320, 640, 1280, 1280]
    for _ in range(20):
        assert not answers.come(late=0)
    assert answers.come(late=16)
    assert answers.rest() == 10


def test_nothing_polls_while_polling_rests() -> None:
    answers = Answers()
    cores, policy = answers.cores, WaitPolicy(answers.cores)
    policy.begin_execution()
    policy.block(True)
    assert cores.relaying
    policy.plan(answers.now)
    assert policy.polls and policy.stub_spin_us == STUB_SPIN_US
    answers.come(late=16)
    assert not cores.relaying
    policy.plan(answers.now)
    assert not policy.polls and policy.stub_spin_us == 0
    answers.rest()
    policy.plan(answers.now)
    assert policy.polls and cores.relaying


def test_a_caller_does_not_poll_for_an_execution_as_long_as_the_last() -> None:
    policy = WaitPolicy(Cores(2))
    for infer, polls in ((SPIN_US, False), (SPIN_US - 1, True)):
        policy.plan(SECOND)
        policy.executed(ExecuteTimes(0, infer * 1000, 0), SECOND)
        policy.plan(SECOND + 1)
        assert policy.polls is polls
        assert policy.stub_spin_us == STUB_SPIN_US


def test_a_stub_sleeps_once_it_has_polled_in_vain() -> None:
    policy = WaitPolicy(Cores(2))
    policy.plan(SECOND)
    assert policy.has_slept  # nothing was sent to it before
    policy.executed(ExecuteTimes(0, 0, 0), SECOND)
    policy.plan(SECOND + STUB_SPIN_US * 1000 - 1)
    assert not policy.has_slept
    policy.plan(SECOND + STUB_SPIN_US * 1000)
    assert policy.has_slept


class Machine:
    """Two cores that have been up for 1000 s."""

    def __init__(self, directory: Path, busy: float = 0.0) -> None:
        self.file = directory / "uptime"
        self._up = self._busy = 0.0
        self.cores = Cores(2, self.file)
        self.run(1000, busy)

    def run(self, seconds: float, busy: float) -> None:
        """Advance the clock while `busy` cores are in use."""
        self._up += seconds
        self._busy += busy * seconds
        self.file.write_text(f"{self._up:.2f} {2 * self._up - self._busy:.2f}\n")

    def is_quiet(self) -> bool:
        return self.cores.are_quiet(int(self._up * SECOND))


@pytest.mark.parametrize(("busy", "quiet"), [(0.0, True), (0.4, True), (0.6, False), (1.0, False), (2.0, False)])
def test_it_is_quiet_while_less_than_half_a_core_is_in_use(tmp_path: Path, busy: float, quiet: bool) -> None:
    assert Machine(tmp_path, busy).is_quiet() is quiet  # since the machine started
    machine = Machine(tmp_path)
    assert machine.is_quiet()
    machine.run(2, busy)
    assert machine.is_quiet() is quiet
    machine.run(2, 0.0)
    assert machine.is_quiet()


def test_it_looks_again_after_a_second(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.is_quiet()
    machine.run(0.6, 2.0)
    assert machine.is_quiet()
    machine.run(0.6, 2.0)
    assert not machine.is_quiet()


@pytest.mark.parametrize("content", [None, "", "unknown", "1 2 3"])
def test_it_is_never_quiet_where_the_system_does_not_tell(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "uptime"
    if content is not None:
        file.write_text(content)
    assert not Cores(2, file).are_quiet(SECOND)


def test_this_machine_tells() -> None:
    up, idle = map(float, Path("/proc/uptime").read_text().split())
    assert up > 0 and idle >= 0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(wait_policy.time, "perf_counter", lambda: time[0])
    return time


def request() -> InferenceRequest:
    return InferenceRequest("m", {})


def sent(requests: SoleSender, sender: object) -> bool:
    """Send a request that is answered before anything else comes; return whether it was alone."""
    one = request()
    alone = requests.begin(one, sender)
    requests.end(one)
    return alone


def test_one_at_a_time_is_alone(now: list[float]) -> None:
    requests = SoleSender()
    for _ in range(3):
        one = request()
        assert requests.begin(one)
        requests.end(one)
        now[0] += 2 * PAUSE


def test_what_came_during_another_is_not(now: list[float]) -> None:
    requests = SoleSender()
    first, second, third, fourth = (request() for _ in range(4))
    assert requests.begin(first)
    assert not requests.begin(second)
    requests.end(first)
    now[0] += 2 * PAUSE
    assert not requests.begin(third)  # the second is under way
    for one in (second, third):
        requests.end(one)
    now[0] += PAUSE / 2
    assert not requests.begin(fourth)  # it waited to be read


def test_the_only_client_is_alone_though_it_is_back_at_once(now: list[float]) -> None:
    requests, client = SoleSender(), object()
    assert [sent(requests, client) for _ in range(IN_A_ROW + 3)] == [False] * IN_A_ROW + [True] * 3


def test_clients_that_take_turns_are_not_alone_however_long_they_pause(now: list[float]) -> None:
    """The thread that would wait for one's answer is the one that reads the others."""
    requests, clients = SoleSender(), [object(), object()]
    for number in range(4 * IN_A_ROW):
        assert not sent(requests, clients[number % 2])
        now[0] += 2 * PAUSE


def test_what_another_client_sent_meanwhile_is_not(now: list[float]) -> None:
    requests, client, other = SoleSender(), object(), object()
    for _ in range(IN_A_ROW):
        sent(requests, client)
    assert not sent(requests, other)  # it waited to be read
    assert not sent(requests, client)  # that may have, too, while the other's was under way


def test_the_only_client_is_not_alone_with_two_requests(now: list[float]) -> None:
    requests, client = SoleSender(), object()
    for _ in range(IN_A_ROW):
        sent(requests, client)
    assert requests.begin(request(), client)
    assert not requests.begin(request(), client)


def test_who_does_not_say_who_it_is_is_never_the_only_one(now: list[float]) -> None:
    requests = SoleSender()
    assert [sent(requests, None) for _ in range(2 * IN_A_ROW)] == [True] + [False] * (2 * IN_A_ROW - 1)
