"""Tables of results as HTML and as lines of text."""

from __future__ import annotations

from tritonlab.figures.tables import cell, prose, table, text_table


def test_numbers_are_on_the_right_and_texts_are_escaped() -> None:
    made = table(("model", "p99"), [("<m>", "1.5 ms"), ("n", "12 ms")], numbers=(1,))
    assert made.count("text-align:right") == 3 and "<td>&lt;m&gt;</td>" in made
    assert "<td style='text-align:right;font-variant-numeric:tabular-nums'>12 ms</td>" in made
    assert made.startswith("<div style='overflow-x:auto'><table")  # no page gets wider by it


def test_long_heads_take_two_lines_and_cells_may_look_otherwise() -> None:
    assert "white-space:normal" in cell("send lag p99", kind="th") and cell("a") == "<td>a</td>"
    assert cell("a", look="padding:0") == "<td style='padding:0'>a</td>"


def test_words_between_backticks_are_code() -> None:
    assert prose("run `a < b`, then `c`") == "run <code>a &lt; b</code>, then <code>c</code>"
    assert prose("a ` b, `\n`") == "a ` b, `\n`" and cell("`a`", write=prose) == "<td><code>a</code></td>"


def test_words_stand_on_the_left_and_numbers_on_the_right() -> None:
    rows = [["model", "requests", "note"], ["add_sub", "7", ""], ["m", "1,200", "slow"]]
    assert text_table(rows, numbers={1}) == [
        "model    requests  note",
        "add_sub         7",
        "m           1,200  slow",
    ]
    assert text_table([]) == []
