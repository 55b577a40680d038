from __future__ import annotations

import threading

from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats

NOTHING = {"count": 0, "ns": 0}


def test_nothing_happened_yet() -> None:
    """The whole document of rule 5.12.1, in Triton's order."""
    found = InferStats().to_dict("m", 3)
    assert found == {
        "name": "m",
        "version": "3",
        "last_inference": 0,
        "inference_count": 0,
        "execution_count": 0,
        "inference_stats": {
            "success": NOTHING,
            "fail": NOTHING,
            "queue": NOTHING,
            "compute_input": NOTHING,
            "compute_infer": NOTHING,
            "compute_output": NOTHING,
            "cache_hit": NOTHING,
            "cache_miss": NOTHING,
        },
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }
    assert list(found)[2:5] == ["last_inference", "inference_count", "execution_count"]


def test_every_request_of_a_batch_waited_for_the_whole_execution() -> None:
    stats = InferStats()
    stats.record_batch(5, [10, 20], [100, 200], ExecuteTimes(1, 2, 3), 0, 7000)
    found = stats.to_dict("m", 1)
    assert (found["last_inference"], found["inference_count"], found["execution_count"]) == (7000, 5, 1)
    assert found["inference_stats"] == {
        "success": {"count": 2, "ns": 300},
        "fail": NOTHING,
        "queue": {"count": 2, "ns": 30},
        "compute_input": {"count": 2, "ns": 2},
        "compute_infer": {"count": 2, "ns": 4},
        "compute_output": {"count": 2, "ns": 6},
        "cache_hit": NOTHING,
        "cache_miss": NOTHING,
    }


def test_batches_are_counted_per_execution_and_size() -> None:
    stats = InferStats()
    for size in (4, 1, 4):
        stats.record_batch(size, [0], [0], ExecuteTimes(1, 10, 100), 0, 0)
    assert stats.to_dict("m", 1)["batch_stats"] == [
        {
            "batch_size": size,
            "compute_input": {"count": n, "ns": n},
            "compute_infer": {"count": n, "ns": 10 * n},
            "compute_output": {"count": n, "ns": 100 * n},
        }
        for size, n in ((1, 1), (4, 2))
    ]


def test_every_reader_and_every_number_of_executions_sees_all_of_them() -> None:
    """They are counted in groups, or when somebody looks."""
    for executions in (1, 15, 16, 17, 100):
        failed = InferStats()
        for _ in range(executions):
            failed.record_batch(1, [1], [2], ExecuteTimes(1, 1, 1), 1, 7000)
        assert failed.failures()["BACKEND"] == executions
        stats = InferStats()
        for _ in range(executions):
            stats.record_batch(1, [1], [2], ExecuteTimes(1, 1, 1), 0, 7000)
        assert (
            repr(stats)
            == f"<InferStats {executions} ok | 0 failed | {executions} inferences in {executions} executions>"
        )
        stats.add_times(1, ExecuteTimes(10, 0, 0))
        assert stats.to_dict("m", 1)["batch_stats"][0]["compute_input"] == {"count": executions, "ns": executions + 10}


def test_times_that_come_later_find_the_batch_that_was_just_noted() -> None:
    stats = InferStats()
    stats.record_batch(3, [1], [2], ExecuteTimes(1, 1, 1), 0, 7000)
    stats.add_times(3, ExecuteTimes(10, 20, 30))
    (batch,) = stats.to_dict("m", 1)["batch_stats"]
    assert [batch[part]["ns"] for part in ("compute_input", "compute_infer", "compute_output")] == [11, 21, 31]


def test_the_last_inference_is_the_latest_of_executions_and_cache_hits() -> None:
    stats = InferStats()
    stats.record_batch(1, [1], [2], ExecuteTimes(1, 1, 1), 0, 7000)
    stats.record_cache_hit(1, 1, 1, 7005)
    assert stats.to_dict("m", 1)["last_inference"] == 7005


def test_threads_that_record_while_others_read_lose_nothing() -> None:
    stats = InferStats()

    def record() -> None:
        for _ in range(2000):
            stats.record_batch(1, [1], [2], ExecuteTimes(1, 1, 1), 0, 7000)

    threads = [threading.Thread(target=record) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stats.to_dict("m", 1)
    assert stats.to_dict("m", 1)["execution_count"] == 6000


def test_a_failed_execution_counts_as_execution_but_not_as_inference() -> None:
    """Rules 3.11.1, 5.12.2, measured: fail, execution_count, batch_stats and last_inference move, the rest does not."""
    stats = InferStats()
    stats.record_batch(3, [10, 20], [100, 200], ExecuteTimes(1, 2, 3), 2, 7000)
    found = stats.to_dict("m", 1)
    assert (found["last_inference"], found["inference_count"], found["execution_count"]) == (7000, 0, 1)
    assert found["inference_stats"]["fail"] == {"count": 2, "ns": 300}
    assert found["inference_stats"]["success"] == found["inference_stats"]["queue"] == NOTHING
    assert found["inference_stats"]["compute_infer"] == NOTHING
    assert found["batch_stats"][0]["compute_infer"] == {"count": 1, "ns": 2}
    assert stats.failures() == {"BACKEND": 2, "CANCELED": 0, "OTHER": 0, "REJECTED": 0}


def test_a_request_that_timed_out_in_the_queue_is_a_failure() -> None:
    stats = InferStats()
    stats.record_rejected("REJECTED", 50)
    stats.record_rejected("CANCELED")
    found = stats.to_dict("m", 1)
    assert found["inference_stats"]["fail"] == {"count": 2, "ns": 50}
    assert (found["execution_count"], found["batch_stats"]) == (0, [])
    assert stats.failures() == {"BACKEND": 0, "CANCELED": 1, "OTHER": 0, "REJECTED": 1}


def test_a_cache_hit_is_a_success_without_execution() -> None:
    """Rule 5.9.4."""
    stats = InferStats()
    stats.record_cache_hit(request_ns=100, queue_ns=10, lookup_ns=5, wall_ms=7000)
    stats.record_cache_miss(8)
    found = stats.to_dict("m", 1)
    assert (found["inference_count"], found["execution_count"], found["last_inference"]) == (0, 0, 7000)
    assert found["inference_stats"]["success"] == {"count": 1, "ns": 100}
    assert found["inference_stats"]["queue"] == {"count": 1, "ns": 10}
    assert found["inference_stats"]["compute_infer"] == NOTHING
    assert found["inference_stats"]["cache_hit"] == {"count": 1, "ns": 5}
    assert found["inference_stats"]["cache_miss"] == {"count": 1, "ns": 8}


def test_repr() -> None:
    stats = InferStats()
    stats.record_batch(4, [0], [0], ExecuteTimes(0, 0, 0), 0, 0)
    stats.record_rejected("OTHER")
    assert repr(stats) == "<InferStats 1 ok | 1 failed | 4 inferences in 1 executions>"
