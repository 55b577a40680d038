from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.capture.captures import all_bytes, captured, texts
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import Code, TritonError
from tritonlab.tools.capture import capture_writer
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest
from tritonlab.tools.capture.capture_rules import NOT_SAMPLED, NOT_SOUGHT, OVER_RATE, CaptureRules
from tritonlab.tools.capture.capture_writer import CLOSED, FILE_FULL, TOO_FAST, TOO_LARGE, CaptureReport, CaptureWriter

SECRET = "a canary of 26 letters"
MINUTE = 60 * 10**9


def run(path: Path, requests: list[CapturedRequest], **rules: Any) -> tuple[CaptureReport, list[CapturedRequest]]:
    """Write requests by rules as a source does, and return the report and what is read."""
    writer = CaptureWriter(path, {"source": "test"}, CaptureRules(**rules))
    for each in requests:
        if writer.chooses(each.at_ns, each.exchange.request):
            writer.add(each)
    report = writer.close()
    return report, list(Capture(path))


def numbers(count: int, seed: int = 1) -> Tensor:
    return Tensor.from_numpy(np.random.default_rng(seed).integers(0, 255, count, np.uint8))


def test_requests_are_written_and_counted(tmp_path: Path) -> None:
    report, found = run(tmp_path / "a", [captured(at_ns=n) for n in range(20)])
    assert (report.requests, report.left_out, report.lost, report.is_complete) == (20, {}, {}, True)
    assert [each.at_ns for each in found] == list(range(20))
    assert report.file_bytes < (tmp_path / "a").stat().st_size == report.file_bytes + len(footer_of(tmp_path / "a"))
    assert (
        Capture(tmp_path / "a").facts["rules"]["share"] == 1.0 and "key" not in Capture(tmp_path / "a").facts["rules"]
    )


def footer_of(path: Path) -> bytes:
    data = path.read_bytes()
    return data[data.rindex(b"\xff\xff\xff\xff\0\0\0\0") :]


def test_a_capture_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        CaptureWriter(tmp_path / "a", {})
    assert (tmp_path / "a").read_text() == "mine"
    CaptureWriter(tmp_path / "b", {}).close()
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_a_request_may_be_made_on_the_thread_of_the_writer(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a", {}, CaptureRules(only_errors=True))
    threads: list[str] = []

    def make() -> CapturedRequest:
        threads.append(threading.current_thread().name)
        return captured(error=TritonError.from_code(Code.INTERNAL, "no"))

    writer.add(make, 100)
    writer.add(lambda: captured(), 100)
    writer.add(lambda: None, 100)
    writer.add(lambda: captured(**{SECRET: 1}), 100)
    writer.add(None)  # type: ignore[arg-type]
    report = writer.close()
    assert threads == ["capture"] and report.requests == 1
    assert report.left_out == {
        NOT_SOUGHT: 1,
        "cannot be read: TypeError": 1,
        "cannot be kept: AttributeError": 1,
    }


def test_a_value_that_no_column_takes_loses_its_own_request(tmp_path: Path) -> None:
    report, found = run(tmp_path / "a", [captured(at_ns=1), captured(priority=2**65), captured(at_ns=3)])
    assert report.left_out == {"cannot be written: OverflowError": 1} and [each.at_ns for each in found] == [1, 3]


# -- the choice


def test_a_share_of_the_requests(tmp_path: Path) -> None:
    report, found = run(tmp_path / "a", [captured() for _ in range(1000)], share=0.1)
    assert 50 <= len(found) <= 160 and report.left_out == {NOT_SAMPLED: 1000 - len(found)} and not report.lost


def test_a_sample_leaves_the_random_numbers_of_the_notebook_alone(tmp_path: Path) -> None:
    random.seed(1)
    before = random.getstate()
    run(tmp_path / "a", [captured() for _ in range(5)], share=0.5)
    assert random.getstate() == before


def test_sequences_are_whole_or_not_there(tmp_path: Path) -> None:
    flags = [SEQUENCE_START, 0, 0, SEQUENCE_END]
    sent = [captured(correlation_id=n, flags=flag) for flag in flags for n in range(1, 51)] * 2
    for rules in ({"share": 0.3}, {"per_minute": 10}):
        _, found = run(tmp_path / f"{rules}", sent, **rules)
        kept = [each.exchange.request for each in found]
        for number in {each.correlation_id for each in kept}:
            assert [each.flags for each in kept if each.correlation_id == number] in (flags, flags * 2)
        assert 20 <= len(kept) <= 240


def test_so_many_in_a_minute(tmp_path: Path) -> None:
    sent = [captured(at_ns=minute * MINUTE + n) for minute in (0, 1, 5) for n in range(10)]
    report, found = run(tmp_path / "a", sent, per_minute=4)
    assert [each.at_ns // MINUTE for each in found] == [0] * 4 + [1] * 4 + [5] * 4
    assert report.left_out == {OVER_RATE: 18}


def test_only_errors_and_only_slow_ones(tmp_path: Path) -> None:
    error = TritonError.from_code(Code.INTERNAL, "no")
    sent = [captured(), captured(error=error), captured(took=10**9), captured(took=10**9, error=error)]
    took = [each.exchange.total_ns for each in sent]
    for number, (rules, kept) in enumerate(
        [
            ({"only_errors": True}, [1, 3]),
            ({"slower_than": 0.5}, [2, 3]),
            ({"only_errors": True, "slower_than": 0.5}, [1, 2, 3]),
        ]
    ):
        report, found = run(tmp_path / f"{number}", sent, **rules)
        assert [(each.exchange.total_ns, each.exchange.failed) for each in found] == [
            (took[n], sent[n].exchange.failed) for n in kept
        ]
        assert report.left_out == {NOT_SOUGHT: 4 - len(kept)}
    report, found = run(tmp_path / "rate", [captured(), *[captured(error=error)] * 5], only_errors=True, per_minute=2)
    assert len(found) == 2 and report.left_out == {NOT_SOUGHT: 1, OVER_RATE: 3}


@pytest.mark.parametrize(
    "rules",
    [{"share": 0}, {"share": 2}, {"per_minute": -1}, {"slower_than": -1.0}, {"most_bytes": 0}, {"redact": {"a": "b"}}],
)
def test_rules_that_cannot_be_ones(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(rules))):
        CaptureRules(**rules)


# -- a disk that is slow, full or gone


def test_a_slow_disk_loses_requests_of_the_capture_and_blocks_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    writer = CaptureWriter(tmp_path / "a", {}, CaptureRules(queue_bytes=50_000))
    slow, write = threading.Event(), os.write
    monkeypatch.setattr(capture_writer, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(os, "write", lambda *args: slow.wait() and write(*args))
    for at_ns in range(1000):
        writer.add(captured({"X": numbers(1000)}, at_ns=at_ns))
    assert not writer.close(0.01).is_complete
    slow.set()
    report = writer.close()
    assert report.is_complete and 5 <= report.requests <= 20 and report.left_out == {TOO_FAST: 1000 - report.requests}
    writer.add(captured())
    assert not writer.chooses(0) and writer.report.left_out[CLOSED] == 2
    assert len(Capture(tmp_path / "a")) == report.requests and Capture(tmp_path / "a").left_out == report.left_out


def test_a_request_larger_than_the_queue_has_a_reason_of_its_own(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a", {}, CaptureRules(queue_bytes=10_000))
    writer.add(captured({"X": numbers(10_000)}))
    writer.add(captured({"X": numbers(10)}))
    report = writer.close()
    assert (report.requests, report.lost) == (1, {TOO_LARGE: 1})


def test_a_full_disk_loses_what_came_while_it_was_full(tmp_path: Path, monkeypatch: Any) -> None:
    writer = CaptureWriter(tmp_path / "a", {})
    done = written_by(writer)
    done([captured(at_ns=1)])
    write = os.write

    def refuse(number: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    done([captured(at_ns=2)] * 3)
    monkeypatch.setattr(os, "write", write)
    done([captured(at_ns=3)])
    report = writer.close()
    assert report.lost == {"No space left on device (the disk)": 3} and report.requests == 2
    assert [each.at_ns for each in Capture(tmp_path / "a")] == [1, 3]
    assert Capture(tmp_path / "a").left_out == report.left_out
    assert repr(report).splitlines()[1] == "lost: 3, No space left on device (the disk)"


def written_by(writer: CaptureWriter) -> Callable[[list[CapturedRequest]], None]:
    """Return a function that adds requests, and waits until the writer has written or lost them."""

    def add(requests: list[CapturedRequest]) -> None:
        before = writer.report.requests + sum(writer.report.left_out.values())
        for each in requests:
            writer.add(each)
        end = time.monotonic() + 10
        while writer.report.requests + sum(writer.report.left_out.values()) < before + len(requests):
            assert time.monotonic() < end
            time.sleep(0.01)

    return add


def test_the_file_has_a_largest_size(tmp_path: Path) -> None:
    sent = [captured({"X": numbers(30_000, n)}, at_ns=n) for n in range(100)]
    report, found = run(tmp_path / "a", sent, most_bytes=1_000_000)
    assert 500_000 < report.file_bytes <= 1_000_000 and (tmp_path / "a").stat().st_size < 1_010_000
    assert report.is_complete and report.lost == {FILE_FULL: 100 - report.requests}
    assert [each.at_ns for each in found] == list(range(report.requests))
    assert Capture(tmp_path / "a").left_out == report.left_out


def test_a_source_that_waits_loses_nothing(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a", {}, CaptureRules(queue_bytes=10_000))
    for n in range(30):
        writer.add(captured({"X": numbers(20_000 if n % 9 == 0 else 3000)}, at_ns=n), waits=True)
    assert writer.close().requests == 30


# -- redaction


def secret_request() -> CapturedRequest:
    error = TritonError.from_code(Code.INVALID_ARG, f"no such user: {SECRET}!")
    one = captured(
        {"TEXT": texts(SECRET, "other"), "IMAGE": numbers(12), "KEPT": texts("kept")},
        {"OUT": texts(f"<{SECRET}>")},
        error=error,
        parameters={"User": SECRET, "n": 3},
        request_id=SECRET,
        correlation_id=SECRET,
    )
    one.exchange.responses[0].parameters["user_of_answer"] = SECRET
    return one


RULES = {"TEXT": "drop", "input.IMAGE": "shape", "out*": "hash", "parameter.user*": "drop", "*_id": "hash"}


@pytest.mark.parametrize("rules", [RULES, dict.fromkeys(RULES, "hash"), dict.fromkeys(RULES, "shape")])
def test_a_redacted_text_is_in_no_byte_of_a_file(tmp_path: Path, rules: dict[str, str], monkeypatch: Any) -> None:
    """Neither in the file, unpacked, nor in another file that the process has open or writes meanwhile; also not in the
    error that quotes it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    opened: list[str] = []
    open_ = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *more, **named: opened.append(str(path)) or open_(path, *more, **named)
    )
    report, found = run(tmp_path / "a", [secret_request()] * 3, redact=rules)
    assert report.requests == 3 and not report.unmatched
    data = all_bytes(tmp_path / "a")
    assert b"kept" in data and SECRET.encode() not in data and SECRET[:8].encode() not in data
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and {*opened} == {str(tmp_path / "a")}
    request = found[0].exchange.request
    assert [*request.inputs] == ["KEPT"] and request.parameters == {"n": 3}
    assert found[0].exchange.error is not None and found[0].exchange.error.message == "no such user: (withheld)!"
    assert found[0].exchange.unsent == "the capture withholds its input 'TEXT'"
    assert {*found[0].withheld} == {
        *("input.TEXT", "input.IMAGE", "output.0.OUT", "parameter.User", "response.0.user_of_answer"),
        *("request_id", "sequence_id"),
    }


def test_without_rules_the_canary_is_found(tmp_path: Path) -> None:
    run(tmp_path / "a", [secret_request()])
    assert SECRET.encode() in all_bytes(tmp_path / "a")


def test_ways_to_redact(tmp_path: Path) -> None:
    _, found = run(tmp_path / "a", [secret_request(), secret_request()], redact=RULES)
    withheld = found[0].withheld
    assert withheld["input.TEXT"] == ("dropped", "", ()) and withheld["input.IMAGE"] == ("shape", "UINT8", (12,))
    assert withheld["output.0.OUT"].how.startswith("hash:") and withheld["output.0.OUT"].shape == (1,)
    assert withheld == found[1].withheld  # equal values have equal digests
    sequence = found[0].exchange.request.correlation_id
    assert sequence == withheld["sequence_id"].how and found[0].exchange.request.request_id != sequence[:5]
    _, other = run(tmp_path / "b", [secret_request()], redact=RULES)
    assert other[0].withheld["output.0.OUT"] != withheld["output.0.OUT"]  # no list of all users finds the one
    key = bytes(32)
    same = [run(tmp_path / name, [secret_request()], redact=RULES, key=key)[1][0].withheld for name in "cd"]
    assert same[0] == same[1]


def test_reasons_do_not_quote_errors(tmp_path: Path) -> None:
    one = secret_request()
    reasons = {"unsent": f"the request is not valid: {SECRET}", "unanswered": f"the answer cannot be read: '{SECRET}'"}
    _, found = run(tmp_path / "a", [replace(one, exchange=replace(one.exchange, **reasons))], redact={"n": "drop"})
    exchange = found[0].exchange
    assert (exchange.unsent, exchange.unanswered) == ("the request is not valid", "the answer cannot be read")


def test_the_text_of_errors_is_dropped_by_name(tmp_path: Path) -> None:
    _, found = run(tmp_path / "a", [secret_request()], redact={"error": "drop", "nothing": "drop", "n": "drop"})
    error = found[0].exchange.error
    assert error is not None and (error.code, error.message) == (Code.INVALID_ARG, "(dropped)")
    assert found[0].withheld["error"].how == "dropped" and "parameter.n" in found[0].withheld


def test_a_rule_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    report, _ = run(tmp_path / "a", [secret_request()], redact={"TEXTT": "drop", "TEXT": "drop"})
    assert report.unmatched == ("TEXTT",) and "the redaction 'TEXTT' has matched nothing" in repr(report)
