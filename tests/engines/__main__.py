"""`make engines`: models on NVIDIA Dynamo, Ray and what KServe runs, each in an environment of its own; at the end each
row of pre-flight, as it was seen there. Exits with 1 if a proof fails or a bar is missed.

    python -m tests.engines [units] [dynamo] [ray] [kserve]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.engines import dynamo_proofs, dynamo_units, kserve_rows, ray_proofs
from tests.engines.figures import Figures

PROOFS = ("units", "dynamo", "ray", "kserve")


def units(scratch: Path, figures: Figures) -> None:
    found = dynamo_units.run()
    wants = len(found.failed) - len(found.wrong)
    text = f"{found.passed} passed, {len(found.failed)} failed, of which {wants} want a directory of its container"
    figures.add("NVIDIA's unit tests of its worker", text, found.passed > 0 and not found.wrong)
    for name, trace in found.wrong.items():
        figures.add(f"  {name}", trace.strip().splitlines()[-1] if trace.strip() else "")


def main(names: list[str]) -> int:
    if unknown := set(names) - set(PROOFS):
        print(f"{', '.join(sorted(unknown))}: there are {', '.join(PROOFS)}")
        return 2
    figures = Figures()
    proofs = {"units": units, "dynamo": dynamo_proofs.run, "ray": ray_proofs.run, "kserve": kserve_rows.run}
    for name in names or PROOFS:
        load = os.getloadavg()[0]
        print(f"-- {name}, {time.strftime('%Y-%m-%d %H:%M')}, load {load:.0f} on {os.cpu_count()} cores", flush=True)
        with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
            proofs[name](Path(scratch), figures)
    print("-- what survives: each row of pre-flight, and what was seen", *figures.table(), sep="\n", flush=True)
    print(f"missed: {', '.join(figures.missed) or 'none'}")
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
