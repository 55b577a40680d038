from __future__ import annotations

import pytest

from tritonlab.core.short_number import mib_text, short_number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.123"), (99.96, "100"), (999.6, "1,000"), (1234.5, "1,234"), (-1234567, "-1,234,567")],
)
def test_no_number_has_an_exponent_that_people_can_read_without(value: float, text: str) -> None:
    assert short_number(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 MiB"), (64, "0.0625 KiB"), (4096, "4 KiB"), (1 << 20, "1 MiB"), (13_107_200, "12.5 MiB")]
)
def test_a_small_size_is_not_a_small_part_of_a_mebibyte(count: int, text: str) -> None:
    assert mib_text(count) == text
