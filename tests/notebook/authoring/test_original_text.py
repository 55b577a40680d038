from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.authoring.original_text import OriginalText


def through_a_cell(content: bytes, *, is_python: bool = False) -> bytes:
    """Return the file after a cell has shown it, as IPython hands it to a magic: without blanks in blank lines, with a
    line break at the end that nobody typed, and perhaps without what is blank before it."""
    original = OriginalText(content, is_python=is_python)
    lines = [line if line.strip() else "" for line in original.text.split("\n")]
    assert original.edited("\n".join(lines).rstrip() + "\n") == content
    return original.edited(original.text + "\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a",
        b"a\n",
        b"a\n\n\n",
        b"\n\na\n",
        b"a\r\nb\r\n",
        b"a\r\nb\nc\rd",
        b"\xef\xbb\xbfa = 1\n",
        b"a\t \n  \n",
        b"a\nb  \n",
        b"a\n    \nb\n\x0c\nc\n",
        b"caf\xe9\n",
        "größer\x0c\u2028 weiter\n".encode(),
    ],
)
def test_what_is_not_edited_keeps_its_bytes(content: bytes) -> None:
    assert through_a_cell(content) == content


@given(st.binary().filter(lambda content: b"\0" not in content))
def test_any_file_keeps_its_bytes(content: bytes) -> None:
    assert through_a_cell(content) == content
    assert through_a_cell(content, is_python=True) == content


@given(st.lists(st.sampled_from([b"a", b"b ", b"", b"\xe9"])), st.data())
def test_an_edit_changes_its_line_only(lines: list[bytes], data: st.DataObject) -> None:
    content = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in [*lines, b"end"])
    text_lines = OriginalText(content).text.split("\n")
    place = data.draw(st.integers(0, len(text_lines) - 1))
    before = content.splitlines(keepends=True)
    edited = OriginalText(content).edited("\n".join([*text_lines[:place], "new", *text_lines[place + 1 :]]) + "\n")
    after = edited.splitlines(keepends=True)
    assert after[place].rstrip(b"\r\n") == b"new"
    assert after[:place] + after[place + 1 :] == before[:place] + before[place + 1 :]


def test_new_lines_end_as_most_lines_do() -> None:
    assert OriginalText(b"a\r\nb\r\nc\n").edited("a\nnew\nb\nc") == b"a\r\nnew\r\nb\r\nc\n"


@pytest.mark.parametrize(
    ("content", "edited"), [(b"a\nb", b"a\nc"), (b"a\nb\n", b"a\nc\n"), (b"a\nb\n\n", b"a\nc\n\n")]
)
def test_the_end_of_the_file_stays(content: bytes, edited: bytes) -> None:
    assert OriginalText(content).edited("a\nc\n") == edited


def test_a_line_after_the_last_one_goes_before_the_end() -> None:
    assert OriginalText(b"a\nb").edited("a\nb\nc\n") == b"a\nb\nc"
    assert OriginalText(b"a\nb").edited("a\n") == b"a"


def test_an_edited_line_is_encoded_as_its_file() -> None:
    content = b"# -*- coding: latin-1 -*-\n# caf\xe9\nx = 1\n"
    original = OriginalText(content, is_python=True)
    assert "café" in original.text
    assert original.edited(original.text.replace("x = 1", "x = 'é'")) == content.replace(b"x = 1", b"x = '\xe9'")
    with pytest.raises(FileError, match="'€' cannot be written in iso-8859-1"):
        original.edited(original.text.replace("x = 1", "x = '€'"))


def test_a_mark_at_the_begin_stays() -> None:
    assert OriginalText(b"\xef\xbb\xbfa\n").edited("b\n") == b"\xef\xbb\xbfb\n"
