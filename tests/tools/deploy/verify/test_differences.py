from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import Code, TritonError
from tritonlab.exchanges.exchange import Arrival, Exchange, arrivals_of
from tritonlab.tools.deploy.verify.differences import compare_exchanges, document_differences

PLACES = ("/here", "/mnt/models")


def answer(*values: float, times: int = 1) -> Exchange:
    tensor = Tensor(DataType.FP32, (len(values),), np.array(values, np.float32))
    return Exchange(InferenceRequest("m", {}), arrivals_of([{"OUT": tensor}] * times))


def error(code: Code, text: str, after: Exchange | None = None) -> Exchange:
    """Return an error, as the end of the stream `after`."""
    failed = TritonError.from_code(code, text)
    before = (*after.arrivals, Arrival(InferenceResponse(error=failed))) if after else ()
    return Exchange(InferenceRequest("m", {}), before, failed)


CUT = error(Code.INTERNAL, "no", after=answer(1, times=2))


def symbols(ours: Exchange, theirs: Exchange, release: str = "2.51") -> list[tuple[str, bool]]:
    differences = compare_exchanges(ours, theirs, release, places=PLACES)
    return [(found.symbol, bool(found.known)) for found in differences]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (answer(1, 2), answer(1, 2), []),
        (answer(float("nan")), answer(float("nan")), []),
        (answer(1), answer(1.0000001), [("~", False)]),
        (answer(1), answer(2), [("D", False)]),
        (answer(1), answer(1, 1), [("D", False)]),
        (answer(1, times=2), answer(1), [("D", False)]),
        (answer(1), error(Code.INTERNAL, "no"), [("D", False)]),
        (error(Code.INTERNAL, "at /here/m"), error(Code.INTERNAL, "at /mnt/models/m"), []),
        (error(Code.INTERNAL, "model 'm_0_1', message: no"), error(Code.INTERNAL, "model 'm_0_0', message: no"), []),
        (error(Code.INTERNAL, "no\n\nour advice"), error(Code.INTERNAL, "no"), []),
        (error(Code.INTERNAL, "no"), error(Code.INTERNAL, "never"), [("t", False)]),
        (error(Code.NOT_FOUND, "no"), error(Code.INVALID_ARG, "no"), [("D", False)]),
        # infinity is near itself only
        (answer(1), answer(float("inf")), [("D", False)]),
        (answer(float("inf")), answer(float("inf")), []),
        # equal as numbers
        (answer(0.0), answer(-0.0), [("~", False)]),
        (answer(float("nan")), answer(-float("nan")), [("~", False)]),
        # streams that end in the same error
        (CUT, CUT, []),
        (CUT, error(Code.INTERNAL, "no", after=answer(5, times=2)), [("D", False)] * 2),
        (CUT, error(Code.INTERNAL, "no", after=answer(1)), [("D", False)]),
        # what follows the error is left out
        (CUT, replace(CUT, arrivals=(*CUT.arrivals, *answer(3).arrivals)), []),
    ],
)
def test_outcomes(ours: Exchange, theirs: Exchange, expected: list[tuple[str, bool]]) -> None:
    assert symbols(ours, theirs) == expected


def test_what_old_releases_are_known_for_is_no_fault_of_the_model() -> None:
    ours, theirs = error(Code.INTERNAL, "no"), error(Code.INTERNAL, "never")
    assert [symbols(ours, theirs, release) for release in ("2.46", "2.47")] == [[("t", True)], [("t", False)]]
    theirs = error(Code.INVALID_ARG, "no")
    assert [symbols(ours, theirs, release) for release in ("2.41", "2.42")] == [[("D", True)], [("D", False)]]


def test_a_field_that_a_release_does_not_know_is_no_difference() -> None:
    ours = {"name": "m", "new": {"a": 0, "b": []}, "list": [{"x": 1}]}
    assert list(document_differences(ours, {"name": "m", "list": [{"x": 1, "y": ""}]})) == []
    found = list(document_differences(ours, {"name": "m", "new": {"a": 1}, "list": [{"x": 2}]}))
    assert found == [("new.a", 0, 1), ("list[0].x", 1, 2)]
    assert list(document_differences({"a": True}, {"a": False})) == [("a", True, False)]


def test_a_difference_has_both_values() -> None:
    (found,) = compare_exchanges(answer(1, 2), answer(1, 5), "2.51", names=("in the notebook", "in Triton"))
    assert str(found).endswith("first at [1]: 2.0 in the notebook, 5.0 in Triton") and found.is_value
    (found,) = compare_exchanges(answer(1, 2), answer(1), "2.51", names=("in the notebook", "in Triton"))
    assert found.text == "OUT: shape [2] | [1] (in the notebook | in Triton)"
