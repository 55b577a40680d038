"""Windows of a load test: their measurements, when they agree, and the server's counters between two looks."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.tools.measure.load_testing.call_log import CallLog
from tritonlab.tools.measure.load_testing.load_row import LoadWindow, is_stable, measure, server_times

from .fakes import MS, ended, rows


def windows(*pairs: tuple[float, float | None]) -> list[LoadWindow]:
    return [LoadWindow(0, 1, rate, latency) for rate, latency in pairs]


@pytest.mark.parametrize(
    ("pairs", "stable"),
    [
        ([(100, 10), (100, 10)], False),  # two are too few
        ([(100, 10), (105, 10), (110, 11)], True),  # 10 % is still the same
        ([(100, 10), (105, 10), (111, 10)], False),  # throughput
        ([(100, 10), (100, 11.5), (100, 10)], False),  # latency
        ([(10, 900), (100, 10), (101, 10), (99, 10)], True),  # the last three count
        ([(100, 10), (100, 10), (0, None)], False),  # nothing was answered
    ],
)
def test_the_last_three_windows_have_to_agree(pairs: list[tuple[float, float | None]], stable: bool) -> None:
    assert is_stable(windows(*pairs)) is stable


def test_stability_is_a_setting() -> None:
    assert is_stable(windows((100, 10), (130, 10), (100, 12)), 0.5)


def test_a_window_counts_inferences_and_latency_from_when_requests_were_due() -> None:
    found = rows(
        ended(0, 10 * MS, batch=4), ended(0, 30 * MS, sent=25 * MS), ended(0, 20 * MS), ended(0, 90 * MS, error=1)
    )
    window = measure(found, 0, 100 * MS, None)
    assert (window.inferences_per_s, window.latency_us, window.failed) == (60, 20_000, 1)
    assert measure(found, 0, 100 * MS, 50).latency_us == 20_000
    assert measure(rows(ended(0, MS, error=1)), 0, MS, None).hopeless
    assert not measure(rows(), 0, MS, None).hopeless


def counted(queue_ns: int, count: int, inferences: int, executions: int, kind: type = int) -> dict[str, Any]:
    times = {name: {"count": kind(count), "ns": kind(queue_ns)} for name in ("queue", "compute_infer", "success")}
    times["compute_input"] = times["compute_output"] = {}  # gRPC leaves out what is empty
    found = {"inference_stats": times, "inference_count": kind(inferences), "execution_count": kind(executions)}
    return {"model_stats": [found]}


@pytest.mark.parametrize("kind", [int, str])  # gRPC's JSON writes 64-bit integers as text
def test_the_server_times_are_the_difference_of_two_counts(kind: type) -> None:
    found = server_times(counted(1000, 10, 20, 5, kind), counted(41_000, 30, 100, 25, kind))
    assert found is not None
    assert (found.queue_us, found.compute_input_us, found.requests) == (2.0, 0.0, 20)
    assert (found.executions, found.batch_size) == (20, 4.0)


def test_without_counts_there_are_no_server_times() -> None:
    same = counted(1000, 10, 20, 5)
    assert server_times(None, same) is None
    assert server_times(same, None) is None
    assert server_times(same, same) is None


def test_two_texts_that_come_at_once_have_two_numbers() -> None:
    log = CallLog()

    class Interrupted(str):
        """A text that another thread's text overtakes while its number is noted."""

        def __hash__(self) -> int:
            if not seen:
                seen.append(self)
                log.error_number("other")
            return super().__hash__()

    seen: list[str] = []
    assert log.error_number(Interrupted("one")) != log.error_number("other")
