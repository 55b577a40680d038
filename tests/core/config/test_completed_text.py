from __future__ import annotations

import pytest

from tritonlab.core.config.completed_text import ADDED, completed_text
from tritonlab.core.config.model_config import ConfigError, parse_pbtxt

TEXT = """\
# What it is for, and who asked for it.
name: "m"   # as the directory
max_batch_size: 8

input [ { name: "A", data_type: TYPE_FP32, dims: [ 4 ] } ]  # one row
parameters: { key: "k" value: { string_value: "# not a comment" } }
"""


def completed(text: str, more: str) -> tuple[str, tuple[str, ...]]:
    """Return the text for what `text` and `more` say together, which must say just that."""
    config = parse_pbtxt(text + more, "")
    found = completed_text(text, config)
    assert parse_pbtxt(found.text, "") == config
    return found


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n"), TEXT.replace("\n", "\r\n"), "", "# nothing yet\n"])
def test_a_complete_text_is_kept_byte_for_byte(text: str) -> None:
    assert completed_text(text, parse_pbtxt(text, "")) == (text, ())


@pytest.mark.parametrize(
    "more",
    [
        'backend: "python"',
        'input { name: "B" data_type: TYPE_INT8 dims: -1 } output { name: "C" }',
        'parameters { key: "l" value { string_value: "v" } } metric_tags { key: "a" value: "b" }',
        "dynamic_batching { }",
        "model_transaction_policy { decoupled: true }",
        "optimization { }",
        "instance_group { count: 2 } instance_group { kind: KIND_CPU }",
    ],
)
@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n"), TEXT + "# the end, without a newline"])
def test_what_is_missing_is_added_after_it(text: str, more: str) -> None:
    found, printed_for = completed(text, "\n" + more)
    assert found.startswith(text)
    assert found[len(text) :].lstrip("\n").startswith(f"{ADDED}\n")
    assert printed_for == ()


def test_what_was_added_is_added_to_once_more_under_the_same_heading() -> None:
    first, _ = completed(TEXT, 'backend: "python"')
    second, _ = completed(first, "dynamic_batching { }")
    assert second.startswith(first) and second.count(ADDED) == 1


def test_no_heading_stands_over_what_nobody_wrote() -> None:
    assert completed("", 'name: "m"') == ('name: "m"\n', ())
    assert completed("\n \n", 'name: "m"') == ('name: "m"\n', ())


@pytest.mark.parametrize(
    ("complete", "fields"),
    [
        (TEXT.replace("dims: [ 4 ]", "dims: [ 5 ]"), ("input",)),
        (TEXT.replace("max_batch_size: 8", "max_batch_size: 9"), ("max_batch_size",)),
        (TEXT.replace("max_batch_size: 8", ""), ("max_batch_size",)),
        (TEXT.replace("# not", "still not"), ("parameters",)),
        (TEXT.replace('key: "k"', 'key: "other"'), ("parameters",)),
        ('name: "m"', ("max_batch_size", "input", "parameters")),
    ],
)
def test_what_differs_within_it_is_printed(complete: str, fields: tuple[str, ...]) -> None:
    config = parse_pbtxt(complete, "")
    found = completed_text(TEXT, config)
    assert parse_pbtxt(found.text, "") == config
    assert set(found.printed_for) == set(fields)


def test_another_choice_of_scheduler_is_printed() -> None:
    text = "dynamic_batching { }"
    found = completed_text(text, parse_pbtxt("sequence_batching { }", ""))
    assert found.printed_for == ("dynamic_batching",) and "dynamic_batching" not in found.text


def test_a_default_value_in_the_text_may_be_overridden_after_it() -> None:
    text = "max_batch_size: 0  # none yet\n"
    config = parse_pbtxt("max_batch_size: 4", "")
    assert parse_pbtxt(completed_text(text, config).text, "") == config


def test_a_text_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(ConfigError):
        completed_text("max_batch_size: ${n}", parse_pbtxt("", ""))
