"""The mark of proofs that take minutes, which `make long` and `make releases` run."""

from __future__ import annotations

import os

import pytest

long = pytest.mark.skipif("TRITONLAB_LONG" not in os.environ, reason="it takes minutes: `make long` runs it")
