"""For `pytest --nbmake notebooks`: what a notebook needs that tritonlab does not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

NEEDS = {"12_jax.ipynb": "jax", "95_openai.ipynb": "openai"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        package = NEEDS.get(item.path.name)
        if package is not None and find_spec(package) is None:
            item.add_marker(
                pytest.mark.skip(reason=f"{package} is not installed, its first cell says how")
            )
