"""Capture, tap, trace, replay and push of an installed tritonlab, with a server elsewhere.

`python installed_capture.py DIRECTORY HTTP GRPC [TRACE]` runs in the environment of that tritonlab and needs nothing of
this repository. The server serves `double` of DIRECTORY/models, with explicit model control; TRACE is its trace file,
with which it takes longer and runs the commands, too. It prints a line for each of them, and fails at the first one
that is not as expected.
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


def in_process(directory: Path, http: str, grpc: str) -> None:
    """Capture requests of a server in this process and those through a tap, replay both, and push the model."""
    own, tapped = directory / "own.arrow", directory / "tap.arrow"
    with tritonlab.Server(directory / "models") as server, tritonlab.connect(f"grpc://{grpc}") as elsewhere:
        model = server.model("double")
        with tritonlab.capture(own, server=server) as running:
            for number in range(REQUESTS):
                model(X=np.full((1, 2), number, np.int32))
        print(f"capture: {running.report}")
        tap(tapped, http, grpc)
        for file, against, count in ((own, None, REQUESTS), (tapped, elsewhere.model("double"), 2 * REQUESTS)):
            verdict = model.replay(file, against=against, speed=None)
            assert verdict.ok and verdict.compared == count, verdict
            print(f"replay: {verdict}")
        pushed = elsewhere.push(model, proof=tapped)
        assert pushed.ok, pushed
        print(f"push: {pushed}")


def by_commands(directory: Path, grpc: str, traces: list[str]) -> None:
    """Make a capture of traces, replay one, and push another model, which is undone."""
    models, proof = directory / "models", directory / "tap.arrow"
    print(f"trace: {run('capture', directory / 'trace.arrow', '--from', *traces).strip()}")
    options = ("--model-repository", models, "--speed", "max", "--json", "--against", f"grpc://{grpc}")
    (verdict,) = json.loads(run("replay", proof, *options))
    assert verdict["ok"] and verdict["compared"] == 2 * REQUESTS, verdict
    print(f"replay: {verdict['verdict']}")
    for source, expected in ((models, 0), (edit(models, directory / "edited"), 1)):
        print(f"push: {run('push', source, f'grpc://{grpc}', '--proof', proof, expected=expected).strip()}")
    send(f"grpc://{grpc}")


def edit(models: Path, to: Path) -> Path:
    """Return a copy of the repository with other answers."""
    shutil.copytree(models, to)
    source = to / "double" / "1" / "model.py"
    source.write_text(source.read_text().replace("2 *", "3 *"))
    return to


def main() -> None:
    directory, http, grpc, *traces = Path(sys.argv[1]), *sys.argv[2:]
    began = time.monotonic()
    print(f"tritonlab of {Path(tritonlab.__file__).parent}")
    in_process(directory, http, grpc)
    if traces:
        by_commands(directory, grpc, traces)
    print(f"all in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
