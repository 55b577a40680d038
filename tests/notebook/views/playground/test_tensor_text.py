"""Tensors as a person reads them: documents as such, large ones as a line and a curve, never all their elements."""

from __future__ import annotations

import json
from typing import Any

import comm
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models import IDENTITY
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.short_number import size_text
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.playground.input_values import InputSpec, python_value, typed_value
from tritonlab.notebook.views.playground.playground import Playground
from tritonlab.notebook.views.playground.tensor_text import curve_html, facts_text, json_note, json_texts


def tensor(array: NDArray[Any]) -> Tensor:
    return Tensor.from_numpy(array)


def test_facts() -> None:
    assert facts_text(tensor(np.zeros(4))) == ""
    assert facts_text(tensor(np.arange(100.0))) == "100 elements, 800 bytes, 0 to 99, mean 49.5"
    odd = np.where(np.arange(100) < 2, np.nan, 1).astype(np.float32)
    assert facts_text(tensor(odd)) == "100 elements, 400 bytes, 1 to 1, mean 1, 2 of them not finite"
    assert facts_text(tensor(np.array([b"x"] * 100, object))) == "100 elements, 500 bytes"
    assert facts_text(Tensor(DataType.BF16, (100,), np.full(100, 0x3F80, np.uint16))).endswith("1 to 1, mean 1")
    assert size_text(1_070_000_000) == "1.07 GB"
    assert size_text(999_600) == "1,000 kB"


def test_rows_of_numbers_are_curves() -> None:
    assert curve_html("OUT", tensor(np.arange(10.0))) == ""
    assert curve_html("OUT", tensor(np.zeros((20, 20)))) == ""
    assert curve_html("OUT", tensor(np.full(50, np.nan))) == ""
    assert curve_html("OUT", tensor(np.zeros(50, np.bool_))) == ""
    html = curve_html("OUT<", tensor(np.arange(50.0)[None]))
    assert html.count("<polyline") == 1 and "OUT&lt;: 50 values from 0 to 49" in html
    assert curve_html("OUT", tensor(np.random.default_rng(0).random((3, 100_000)))).count("<polyline") == 3


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of each message to the browser."""
    sizes: list[int] = []

    def publish(
        self: Any, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        sizes.append(len(json.dumps(data, default=str)) + sum(len(memoryview(part)) for part in buffers or ()))

    monkeypatch.setattr(comm.DummyComm, "publish_msg", publish)
    return sizes


def test_a_gigabyte_stays_in_the_kernel(workspace: Workspace, sent: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    playground = Playground(workspace.load("m", IDENTITY, options=ConfigOptions.from_keywords(inputs="IN:FP32[-1]")))
    count = 1 << 28
    row = playground.inputs["IN"]
    row.sizes[0].value = count  # random values, which nobody makes before they are sent
    assert "268,435,456 random values" in row.note.value
    sent.clear()
    zeros = np.zeros(count, np.float32)  # no memory until it is written to
    outputs = {"OUT": tensor(zeros), "TEXT": Tensor(DataType.BYTES, (1 << 26,), np.zeros(1 << 28, np.uint8))}
    response = InferenceResponse(outputs=outputs)
    outcome = Exchange(InferenceRequest("m", {"IN": tensor(zeros)}), (Arrival(response, 1000),))
    sending = "tritonlab.notebook.views.playground.playground.Sending"
    monkeypatch.setattr(sending, lambda model, requests: Answered(outcome))
    playground.inputs["IN"].mode.value = "Python"
    playground.inputs["IN"].text.value = "numpy.zeros(1, 'float32')"
    with monkeypatch.context() as patch:
        patch.setattr("tritonlab.notebook.views.playground.playground.user_namespace", lambda: {"numpy": np})
        assert playground.send() is outcome
    assert "268,435,456 elements, 1.07 GB, 0 to 0, mean 0 (of" in playground.result.value
    assert "67,108,864 elements" in playground.result.value
    assert sent and max(sent) < 100_000  # their number is that of the steps of a slow machine
    assert sum(sent) < 4_000_000
    assert playground.history.outcomes == []  # too large to be kept
    assert len(repr(playground)) < 5_000 and len(json.dumps(playground.to_dict())) < 10_000


class Answered:
    """A request that was sent and answered."""

    finished, cancelled, waited = True, False, 0.0

    def __init__(self, outcome: Exchange) -> None:
        self._outcome = outcome

    def start(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def outcomes(self) -> list[Exchange]:
        return [self._outcome]


SPEC = InputSpec("DOC", DataType.BYTES, (1,), max_batch_size=8)


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"a": null, "b": true}', '[{"a": 1}, {"b": 2}]', '{"a":\n  [1, 2]}', "[1, 2]", "[[1], null]"]
)
def test_a_typed_document_is_one_element(text: str) -> None:
    assert typed_value(SPEC, text, (1, 1)).tolist() == [[text]]


def test_lists_of_text_are_elements_still() -> None:
    assert typed_value(SPEC, '["a", "b"]', (1, 1)).tolist() == [["a"], ["b"]]


def test_a_dict_of_the_notebook_is_its_json() -> None:
    value = python_value(SPEC, "{'a': [1, None]}", {})
    assert value.shape == (1, 1) and json.loads(value[0, 0]) == {"a": [1, None]}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{"a": 1}', "a JSON object with 1 key"),
        ('[{"a": 1}]', "a JSON list of 1"),
        ('{"a": 1,}', "not JSON: "),
        ("{'a': 1}", "in line 1, column 2"),
        ("alpha", ""),
        ('["a"]', ""),
        ("[not closed", ""),
    ],
)
def test_the_form_says_what_was_typed(text: str, note: str) -> None:
    assert (note in json_note(text)) if note else json_note(text) == ""


def texts_of(*elements: Any) -> list[str]:
    return json_texts(Tensor.from_numpy(np.array(elements, dtype=object)))


def test_documents_are_indented_and_other_text_is_left_alone() -> None:
    assert texts_of(b'{"a": [1], "b": "\xc3\xa4"}') == ['{\n  "a": [\n    1\n  ],\n  "b": "ä"\n}']
    assert texts_of(b'{"a": 1}', b"text") == [] and texts_of(b"17") == [] and texts_of(b"{") == []
    assert texts_of(*[b"[]"] * 6)[-1] == "… and 2 more"
    assert texts_of(b"[" * 100_000) == []
    assert len(texts_of(json.dumps(["x" * 50_000]).encode())[0]) < 10_000
