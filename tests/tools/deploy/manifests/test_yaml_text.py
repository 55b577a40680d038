from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tritonlab.tools.deploy.manifests.yaml_text import yaml_text

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_TEXT, _VALUES, min_size=1))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(document)) == document


@pytest.mark.parametrize(
    "word", ["no", "On", "true", "NULL", "y", "1", "1e3", "-c", "50m", "~", "", " a", "a: b", "#a"]
)
def test_words_stay_words(word: str) -> None:
    assert yaml.safe_load(yaml_text({"key": word})) == {"key": word}


def test_documents_have_their_comment_and_their_order() -> None:
    assert yaml_text({"b": 1, "a": [{"c": "d", "e": []}]}, {"f": {}}, about="one\ntwo") == (
        "# one\n# two\nb: 1\na:\n  - c: d\n    e: []\n---\nf: {}\n"
    )
