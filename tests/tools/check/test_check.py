"""Checks of models with one bug each, and of correct ones, in real processes.

`python -m tests.tools.check.all_planted` checks all of `planted.py`, with all relations; here is a part of it, for a
few seconds each.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.check import held
from tests.tools.check.planted import ANY_SIZE, BUGS, CORRECT, HEAD, VECTOR, Planted, answers
from tritonlab.core.status import InvalidArgumentError
from tritonlab.notebook.model import Model, Server
from tritonlab.record.recorder import Recorder
from tritonlab.testing import check_case
from tritonlab.tools.check.check_finding import CheckFinding
from tritonlab.tools.check.check_result import CheckResult, junit_xml
from tritonlab.tools.check.run import RELATIONS, CheckOptions, Doing, make_bench, open_scratch

Load = Callable[[Planted], Model]
ALL = {one.name: one for one in (*BUGS, *CORRECT)}
#: Seconds of a check of one relation; much more than it needs on a machine that is not busy.
SECONDS = 40.0
#: The same of the relation that sends requests for a share of the time, and does so again and again.
SECONDS_OF_RESOURCES = 15.0
#: What is tried of an ensemble.
PIPELINE = ["answers", "company", "life"]
#: A model with state that takes no values that are generated.
PICKY = answers(
    """
    x = get(request, "X")
    if not (x > 1e6).all():
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("too small"))
    last, self.last = self.last, float(x.max())
    return answer(Y=x - np.float32(last))
    """,
    "self.last = 0.0",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("planted"), model_control_mode="explicit") as server:
        yield server


@pytest.fixture(scope="module")
def load(server: Server) -> Load:
    """Write a planted model into the server's repository and loads it."""

    def load(planted: Planted) -> Model:
        write(planted, server.repositories[0])
        return server.load(planted.name)

    return load


def until_found(doing: Doing) -> bool:
    """Return the progress of a check that ends at the first finding."""
    return doing.findings == 0


def find(model: Model, relation: str, words: str) -> CheckFinding:
    """Return the finding of a relation, which has these words. On a busy machine its check gets more time."""
    seconds = SECONDS_OF_RESOURCES if relation == "resources" else SECONDS
    for more in (1, 3):
        result = model.check(more * seconds, relations=[relation], progress=until_found)
        if len(result.findings) == 1 and re.search(words, result.findings[0].sentence):
            return result.findings[0]
    raise AssertionError(result.text())


def write(planted: Planted, repository: Path) -> Path:
    directory = repository / planted.name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "1" / "model.py").write_text(planted.text)
    (directory / "config.pbtxt").write_text(planted.config)
    return directory


@pytest.mark.parametrize("name", [one.name for one in BUGS if one.fix[0]])
def test_a_bug_is_found_made_small_and_kept_as_a_test_until_it_is_fixed(
    load: Load, server: Server, tmp_path: Path, name: str
) -> None:
    planted = ALL[name]
    model = load(planted)
    found = find(model, planted.relation, planted.words)
    assert found.relation == planted.relation
    assert 1 <= len(found.requests) <= 2
    assert all(tensor.shape[0] <= 2 for request in found.requests for tensor in request.inputs.values())
    if planted.line:
        assert found.line is not None and planted.line in planted.text.split("\n")[found.line - 1]

    snippet = found.to_pytest(tmp_path)
    assert compile(snippet.text, snippet.name, "exec")
    (case,) = tmp_path.glob("*.case")
    with pytest.raises(AssertionError):
        check_case(case, model)

    file = server.repositories[0] / planted.name / "1" / "model.py"
    file.write_text(planted.fixed)
    os.utime(file, (1, 1))
    server.load(planted.name)
    assert found.replay() == ""


def test_each_relation_has_a_bug_that_can_be_fixed() -> None:
    assert {one.relation for one in BUGS if one.fix[0]} == {one.name for one in RELATIONS}


@pytest.mark.parametrize("name", ["careful_numbers", "sometimes_doubtful"])
def test_a_correct_model_raises_no_alarm(load: Load, name: str) -> None:
    result = load(ALL[name]).check(8, relations=["answers", "company", "neighbours", "edges"])
    assert result.ok and result.checked, result.text()
    assert [one.left_out for one in result.tried] == [""] * 4


def test_the_model_goes_on_serving_and_is_not_touched(load: Load) -> None:
    model = load(ALL["scaled"])
    before = {path: path.stat().st_mtime_ns for path in model.directory.rglob("*")}
    pids = [one["pid"] for one in model.instances()]
    done = model.statistics()["model_stats"][0]["inference_count"]
    model.check(6, relations=["company", "life"])
    assert {path: path.stat().st_mtime_ns for path in model.directory.rglob("*")} == before
    assert [one["pid"] for one in model.instances()] == pids
    assert model.statistics()["model_stats"][0]["inference_count"] == done


def test_it_is_stopped_with_what_was_found(load: Load) -> None:
    lines: list[str] = []

    def progress(doing: Doing) -> bool:
        lines.append(str(doing))
        return doing.findings == 0

    result = load(ALL["wrong_type"]).check(SECONDS, progress=progress)
    assert result.stopped == "stopped"
    assert [one.relation for one in result.findings] == ["answers"]
    assert any(one.left_out == "stopped" for one in result.tried)
    assert "answers: " in "".join(lines) and "1 found" in lines[-1]


def test_an_interrupt_keeps_what_was_found(load: Load) -> None:
    def progress(doing: Doing) -> None:
        if doing.findings:
            raise KeyboardInterrupt

    result = load(ALL["wrong_type"]).check(SECONDS, progress=progress)
    assert result.stopped == "interrupted" and len(result.findings) == 1


def test_a_check_that_is_stopped_before_anything_is_tried_proves_nothing(load: Load) -> None:
    result = load(ALL["scaled"]).check(SECONDS, progress=lambda doing: doing.text != "sending edge values")
    assert result.stopped == "stopped" and all(one.left_out for one in result.tried)
    assert not result.ok and not result.checked and "nothing could be checked" in result.verdict
    result = load(ALL["scaled"]).check(SECONDS, relations=["sequences"])
    assert not result.ok and not result.checked and "not tried: the model has no sequences" in result.text()


def test_a_model_that_refuses_everything_is_recognised(load: Load) -> None:
    source = answers('return pb_utils.InferenceResponse(error=pb_utils.TritonError("a licence is needed"))')
    result = load(Planted("licensed", VECTOR, source)).check(10)
    assert not result.ok and not result.checked
    assert "a licence is needed" in result.text() and "example={...}" in result.text()


ENDLESS = """import threading, time
LISTENS = True
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.stream, args=(request,), daemon=True).start()

    def stream(self, request):
        sender, x = request.get_response_sender(), request.inputs()[0].as_numpy()
        for _ in range(600):
            if LISTENS and sender.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
            time.sleep(0.05)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_a_stream_that_outlasts_the_check_is_neither_right_nor_wrong(load: Load) -> None:
    result = load(Planted("endless", f"{VECTOR} model_transaction_policy {{ decoupled: true }}", ENDLESS)).check(4)
    assert not result.checked and not result.ok and not result.findings, result.text()
    assert "nothing could be checked" in result.verdict
    assert "responses and no end after" in result.text() and "check(16) more time" in result.text()


def test_a_long_stream_that_goes_on_after_its_cancellation_is_judged_by_its_first_responses(load: Load) -> None:
    config = f"{VECTOR} model_transaction_policy {{ decoupled: true }}"
    result = load(Planted("deaf", config, ENDLESS.replace("LISTENS = True", "LISTENS = False"))).check(8)
    (found,) = result.findings
    assert (found.relation, found.case.kind) == ("streams", "cancelled")
    assert "responses more within 1 s" in found.sentence and "never calls is_cancelled()" in found.sentence
    assert "Nothing else could be checked" in result.text() and result.seconds < 20


def planted_by_kind(name: str) -> Planted:
    return next(one for one in (*held.BUGS, *held.CORRECT) if one.name == name)


@pytest.mark.parametrize(
    "name", ["stale_after_exception", "imputed_with_batch", "shared_deadline", "fixed_scratch_file", "keyed_by_sum"]
)
def test_a_bug_of_another_kind_is_found(load: Load, name: str) -> None:
    planted = planted_by_kind(name)
    found = find(load(planted), planted.relation.partition("|")[0], planted.words)
    assert re.fullmatch(planted.relation, found.relation)


@pytest.mark.parametrize("name", ["file_per_request", "leak_per_execution"])
def test_the_amount_left_behind_has_two_digits(load: Load, name: str) -> None:
    planted = planted_by_kind(name)
    find(load(planted), "resources", planted.words)


def test_a_counter_that_never_reads_its_input_has_one_cause(load: Load) -> None:
    result = load(planted_by_kind("counter")).check(9, relations=["answers", "company", "neighbours", "edges"])
    (found,) = result.findings
    assert (found.relation, found.case.kind, found.also) == ("company", "state", ())


def test_what_a_check_writes_stays_in_its_directory(load: Load) -> None:
    for name in ("file_per_request", "file_by_name_per_request"):
        load(planted_by_kind(name)).check(3, relations=["answers"])
    assert not [*Path(tempfile.gettempdir()).glob("tritonlab-test-*")]


def test_a_request_with_no_elements_that_fails_is_a_note(load: Load) -> None:
    result = load(planted_by_kind("largest")).check(8, relations=["edges"])
    assert result.ok and result.checked, result.text()
    assert any(note.startswith("A request with no elements ends in ValueError") for note in result.notes), result.notes


def test_an_example_is_what_a_picky_model_takes(load: Load) -> None:
    model = load(Planted("picky", VECTOR, PICKY))
    assert not model.check(4, relations=["company"]).checked
    values = [np.full(4, 2e6, np.float32), np.full(4, 5e6, np.float32)]
    for options in ({"example": {"X": values[0][None]}}, {"strategies": {"X": values}}):
        found = model.check(SECONDS, relations=["company"], progress=until_found, **options).findings
        assert [one.case.kind for one in found] == ["state"]


def test_a_model_that_talks_to_others_is_named_before(load: Load, server: Server) -> None:
    source = answers("""
        x = pb_utils.get_input_tensor_by_name(request, "X")
        call = pb_utils.InferenceRequest(model_name="scaled", requested_output_names=["Y"], inputs=[x])
        return pb_utils.InferenceResponse(call.exec().output_tensors())
    """)
    load(ALL["scaled"])
    model = load(Planted("caller", VECTOR, source))
    with pytest.raises(InvalidArgumentError, match=r"it calls 'scaled' \(BLS\).*side_effects=True"):
        model.check(5)
    before = server.model("scaled").statistics()["model_stats"][0]["inference_count"]
    result = model.check(10, relations=["answers", "company"], side_effects=True)
    assert result.ok and result.checked, result.text()
    assert server.model("scaled").statistics()["model_stats"][0]["inference_count"] == before


def test_a_model_that_its_example_names_is_there_to_be_called(load: Load, server: Server) -> None:
    source = answers("""
        inputs = [pb_utils.Tensor("X", get(request, "X"))]
        name = get(request, "MODEL")[0].decode()
        call = pb_utils.InferenceRequest(model_name=name, requested_output_names=["Y"], inputs=inputs)
        made = call.exec()
        return pb_utils.InferenceResponse(made.output_tensors(), made.error())
    """)
    config = """
        input [{ name: "MODEL" data_type: TYPE_STRING dims: [1] }, { name: "X" data_type: TYPE_FP32 dims: [1, 4] }]
        output [{ name: "Y" data_type: TYPE_FP32 dims: [1, 4] }]
    """
    load(ALL["scaled"])
    model = load(Planted("caller_of_any", config, source))
    example = {"MODEL": [b"scaled"], "X": np.float32([[1, 2, 3, 4]])}
    assert not model.check(5, relations=["answers"], side_effects=True).checked
    result = model.check(5, relations=["answers"], side_effects=True, example=example)
    assert result.ok and result.checked, result.text()


def test_what_is_wrong_only_with_other_arrays_is_a_note(load: Load) -> None:
    source = answers("""
        x = get(request, "X")
        x *= 2
        return answer(Y=np.lib.stride_tricks.as_strided(x, x.shape, np.empty(x.shape, x.dtype).strides).copy())
    """)
    model = load(Planted("layouts", VECTOR, source))
    result = model.check(SECONDS, relations=["edges"])
    assert result.ok and result.checked, result.text()
    line = 1 + Planted("layouts", VECTOR, source).text.split("\n").index("        x *= 2")
    assert f"The model writes into its input 'X' in line {line} of model.py, which Triton allows." in result.notes
    assert any("not contiguous" in note and "'X'" in note for note in result.notes)
    assert not load(ALL["scaled"]).check(SECONDS, relations=["edges"]).notes


def test_the_last_requests_are_among_those_that_are_tried(load: Load, server: Server) -> None:
    Recorder.for_instruments(server.instruments)
    model = load(Planted("pickier", VECTOR, PICKY))
    for value in (2e6, 5e6):
        model(X=np.full((1, 4), value, np.float32))
        time.sleep(0.11)  # one request in a tenth of a second is kept
    (found,) = model.check(SECONDS, relations=["company"], progress=until_found).findings
    assert found.case.kind == "state"


def test_an_ensemble_is_checked_as_one_model(load: Load) -> None:
    load(Planted("right_step", VECTOR, answers("return answer(Y=get(request, 'X') + np.float32(1))")))
    keeps = """
        last, self.last = self.last, float(get(request, "X").max())
        return answer(Y=(get(request, "X") + np.float32(last)).astype(np.float32))
    """
    load(Planted("keeping_step", VECTOR, answers(keeps, "self.last = 0.0")))
    config = (
        VECTOR.replace("dynamic_batching {}", 'platform: "ensemble"')
        + """
        ensemble_scheduling { step [
          { model_name: "right_step" model_version: -1
            input_map { key: "X" value: "X" } output_map { key: "Y" value: "between" } },
          { model_name: "SECOND" model_version: -1
            input_map { key: "X" value: "between" } output_map { key: "Y" value: "Y" } }
        ] }
        """
    )
    right = load(Planted("both_right", config.replace("SECOND", "right_step"), "")).check(5, relations=PIPELINE)
    assert right.ok and right.checked, right.text()
    wrong = load(Planted("one_keeps", config.replace("SECOND", "keeping_step"), ""))
    (found,) = wrong.check(SECONDS, relations=PIPELINE, progress=until_found).findings
    assert (found.relation, found.case.kind) == ("company", "state")
    assert "keeps something between requests" in found.sentence
    assert found.replay()


def test_a_copy_goes_on_to_batch_and_to_keep_sequences_when_its_instances_were_changed(load: Load) -> None:
    for planted in (replace(ALL["scaled"], config=ANY_SIZE.replace("dynamic_batching {}", "")), ALL["accumulator"]):
        model = load(planted)
        with open_scratch(model) as scratch:
            make_bench(scratch, model, CheckOptions(), [])
            for count in (1, 2, 1):
                scratch.start(instance_group=[{"count": count, "kind": "KIND_CPU"}])
            scratch.start()
            batching = scratch.version.config.sequence_batching
            assert scratch.batches or batching.max_sequence_idle_microseconds == 60_000_000


def test_wrong_options_are_refused(load: Load) -> None:
    model = load(ALL["scaled"])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"relations": ["compny"]}, "'compny' is not a relation; there are answers, "),
        ({"seconds": 0}, "seconds must be more than 0"),
        ({"example": {"Z": 1}}, "example names 'Z'"),
        ({"strategies": {"Z": [1]}}, "strategies name 'Z'"),
    ]
    for options, text in wrong:
        with pytest.raises(InvalidArgumentError, match=text):
            model.check(**options)


def test_it_reads_as_text_html_json_and_junit(load: Load) -> None:
    source = ALL["wrong_type"].source.replace("TritonPythonModel:", "TritonPythonModel:  # <b>&")
    result: CheckResult = load(Planted("typed", VECTOR, source)).check(SECONDS, relations=["answers"])
    assert "answers    does not hold" in result.text()
    assert result.text().startswith("Check of typed: 1 finding; ")
    facts = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert facts["findings"][0]["relation"] == "answers" and not facts["ok"]
    assert "does not hold" in result.html() and "FP64" in result.html()
    root = ElementTree.fromstring(junit_xml([("typed", result), ("other", "it does not load")]))
    assert [case.find("failure") is not None for case in root.iter("testcase")] == [True, False]
    assert root.find(".//error").get("message") == "it does not load"  # type: ignore[union-attr]


def test_planted_models_are_python() -> None:
    for planted in ALL.values():
        compile(planted.text, planted.name, "exec")
    assert HEAD
