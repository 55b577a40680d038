from __future__ import annotations

import pytest

from tritonlab.notebook.authoring.config_text import ConfigText, ConfigTextError

TEXT = 'backend: "python"\nmax_batchsize: 8\ninput { name: "A" }\n'


def refusal(text: str, offset: int = 0) -> ConfigTextError:
    with pytest.raises(ConfigTextError) as caught:
        ConfigText(text, "Cell In[3]", offset, "m").message  # noqa: B018 - a property that raises
    return caught.value


def test_a_misspelt_field_is_named_with_its_place_in_the_cell() -> None:
    error = refusal(TEXT, offset=1)
    assert (error.line, error.column) == (3, 1)
    assert str(error).startswith("Cell In[3], line 3:1: ")
    assert error.advice == "Did you mean max_batch_size?"
    assert error.reason == "failed to read text proto from m/config.pbtxt"  # rule 2.5.4, for the client


def test_the_excerpt_has_an_arrow_under_the_column() -> None:
    assert refusal(TEXT, offset=1).excerpt(context=1) == [
        "",
        '      2 backend: "python"',
        "----> 3 max_batchsize: 8",
        "        ^",
        '      4 input { name: "A" }',
    ]


def test_a_wrong_enum_value_gets_the_full_name() -> None:
    assert refusal('input { name: "A" data_type: FP32 dims: 1 }').advice == "Did you mean TYPE_FP32?"
    assert refusal("instance_group { kind: CPU }").advice == "Did you mean KIND_CPU?"


def test_a_rule_names_the_line_of_the_field_it_is_about() -> None:
    error = refusal("# max_batch_size: 1\nmax_batch_size: -1\n")
    assert error.complaint == "'max_batch_size' must be non-negative value for m"
    assert error.line == 2


def test_comments_say_nothing() -> None:
    assert not ConfigText("# a comment\n\n").says_something
    assert ConfigText("max_batch_size: 1").says_something
