from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.json_text import encode_parameters


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"s": "v", "i": 5, "b": True, "f": 1.5}, '{"s":"v","i":5,"b":true,"f":1.5}'),
        ({"k": "\u00e9"}, '{"k":"\u00e9"}'),
        (
            {"1e+16": "1e+16", "f": 1e16, "g": -1.5e-5, "h": 2e21},
            '{"1e+16":"1e+16","f":10000000000000000.0,"g":-0.000015,"h":2e21}',
        ),
    ],
)
def test_parameters_are_compact_json(parameters: Any, text: str) -> None:  # rule 1.7.5
    assert encode_parameters(parameters) == text
