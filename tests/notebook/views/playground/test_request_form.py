"""The fields of a request, without a frontend and without a server."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from tests.notebook.views.playground.test_pictures import png
from tritonlab.core.config.model_config import parse_pbtxt, to_dict
from tritonlab.notebook.views.playground.input_files import InputFile
from tritonlab.notebook.views.playground.input_row import MOST_EDITED
from tritonlab.notebook.views.playground.input_values import ValueProblem
from tritonlab.notebook.views.playground.request_form import RequestForm

CONFIG = """
name: "m" backend: "python" max_batch_size: 8
input [{ name: "A" data_type: TYPE_FP32 dims: [2] }, { name: "B" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "X" data_type: TYPE_FP32 dims: [2] }, { name: "Y" data_type: TYPE_FP32 dims: [2] }]
"""


def made(config: str = CONFIG) -> RequestForm:
    return RequestForm(to_dict(parse_pbtxt(config, "config.pbtxt")))


@pytest.fixture
def form() -> RequestForm:
    return made()


def sent(form: RequestForm, count: int = 1, **arrays: Any) -> list[Any]:
    return list(form.requests(count, arrays, {}))


def test_random_values_are_displayed_before_they_are_sent(form: RequestForm) -> None:
    text = form.inputs["A"].text.value
    assert text.startswith("[[0.")
    (request,) = sent(form)
    assert request["inputs"]["A"].tolist() == np.array(eval(text), np.float32).tolist()
    assert request["inputs"]["A"].dtype == np.float32
    assert sent(form)[0]["inputs"]["A"].tolist() == request["inputs"]["A"].tolist()


def test_the_seed_decides_them(form: RequestForm) -> None:
    first = form.inputs["A"].text.value
    form.new_button.click()
    assert form.seed.value == 1 and form.inputs["A"].text.value != first
    form.seed.value = 0
    assert form.inputs["A"].text.value == first
    several = [request["inputs"]["A"].tolist() for request in sent(form, 3)]
    assert several[0] == np.array(eval(first), np.float32).tolist()
    assert len(set(map(str, several))) == 3
    assert several == [request["inputs"]["A"].tolist() for request in sent(form, 3)]


def test_two_inputs_do_not_get_the_same_values() -> None:
    form = made(CONFIG.replace("TYPE_INT32 dims: [-1]", "TYPE_FP32 dims: [2]"))
    assert form.inputs["A"].text.value != form.inputs["B"].text.value


def test_who_edits_random_values_types(form: RequestForm) -> None:
    row = form.inputs["A"]
    text = row.text.value
    row.text.value = "7, 8"
    assert row.mode.value == "Typed"
    assert sent(form)[0]["inputs"]["A"].tolist() == [[7, 8]]
    row.mode.value = "Random"
    assert row.text.value == text
    row.mode.value = "Typed"
    assert row.text.value == "7, 8"


def test_typing_starts_from_the_random_values(form: RequestForm) -> None:
    row = form.inputs["A"]
    text = row.text.value
    row.mode.value = "Typed"
    assert row.text.value == text
    row.mode.value = "Python"
    assert row.text.value == ""


def test_too_many_to_edit_are_summed_up(form: RequestForm) -> None:
    row = form.inputs["B"]
    row.sizes[0].value = MOST_EDITED
    assert row.text.layout.display == "" and row.text.value.count(",") == MOST_EDITED - 1
    row.sizes[0].value = MOST_EDITED + 1
    assert row.text.layout.display == "none" and f"{MOST_EDITED + 1} random values" in row.note.value
    assert row.mode.value == "Random"
    assert sent(form)[0]["inputs"]["B"].shape == (1, MOST_EDITED + 1)


def test_typed_rows_set_the_batch_size(form: RequestForm) -> None:
    form.inputs["A"].text.value = "1, 2\n3, 4\n5, 6"
    assert form.batch.value == 3
    assert form.inputs["B"].text.value.count("\n") == 2
    (request,) = sent(form)
    assert request["inputs"]["A"].shape == (3, 2) and request["inputs"]["B"].shape == (3, 1)
    form.inputs["A"].text.value = "1, 2"
    assert form.batch.value == 1  # nobody chose another
    assert sent(form)[0]["inputs"]["A"].tolist() == [[1, 2]]
    form.batch.value = 2
    assert sent(form)[0]["inputs"]["A"].tolist() == [[1, 2]] * 2  # one row goes to each of the batch
    form.inputs["A"].text.value = "1, 2\n3, 4\n5, 6"
    assert form.batch.value == 3
    form.inputs["A"].text.value = "7, 8"
    assert form.batch.value == 2


def test_lines_of_text_are_rows() -> None:
    output = 'output { name: "Y" data_type: TYPE_FP32 dims: [1] }'
    form = made('max_batch_size: 8 input { name: "T" data_type: TYPE_STRING dims: [1] } ' + output)
    row = form.inputs["T"]
    row.mode.value = "Typed"
    assert row.text.placeholder == "a text or ['a', 'b']" and "an element on each line" in row.text.tooltip
    row.text.value = "one\n two\n"
    assert form.batch.value == 2 and "2 elements, one on each line" in row.note.value
    assert sent(form)[0]["inputs"]["T"].tolist() == [["one"], [" two"]]
    row.text.value = "'one\\ntwo'"
    assert form.batch.value == 1 and sent(form)[0]["inputs"]["T"].tolist() == [["one\ntwo"]]
    row.text.value = '{"a":\n 1}'
    assert sent(form)[0]["inputs"]["T"].tolist() == [['{"a":\n 1}']]


def test_an_expression_brings_its_rows(form: RequestForm) -> None:
    form.inputs["A"].mode.value = "Python"
    form.inputs["A"].text.value = "images[:5]"
    (request,) = form.requests(1, {}, {"images": np.ones((9, 2), np.float32)})
    assert request["inputs"]["A"].shape == (5, 2) and request["inputs"]["B"].shape == (5, 1)


def chosen(name: str, content: bytes) -> dict[str, Any]:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return {"name": name, "type": "", "size": len(content), "content": memoryview(content), "last_modified": when}


def test_files_are_displayed_and_sent() -> None:
    form = made(CONFIG.replace("TYPE_FP32 dims: [2] }, {", "TYPE_UINT8 dims: [-1, -1, 3] }, {", 1))
    row = form.inputs["A"]
    row.mode.value = "File"
    assert row.upload.layout.display == "" and row.text.layout.display == "none"
    row.upload.value = [chosen(name, png(30, 20)) for name in ("cat.png", "dog.png")]
    assert "cat.png, dog.png: UINT8 [2, 20, 30, 3]" in row.note.value and row.note.value.count("<img") == 2
    (request,) = sent(form)
    assert request["inputs"]["A"].shape == (2, 20, 30, 3) and request["inputs"]["B"].shape == (2, 1)
    row.upload.value = [chosen("a.bin", b"abc")]
    assert "a.bin: not a picture" in row.note.value


def test_all_else_that_a_client_can_say(form: RequestForm) -> None:
    assert sent(form)[0]["requested_outputs"] == []
    form.request_id.value = " mine "
    form.correlation_id.value = "42"
    form.start.value, form.end.value = True, True
    form.priority.value, form.timeout.value = 2, 3000
    form.parameters.value = '{"flag": true}'
    form.outputs["X"].value = False
    (request,) = sent(form)
    del request["inputs"]
    assert request == {
        "request_id": "mine",
        "correlation_id": 42,
        "flags": 3,
        "priority": 2,
        "timeout": 3000,
        "parameters": {"flag": True},
        "requested_outputs": ["Y"],
    }
    form.correlation_id.value = "session-1"
    assert sent(form)[0]["correlation_id"] == "session-1"
    for nonsense in ("nonsense", "{[1]: 2}", "[" * 5000):
        form.parameters.value = nonsense
        with pytest.raises(ValueProblem, match=re.escape(f"parameters: '{nonsense}' is not a dict")):
            sent(form)


def test_another_form_takes_the_values_of_the_fields_that_it_has(form: RequestForm) -> None:
    form.seed.value = 3
    form.request_id.value = "mine"
    form.outputs["Y"].value = False
    form.inputs["B"].drop([InputFile("b.csv", b"4, 5")])
    other = made(CONFIG.replace("[{", '[{ name: "NEW" data_type: TYPE_FP32 dims: [2] }, {', 1))
    other.take_over(form)
    assert (other.seed.value, other.request_id.value, other.requested_outputs) == (3, "mine", ["X"])
    assert other.inputs["A"].mode.value == "Random"  # its values are those of another place
    assert sent(other)[0]["inputs"]["B"].tolist() == [[4, 5]]


def test_a_sequence_model_gets_one_whole_sequence_at_first() -> None:
    form = made(CONFIG + "sequence_batching {}")
    (request,) = sent(form)
    assert (request["correlation_id"], request["flags"]) == (1, 3)
    plain = made()
    assert (sent(plain)[0]["correlation_id"], sent(plain)[0]["flags"]) == (0, 0)


def test_every_field_has_a_label(form: RequestForm) -> None:
    fields = form.fields
    assert all(field.description for field in fields)
    assert len({field.description for field in fields}) == len(fields)
