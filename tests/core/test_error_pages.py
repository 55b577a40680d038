"""The book of errors: it covers what there is advice for, and its examples lead back to their pages."""

from __future__ import annotations

import pytest

from tritonlab.core.error_pages import error_pages
from tritonlab.notebook.authoring import hints
from tritonlab.notebook.shell.commands import COMMANDS

#: What is advised without a page: texts of our own that say what to do, and what another row finds first.
WITHOUT = (
    "there is no model\\.py",
    "this notebook has no source",
    "the load was stopped",
    "^request \\d+ of model '",
    "invalid or unsupported gpu id \\d+\\..* are: (?:;|$)",
)


@pytest.mark.parametrize("topic", error_pages())
def test_an_example_leads_to_its_page(topic: str) -> None:
    page = error_pages()[topic]
    assert page.examples and [hints.topic(example) for example in page.examples] == [topic] * len(page.examples)
    assert "**What to do:**" in page.body


def test_every_advice_has_a_page() -> None:
    found = {id(hints.PATTERNS[n]) for page in error_pages().values() for n in map(first, page.examples)}
    missing = [pattern.pattern for pattern in hints.PATTERNS if id(pattern) not in found]
    assert [pattern for pattern in missing if not pattern.startswith(WITHOUT)] == []


def first(example: str) -> int:
    return next(n for n, pattern in enumerate(hints.PATTERNS) if pattern.search(example))


def test_a_text_without_advice_has_no_page() -> None:
    assert hints.topic("something else") == ""


def test_no_topic_is_a_subcommand() -> None:
    assert not set(error_pages()) & set(COMMANDS)
