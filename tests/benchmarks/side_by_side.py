"""tritonlab and a real tritonserver on the same machine in the same run: `make bench`.

Each measurement takes turns between the two sides, several rounds of each, and keeps the median round, so that
what else the machine does meets both. The table is printed and written to build/bench.json. No test asserts any of it.
`kernel` or `network` as argument measures that part alone.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import tritonclient.grpc
import tritonclient.http

from tests.conformance.reference import ROOT, ReferenceServer, missing

from . import in_kernel, kernel_life, liveness, over_network
from .over_network import LabServer, Pair

RESULT = ROOT / "build" / "bench.json"


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is ours / real; `bar` says what it must be, or what ours must be alone."""

    name: str
    unit: str
    ours: float
    real: float | None
    ratio: float | None
    bar: str
    met: bool


def compared(name: str, unit: str, ours: float, real: float, bar: float, at_most: bool) -> Row:
    ratio = ours / real
    met = ratio <= bar if at_most else ratio >= bar
    return Row(name, unit, ours, real, ratio, f"{'<=' if at_most else '>='} {bar:g} x real", met)


def limited(name: str, unit: str, ours: float, bar: str, met: bool) -> Row:
    return Row(name, unit, ours, None, None, bar, met)


def faster(name: str, unit: str, scale: float, found: tuple[float, float], bar: float) -> Row:
    """Of times: `scale` units make a second."""
    return compared(name, unit, found[0] * scale, found[1] * scale, bar, at_most=True)


def more(name: str, unit: str, found: tuple[float, float], bar: float) -> Row:
    """Of rates."""
    return compared(name, unit, *found, bar, at_most=False)


def kernel_rows(real: ReferenceServer, scratch: Path) -> Iterator[Row]:
    """The server in the notebook's process."""
    yield faster("cell run -> READY, add_sub", "s", 1, in_kernel.cell_to_ready(real, scratch), 0.08)
    yield faster("add_sub, one caller, p50 (real: HTTP)", "us", 1e6, in_kernel.one_caller(real, scratch), 0.35)
    yield more("32 in flight, dynamic batching (real: gRPC)", "infer/s", in_kernel.in_flight(real, scratch), 3)
    yield more("decoupled responses (real: gRPC stream)", "resp/s", in_kernel.streamed(real, scratch), 3)
    yield more("64 MB FP32 identity, in + out (real: HTTP)", "GB/s", in_kernel.identity(real, scratch), 8)
    found = in_kernel.strings(real, scratch)
    yield faster("10,000 strings of 20 bytes, compute_infer", "ms", 1e3, found, 0.25)
    growth = kernel_life.growth(scratch)
    yield limited("20,000 requests: growth of kernel and stub after 1,000", "MB", growth, "< 5 MB", growth < 5)
    grown = kernel_life.churned(scratch)
    name = "50 models come and go, 100,000 requests: growth after 20,000"
    yield limited(name, "MB", grown["memory"], "< 5 MB", grown["memory"] < 5)
    for what in ("descriptors", "threads"):
        yield limited("", what, grown[what], "none", grown[what] <= 0)
    left = kernel_life.left_after_sigkill(scratch)
    yield limited("kernel killed: stubs after 2 s + files in /dev/shm", "left", left, "none", left == 0)


def network_rows(real: ReferenceServer, scratch: Path) -> Iterator[Row]:
    """`tritonlab serve`."""
    http, grpc = tritonclient.http, tritonclient.grpc
    with LabServer(scratch / "served") as ours:
        pair = Pair(ours, real)
        found = pair.over_http(lambda client: over_network.one_caller(client, http))
        yield faster("HTTP, add_sub, one caller, p50", "us", 1e6, found, 0.9)
        found = pair.over_grpc(lambda client: over_network.one_caller(client, grpc))
        yield faster("gRPC, add_sub, one caller, p50", "us", 1e6, found, 0.9)
        yield more("gRPC, 32 in flight, dynamic batching", "infer/s", pair.over_grpc(over_network.in_flight), 0.8)
        yield more("gRPC stream, decoupled responses", "resp/s", pair.over_grpc(over_network.streamed), 0.8)
        yield faster("one BLS exec", "us", 1e6, pair.over_grpc(over_network.bls), 0.7)
        found = pair.over_http(lambda client: over_network.identity(client, http))
        yield more("HTTP, 64 MB FP32 identity, in + out", "GB/s", found, 1)
        found = pair.over_grpc(lambda client: over_network.identity(client, grpc))
        yield more("gRPC, 64 MB FP32 identity, in + out", "GB/s", found, 1)
        for what, work in liveness.works(ours.http).items():
            waited = liveness.p99(liveness.live_times(ours.http, work)) * 1e3
            yield limited(f"HTTP, health/live p99 beside {what}", "ms", waited, "<= 50 ms", waited <= 50)


def line(row: Row) -> str:
    real = "" if row.real is None else f"{row.real:,.3f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    verdict = "met" if row.met else "MISSED"
    return f"{row.name:60} {row.unit:11} {row.ours:>12,.3f} {real:>12} {ratio:>8}  {row.bar:15} {verdict}"


PARTS = {"kernel": kernel_rows, "network": network_rows}


def main(names: Sequence[str]) -> int:
    if (why := missing()) is not None:
        print(why)
        return 1
    print(f"{'':60} {'':11} {'tritonlab':>12} {'real':>12} {'ratio':>8}  bar")
    found = []
    with tempfile.TemporaryDirectory(prefix="tritonlab-bench-") as directory:
        scratch = Path(directory)
        (scratch / "real").mkdir()
        with ReferenceServer(scratch / "real", scratch) as real:
            for row in chain.from_iterable(PARTS[name](real, scratch) for name in names):
                found.append(row)
                print(line(row), flush=True)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.1f} at the end")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"load": load, "rows": [asdict(row) for row in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(PARTS)))
