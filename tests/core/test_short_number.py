from __future__ import annotations

import pytest

from tritonlab.core.short_number import short_number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.123"), (99.96, "100"), (999.6, "1,000"), (1234.5, "1,234"), (-1234567, "-1,234,567")],
)
def test_no_number_has_an_exponent_that_people_can_read_without(value: float, text: str) -> None:
    assert short_number(value) == text
