"""A pytest plugin (`-p tests.without_cygrpc`): tritonlab finds a grpcio whose private parts are not as they were.

grpcio's own modules, imported before, keep theirs. `MISSING_NAME` in the environment: the one that is not there.
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
