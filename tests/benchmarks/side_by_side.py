"""tritonlab and a real tritonserver on the same machine in the same run: `make bench`.

Each measurement takes turns between the two sides, several rounds of each, and keeps the median round, so that
what else the machine does meets both. The table is printed and written to build/bench.json. No test asserts any of it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks import measurements
from tests.conformance.reference import ROOT, ReferenceServer, missing

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


def rows(real: ReferenceServer, scratch: Path) -> list[Callable[[], Row]]:
    def loads() -> Row:
        ours, theirs = measurements.cell_to_ready(real, scratch)
        return compared("cell run -> READY, add_sub", "s", ours, theirs, 0.08, at_most=True)

    def latency() -> Row:
        ours, theirs = measurements.one_caller(real, scratch)
        return compared("add_sub, one caller, p50 (real: HTTP)", "us", ours * 1e6, theirs * 1e6, 0.35, at_most=True)

    def throughput() -> Row:
        ours, theirs = measurements.in_flight(real, scratch)
        return compared("32 in flight, dynamic batching (real: gRPC)", "infer/s", ours, theirs, 2, at_most=False)

    def bandwidth() -> Row:
        ours, theirs = measurements.identity(real, scratch)
        return compared("64 MB FP32 identity, in + out (real: HTTP)", "GB/s", ours, theirs, 8, at_most=False)

    def strings() -> Row:
        ours, theirs = measurements.strings(real, scratch)
        return compared("10,000 strings of 20 bytes, compute_infer", "ms", ours * 1e3, theirs * 1e3, 0.25, at_most=True)

    def memory() -> Row:
        growth = measurements.growth(scratch)
        name = "20,000 requests: growth of kernel and stub after 1,000"
        return limited(name, "MB", growth, "< 5 MB", growth < 5)

    def leftovers() -> Row:
        left = measurements.left_after_sigkill(scratch)
        name = "kernel killed: stubs after 2 s + files in /dev/shm"
        return limited(name, "left", left, "none", left == 0)

    return [loads, latency, throughput, bandwidth, strings, memory, leftovers]


def line(row: Row) -> str:
    real = "" if row.real is None else f"{row.real:,.3f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    verdict = "met" if row.met else "MISSED"
    return f"{row.name:56} {row.unit:8} {row.ours:>12,.3f} {real:>12} {ratio:>8}  {row.bar:15} {verdict}"


def main() -> int:
    if (why := missing()) is not None:
        print(why)
        return 1
    print(f"{'':56} {'':8} {'tritonlab':>12} {'real':>12} {'ratio':>8}  bar")
    found = []
    with tempfile.TemporaryDirectory(prefix="tritonlab-bench-") as directory:
        scratch = Path(directory)
        (scratch / "real").mkdir()
        with ReferenceServer(scratch / "real", scratch) as real:
            for measure in rows(real, scratch):
                found.append(measure())
                print(line(found[-1]), flush=True)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.1f} at the end")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"load": load, "rows": [asdict(row) for row in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
