"""Files that version 0.1.0 kept of requests and their answers. They are still read, and still written byte for byte."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.backends.elsewhere.tritonlab_recordings import RawTensor, Recordings, Response, key_of
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.observe.failure_capsule import FailureCapsule
from tritonlab.core.status import TritonError
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.exchange_file import write_exchange
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.tools.check.check_finding import read_from, write_to

KEPT = Path(__file__).with_name("kept_files")
TEXTS = np.array([b"text", "é".encode(), b"\xff\x00", b""], dtype=object)
NUMBERS = {
    "FLOATS": Tensor.from_numpy(np.float32([[0.1, 1e-20], [np.nan, -np.inf]])),
    "HALVES": Tensor.from_numpy(np.float16([0.1])),
    "BITS": Tensor(DataType.BF16, (2,), np.array([0x3FC0, 0x7F80], np.uint16)),
    "WHOLE": Tensor.from_numpy(np.array([[2**64 - 1]], np.uint64)),
    "FLAGS": Tensor.from_numpy(np.array([True, False])),
    "TEXTS": Tensor.from_numpy(TEXTS),
    "NONE": Tensor.from_numpy(np.zeros((0, 3), np.float32)),
}
LARGE = {"IN": Tensor.from_numpy(np.arange(1000, dtype=np.int16).reshape(10, 100))}
FIELDS: dict[str, Any] = {
    "request_id": "r",
    "correlation_id": "s",
    "flags": 3,
    "priority": 2,
    "timeout": 5,
    "parameters": {"a": 1, "b": "é", "c": True, "d": 0.5},
    "requested_outputs": ["OUT"],
}
LONG = {"OUT": Tensor.from_numpy(np.array([b"\x00long"] * 100, dtype=object))}
ONE = {"OUT": Tensor.from_numpy(np.float32([1.5]))}
CASES = [
    Exchange(InferenceRequest("m", NUMBERS, **FIELDS), arrivals_of([NUMBERS]), name="all"),
    Exchange(InferenceRequest("m", LARGE), error=TritonError("it failed:\n  é"), name="error", source="last requests"),
    Exchange(InferenceRequest("m", LARGE), arrivals_of([LONG]), name="large"),
    Exchange(InferenceRequest("m", {}), arrivals_of([ONE, ONE]), TritonError("no more"), name="stream"),
    Exchange(InferenceRequest("m", {}, request_id="x"), name="unanswered", unanswered="it was too large"),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_golden_cases_are_read_and_written(case: Exchange, tmp_path: Path) -> None:
    (found,) = [each for each in GoldenSet(KEPT / "golden").cases() if each.name == case.name]
    for each in (found, case):
        write_exchange(each, tmp_path)
        kept = (KEPT / "golden" / "m" / f"{case.name}.json").read_bytes()
        assert (tmp_path / "m" / f"{case.name}.json").read_bytes() == kept
    assert found.unanswered == case.unanswered and found.source == case.source
    for name, tensor in case.request.inputs.items():
        one = found.request.inputs[name]
        assert (one.datatype, one.shape, one.data.tobytes()) == (tensor.datatype, tensor.shape, tensor.data.tobytes())


def test_cases_of_a_check_are_read_and_written(tmp_path: Path) -> None:
    case = read_from(KEPT / "check.case")
    assert (case.relation, case.kind, case.order, case.facts) == ("company", "state", (0, 1, 0), {"rows": 2})
    assert [one.fields for one in case.samples] == [{}, {"parameters": {"a": 1}}]
    assert [one.inputs["IN"].numpy().tolist() for one in case.samples] == [[[1.0]], [[2.0]]]
    write_to(case, tmp_path)
    for kept in (KEPT / "check.case").rglob("*.json"):
        assert (tmp_path / kept.relative_to(KEPT / "check.case")).read_bytes() == kept.read_bytes()


def test_recordings_of_models_elsewhere_are_read() -> None:
    recordings = Recordings(str(KEPT / "recordings"), "m")
    inputs = [RawTensor("X", "FP32", (2,), np.float32([1, 2]).tobytes()), RawTensor("A", "BYTES", (1,), b"\1\0\0\0x")]
    answer = Response([RawTensor("Y", "INT64", (1,), np.int64([7]).tobytes())], {"n": 1, "s": "t"})
    assert recordings.find(key_of(inputs)) == [answer, Response(error="no", code="INTERNAL")]
    assert recordings.find(key_of(inputs, "start")) == []
    assert recordings.config() == {"name": "m", "max_batch_size": 0}
    near = [inputs[0]._replace(data=np.float32([1, 3]).tobytes()), inputs[1]]
    assert recordings.nearest(near).endswith("differs in X: 1 of 2 elements, by up to 1")


def test_a_failure_that_was_pickled_is_read() -> None:
    capsule = pickle.loads((KEPT / "failure.pickle").read_bytes())
    assert isinstance(capsule, FailureCapsule)
    expected = json.loads((KEPT / "failure.json").read_text())
    assert json.loads(json.dumps(capsule.to_dict())) == expected
