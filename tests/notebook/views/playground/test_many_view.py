from __future__ import annotations

import re

import pytest

from tests.notebook.views.playground.test_result_view import response, text_of
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import CancelledError, InvalidArgumentError
from tritonlab.exchanges.exchange import Arrival, Exchange, PhaseTimes
from tritonlab.notebook.views.playground.many_view import Tally, many_html


def answered(start_ms: float, took_ms: float, batch_size: int = 1, rows: int = 1) -> Exchange:
    request = InferenceRequest("m", {})
    request.request_start = int(start_ms * 1e6)
    request.batch_size = rows
    split = PhaseTimes(queue=1_000, compute_input=20_000, compute_infer=3_000_000, compute_output=40_000)
    return Exchange(request, (Arrival(response(), int(took_ms * 1e6)),), split=split, batch_size=batch_size)


FAILED = Exchange(InferenceRequest("m", {}), error=InvalidArgumentError("bad"))
CANCELLED = Exchange(InferenceRequest("m", {}), error=CancelledError("gone"))


def test_throughput_counts_from_the_first_request_to_the_last_answer() -> None:
    outcomes = [answered(0, 10), answered(5, 10), answered(10, 10)]
    tally = Tally.from_outcomes([*outcomes, FAILED, CANCELLED])
    assert (tally.sent, tally.answered, tally.failed, tally.cancelled) == (5, 3, 1, 1)
    assert tally.per_second == 150
    assert tally.text() == ("3 of 5 requests answered, 1 failed, 1 cancelled, 150 requests/s, batches: 3 of 1")
    assert Tally.from_outcomes([FAILED]).per_second == 0


def test_batches_are_counted_in_rows() -> None:
    outcomes = [answered(0, 10, batch_size=8, rows=2) for _ in range(8)] + [answered(0, 10, batch_size=2)] * 2
    assert Tally.from_outcomes(outcomes).batches == {2: 1, 8: 2}


def test_what_is_under_way_is_not_answered() -> None:
    begun = Exchange(InferenceRequest("m", {}), (Arrival(response(final=False), 1),))
    assert Tally.from_outcomes([begun, answered(0, 1)]).answered == 1
    assert many_html([begun, answered(0, 1)], finished=False).count("<table") == 0


@pytest.mark.parametrize(
    ("count", "times"),
    [(100, "51 ms 95 ms 99 ms"), (99, "50 ms 94 ms -"), (20, "11 ms 19 ms -"), (19, "10 ms - -"), (2, "2 ms - -")],
)
def test_percentiles_need_enough_requests(count: int, times: str) -> None:
    text = text_of(many_html([answered(0, n) for n in range(count, 0, -1)], finished=True))
    assert re.search(rf"total [\d.]+ ms {re.escape(times)} {count} ms", text)


def test_the_means_of_the_phases_add_up_to_the_total() -> None:
    html = many_html([answered(0, took) for took in (5, 10, 40)], finished=True)
    means = dict(re.findall(r"<td>(\w+)</td><td[^>]*>([\d.]+ [mµ]s)", html))
    times = {word: float(text[:-3]) * (1e3 if "m" in text else 1) for word, text in means.items()}
    assert set(times) == {"total", "queue", "input", "execute", "output", "transport"}
    assert times.pop("total") == pytest.approx(sum(times.values()), rel=0.01)


def test_the_times_are_in_a_table_and_a_histogram() -> None:
    outcomes = [answered(0, n) for n in range(1, 101)]
    html = many_html(outcomes, finished=True)
    text = text_of(html)
    assert "mean p50 p95 p99 max total 50.5 ms 51 ms 95 ms 99 ms 100 ms queue 1 µs 1 µs 1 µs 1 µs 1 µs" in text
    heights = [int(height) for height in re.findall(r"height:(\d+)%", html)]
    assert len(heights) == 24 and max(heights) == 100
    assert "aria-label='Latencies of 100 requests, from 1 ms to 100 ms" in html
    few = text_of(many_html(outcomes[:5], finished=True))
    assert "of 5 requests; p95 needs 20, p99 needs 100" in few
    same = many_html([answered(0, 1)] * 3, finished=True)  # no width at all
    assert "from 1 ms to 1 ms" in same


def test_cancelled_is_not_failed() -> None:
    text = text_of(many_html([CANCELLED, answered(0, 1)], finished=True))
    assert "1 cancelled" in text and "failed" not in text
