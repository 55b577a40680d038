from __future__ import annotations

from tritonlab.core.text_table import text_table


def test_words_stand_on_the_left_and_numbers_on_the_right() -> None:
    rows = [["model", "requests", "note"], ["add_sub", "7", ""], ["m", "1,200", "slow"]]
    assert text_table(rows, numbers={1}) == [
        "model    requests  note",
        "add_sub         7",
        "m           1,200  slow",
    ]
    assert text_table([]) == []
