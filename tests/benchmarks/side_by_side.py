"""tritonlab and a real tritonserver on the same machine in the same run: `make bench`.

Each measurement takes turns between the two sides, several rounds of each, and keeps the median round, so that
what else the machine does meets both. All that compares speed is measured in three passes, each of them once as the
machine is and once while others use half of its cores, which slows both sides; a bar is met when the median of all is.
Limits that are ours alone are measured once.

The table is printed and written to build/bench.json. No test asserts any of it. `kernel`, `network`, `connections`,
`paced`, `loop`, `tap`, `capture` or `limits` as argument measures that part alone, `--passes=1` is quicker.

Nothing of tritonlab is compiled. What mypyc 2.4 brings, measured with 65 modules of the kernel (link, instances,
schedulers, core, both frontends) and 12 of the stub, medians in us of rounds that took turns, 2 cores, Python 3.11:

                               pure  compiled    Triton       beside a busy process: pure  compiled  Triton
    in the kernel                92        46         -
    HTTP, a raw socket          115        66         -
    HTTP, tritonclient          255       222       382                               406       435     318
    gRPC                        555       528       602                               613       645     554
    one BLS exec                170       116       267                               200       156     118
    HTTP at 100/s              1330      1333      1185                               799       786     695
    gRPC at 100/s              1504      1516      1357                              1167      1087     873
    BLS exec at 100/s           788       749       564                               489       428     302

With the kernel's link, instances and schedulers alone (28 modules) it is 62 in the kernel. So it doubles a hot loop
and leaves as they are the rows that miss their bars: those are about paced clients and busy machines, where processes
that run for 100 us and sleep find nothing in the caches. It takes 2.5 minutes and a C compiler, for each version of
Python; a subclass of deque crashed the interpreter once compiled, and classes of the author's API cannot be compiled,
as their bases have `__slots__` and are not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import tritonclient.grpc
import tritonclient.http

from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG
from tests.conformance.reference import ROOT, ReferenceServer, missing

from . import connections, in_kernel, kernel_life, liveness, loop, over_network, paced, recovery, through_tap
from .measuring import place
from .over_network import LabServer, Pair

RESULT = ROOT / "build" / "bench.json"
PASSES = 3
TRIES = 3


@dataclass(frozen=True)
class Row:
    """A line of the table. `ratio` is ours / real; `bar` is what it must be, or what ours must be alone; without one
    it is only printed. `ratios`: of all passes."""

    name: str
    unit: str
    ours: float
    real: float | None
    ratio: float | None
    bar: str
    met: bool
    ratios: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """The result of one measurement; times are the better the less they are, rates the more. `bar`: of the ratio;
    `busy_bar`: of that beside busy processes, if the two are kept `apart`."""

    name: str
    unit: str
    ours: float
    real: float
    bar: float | None
    at_most: bool = True
    apart: bool = False
    busy_bar: float | None = None

    def beside_others(self) -> Comparison:
        """Return this comparison as one beside busy processes."""
        return replace(self, name=f"{self.name}, busy", bar=self.busy_bar) if self.apart else self


def limited(name: str, unit: str, ours: float, bar: str, met: bool) -> Row:
    return Row(name, unit, ours, None, None, bar, met)


def faster(name: str, unit: str, scale: float, found: tuple[float, float], bar: float | None) -> Comparison:
    """Return a comparison of times; `scale` units make a second."""
    return Comparison(name, unit, found[0] * scale, found[1] * scale, bar)


def more(name: str, unit: str, found: tuple[float, float], bar: float) -> Comparison:
    """Return a comparison of rates."""
    return Comparison(name, unit, *found, bar, at_most=False)


def kernel_rows(real: ReferenceServer, scratch: Path) -> Iterator[Comparison]:
    """Measure the server in the notebook's process."""
    yield faster("cell run -> READY, add_sub", "s", 1, in_kernel.cell_to_ready(real, scratch), 0.08)
    yield faster("add_sub, one caller, p50 (real: HTTP)", "us", 1e6, in_kernel.one_caller(real, scratch), 0.3)
    yield more("32 in flight, dynamic batching (real: gRPC)", "infer/s", in_kernel.in_flight(real, scratch), 4)
    yield more("decoupled responses (real: gRPC stream)", "resp/s", in_kernel.streamed(real, scratch), 3)
    yield more("64 MB FP32 identity, in + out (real: HTTP)", "GB/s", in_kernel.identity(real, scratch), 8)
    found = in_kernel.strings(real, scratch)
    yield faster("10,000 strings of 20 bytes, compute_infer", "ms", 1e3, found, 0.25)


def network_rows(real: ReferenceServer, scratch: Path) -> Iterator[Comparison]:
    """Measure `tritonlab serve`."""
    http, grpc = tritonclient.http, tritonclient.grpc
    with LabServer(scratch / "served") as ours:
        pair = Pair(ours, real)
        found = pair.over_http(lambda client: over_network.one_caller(client, http))
        yield faster("HTTP, add_sub, one caller, p50", "us", 1e6, found, 0.9)
        found = pair.over_grpc(lambda client: over_network.one_caller(client, grpc))
        yield faster("gRPC, add_sub, one caller, p50", "us", 1e6, found, 0.9)
        yield more("gRPC, 32 in flight, dynamic batching", "infer/s", pair.over_grpc(over_network.in_flight), 1)
        yield more("gRPC stream, decoupled responses", "resp/s", pair.over_grpc(over_network.streamed), 0.8)
        yield faster("one BLS exec", "us", 1e6, pair.over_grpc(over_network.bls), 0.8)
        found = pair.over_http(lambda client: over_network.identity(client, http))
        yield more("HTTP, 64 MB FP32 identity, in + out", "GB/s", found, 1)
        found = pair.over_grpc(lambda client: over_network.identity(client, grpc))
        yield more("gRPC, 64 MB FP32 identity, in + out", "GB/s", found, 1)


def connection_rows(real: ReferenceServer, scratch: Path) -> Iterator[Comparison]:
    """Measure clients that have a request under way all the time, each on a connection of its own."""
    with LabServer(scratch / "served") as ours:
        Pair(ours, real)
        for name, count, lab, triton in connections.compared(ours, real):
            what = f"{name}, {count} connection{'s' * (count > 1)}"
            free, busy, cost = (0.95, 0.8, 1.4) if count == 8 and name.startswith("HTTP") else (None, None, None)
            yield Comparison(what, "infer/s", lab.rate, triton.rate, free, False, True, busy)
            costs = lab.cpu * 1e6, triton.cpu * 1e6
            yield Comparison(f"{what}, CPU", "us/request", *costs, cost, True, True, cost)


def paced_rows(real: ReferenceServer, scratch: Path) -> Iterator[Comparison]:
    """Measure clients that send 100 requests a second."""
    http, grpc = tritonclient.http, tritonclient.grpc
    with LabServer(scratch / "served") as ours:
        Pair(ours, real)
        yield from of_paced("HTTP at 100/s", paced.over_protocol(http, ours, real), p50=1.1, cpu=1.2)
        yield from of_paced("gRPC at 100/s", paced.over_protocol(grpc, ours, real), p50=1.1, cpu=1.2)
        yield from of_paced("BLS exec at 100/s", paced.over_bls(grpc, ours, real), p50=1.0, cpu=None)
    found = paced.in_kernel(real, scratch)
    yield from of_paced("in the kernel at 100/s, client included (real: HTTP)", found, p50=None, cpu=None)


def loop_rows(real: ReferenceServer, scratch: Path) -> Iterator[Comparison]:
    """Measure what an author waits for."""
    if not loop.has_torch():
        print("no torch: nothing of the loop is measured")
        return
    authors = loop.Authors(real)
    yield faster("edited torch cell -> READY, every 3 s", "s", 1, loop.paced(authors, "torch"), 0.05)
    yield faster("5 edits without a pause, torch, the slowest", "s", 1, loop.burst(authors, "torch"), 0.06)
    yield faster("5 edits without a pause, numpy, the slowest", "s", 1, loop.burst(authors, "numpy"), 0.06)
    times, memory = loop.instances(authors, "torch")
    yield faster("8 instances of a torch model -> READY", "s", 1, times, 0.1)
    yield faster("8 instances of a torch model, memory (PSS)", "MB", 1e-6, memory, 0.4)
    authors.close()


def of_paced(name: str, found: paced.Found, p50: float | None, cpu: float | None) -> Iterator[Comparison]:
    ours, real = found
    yield faster(f"{name}, p50", "us", 1e6, (ours.p50, real.p50), p50)
    yield faster(f"{name}, p99", "us", 1e6, (ours.p99, real.p99), None)
    yield faster(f"{name}, CPU", "us/request", 1e6, (ours.cpu, real.cpu), cpu)


def limit_rows(real: ReferenceServer, scratch: Path) -> Iterator[Row]:
    """Measure what is ours alone."""
    growth = kernel_life.growth(scratch)
    yield limited("20,000 requests: growth of kernel and stub after 1,000", "MB", growth, "< 5 MB", growth < 5)
    grown = kernel_life.churned(scratch)
    name = "50 models come and go, 100,000 requests: growth after 20,000"
    yield limited(name, "MB", grown["memory"], "< 5 MB", grown["memory"] < 5)
    for what in ("descriptors", "threads"):
        yield limited("", what, grown[what], "none", grown[what] <= 0)
    load, cell = loop.new_kernel()
    yield limited("new kernel: %load_ext tritonlab", "s", load, "<= 0.25 s", load <= 0.25)
    yield limited("new kernel: first cell, at once after it -> READY", "s", cell, "<= 0.35 s", cell <= 0.35)
    if loop.has_torch():
        authors = loop.Authors(real)
        taken = loop.restart(authors, "torch")
        authors.close()
        yield limited("restart of a dead torch stub", "s", taken, "<= 0.1 s", taken <= 0.1)
    yield from recovery_rows(scratch)
    left = kernel_life.left_after_sigkill(scratch)
    yield limited("kernel killed: stubs after 2 s + files in /dev/shm", "left", left, "none", left == 0)
    with LabServer(scratch / "served") as ours:
        Pair(ours, real)
        for what, work in liveness.works(ours.http).items():
            waited = liveness.p99(liveness.live_times(ours.http, work)) * 1e3
            yield limited(f"HTTP, health/live p99 beside {what}", "ms", waited, "<= 50 ms", waited <= 50)
    with LabServer(scratch / "idle") as ours, tritonclient.http.InferenceServerClient(ours.http) as client:
        for number in range(10):
            place(ours.repository, f"idle_{number}", ADD_SUB, ADD_SUB_CONFIG)
            client.load_model(f"idle_{number}")
        used = paced.idle(ours.pid)
        yield limited("idle for a minute with 10 models", "% of a core", used, "<= 0.1 %", used <= 0.1)


def recovery_rows(scratch: Path) -> Iterator[Row]:
    """Measure a stub that is killed while clients send requests."""
    with LabServer(scratch / "recovery") as ours:
        for what, found in (
            ("stub killed under load -> answer", recovery.stub_killed(ours)),
            ("stub killed at any moment, its start included -> answer", recovery.stormed(ours)),
        ):
            yield limited(f"{what}, p50", "ms", found.p50, "", True)
            yield limited("p99", "ms", found.p99, "<= 400 ms", found.p99 <= 400)
            yield limited("max", "ms", found.longest, "", True)
        found = recovery.zygote_killed(ours)
        yield limited(
            "stub and its zygote killed under load -> answer, p50", "ms", found.p50, "<= 250 ms", found.p50 <= 250
        )
        yield limited("p99", "ms", found.p99, "", True)
        yield limited("max", "ms", found.longest, "", True)


def limits(scratch: Path) -> Iterator[Row]:
    with real_server(scratch) as real:
        yield from limit_rows(real, scratch)


def tap_rows(scratch: Path) -> Iterator[Row]:
    """Measure the time that `tritonlab tap` adds to a request."""
    with real_server(scratch) as real:
        for name, through, without in through_tap.compared(real, scratch):
            met = through - without <= 150e-6
            yield Row(f"through a tap, {name}, p50", "us", through * 1e6, without * 1e6, None, "<= real + 150 us", met)


def capture_rows(scratch: Path) -> Iterator[Row]:
    """Measure a server of this process while `tritonlab.capture` runs, and while it does not."""
    captured, without = paced.with_capture(scratch)
    for name in ("p50", "cpu"):
        ours, real = getattr(captured, name) * 1e6, getattr(without, name) * 1e6
        yield Row(f"with a capture, kernel at 100/s, {name}", "us", ours, real, ours / real, "", True)


@contextlib.contextmanager
def others(count: int) -> Iterator[None]:
    """Run processes that want a core each, all the time."""
    # they end with this process, also if that is killed
    busy = f"import os\nwhile os.getppid() == {os.getpid()}:\n    for _ in range(1_000_000): pass"
    processes = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


Compared = Callable[[ReferenceServer, Path], Iterator[Comparison]]


def in_passes(measure: Compared, passes: int, scratch: Path) -> Iterator[Row]:
    """Return the median of all passes, without and with others beside."""
    found: dict[str, list[Comparison]] = {}
    for number in range(passes):
        for count in (0, max(1, (os.cpu_count() or 1) // 2)):
            with others(count):
                for one in measured(measure, scratch):
                    each = one.beside_others() if count else one
                    found.setdefault(each.name, []).append(each)
            print(
                f"{measure.__name__}, pass {number + 1} with {count} others: load {os.getloadavg()[0]:.1f}", flush=True
            )
    yield from map(judged, found.values())


def measured(measure: Compared, scratch: Path) -> list[Comparison]:
    """Measure beside a real server that this measurement alone uses. 2.51 crashes now and then where many requests
    share a stream; all of it is measured again then."""
    tries = 0
    while True:
        tries += 1
        with real_server(scratch) as real:
            try:
                return list(measure(real, scratch))
            except Exception as error:
                if real.live() or tries == TRIES:
                    raise
                print(f"{measure.__name__}: the real server crashed, so this is measured again: {error}", flush=True)


def real_server(scratch: Path) -> ReferenceServer:
    (scratch / "real").mkdir(exist_ok=True)
    return ReferenceServer(scratch / "real", scratch)


def judged(found: Sequence[Comparison]) -> Row:
    one = found[0]
    ratios = [each.ours / each.real for each in found]
    ratio = statistics.median(ratios)
    met = one.bar is None or (ratio <= one.bar if one.at_most else ratio >= one.bar)
    bar = "" if one.bar is None else f"{'<=' if one.at_most else '>='} {one.bar:g} x real"
    ours, real = statistics.median(each.ours for each in found), statistics.median(each.real for each in found)
    return Row(one.name, one.unit, ours, real, ratio, bar, met, ratios)


def line(row: Row) -> str:
    real = "" if row.real is None else f"{row.real:,.3f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    span = "" if not row.ratios else f"{min(row.ratios):.2f}-{max(row.ratios):.2f}"
    verdict = ("met" if row.met else "MISSED") if row.bar else ""
    return f"{row.name:60} {row.unit:11} {row.ours:>12,.3f} {real:>12} {ratio:>8} {span:>10}  {row.bar:15} {verdict}"


COMPARED: dict[str, Compared] = {
    "kernel": kernel_rows,
    "network": network_rows,
    "connections": connection_rows,
    "paced": paced_rows,
    "loop": loop_rows,
}
ALONE: dict[str, Callable[[Path], Iterator[Row]]] = {"limits": limits, "tap": tap_rows, "capture": capture_rows}
PARTS = (*COMPARED, *ALONE)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--passes", type=int, default=PASSES)
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    if (why := missing()) is not None:
        print(why)
        return 1
    print(f"{'':60} {'':11} {'tritonlab':>12} {'real':>12} {'ratio':>8} {'passes':>10}  bar")
    found = []
    with tempfile.TemporaryDirectory(prefix="tritonlab-bench-") as directory:
        scratch = Path(directory)
        for part in parts:
            compared = COMPARED.get(part)
            for row in in_passes(compared, arguments.passes, scratch) if compared else ALONE[part](scratch):
                found.append(row)
                print(line(row), flush=True)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.1f} at the end")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"load": load, "rows": [asdict(row) for row in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
