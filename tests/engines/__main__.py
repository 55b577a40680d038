"""`make engines`: models on NVIDIA Dynamo and Ray Serve, each in an environment of its own. Exits with 1 if a proof
fails."""

from __future__ import annotations

import os
import sys

from tests.engines import dynamo_units


def main() -> int:
    print(f"load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores", flush=True)
    units = dynamo_units.run()
    print(f"NVIDIA's unit tests of its worker: {units.passed} passed, {len(units.failed)} failed, of which "
          f"{len(units.failed) - len(units.wrong)} want a directory of its container")  # fmt: skip
    for name, text in units.wrong.items():
        print(f"  {name}: {text.strip().splitlines()[-1] if text.strip() else ''}")
    return 1 if units.wrong or not units.passed else 0


if __name__ == "__main__":
    sys.exit(main())
