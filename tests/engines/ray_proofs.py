"""What replicas of ours answer, refuse and survive under Ray Serve, and what several of them are worth."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tritonclient.http as httpclient
import yaml

from tests.conformance.reference import free_ports
from tests.engines.direct import Direct, direct_server, post
from tests.engines.environment import ROOT, environment, python_of
from tests.engines.figures import Figures
from tests.engines.load import Call, Load, measured, reading_of
from tests.engines.models import TOTAL, TOTAL_CONFIG, write_mortal, write_plain
from tests.engines.odd import REQUESTS, OddRequest, answer_of, write_odd
from tests.engines.ray_rows import prove_rows
from tests.serving import write_model
from tests.tools.deploy.manifests.deployments import deployment
from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.manifests.files import render

CALLERS, SECONDS = 16, 10.0


class RayApp:
    """A process of `tests.engines.ray_app`."""

    def __init__(self, repository: Path, *models: str) -> None:
        (self.port,) = free_ports(1)
        self._process = subprocess.Popen(
            [python_of("ray"), "-m", "tests.engines.ray_app", str(repository), str(self.port), *models],
            cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip

    def deploy(self, least: int, most: int) -> Any:
        """Deploy between so many replicas and return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([least, most]), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise RuntimeError(f"Ray has ended with {self._process.wait()}")

    def replicas(self) -> list[psutil.Process]:
        """Return the processes of the replicas."""
        below = psutil.Process(self._process.pid).children(recursive=True)
        found = []
        for process in below:
            with contextlib.suppress(psutil.Error):
                if "ServeReplica" in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.kill()


@contextlib.contextmanager
def ray_app(repository: Path, *models: str) -> Iterator[RayApp]:
    found = RayApp(repository, *models)
    try:
        yield found
    finally:
        found.close()


def run(scratch: Path, figures: Figures) -> None:
    """Prove and measure everything; `scratch` is an empty directory."""
    repository = scratch / "plain" / "models"
    repository.mkdir(parents=True)
    log = write_plain(repository)
    write_model(repository, "total", TOTAL, TOTAL_CONFIG)
    write_odd(repository)
    write_mortal(repository)
    with ray_app(repository) as app:
        refusal = app.deploy(1, 1)
        figures.add("a repository with sequences", str(refusal)[:200])
    with ray_app(repository, "sleeper", "double", "stream", "scripted", "rows", "mortal") as app:
        figures.prove("deployed", app.deploy(1, 1), "deployed")
        answered(app.port, log, figures)
        prove_rows(app.port, str(refusal), figures)
        with direct_server(repository) as direct:
            compared(app.port, direct, figures)
            as_odd(app.port, direct, figures)
        replaced(app, figures)
        scaled(app, figures)
        ended(app, figures)
    by_file(repository, figures)
    batches(repository, figures)


def answered(port: int, log: Path, figures: Figures) -> None:
    """Prove that it answers the protocol, and what it refuses."""
    client = httpclient.InferenceServerClient(f"127.0.0.1:{port}")
    figures.prove("ready, of a model too", (client.is_server_ready(), client.is_model_ready("double")), (True, True))
    result = client.infer("sleeper", [_input([1, 2])], request_id="abc", parameters={"p": "q"}, timeout=7_000_000)
    seen = json.loads(result.as_numpy("SEEN")[0])
    values = (result.get_response()["id"], seen["id"], seen["parameters"]["p"], result.get_response()["parameters"])
    figures.prove("id, parameters, and those of the response", values, ("abc", "abc", "q", {"rp": "7", "n": 3}))
    binary = client.infer("double", [_input([[1, 2]])], outputs=[httpclient.InferRequestedOutput("OUT")])
    figures.prove("binary tensors", binary.as_numpy("OUT").tolist(), [[2, 4]])
    figures.prove("a stream", post(port, "/v2/models/stream/generate_stream", {"IN": [3]})[1].count("data: "), 3)
    log.write_text("")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v2/models/stream/generate_stream", json.dumps({"IN": [200]}))
    connection.getresponse().read(10)
    connection.close()
    end = time.monotonic() + 20
    while not log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    figures.prove("a client that goes cancels its stream", int((log.read_text() or "1000").split()[0]) < 150, True)
    for path in ("/v2/systemsharedmemory/region/a/register", "/v2/repository/models/double/unload"):
        status, text = post(port, path, {})
        figures.prove(f"refused: {path}", (status, "Ray Serve" in text), (501, True))


def compared(port: int, direct: Direct, figures: Figures) -> None:
    """Measure requests of 64 KiB through Ray and to a server of ours, one caller, turn by turn."""
    values = np.zeros(1 << 14, np.float32)
    clients = {
        name: httpclient.InferenceServerClient(at) for name, at in
        (("ray", f"127.0.0.1:{port}"), ("direct", direct.http))
    }  # fmt: skip
    took: dict[str, list[float]] = {"ray": [], "direct": []}
    for _ in range(100):
        for name, client in clients.items():
            begun = time.perf_counter()
            client.infer("sleeper", [_input(values)])
            took[name].append(time.perf_counter() - begun)
    ray, plain = (1000 * statistics.median(took[name][10:]) for name in ("ray", "direct"))
    figures.add("64 KiB there and back, model of 20 ms", f"{ray:.1f} ms through Ray, {plain:.1f} ms direct, "
                f"{ray / plain:.2f} x", ray <= 1.5 * plain, "1.5 x")  # fmt: skip


def as_odd(port: int, direct: Direct, figures: Figures) -> None:
    """Prove that odd requests are answered as directly."""
    ray, plain = (httpclient.InferenceServerClient(at) for at in (f"127.0.0.1:{port}", direct.http))
    for name, request in REQUESTS.items():
        expected = answer_of(httpclient, plain, request)
        figures.prove(f"as directly: {name}", answer_of(httpclient, ray, request), expected)


def replaced(app: RayApp, figures: Figures) -> None:
    """Prove that Ray replaces a replica with a model that has died and does not come up again."""
    (before,) = (each.pid for each in app.replicas())
    client = httpclient.InferenceServerClient(f"127.0.0.1:{app.port}")
    died = answer_of(httpclient, client, OddRequest("mortal", {"IN": np.float32([-1])}))
    begun, answer = time.monotonic(), ""
    while not answer.startswith("{") and time.monotonic() - begun < 60:
        time.sleep(0.2)
        answer = answer_of(httpclient, client, OddRequest("mortal", {"IN": np.float32([1])}))
    others = [each.pid for each in app.replicas() if each.pid != before]
    figures.add("a replica with a dead model is replaced", f"{died.splitlines()[0]}; answers after "
                f"{time.monotonic() - begun:.1f} s, by another one: {bool(others)}",
                answer.startswith("{") and bool(others))  # fmt: skip


def by_file(repository: Path, figures: Figures) -> None:
    """Prove that the serve.yaml of an export deploys its models, with another directory and port than it names."""
    models = [
        DeployedModel("double", {"max_batch_size": 8, "instance_group": [{"kind": "KIND_CPU", "count": 1}]}),
        DeployedModel("stream", {"model_transaction_policy": {"decoupled": True}}),
    ]
    (port,) = free_ports(1)
    document = yaml.safe_load(render("deploy/ray/serve.yaml", deployment(models=models)))
    document["http_options"]["port"] = port
    document["applications"][0]["args"]["model_repository"] = str(repository)
    file = repository.with_name("serve.yaml")
    file.write_text(yaml.safe_dump(document))
    serve = Path(python_of("ray")).with_name("serve")
    process = subprocess.Popen(
        [python_of("ray"), str(serve), "run", str(file)],
        cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        client, answer = httpclient.InferenceServerClient(f"127.0.0.1:{port}"), []
        end = time.monotonic() + 120
        while not answer and time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(Exception):
                answer = client.infer("double", [_input([[1, 2]])]).as_numpy("OUT").tolist()
            time.sleep(0.5)
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs([process, *below], 30)
        for each in alive:
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.wait()
    figures.prove("the serve.yaml of an export", answer, [[2, 4]])


def batches(repository: Path, figures: Figures) -> None:
    """Prove `map_batches` on Ray Data."""
    done = subprocess.run(
        [python_of("ray"), "-m", "tests.engines.ray_data", str(repository)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    for name, (seen, expected) in json.loads(line.removeprefix("FOUND ")).items():
        figures.prove(f"map_batches, {name}", seen, expected)


def scaled(app: RayApp, figures: Figures) -> None:
    """Measure the rate of 1, 2 and 4 replicas, and how soon one that load asks for takes part."""
    measured(callers(app.port), CALLERS, 2)
    one = measured(callers(app.port), CALLERS, SECONDS)
    figures.add("1 replica", f"{one.rate:.1f}/s, {len(one.errors)} lost")
    app.deploy(1, 2)
    time.sleep(10)  # the load of before is forgotten, and one replica is left
    load = Load(callers(app.port), CALLERS)
    while not load.processes:
        time.sleep(0.01)
    took = load.answered_by(load.processes, 60)
    result = load.end()
    value = "never" if took is None else f"after {took:.1f} s, {len(result.errors)} lost"
    holds = took is not None and took <= 10 and not result.errors
    figures.add("a replica that the load asks for takes part", value, holds, "10 s")
    for replicas, bar in ((2, 1.8), (4, 3.4)):
        app.deploy(replicas, replicas)
        measured(callers(app.port), CALLERS, 3)
        result = measured(callers(app.port), CALLERS, SECONDS)
        value = f"{result.rate:.1f}/s, {result.rate / one.rate:.2f} x, {len(result.errors)} lost"
        figures.add(f"{replicas} replicas", value, result.rate >= bar * one.rate, f"{bar} x")
        even = len(result.by_process) == replicas and result.spread <= 0.02
        figures.add(f"{replicas} replicas' spread", f"{100 * result.spread:.1f} %", even, "2 %")


def ended(app: RayApp, figures: Figures) -> None:
    """Measure what is lost when replicas are taken away and killed under load, and how soon another serves."""
    load = Load(callers(app.port), CALLERS)
    time.sleep(2)
    app.deploy(2, 2)
    time.sleep(3)
    result = load.end()
    figures.add("4 replicas become 2 under load", f"{len(result.errors)} lost of {result.answers}",
                not result.errors and not result.wrong, "0 lost")  # fmt: skip
    load = Load(callers(app.port), CALLERS)
    time.sleep(2)
    known = load.processes
    os.kill(app.replicas()[0].pid, signal.SIGKILL)
    took = load.answered_by(known, 60)
    result = load.end()
    share = CALLERS // 2 + 2
    figures.add("SIGKILL of 1 of 2, 16 callers", f"{len(result.errors)} lost of {result.answers}, {result.wrong} wrong",
                len(result.errors) <= share and not result.wrong, f"{share} lost: those in flight and two")  # fmt: skip
    for text in sorted({error[:120] for error in result.errors}):
        figures.add("  lost with", text)
    figures.add("another one serves", "never" if took is None else f"after {took:.1f} s",
                took is not None and took <= 30, "30 s")  # fmt: skip


def callers(port: int) -> Callable[[], Call]:
    """Return what makes callers of `sleeper`."""

    def make() -> Call:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

        def call(value: float) -> dict[str, object]:
            tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [value]}
            try:
                connection.request("POST", "/v2/models/sleeper/infer", json.dumps({"inputs": [tensor]}))
                response = connection.getresponse()
                body = response.read()
            except Exception:
                connection.close()
                raise
            if response.status != 200:
                raise RuntimeError(f"{response.status} {body[:200].decode(errors='replace')}")
            out, seen = (each["data"][0] for each in json.loads(body)["outputs"])
            return reading_of(seen, out)

        return call

    return make


def _input(values: Any) -> Any:
    array = np.asarray(values, np.float32)
    found = httpclient.InferInput("IN", array.shape, "FP32")
    found.set_data_from_numpy(array)
    return found
