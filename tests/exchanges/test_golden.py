"""Cases that are recorded, sent again and reported, without any server."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError, NotFoundError
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet, golden_directory, junit_xml


def request(array: Any = (1, 2), **more: Any) -> InferenceRequest:
    return InferenceRequest("m", {"IN": Tensor.from_numpy(np.asarray(array))}, **more)


def answered(sent: InferenceRequest, factor: float = 2, error: str = "") -> Exchange:
    if error:
        return Exchange(sent, error=InvalidArgumentError(error))
    array = sent.inputs["IN"].numpy()
    outputs = {"OUT": Tensor.from_numpy(array if array.dtype == object else array * array.dtype.type(factor))}
    return Exchange(sent, arrivals_of([outputs]))


@pytest.fixture
def golden(tmp_path: Path) -> GoldenSet:
    return GoldenSet(tmp_path / "book.golden")


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.1, 1e-20, np.nan, -np.inf], np.float32),
        np.array([1 / 3]),
        np.array([0.1], np.float16),
        np.array([[2**64 - 1]], np.uint64),
        np.array([b"text", "é".encode(), b"\xff\x00", b""], dtype=object),
        np.arange(1000, dtype=np.int16),
        np.array([b"\x00long"] * 100, dtype=object),
        np.zeros((0, 3), np.float32),
    ],
)
def test_what_is_kept_is_what_was_sent(golden: GoldenSet, array: Any) -> None:
    sent = request(array, request_id="r", parameters={"a": 1}, requested_outputs=["OUT"], correlation_id=3, flags=3)
    path = golden.add(answered(sent, factor=1))
    (case,) = golden.cases()
    tensor = case.request.inputs["IN"]
    assert tensor.datatype is sent.inputs["IN"].datatype and tensor.shape == array.shape
    assert tensor.data.tobytes() == sent.inputs["IN"].data.tobytes()
    assert case.request.parameters == {"a": 1} and case.request.flags == 3
    assert path.with_suffix(".npz").exists() == (array.size > 64)
    assert golden.check(lambda again: answered(again, 1)).passed


def test_nothing_has_passed_where_nothing_is_kept(golden: GoldenSet) -> None:
    report = golden.check(lambda again: answered(again, 1))
    assert not report.passed and report.verdict == "golden: nothing is kept"


CONFUSABLE = ("a", "a.npy", "a.npy.npy", "a\0", "a\0b", "a b", "a%20b", "../a", "\ud800")


@pytest.mark.parametrize("length", [1, 100])
def test_tensors_with_similar_names_are_not_confused(golden: GoldenSet, length: int) -> None:
    tensors = {name: Tensor.from_numpy(np.full(length, number)) for number, name in enumerate(CONFUSABLE)}
    golden.add(Exchange(InferenceRequest("m", tensors), arrivals_of([tensors])))
    (case,) = golden.cases()
    for found in (case.request.inputs, case.answers()[0].outputs):
        assert {name: tensor.numpy().tolist() for name, tensor in found.items()} == {
            name: [number] * length for number, name in enumerate(CONFUSABLE)
        }


def test_an_array_under_the_name_of_its_tensor_is_read_as_earlier_versions_wrote_it(golden: GoldenSet) -> None:
    arrays = {name: np.full(100, number) for number, name in enumerate(["a b", "a", "a.npy"])}
    sent = InferenceRequest("m", {name: Tensor.from_numpy(array) for name, array in arrays.items()})
    path = golden.add(Exchange(sent, arrivals_of([{"OUT": Tensor.from_numpy(np.zeros(1))}]))).with_suffix(".npz")
    np.savez(path, **{f"input.{name}": array for name, array in arrays.items()})
    (case,) = golden.cases()
    assert [tensor.numpy()[0] for tensor in case.request.inputs.values()] == [0, 1, 2]


def test_bf16_is_kept_too(golden: GoldenSet) -> None:
    bits = Tensor(DataType.BF16, (2,), np.array([0x3FC0, 0x4000], np.uint16))
    sent = InferenceRequest("m", {"IN": bits})
    golden.add(Exchange(sent, arrivals_of([{"OUT": bits}])))
    (case,) = golden.cases("m")
    assert case.request.inputs["IN"].data.tolist() == [0x3FC0, 0x4000]


def test_a_diff_shows_the_values(golden: GoldenSet) -> None:
    path = golden.add(answered(request(np.array([[1.5, 2]], np.float32))), "pair")
    assert path.name == "pair.json"
    document = json.loads(path.read_text())
    assert document == {
        "model": "m",
        "request": {"inputs": {"IN": {"datatype": "FP32", "shape": [1, 2], "values": [1.5, 2.0]}}},
        "answers": [{"OUT": {"datatype": "FP32", "shape": [1, 2], "values": [3.0, 4.0]}}],
    }


def test_the_verdict_is_one_line_and_the_first_failure_is_printed(golden: GoldenSet) -> None:
    for n in range(3):
        golden.add(answered(request(np.array([n, 1], np.float32))))
    assert golden.check(answered).verdict == "golden: 3 of 3 answers are the same"
    report = golden.check(lambda again: answered(again, 3))
    assert str(report) == (
        "golden: 0 of 3 answers are the same; different: m/001, m/002, m/003\n"
        "m/001: different\nOUT: differs, largest difference 1 (0.33 relative), first at [1]"
    )
    assert not report.passed and report.to_dict()["results"][2]["name"] == "003"
    assert golden.check(answered, "other").verdict == "golden: nothing is kept"
    assert "3 not sent: out of time" in golden.check(answered, seconds=-1).verdict


def test_errors_are_answers_if_they_are_expected(golden: GoldenSet) -> None:
    with pytest.raises(ValueError, match="nothing was kept: the answer is an error: no such thing"):
        golden.add(answered(request(), error="no such thing"))
    assert not golden.cases()
    golden.add(answered(request(), error="no such thing"), error=True)
    assert golden.check(lambda again: answered(again, error="no such thing\n")).passed
    assert "errors: no such thing | none" in str(golden.check(answered))

    def gone(again: InferenceRequest) -> Exchange:
        raise NotFoundError("the model is gone")

    assert "m/001: the model is gone" in str(golden.check(gone))
    with pytest.raises(ValueError, match="the model is gone"):
        golden.update(gone)


def test_an_update_keeps_what_is_answered_now(golden: GoldenSet) -> None:
    golden.add(answered(request(np.arange(100.0))))
    unchanged = golden.add(answered(request(np.array([0.0])), factor=3))
    before = unchanged.stat().st_mtime_ns
    assert [path.stem for path in golden.update(lambda again: answered(again, 3))] == ["001"]
    assert golden.check(lambda again: answered(again, 3)).passed
    assert unchanged.stat().st_mtime_ns == before


def test_names(golden: GoldenSet) -> None:
    golden.add(answered(request()), "a")
    with pytest.raises(FileExistsError, match="golden update renews"):
        golden.add(answered(request()), "a")
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        golden.add(answered(request()), "../a")
    with pytest.raises(ValueError, match="without an answer"):
        golden.add(Exchange(request()))
    (golden.directory / "m" / "broken.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"broken\.json is not a golden case: KeyError.*; it was left out"):
        assert [case.name for case in golden.cases()] == ["a"]
    results = golden.check(lambda sent: answered(sent)).results
    assert [(result.case.name, result.passed) for result in results] == [("a", True), ("broken", False)]
    assert "broken.json is not a golden case" in str(results[1])


def test_it_lies_beside_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert golden_directory() == Path("notebook.golden")
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "book.ipynb"))
    assert golden_directory() == tmp_path / "book.golden"
    monkeypatch.setenv("JPY_SESSION_NAME", "/nowhere/else/book.ipynb")
    assert golden_directory() == Path("book.golden")
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "other.ipynb"))
    assert golden_directory() == tmp_path / "other.golden"


def test_junit(golden: GoldenSet) -> None:
    golden.add(answered(request(np.array([1.0]))), "good")
    golden.add(answered(request(np.array([1.0])), factor=3), "bad")
    suites = [("book.ipynb", golden.check(answered).to_dict()), ("other", "cell\nfailed")]
    root = ElementTree.fromstring(junit_xml(suites))
    first, second = root
    assert (first.get("tests"), first.get("failures"), first.get("errors")) == ("2", "1", "0")
    failure = first.find("testcase[@name='bad']/failure")
    assert failure is not None and failure.get("message") == "m/bad: different"
    error = second.find("testcase/error")
    assert second.get("errors") == "1" and error is not None and error.get("message") == "failed"


def test_names_that_xml_cannot_hold_are_readable() -> None:
    root = ElementTree.fromstring(junit_xml([("a\0<b>\x1b", "it\0 failed")]))
    assert root[0].get("name") == "a\ufffd<b>\ufffd" and root[0][0][0].text == "it\ufffd failed"


def test_a_model_whose_name_has_brackets(golden: GoldenSet) -> None:
    for name in ("m[1]", "m1"):
        golden.add(answered(InferenceRequest(name, request().inputs)))
    assert [case.model for case in golden.cases("m[1]")] == ["m[1]"]


def test_a_case_without_its_large_tensors_says_so(golden: GoldenSet) -> None:
    golden.add(answered(request(np.arange(1000)))).with_suffix(".npz").unlink()
    with pytest.warns(UserWarning, match=r"the \.npz file of that name has no values of 'OUT'"):
        assert golden.cases() == []
