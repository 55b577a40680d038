"""The choices of the stateful tests, in which hypothesis calls the methods of a class in any order: an object of the
product goes through the same as a model of it in plain lists, and both are compared after each step.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

#: Which of those that are there at a step.
NUMBERS = st.integers(0, 9)


def choose(number: int, of: Collection[T]) -> T:
    """Return one of them, the same for the same number."""
    return sorted(of, key=repr)[number % len(of)]
