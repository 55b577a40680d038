"""A model that answers with its request's trace context, and the trace file that its requests leave."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models import answers
from tests.serving import Lab, config

TRACED = answers("np.array([str(request.trace().get_context())], object)")
CONFIG = config("IN INT32 1", "OUT STRING 1")


@pytest.fixture(autouse=True)
def untraced(lab: Lab) -> Iterator[None]:
    yield
    lab.server.trace_settings.stop()


def written(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a trace file, once the answered request's are there: the answer comes before its trace."""
    end = time.monotonic() + 10
    while not path.exists() or not path.read_text().endswith("]"):
        assert time.monotonic() < end
        time.sleep(0.002)
    return list(json.loads(path.read_text()))


def moments(path: Path) -> list[dict[str, Any]]:
    """Return the entries that are timestamps."""
    return [entry["timestamps"][0] for entry in written(path) if "timestamps" in entry]
