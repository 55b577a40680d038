"""JSON documents go into BYTES inputs as they are typed, and come out as a person reads them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.notebook.views.playground.input_values import InputSpec, python_value, typed_value
from tritonlab.notebook.views.playground.json_values import json_note, json_texts

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
