"""What is wrong with an answer by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.case import Case
from tritonlab.tools.check.relations.answers import judge_text
from tritonlab.tools.check.sample import ModelAnswer, Sample


@pytest.mark.parametrize(("text", "is_found"), [("Grüße".encode(), True), (b"Gr\xc3", False)])
def test_a_broken_text_is_one_of_a_text_that_was_whole(text: bytes, is_found: bool) -> None:
    def texts(element: bytes) -> Tensor:
        return Tensor.from_numpy(np.array([[element]], object))

    bench: Any = SimpleNamespace(
        renew=lambda careful: None, alone=lambda sample: ModelAnswer(({"OUT": texts(b"rG\xc3")},))
    )
    case = Case("answers", "text", (Sample({"TEXT": texts(text)}),), facts={"outputs": ["OUT"]})
    assert (judge_text(bench, case, False) is not None) == is_found
