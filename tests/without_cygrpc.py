"""A pytest plugin (`-p tests.without_cygrpc`) that lets tritonlab find a grpcio whose private parts have changed.

grpcio's own modules, imported before, keep theirs. The environment variable `MISSING_NAME` names the part that is
missing.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import grpc._channel
import grpc._cython
import grpc._server

grpc._cython.cygrpc = SimpleNamespace(  # type: ignore[attr-defined]
    **{
        name: part
        for name, part in vars(grpc._cython.cygrpc).items()  # type: ignore[attr-defined]
        if name != os.environ["MISSING_NAME"]
    }
)
