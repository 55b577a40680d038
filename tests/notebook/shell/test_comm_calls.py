"""What an editor learns about the config.pbtxt that is typed into it."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.config.load_advice import _messages
from tritonlab.notebook.authoring.config_fields import FIELDS, sentence_of
from tritonlab.notebook.shell.comm_calls import check, complete, explain

NOBODY: Any = None  # no workspace is used


@pytest.mark.parametrize(
    ("text", "line", "word", "message"),
    [
        ("max_batch_size: 8\nmax_batchsize: 9\n", 2, "max_batchsize", "Did you mean max_batch_size?"),
        ("input [ { name: 'A' data_type: TYPE_FP33 } ]", 1, "TYPE_FP33", "has no value named TYPE_FP33"),
        ("max_batch_size: -1  # rows", 1, "max_batch_size: -1", "must be non-negative"),
        ("input [ {", 1, "{", "Expected"),
        ('name: "x"\nname: "y"', 2, '"y"', 'should not have multiple "name" fields.'),
        ('name: "other"', 1, 'name: "other"', "unexpected directory name"),
    ],
)
def test_what_is_refused_has_its_place(text: str, line: int, word: str, message: str) -> None:
    (found,) = check(NOBODY, text, "m")
    assert message in found["text"]
    assert found["line"] == line
    assert text.splitlines()[line - 1][found["start"] : found["end"]] == word


def test_every_fault_is_marked_not_the_first_only() -> None:
    text = """\
max_batchsize: 9
input [
  { name: 'A' data_type: TYPE_FP33 dims: [ -1, 2 ] },  # TYPE_FP34
  { nam: "B{" data_type: TYPE_FP32 }
]
dynamic_batching { max_queue_delay: 100 preserve_ordering: true }
version_policy: { latest: { num_versions: -0.5 } }
name: "m"
name: "n"
outputs [ { name: "C" } ]
"""
    found = check(NOBODY, text, "m")
    lines = text.splitlines()
    marked = [(each["line"], lines[each["line"] - 1][each["start"] : each["end"]]) for each in found]
    assert marked == [
        (1, "max_batchsize"),
        (3, "TYPE_FP33"),
        (4, "nam"),
        (6, "max_queue_delay"),
        (7, "-0.5"),
        (9, '"n"'),
        (10, "outputs"),
    ]
    assert "Did you mean max_batch_size?" in found[0]["text"]
    # the last one is of the bracket that is missing
    assert [each["line"] for each in check(NOBODY, "max_batchsize: 9\ninput [ {\nnam: 3", "m")] == [1, 3, 2]


def test_what_is_right_has_no_faults() -> None:
    assert check(NOBODY, "max_batch_size: 8", "m") == []
    assert check(NOBODY, "", "m") == []
    assert check(NOBODY, 'name: "any"') == []  # a file that is not yet in a directory of that name


@pytest.mark.parametrize(
    ("text", "field", "type_", "says"),
    [
        ("max_batch_size", "max_batch_size", "integer", "rows an execution"),
        ("input [ { data_type", "data_type", "TYPE_BOOL or", "type of its elements"),
        ("dynamic_batching { preferred_batch_size", "preferred_batch_size", "integer, repeated", "closes at once"),
        ("parameters { key: 'a' value { string_value", "string_value", "text", "always text"),
        ("parameters { key", "key", "text", "entry's name"),
        ("parameters", "parameters", "map", "args['model_config']"),
    ],
)
def test_a_field_says_what_it_is_for(text: str, field: str, type_: str, says: str) -> None:
    found = explain(NOBODY, text)
    assert found["field"] == field
    assert type_ in found["type"]
    assert says in found["says"]


@pytest.mark.parametrize("text", ["", "nonsense", "# max_batch_size", 'name: "max_batch_size', "backend: python"])
def test_what_is_no_field_is_not_explained(text: str) -> None:
    assert explain(NOBODY, text)["says"] == ""


def test_every_field_of_tritons_has_a_sentence_and_no_other() -> None:
    known = {message.name: message for message in _messages() if message.fields and not message.GetOptions().map_entry}
    for message in known.values():
        assert set(FIELDS[message.name]) == {field.name for field in message.fields}
        assert all(sentence_of(message, field.name).endswith(".") for field in message.fields)
    assert set(FIELDS) == set(known)


class Models:
    def names(self) -> list[str]:
        return ["embed", "emit", "rank"]


@pytest.mark.parametrize(
    ("text", "typed", "words"),
    [
        ("max_b", "max_b", ["max_batch_size: "]),
        ("input [ { data_type: TYPE_FP", "TYPE_FP", ["TYPE_FP16", "TYPE_FP32", "TYPE_FP64"]),
        ('ensemble_scheduling { step [ { model_name: "em', "em", ["embed", "emit"]),
        ('ensemble_scheduling { step [ { model_name: "', "", ["embed", "emit", "rank"]),
        ('name: "max_b', "", []),
        ("# max_b", "", []),
    ],
)
def test_what_may_be_typed_next(text: str, typed: str, words: list[str]) -> None:
    models: Any = Models()
    assert complete(models, text) == {"typed": typed, "words": words}
