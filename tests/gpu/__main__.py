"""Checks and measurements of the GPU runtime on this machine's card: `python -m tests.gpu` prints each figure with its
name. With `--simulated` it only tries its own code, on a simulated GPU.

Nothing of JupyterLab is needed, nor pytest: numpy, torch, and of tritonclient the one file `grpc/model_config_pb2.py`,
which needs protobuf alone. Where tritonclient is not installed, a copy of that file will do:

    mkdir -p build/gpu/tritonclient/grpc && touch build/gpu/tritonclient/__init__.py
    cp .venv/lib/python3*/site-packages/tritonclient/grpc/model_config_pb2.py build/gpu/tritonclient/grpc/
    PYTHONPATH=build/gpu python3 -m tests.gpu

It ends with 1 if a check failed or a bar was not passed, and with 2 where there is no card.
"""

from __future__ import annotations

import sys
import traceback

from .bars import MB, Bars, Sizes
from .bench import Bench
from .cards import SimulatedCard, card, without_card
from .checks import CHECKS

#: For the code itself to be tried.
LITTLE = Sizes(large=MB, rate=MB, calls=1, small_calls=5, requests=20, kept=MB)


def main(arguments: list[str]) -> int:
    """Check and measure, and return the exit status of the process."""
    simulated = arguments == ["--simulated"]
    reason = "" if simulated else without_card()
    if reason:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 2
    passed = True
    with Bench(SimulatedCard() if simulated else card()) as bench:
        for check in CHECKS:
            try:
                check(bench)
                print(f"right   {check.__name__} on {bench.card.name}", flush=True)
            except Exception:
                passed = False
                print(f"WRONG   {check.__name__} on {bench.card.name}\n{traceback.format_exc()}", flush=True)
        for bar in Bars(bench, LITTLE if simulated else None).all():
            print(bar.line(bench.card), flush=True)
            passed &= bar.passed or simulated
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
