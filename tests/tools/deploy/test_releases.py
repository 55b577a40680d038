from __future__ import annotations

import json

import pytest

from tritonlab.tools.deploy.releases import (
    UnknownTarget,
    features,
    find,
    find_target,
    releases,
    table_facts,
    table_text,
)


def test_every_cell_names_a_source_that_is_explained() -> None:
    facts = table_facts()
    cells = [
        cell
        for row in (*facts["releases"], *facts["features"], *facts["targets"].values())
        for cell in row.values()
        if isinstance(cell, list)
    ]
    assert len(cells) > 300 and all(len(cell) == 2 for cell in cells)
    assert {cell[1] for cell in cells} == set(facts["sources"])
    assert all((cell[0] is None) == (cell[1] == "unknown") for cell in cells)
    json.dumps(facts)


def test_releases_are_in_order_and_each_is_found_by_both_names() -> None:
    rows = releases()
    assert [row.order for row in rows] == sorted(row.order for row in rows)
    for row in rows:
        assert find(str(row.triton)) == find(str(row.container)) == row
    assert str(find("24.10-py3")) == str(find("2.51.0")) == str(find("v2.51")) == "2.51 (24.10)"


@pytest.mark.parametrize(
    ("name", "python", "glibc", "libstdcxx", "numpy"),
    [
        ("2.33", "3.8", "2.31", "3.4.28", "<2"),
        ("24.10", "3.10", "2.35", "3.4.30", "<2"),
        ("24.11", "3.12", "2.39", "3.4.33", "any"),
        ("23.05", "not known", "not known", "not known", "<2"),
    ],
)
def test_what_an_image_has(name: str, python: str, glibc: str, libstdcxx: str, numpy: str) -> None:
    found = find(name)
    assert [str(each) for each in (found.python, found.glibc, found.libstdcxx, found.numpy)] == [
        python,
        glibc,
        libstdcxx,
        numpy,
    ]


def test_what_was_not_started_is_known() -> None:
    assert [find(name).is_started for name in ("2.28", "2.51", "2.52", "26.09")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("key", "states"),
    [
        ("metric_family", {"2.33": False, "2.35": None, "2.36": True, "2.51": True}),
        ("histogram", {"2.48": False, "2.49": True}),
        ("iterative_sequence", {"2.39": False, "2.40": None, "2.41": True, "26.01": True}),
        ("response_parameters", {"2.51": False, "25.01": False, "25.02": True}),
        ("is_ready", {"2.51": False, "26.03": False, "26.04": True}),
    ],
)
def test_which_release_has_a_feature(key: str, states: dict[str, bool | None]) -> None:
    assert {name: features()[key].state(find(name)) for name in states} == states


def test_a_target_may_be_a_place() -> None:
    target = find_target("kserve")
    assert (str(target.release), target.shm_bytes) == ("2.34 (23.05)", 64 << 20)
    assert str(target) == "KServe's default runtime kserve-tritonserver, Triton 2.34 (23.05)"
    assert str(find_target("24.08")) == "Triton 2.49 (24.08)"


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(UnknownTarget, match=r"'24\.8' is not a release of Triton in the table; did you mean '24\.08'"):
        find_target("24.8")


def test_the_text_has_all_releases_and_says_what_was_not_started() -> None:
    text = table_text()
    assert all(f"{row.container}" in text for row in releases())
    assert "Releases after 2.51 are judged by this table and by rules only" in text
    assert "facts-1: measured" in table_text(sources=True) and "facts-1" not in text
