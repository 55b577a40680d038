from __future__ import annotations

from tritonlab.frontends.cli.startup_tables import print_table


def test_columns_are_as_wide_as_what_they_hold() -> None:
    assert print_table(["Model", "Version"], [["add_sub", "1"], ["b", "12"]]).splitlines() == [
        "+---------+---------+",
        "| Model   | Version |",
        "+---------+---------+",
        "| add_sub | 1       |",
        "| b       | 12      |",
        "+---------+---------+",
    ]


def test_a_cell_of_several_lines_makes_its_row_higher() -> None:
    assert print_table(["M", "S"], [["a", "x\n\nyy"], ["b", ""]]).splitlines()[3:] == [
        "| a | x  |",
        "|   |    |",
        "|   | yy |",
        "| b |    |",
        "+---+----+",
    ]


def test_without_rows_the_head_stays() -> None:
    assert print_table(["M"], []).splitlines() == ["+---+", "| M |", "+---+", "+---+"]
