"""Captures of models replayed to them, and to changed ones; all on one server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import answers, streams
from tests.serving import DECOUPLED, config, write_model
from tests.tools.capture.replay.captures import MS, capture_of, request_of
from tritonlab import Model, Server, connect
from tritonlab.__main__ import main
from tritonlab.core.status import InvalidArgumentError
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.tools.capture.capture_file import CapturedRequest, CaptureFile, Withheld
from tritonlab.tools.capture.replay import replaying
from tritonlab.tools.capture.replay.replay_verdict import ReplayVerdict

BATCHES = "dynamic_batching { max_queue_delay_microseconds: 500 }"
CONFIG = config("IN FP32 2", "OUT FP32 2", "max_batch_size: 8", BATCHES)
SEQUENCE = config(
    "IN FP32 1",
    "OUT FP32 1",
    "max_batch_size: 4",
    'sequence_batching { control_input { name: "START" control { kind: CONTROL_SEQUENCE_START '
    "fp32_false_true: [0, 1] } } }",
)
SUM = answers(
    "self.total.reshape(1, 1)",
    first='start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0][0]\n'
    "self.total = x[0] + (0 if start else self.total)",
)
NOISE = "import random as _; rng = np.random.default_rng()"
MODELS = {
    "double": (answers("x * 2"), CONFIG),
    "buggy": (answers("np.where(x == 7, x * 2 + 1, x * 2)"), CONFIG),
    "raising": (answers("x * 2 if x[0, 0] != 7 else [][0]"), CONFIG),
    "sociable": (answers("x * 2 + (len(requests) > 1)"), CONFIG),
    "noisy": (answers("(x * 2 + rng.normal(size=x.shape)).astype(np.float32)", imports=NOISE), CONFIG),
    "biased": (answers("(x * 2 + 3 + rng.normal(size=x.shape)).astype(np.float32)", imports=NOISE), CONFIG),
    "sum": (SUM, SEQUENCE),
    "stream": (streams("x + n", "range(3)"), config("IN FP32 2", "OUT FP32 2", DECOUPLED)),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("replay") / "models"
    for name, (source, text) in MODELS.items():
        write_model(root, name, source, text)
    return root


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with Server(repository) as found:
        yield found


@pytest.fixture(scope="module")
def capture(server: Server) -> list[CapturedRequest]:
    return capture_of(server.model("double"), [{"IN": np.float32([[n % 40, n]])} for n in range(80)])


def replayed(model: Model, capture: Any, **options: Any) -> ReplayVerdict:
    found = model.replay(capture, of="double", speed=None, **options)
    assert isinstance(found, ReplayVerdict)
    return found


def test_the_same_model_answers_as_before(
    server: Server, capture: list[CapturedRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "_LATE", -1)  # nothing is late without a pace
    found = replayed(server.model("double"), capture)
    assert found.ok and found.groups == () and found.failures() == [] and "late" not in found.text().split()
    assert found.verdict == "Replay of double: 80 of 80 requests are answered as before"


def test_each_request_that_a_bug_hits_is_found_and_nothing_else(
    server: Server, capture: list[CapturedRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replayed(server.model("buggy"), capture)
    (group,) = found.groups
    assert [change.number for change in group.changes] == [7, 47]
    assert group.sentence == "OUT has other values by 1" and group.alone is False
    assert found.verdict == "Replay of buggy: 2 of 80 answers changed, in 1 group" and not found.ok
    assert "    request 7 OUT[0, 0]: 14.0 -> 15.0" in group.lines()
    again = replayed(server.model("buggy"), capture)
    assert (again.text(), again.to_dict()) == (found.text(), found.to_dict())
    page = found.save(tmp_path / "report.html").read_text()
    assert "2 of 80 answers changed" in page and "<svg" in page and "http" not in page.replace("http://www.w3.org", "")
    assert json.loads(found.save(tmp_path / "report.json").read_text())["groups"][0]["requests"] == [7, 47]
    group.to_golden("seven", tmp_path)
    (case,) = GoldenSet(tmp_path).cases("buggy")
    assert case.outputs["OUT"].numpy().tolist() == [[14, 14]] and case.request.request_id == "7"
    snippet = group.to_pytest(tmp_path)
    assert (tmp_path / snippet.name).exists() and snippet.name == "test_buggy_replay_7.py"
    kept = group.keep_failure()
    assert "OUT[0, 0] 14.0 -> 15.0" in kept.text and kept.replay()["OUT"].tolist() == [[15, 15]]
    _, row = found.panel().children
    head, golden, failure, written, result = row.children
    assert head.value.startswith("2 requests: OUT") and golden.description == "Golden"
    monkeypatch.chdir(tmp_path)
    for button, text in ((failure, "OUT has other values by 1"), (written, "test_buggy_replay_7.py exists")):
        button.click()
        assert text in result.value


def test_an_exception_is_one_group_with_its_failure(server: Server, capture: list[CapturedRequest]) -> None:
    # one after the other: an exception fails all requests of its batch
    found = replayed(server.model("raising"), capture, in_flight=1)
    (group,) = found.groups
    assert (group.kind, group.count, found.failures(["values"])) == ("error", 2, [])
    assert "IndexError" in group.keep_failure().capsule.headline
    assert [test.name for test in found.junit_tests() if test.failure] == ["errors"]


def test_what_a_batch_changes_is_stated(server: Server, capture: list[CapturedRequest]) -> None:
    found = replayed(server.model("sociable"), capture)
    (group,) = found.groups
    assert group.alone and "other requests of the batch may matter" in group.sentence


def test_a_model_with_noise_raises_no_alarm_and_a_bias_does(server: Server, capture: list[CapturedRequest]) -> None:
    noisy, biased = server.model("noisy"), server.model("biased")
    recorded = capture_of(noisy, [{"IN": each.exchange.request.inputs["IN"].numpy()} for each in capture])
    for against in (noisy, server.model("noisy", 1)):
        found = noisy.replay(recorded, against=against, speed=None)
        assert found.ok and "as before but for its noise" in found.verdict, found
    for against in (biased, noisy):
        found = biased.replay(recorded, against=against, of="noisy", speed=None)
        (group,) = found.groups
        assert group.kind == "distribution" and "is higher in" in group.note, found
    alone = biased.replay(recorded, of="noisy", speed=None)
    assert alone.groups and "against=OLD" in alone.text()
    few = noisy.replay(recorded[:5], against=noisy, speed=None)
    assert not few.ok and not few.proves and "too few" in few.verdict


def test_a_change_that_the_old_model_has_too_is_none(server: Server, capture: list[CapturedRequest]) -> None:
    found = replayed(server.model("buggy"), capture, against=server.model("buggy", 1))
    assert found.ok and "answered otherwise than recorded by the model before, too" in found.text()
    other = replayed(server.model("buggy"), capture, against=server.model("raising"), in_flight=1)
    assert [group.kind for group in other.groups] == ["value"]
    assert other.latency is not None and "replayed here" in other.latency.against


def test_sequences_stay_together(server: Server) -> None:
    model = server.model("sum")
    steps = [(1, 1), (2, 1), (1, 0), (2, 0), (1, 2), (2, 2)]
    settings = [{"correlation_id": sequence, "flags": flags} for sequence, flags in steps]
    inputs = [{"IN": np.float32([[n]])} for n in range(6)]
    found = model.replay(capture_of(model, inputs, settings), speed=None)
    assert found.ok and found.compared == 6
    cut = model.replay(capture_of(model, inputs, settings)[1:], speed=None)
    assert cut.not_sent == {"in sequences whose beginning the capture lacks": 2} and cut.compared == 3


def test_streams_are_compared_response_by_response(server: Server) -> None:
    model = server.model("stream")
    recorded = capture_of(model, [{"IN": np.float32([n, n])} for n in range(3)])
    assert model.replay(recorded, speed=None).ok
    shorter = [replace(each, exchange=replace(each.exchange, arrivals=each.exchange.arrivals[1:])) for each in recorded]
    (group,) = model.replay(shorter, speed=None).groups
    assert group.lines()[:2] == [
        "3 requests: another number of responses",
        "    request 0: 2 responses -> 3 responses",
    ]


def test_what_cannot_be_sent_or_compared_is_counted(server: Server, capture: list[CapturedRequest]) -> None:
    model, (one, two, three, four) = server.model("double"), capture[:4]
    odd = [
        replace(one, withheld={"input.IN": Withheld("dropped", "FP32", (1, 2))}),
        replace(two, exchange=replace(two.exchange, unanswered="its answer was too large")),
        replace(three, withheld={"output.0.OUT": Withheld("shape", "FP32", (1, 2))}),
        replace(four, exchange=replace(four.exchange, unsent="whose inputs are in shared memory")),
    ]
    found = replayed(model, odd)
    assert found.not_sent == {"with withheld inputs": 1, "whose inputs are in shared memory": 1}
    assert found.not_compared == {"its answer was too large": 1, "whose outputs are all withheld": 1}
    assert not found.ok and found.verdict == "Replay of double: 2 requests were sent, and no answer could be compared"
    nothing = replayed(model, odd[:1])
    assert nothing.verdict == "Replay of double: no request was sent" and not nothing.ok
    assert replayed(model, odd[1:2], against=server.model("noisy")).compared == 1
    with pytest.raises(InvalidArgumentError, match="no request to 'gone', but to double"):
        model.replay(capture, of="gone")


def test_numbers_that_a_capture_rounds_are_compared_within_that(server: Server) -> None:
    model, inexact = server.model("double"), {"input.IN": Withheld("inexact", "FP32", (1, 2))}
    rounded = []
    for number in range(20):
        exact = np.float32([[np.pi * number, 7 if number == 3 else 0]])
        (one,) = capture_of(model, [{"IN": exact}])
        request = request_of("double", {"IN": np.float32([[float(f"{each:.6g}") for each in exact[0]]])})
        rounded.append(CapturedRequest(replace(one.exchange, request=request), number, withheld=inexact))
    found = replayed(model, rounded)
    assert found.ok and "20 requests have floats that the capture rounds" in found.text()
    (group,) = replayed(server.model("buggy"), rounded).groups
    assert [change.number for change in group.changes] == [3]


def test_an_interrupt_keeps_the_answers_so_far(server: Server, capture: list[CapturedRequest]) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    model = server.model("double")
    found = replayed(model, [*capture, *capture], progress=interrupt)
    assert found.stopped == "interrupted" and 0 < found.compared < 160 and not found.ok
    assert [test.error != "" for test in found.junit_tests()] == [True]
    assert replayed(model, [*capture, *capture], progress=lambda line: False).stopped == "stopped"
    with pytest.raises(InvalidArgumentError, match="in_flight=0 sends no request"):
        replayed(model, capture, in_flight=0)


def test_a_server_elsewhere_gets_the_requests_too(server: Server, capture: list[CapturedRequest]) -> None:
    with Endpoints(server.core, EndpointOptions(http_port=0, grpc_port=0, metrics=False)) as endpoints:
        for address in (f"http://{endpoints.http}", f"grpc://{endpoints.grpc}"):
            with connect(address, headers=endpoints.headers) as remote:
                assert remote.model("double").replay(capture[:20], speed=None).ok
                (group,) = remote.model("buggy").replay(capture[:20], of="double", speed=None).groups
                assert [change.number for change in group.changes] == [7]


def test_the_exit_status_says_whether_something_changed(
    repository: Path, capture: list[CapturedRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(name: str) -> str:
        file = CaptureFile(tmp_path / name, {"source": "test"})
        file.append([replace(each, exchange=_addressed(each, name)) for each in capture[:20]])
        file.close()
        return str(tmp_path / name)

    options = [f"--model-repository={repository}", "--speed=max"]
    assert main(["replay", written("double"), *options]) == 0
    assert "20 of 20 requests are answered as before" in capsys.readouterr().out
    page = tmp_path / "out" / "page.html"
    buggy, more = written("buggy"), [f"--junit={tmp_path / 'j.xml'}", f"--page={page}", "--json"]
    assert main(["replay", buggy, *options, *more]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["model"], found["groups"][0]["count"]) == ("buggy", 1)
    assert "OUT has other values" in (tmp_path / "j.xml").read_text() and page.exists()
    assert main(["replay", buggy, *options, "--fail-on=errors,shapes"]) == 0
    assert main(["replay", buggy, *options, "--model=double"]) == 2
    assert "no request was sent: the capture has requests to buggy" in capsys.readouterr().err
    assert main(["replay", buggy, *options, "--fail-on=colours"]) == 2
    assert main(["replay", str(tmp_path / "nothing"), *options]) == 2


def _addressed(captured: CapturedRequest, name: str) -> Any:
    request = captured.exchange.request
    return replace(captured.exchange, request=type(request)(name, request.inputs, request_id=request.request_id))


def test_the_recorded_pace_is_kept(server: Server, capture: list[CapturedRequest]) -> None:
    found = server.model("double").replay([replace(each, at_ns=n * MS) for n, each in enumerate(capture)])
    assert found.ok and found.latency is not None and len(found.latency.now) == 80
    assert "latency of 80 requests" in found.text() and "<img" in found.html()
    assert len(server.model("double").replay(capture, seconds=0.0101).not_sent) == 1
