"""A form of a hundred inputs shows a page of them, and makes no widgets for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.notebook.views.playground.input_pages import MOST_DROPPED, PAGE, InputPages
from tritonlab.notebook.views.playground.input_values import InputSpec, input_specs
from tritonlab.notebook.views.playground.request_form import RequestForm


def config(inputs: int, outputs: int = 1, batch: int = 8) -> dict[str, Any]:
    tensor = {"data_type": "TYPE_FP32", "dims": [2]}
    return {
        "max_batch_size": batch,
        "input": [{"name": f"IN{number}", **tensor} for number in range(inputs)],
        "output": [{"name": f"OUT{number}", **tensor} for number in range(outputs)],
    }


@pytest.fixture
def form() -> RequestForm:
    return RequestForm(config(100, 100))


def sent(form: RequestForm, **arrays: Any) -> dict[str, Any]:
    (fields,) = form.requests(1, arrays, {})
    return dict(fields["inputs"])


def test_only_a_page_is_made(form: RequestForm) -> None:
    pages = form.inputs
    assert len(pages) == 100 and list(pages.made) == [f"IN{number}" for number in range(PAGE)]
    assert len(pages.rows_box.children) == PAGE and "1 to 10 of 100" in pages.position.value
    values = sent(form)
    assert len(values) == 100 and values["IN99"].shape == (1, 2) and len(pages.made) == PAGE
    assert len(pages.to_dict()) == 100 and len(pages.made) == PAGE


def test_pages_are_turned_and_inputs_found(form: RequestForm) -> None:
    pages = form.inputs
    assert pages.earlier.disabled and not pages.later.disabled
    pages.later.click()
    assert "11 to 20 of 100" in pages.position.value and pages.rows_box.children[0] is pages["IN10"].box
    pages.find.value = "in9"
    assert "1 to 10 of 11" in pages.position.value and pages.rows_box.children[1] is pages["IN90"].box
    pages.later.click()
    assert "11 to 11 of 11" in pages.position.value and pages.later.disabled
    pages.find.value = "nobody"
    assert "no input has that name" in pages.position.value and pages.rows_box.children == ()


def test_a_row_sends_what_it_stands_for(form: RequestForm) -> None:
    form.seed.value, form.batch.value = 7, 3
    unseen = sent(form)
    for name in ("IN55", "IN99"):
        form.inputs[name]  # now it is made
    np.testing.assert_array_equal([sent(form)["IN55"], sent(form)["IN99"]], [unseen["IN55"], unseen["IN99"]])
    assert unseen["IN55"].shape == (3, 2) and not np.array_equal(unseen["IN55"], unseen["IN99"])
    form.inputs["IN55"].mode.value, form.inputs["IN55"].text.value = "Typed", "1, 2\n3, 4"
    assert form.batch.value == 2 and sent(form)["IN55"].tolist() == [[1, 2], [3, 4]]
    other = RequestForm(config(100, 100))
    form.chosen.value = ("OUT7",)
    other.take_over(form)
    assert other.requested_outputs == ["OUT7"]
    assert sent(other)["IN55"].tolist() == [[1, 2], [3, 4]] and len(other.inputs.made) == PAGE + 2


def test_of_many_outputs_some_can_be_chosen(form: RequestForm) -> None:
    (fields,) = form.requests(1, {}, {})
    assert fields["requested_outputs"] == [] and form.outputs == {}
    form.chosen.value = ("OUT7", "OUT70")
    (fields,) = form.requests(1, {}, {})
    assert fields["requested_outputs"] == ["OUT7", "OUT70"]


def test_an_optional_input_that_nobody_has_seen_is_left_out() -> None:
    settings = config(20)
    settings["input"][19]["optional"] = True
    form = RequestForm(settings)
    assert "IN19" not in sent(form)
    form.inputs["IN19"].sent_box.value = True
    assert "IN19" in sent(form)


def test_a_small_form_is_whole() -> None:
    pages = InputPages(input_specs(config(12)))
    assert len(pages.made) == 12 and len(pages.box.children) == 1


def test_dropped_files_fill_the_input() -> None:
    pages = InputPages(input_specs(config(3)))
    pages.drop(1, [{"name": "a.json", "size": 6}], [b"[1, 2]"])
    row = pages["IN1"]
    assert row.mode.value == "File" and row.value(1, {}).tolist() == [[1, 2]]
    assert "a.json: FP32 [1, 2]" in row.note.value and row.to_dict()["files"] == ["a.json"]
    pages.drop(2, [{"name": "b.npy", "size": MOST_DROPPED + 1}], [])
    assert "b.npy has 50 MB, more than" in pages["IN2"].note.value and pages["IN2"].mode.value == "Random"


def test_very_many_random_values_repeat() -> None:
    spec = InputSpec("IN", input_specs(config(1))[0].datatype, (-1,))
    pages = InputPages([spec])
    pages["IN"].sizes[0].value = (1 << 20) + 5
    value = pages["IN"].value(1, {})
    assert value.dtype == np.float32 and value[:5].tolist() == value[-5:].tolist()
