"""Strategies for requests, and values drawn from what an author gives."""

from __future__ import annotations

import builtins
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.check.planted import SEQUENCE, TEXT, VECTOR
from tritonlab.core.status import InvalidArgumentError
from tritonlab.testing import build_request, requests_for
from tritonlab.tools.check.strategies import drawing

MIXED = """
max_batch_size: 4
input [
  { name: "A" data_type: TYPE_FP16 dims: [-1, 2] },
  { name: "B" data_type: TYPE_UINT8 dims: [-1] },
  { name: "C" data_type: TYPE_BOOL dims: [1] optional: true },
  { name: "D" data_type: TYPE_STRING dims: [2] }
]
"""


@settings(max_examples=30)
@given(requests_for(MIXED))
def test_requests_have_the_shapes_and_datatypes_of_the_config(inputs: dict[str, Any]) -> None:
    rows, size = inputs["B"].shape
    assert 1 <= rows <= 4
    assert inputs["A"].shape == (rows, size, 2) and inputs["A"].dtype == np.float16
    assert inputs["B"].dtype == np.uint8
    assert inputs["D"].shape == (rows, 2) and all(isinstance(text, bytes) for text in inputs["D"].flat)
    if "C" in inputs:
        assert inputs["C"].dtype == bool
    build_request(inputs)


@settings(max_examples=10)
@given(requests_for(VECTOR, rows=2, X=st.just(np.zeros((2, 4), np.float32))))
def test_an_input_may_have_values_of_its_own(inputs: dict[str, Any]) -> None:
    assert not inputs["X"].any()


def test_an_input_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'Z' is not an input of the model; it has TEXT"):
        requests_for(TEXT, Z=st.just(1))


def test_without_hypothesis_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name == "hypothesis":
            raise ModuleNotFoundError(name=name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert builtins is not None
    with pytest.raises(ImportError, match=r"requests_for needs hypothesis, .*pip install 'tritonlab\[check\]'"):
        requests_for(SEQUENCE)


def test_values_are_drawn_the_same_for_the_same_seed() -> None:
    def drawn(seed: int) -> list[Any]:
        draw = drawing({"X": st.integers(0, 10**6)}, seed)["X"]
        return [draw() for _ in range(20)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_lists_and_functions_are_drawn_from() -> None:
    draws = drawing({"X": ["a", "b"], "Y": lambda random: int(random.integers(5, 6))}, 0)
    assert [draws["X"](), draws["X"](), draws["X"](), draws["Y"]()] == ["a", "b", "a", 5]
    with pytest.raises(InvalidArgumentError, match="strategies\\['X'\\] is of type int"):
        drawing({"X": 3}, 0)
