"""The book of errors: it covers what there is advice for, and its examples lead back to their pages."""

from __future__ import annotations

import re

import pytest

from tritonlab.core.config import load_advice
from tritonlab.core.error_pages import all_advice, error_pages, find_advice, topic_of
from tritonlab.notebook.authoring import hints
from tritonlab.stub.c_python_backend_utils import JOINS_LATE
from tritonlab.tool_table import magic_commands

KINDS = ("hint", "load", "config")

#: What is advised without an example: texts of the load beside those of a notebook, and a version directory.
WITHOUT = ("invalid or unsupported gpu id \\d+\\..* are: (?:;|$)", r"ModuleNotFoundError: No module named '\d+")


@pytest.mark.parametrize("topic", error_pages())
def test_an_example_leads_to_its_page(topic: str) -> None:
    page = error_pages()[topic]
    assert page.examples and [topic_of(example) for example in page.examples] == [topic] * len(page.examples)
    assert "**What to do:**" in page.body


def test_every_advice_has_an_example() -> None:
    examples = [example for page in error_pages().values() for example in page.examples]
    found = {find_advice(example, kind)[0] for example in examples for kind in KINDS if find_advice(example, kind)}  # type: ignore[index]
    missing = [advice for advice in all_advice() if advice.topic and advice not in found]
    assert [advice for advice in missing if not advice.patterns[0].startswith(WITHOUT)] == []


def test_every_word_in_braces_is_known() -> None:
    for advice in all_advice():
        words = set(re.findall(r"\{(\w+)(?:!m)?\}", advice.text))
        computed = hints._COMPUTED if advice.kind == "hint" else {**load_advice._SHARED, **load_advice._COMPUTED}
        for pattern in advice.patterns:
            assert words <= {*re.compile(pattern).groupindex, *computed}


def test_names_that_join_late_are_listed() -> None:
    late = next(advice for advice in all_advice() if advice.topic == "too-early")
    assert f"(?P<name>{'|'.join((*JOINS_LATE, 'get_model_dir'))})" in late.patterns[0]


def test_a_text_without_advice_has_no_page() -> None:
    assert topic_of("something else") == ""


def test_no_topic_is_a_subcommand() -> None:
    assert not set(error_pages()) & set(magic_commands())
