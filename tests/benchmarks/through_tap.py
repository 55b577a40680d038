"""The time that `tritonlab tap` adds to requests to the real server: one client with it and one without, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tritonclient.grpc
import tritonclient.http

from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG
from tests.conformance.reference import ReferenceServer
from tests.tap_process import TapProcess

from . import paced
from .measuring import in_turn, place, timed
from .over_network import sender

CALLS = 300


def compared(real: ReferenceServer, scratch: Path) -> Iterator[tuple[str, float, float]]:
    """Yield names of loads, and the seconds of p50 with the tap and without."""
    place(real.repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    with tritonclient.http.InferenceServerClient(real.http) as client:
        client.load_model("add_sub")
    with TapProcess([real.http, real.grpc], scratch / "tap.arrow") as tap:
        ways: tuple[tuple[str, Any, str], ...] = (
            ("HTTP", tritonclient.http, real.http),
            ("gRPC", tritonclient.grpc, real.grpc),
        )
        for (name, library, direct), address in zip(ways, tap.addresses, strict=True):
            with library.InferenceServerClient(address) as through, library.InferenceServerClient(direct) as without:
                sends = sender(through, library), sender(without, library)
                one, other = in_turn(timed(sends[0], CALLS), timed(sends[1], CALLS))
                yield f"{name}, one caller", one, other
                sides = [paced.PacedSide(paced.took(send), lambda: ()) for send in sends]
                found = paced.in_turn(*sides)
                yield f"{name} at 100/s", found[0].p50, found[1].p50
        tap.stop()
