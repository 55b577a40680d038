"""Arrays of a batch as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tritonlab.figures.rows_table import RowsTable


def test_each_row_of_the_batch_is_a_row(tmp_path: Path) -> None:
    names = [b"a", "ß".encode()]
    found = RowsTable({"SCORE": np.array([0.25, 1e-7]), "BOX": np.arange(4).reshape(2, 2), "NAME": names})
    assert found.heads == ["row", "SCORE", "BOX[0]", "BOX[1]", "NAME"]
    assert list(found.rows()) == [["0", "0.25", "0", "1", "a"], ["1", "1e-07", "2", "3", "ß"]]
    assert found.to_csv(tmp_path / "t.csv").read_text() == "row,SCORE,BOX[0],BOX[1],NAME\n0,0.25,0,1,a\n1,1e-07,2,3,ß\n"
    assert found.to_dict() == {"heads": found.heads, "rows": list(found.rows())}
    assert "tl-data" in found.html() and found.text().splitlines()[0].split() == found.heads


def test_a_file_has_all_digits_and_a_page_those_that_can_be_read(tmp_path: Path) -> None:
    found = RowsTable({"P": np.array([0.123456789, 2.0]), "Q": np.array([0.1, 16777216], np.float32)})
    assert found.to_csv(tmp_path / "t.csv").read_text() == "row,P,Q\n0,0.123456789,0.1\n1,2.0,1.6777216e+07\n"
    assert list(found.rows()) == [["0", "0.123457", "0.1"], ["1", "2", "1.67772e+07"]]


def test_large_and_unequal_arrays_stay_readable() -> None:
    wide = RowsTable({"IMAGE": np.zeros((2, 3, 224, 224), np.uint8)})
    assert next(wide.rows())[1] == "0, 0, 0, 0, … 150,528 elements"
    assert RowsTable({"A": np.zeros(2), "B": np.zeros(3)}).count == 1
    long = RowsTable({"A": np.arange(5000)})
    assert "4,964 more rows" in long.text() and long.html().count("<tr>") == 1001
    none = RowsTable({"A": np.zeros((0, 2)), "B": np.zeros(0)})
    assert none.heads == ["row", "A[0]", "A[1]", "B"] and none.text().split() == none.heads
    assert RowsTable({}).rows and RowsTable({"A": np.float32(1)}).count == 1
