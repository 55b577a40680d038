"""Capture, tap, trace, replay and push of an installed tritonlab, with a server elsewhere.

`python installed_capture.py DIRECTORY HTTP GRPC [TRACE]` runs in the environment of that tritonlab and needs nothing of
this repository. The server serves `double` of DIRECTORY/models, with explicit model control; TRACE is its trace file.
It prints a line for each of them, and fails at the first one that is not as expected.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tritonlab

REQUESTS = 50
SECONDS = 120.0


def run(*words: object, expected: int = 0) -> str:
    """Run the command `tritonlab`, and return its stdout. `expected`: its exit status."""
    command = [sys.executable, "-P", "-m", "tritonlab", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == expected, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def send(address: str) -> None:
    with tritonlab.connect(address) as server:
        for number in range(REQUESTS):
            found = server.model("double")(X=np.full((1, 2), number, np.int32))["Y"]
            assert found.tolist() == [[2 * number] * 2], found


def tap(file: Path, http: str, grpc: str) -> None:
    """Send requests through a tap, and end it."""
    words = [word for each in (http, grpc) for word in ("--listen", "127.0.0.1:0", "--upstream", each)]
    command = [sys.executable, "-P", "-m", "tritonlab", "tap", *words, "--write", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for scheme in ("http", "grpc"):
                send(f"{scheme}://{process.stdout.readline().split()[1]}")
        finally:
            process.terminate()
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out
    print(f"tap: {out.strip()}")


def capture(models: Path, file: Path) -> None:
    """Capture requests of a server in this process, and replay them there."""
    with tritonlab.Server(models) as server:
        model = server.model("double")
        with tritonlab.capture(file, server=server) as running:
            for number in range(REQUESTS):
                model(X=np.full((1, 2), number, np.int32))
        print(f"capture: {running.report}")
        verdict = model.replay(file, speed=None)
    assert verdict.ok and verdict.compared == REQUESTS, verdict
    print(f"replay: {verdict}")


def replay(file: Path, models: Path, address: str) -> None:
    """Replay a capture to the model of a repository, and to the server's."""
    options = ("--model-repository", models, "--speed", "max", "--json", "--against", f"grpc://{address}")
    (verdict,) = json.loads(run("replay", file, *options))
    assert verdict["ok"] and verdict["compared"] == 2 * REQUESTS, verdict
    print(f"replay: {verdict['verdict']}")


def push(models: Path, address: str, proof: Path, expected: int) -> None:
    print(f"push: {run('push', models, f'grpc://{address}', '--proof', proof, expected=expected).strip()}")


def edit(models: Path, to: Path) -> Path:
    """Return a copy of the repository with other answers."""
    shutil.copytree(models, to)
    source = to / "double" / "1" / "model.py"
    source.write_text(source.read_text().replace("2 *", "3 *"))
    return to


def main() -> None:
    directory, http, grpc, *traces = Path(sys.argv[1]), *sys.argv[2:]
    models, proof, began = directory / "models", directory / "tap.arrow", time.monotonic()
    print(f"tritonlab of {Path(tritonlab.__file__).parent}")
    capture(models, directory / "own.arrow")
    tap(proof, http, grpc)
    replay(proof, models, grpc)
    push(models, grpc, proof, expected=0)
    if traces:
        print(f"trace: {run('capture', directory / 'trace.arrow', '--from', *traces).strip()}")
        push(edit(models, directory / "edited"), grpc, proof, expected=1)
        send(f"grpc://{grpc}")
    print(f"all in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
