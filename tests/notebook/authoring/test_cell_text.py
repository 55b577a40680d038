from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from IPython.utils.text import DollarFormatter

from tests.hostile import NAMES, nothing_runs, quick
from tritonlab.core.quoting import one_line
from tritonlab.notebook.authoring.cell_text import WIDTH, cell_head, split_cell

TENSORS = ["--input", "A:FP32[4]", "B:FP32[4]", "--output", "SUM:FP32[4]", "DIFFERENCE:FP32[4]"]


@pytest.mark.parametrize(
    ("text", "line", "body"),
    [
        ("%%m a", "%%m a", None),
        ("%%m a \\", "%%m a \\", None),
        ("%%m a\n", "%%m a", ""),
        ("%%m a \\\n  --b c \\ \n\t--d ", "%%m a --b c --d ", None),
        ("%%m a\\\n--b\nx = 1 \\\n  + 2\n", "%%m a --b", "x = 1 \\\n  + 2\n"),
    ],
)
def test_a_cell_is_split_after_its_line(text: str, line: str, body: str | None) -> None:
    assert split_cell(text) == (line, body)


def test_a_long_line_is_broken_before_options() -> None:
    text = cell_head("%%triton_model", "add", "--max-batch-size", "8", *TENSORS)
    assert text == (
        "%%triton_model add --max-batch-size 8 --input A:FP32[4] B:FP32[4] \\\n"
        "    --output SUM:FP32[4] DIFFERENCE:FP32[4]"
    )
    assert max(map(len, text.splitlines())) <= WIDTH


@quick
@given(st.lists(NAMES, min_size=1, max_size=3))
@example(['"$RAN}'])  # IPython looks for quotes up to a brace
@example(["$a", "x{'"])
def test_a_broken_line_has_the_same_words(names: list[str]) -> None:
    words = ["%%triton_model", "m", *TENSORS, *(word for name in names for word in ("--param", name)), *TENSORS]

    def expand(text: str) -> str:
        return str(DollarFormatter().vformat(text, args=[], kwargs=dict.fromkeys(("RAN", "a", "Z", "touch"), "x")))

    first, *more = cell_head(*words).split("\n", 1)
    with nothing_runs():
        line, body = split_cell("\n".join([expand(first), *more]), expand)
    assert (shlex.split(line), body) == ([*words[:8], *map(one_line, words[8:])], None)
