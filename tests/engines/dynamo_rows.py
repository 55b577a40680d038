"""Each row of pre-flight for Dynamo: what NVIDIA's worker and ours make of the models that show it."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tritonclient.grpc as grpcclient

from tests.engines.figures import Figures
from tests.engines.fleet import Fleet, fleet, tensor
from tests.engines.rows import ROWS, Logs, write_models

#: What a worker of ours serves of the models: it refuses `versions`.
OURS = ("sleeper", "stream", "levels", "total", "large_in", "large_out")
PARAMETERS = {"p": "q"}


class Place(NamedTuple):
    """A fleet that serves the models, the client of its frontend, and the files that the models write."""

    fleet: Fleet
    client: Any
    logs: Logs


def run(scratch: Path, figures: Figures) -> None:
    """Prove every row; `scratch` is an empty directory."""
    logs = write_models(scratch / "nvidias" / "models")
    with fleet(scratch / "fleet-of-nvidias") as found:
        found.start_nvidias(scratch / "nvidias" / "models")
        nvidias = _observe(found, logs, (*OURS, "versions"))
    logs = write_models(scratch / "ours" / "models")
    with fleet(scratch / "fleet-of-ours") as found:
        found.start(scratch / "ours" / "models", *(f"--model={name}" for name in OURS))
        ours = _observe(found, logs, OURS)
        refused = found.start(scratch / "ours" / "models", "--model=versions")
        ours["several versions"] = f"refused at the start with {refused.process.wait(90)}"
        second = found.start(scratch / "ours" / "models", "--model=total")
        ours["sequences"] += f", a second worker ends with {second.process.wait(90)}; {_affinity(scratch)}"
    for row in (each for each in ROWS if each.engine == "dynamo"):
        expected = EXPECTED[row.uses]
        seen = (nvidias[row.uses], ours[row.uses])
        figures.add_row(row, f"NVIDIA's: {seen[0]}; ours: {seen[1]}", seen == expected)


#: What is seen with NVIDIA's worker, and with ours.
EXPECTED = {
    "the id of a request": ("''", "'abc'"),
    "parameters of a request": ("{}", "{'p': 'q'}"),
    "the timeout of a request": ("0", "7000000"),
    "parameters of a response": ("[]", "['n', 'rp']"),
    "cancellation": ("60 of 60 sent", "fewer than 60 of 60 sent"),
    "several responses": ("3 and an empty one, none final", "3, none final"),
    "priority levels": ("executed as the last", "executed within the first 3"),
    "sequences": (
        "refused by the model's scheduler",
        "[1.0, 3.0, 6.0], a second worker ends with 1; with the router's session affinity 2 of 2 workers answer one",
    ),
    "several versions": ("20.0 for 1, 20.0 for 2, 20.0 for 9", "refused at the start with 1"),
    "inputs above 4 MiB": ("refused", "refused"),
    "outputs above 4 MiB": ("16 MiB arrive", "16 MiB arrive"),
    "shared memory, HTTP": ("UNIMPLEMENTED, 404", "UNIMPLEMENTED, 404"),
    "codes of errors": ("INTERNAL", "INTERNAL"),
}


def _observe(found: Fleet, logs: Logs, models: Sequence[str]) -> dict[str, str]:
    """Return what is seen of each row with the worker that was started."""
    for name in models:
        found.await_ready(name)
    place = Place(found, found.client(), logs)
    seen = _fields(place)
    for uses, look in LOOKS.items():
        if uses != "several versions" or "versions" in models:
            seen[uses] = look(place)
    return seen


def _fields(place: Place) -> dict[str, str]:
    result = place.client.infer(
        "sleeper", [tensor([1, 2])], request_id="abc", parameters=PARAMETERS, timeout=7_000_000, client_timeout=30
    )
    seen, answer = json.loads(result.as_numpy("SEEN")[0]), result.get_response()
    return {
        "the id of a request": repr(seen["id"]),
        "parameters of a request": repr(seen["parameters"]),
        "the timeout of a request": str(seen["timeout"]),
        "parameters of a response": str(sorted(name for name in answer.parameters if name in ("n", "rp"))),
    }


def _cancellation(place: Place) -> str:
    """Return how many responses `stream` sent to a client that went after the first one."""
    place.logs.stream.write_text("")
    client = place.fleet.client()
    responses: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: responses.put((result, error)))
    client.async_stream_infer("stream", [tensor([60])])
    responses.get(timeout=30)
    client.stop_stream(cancel_requests=True)
    end = time.monotonic() + 30
    while not place.logs.stream.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    sent = int((place.logs.stream.read_text() or "-1").split()[0])
    return f"{'fewer than 60' if 0 < sent < 60 else sent} of 60 sent"


def _several_responses(place: Place) -> str:
    """Return what of three responses arrives at a client that wants to know which is the last."""
    client = place.fleet.client()
    responses: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: responses.put((result, error)))
    client.async_stream_infer("stream", [tensor([3])], enable_empty_final_response=True)
    found = [responses.get(timeout=30)[0] for _ in range(3)]
    with contextlib.suppress(queue.Empty):
        found += [responses.get(timeout=1)[0]]
    client.stop_stream()
    empty = sum(not each.get_response().outputs for each in found)
    final = sum("triton_final_response" in each.get_response().parameters for each in found)
    return f"{len(found) - empty}{' and an empty one' * empty}, {final or 'none'} final"


def _priority(place: Place) -> str:
    """Return when one request of the first level was executed, sent after twenty of the second."""
    place.logs.levels.write_text("")

    def send(value: int, priority: int) -> threading.Thread:
        client = place.fleet.client()
        thread = threading.Thread(
            target=lambda: client.infer("levels", [tensor([[value]])], priority=priority, client_timeout=60)
        )
        thread.start()
        return thread

    threads = [send(value, 2) for value in range(20)]
    while not place.logs.levels.read_text():
        time.sleep(0.005)
    time.sleep(0.1)
    before = len(place.logs.levels.read_text().split())
    threads.append(send(99, 1))
    for thread in threads:
        thread.join()
    executed = place.logs.levels.read_text().split()
    after = executed.index("99") - before
    if after == len(executed) - 1 - before:
        return "executed as the last"
    return f"executed {'within the first 3' if after < 3 else f'after {after} others'}"


def _sequences(place: Place) -> str:
    """Return the sums of a sequence with one worker."""
    found = []
    for step in (1, 2, 3):
        try:
            result = place.client.infer(
                "total", [tensor([step])], sequence_id=7, sequence_start=step == 1, sequence_end=step == 3,
                client_timeout=30,
            )  # fmt: skip
            found.append(float(result.as_numpy("OUT")[0]))
        except Exception as error:
            return "refused by the model's scheduler" if "correlation ID" in str(error) else str(error)
    return str(found)


def _affinity(scratch: Path) -> str:
    """Return how many of two workers answer requests with the id of one sequence and of one session: the model keeps
    nothing, so both may serve it. (`--router-mode` kv and direct answer no request of a tensor model.)"""
    with fleet(scratch / "affinity", "--router-session-affinity-ttl-secs=600") as found:
        for _ in range(2):
            found.start(scratch / "ours" / "models", "--model=sleeper").await_serving(1)
        found.await_ready("sleeper")
        time.sleep(2)
        client, answered = found.client(), set()
        for number in range(10):
            result = client.infer(
                "sleeper", [tensor([number])], sequence_id=7, sequence_start=number == 0, client_timeout=30,
                headers={"x-dynamo-session-id": "7"},
            )  # fmt: skip
            answered.add(json.loads(result.as_numpy("SEEN")[0])["pid"])
    return f"with the router's session affinity {len(answered)} of 2 workers answer one"


def _versions(place: Place) -> str:
    """Return what of versions 1 (ten times the input), 2 (twenty times) and 9 (there is none) answers."""
    found = []
    for version in ("1", "2", "9"):
        result = place.client.infer("versions", [tensor([1])], model_version=version, client_timeout=30)
        found.append(f"{result.as_numpy('OUT')[0]} for {version}")
    return ", ".join(found)


def _large_inputs(place: Place) -> str:
    try:
        place.client.infer("large_in", [tensor(np.zeros((1 << 20) + 1))], client_timeout=60)
    except Exception as error:
        return "refused" if "the limit is: 4194304 bytes" in str(error) else str(error)
    return "answered"


def _large_outputs(place: Place) -> str:
    try:
        result = place.client.infer("large_out", [tensor([1 << 22])], client_timeout=60)
    except Exception as error:
        return str(error)
    return f"{result.as_numpy('OUT').nbytes >> 20} MiB arrive"


def _shared_memory(place: Place) -> str:
    """Return how the frontend takes a region of memory, and a request by HTTP beside its metrics."""
    try:
        place.client.register_system_shared_memory("region", "/region", 64)
        code = "OK"
    except Exception as error:
        code = str(error.status() if hasattr(error, "status") else error).removeprefix("StatusCode.")
    connection = http.client.HTTPConnection("127.0.0.1", place.fleet.metrics, timeout=30)
    connection.request("GET", "/v2/models/sleeper/ready")
    return f"{code}, {connection.getresponse().status}"


def _codes(place: Place) -> str:
    """Return the code of an error that Triton sends as INVALID_ARGUMENT: an input that the model does not have."""
    wrong = grpcclient.InferInput("OTHER", [1], "FP32")
    wrong.set_data_from_numpy(np.zeros(1, np.float32))
    try:
        place.client.infer("sleeper", [wrong], client_timeout=30)
    except Exception as error:
        return str(error.status()).removeprefix("StatusCode.")  # type: ignore[attr-defined]
    return "answered"


#: What looks at each row that one request of `sleeper` does not show.
LOOKS: dict[str, Callable[[Place], str]] = {
    "cancellation": _cancellation,
    "several responses": _several_responses,
    "priority levels": _priority,
    "sequences": _sequences,
    "several versions": _versions,
    "inputs above 4 MiB": _large_inputs,
    "outputs above 4 MiB": _large_outputs,
    "shared memory, HTTP": _shared_memory,
    "codes of errors": _codes,
}
