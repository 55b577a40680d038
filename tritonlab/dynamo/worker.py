"""The process of a worker: a server whose models are endpoints of a Dynamo fleet, until a signal ends it.

Dynamo's runtime reads its settings from the environment (`DYN_*`); the options here are required for a worker, and take
precedence.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from ..core.config.model_config import from_json
from ..core.status import InvalidArgumentError, TritonError
from ..server.api.server import Server
from .served_model import ASK, ServedModel

LOOPBACK = "127.0.0.1"
_MISSING = (
    "NVIDIA Dynamo is not installed in this environment: `pip install ai-dynamo==1.6.1`, in one that is not your "
    "notebook's; where NVIDIA's package index cannot be reached, `pip install --no-deps ai-dynamo==1.6.1 "
    "ai-dynamo-runtime==1.6.1` and what its worker imports"
)
#: Seconds without a request after which all frontends have stopped routing to a worker that leaves.
_LEAVING = 2.0
#: The most seconds that a worker waits for that, and for requests in progress.
_DRAINING = 30.0
#: Seconds between two checks of the clock, and the delay of a check after which the fleet has given this worker up: its
#: lease is 10 seconds.
_BEAT, _LOST = 1.0, 8.0
#: Seconds after which a worker checks again for workers that have started at the same time.
_AGAIN = 3.0
#: Seconds to wait for the list of serving workers, and for the answer of each.
_LOOKING, _ANSWER = 1.0, 3.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerOptions:
    """The models of a worker, and its fleet: `namespace` separates fleets, `discovery` is the way in which workers find
    each other (file, etcd, kubernetes), and `host` is the address of this process for the frontends."""

    model_repository: Path
    models: tuple[str, ...] = ()
    namespace: str = "dynamo"
    component: str = "triton"
    discovery: str = "file"
    request_plane: str = "tcp"
    host: str = LOOPBACK


class Refused(Exception):
    """Models that cannot be served together with the workers in the fleet."""


def run(
    dynamo: bool,
    repository: Path,
    models: Sequence[str] = (),
    namespace: str = "dynamo",
    discovery: str | None = None,
    host: str | None = None,
) -> int:
    """Run `tritonlab worker`: serve until SIGTERM or SIGINT, and return the exit status. 1 means that the models cannot
    be served; 75 means that this worker was stopped so long that the fleet has given it up, and should be restarted."""
    if importlib.util.find_spec("dynamo") is None:
        print(f"tritonlab: {_MISSING}", file=sys.stderr)
        return 1
    options = WorkerOptions(
        repository,
        tuple(models),
        namespace=namespace,
        discovery=discovery or os.environ.get("DYN_DISCOVERY_BACKEND", "file"),
        host=host or os.environ.get("DYN_TCP_RPC_HOST", LOOPBACK),
    )
    os.environ["DYN_TCP_RPC_HOST"] = options.host
    os.environ.setdefault("DYN_LOG", "warn")  # otherwise its runtime writes two lines for each request
    try:
        return uvloop.run(_serve(options))
    except (TritonError, Refused) as error:
        print(f"tritonlab: {error}", flush=True)
        return 1


async def _serve(options: WorkerOptions) -> int:
    from dynamo.runtime import DistributedRuntime  # logging and threads of Dynamo, for this command only

    names = options.models or ("*",)
    server = Server(options.model_repository, model_control_mode="explicit", startup_models=names)
    try:
        runtime = DistributedRuntime(asyncio.get_running_loop(), options.discovery, options.request_plane)
        worker = Worker(runtime, server, options)
        return await worker.serve()
    finally:
        await asyncio.to_thread(server.stop)


class Worker:
    """A worker of the fleet of `runtime`, Dynamo's runtime."""

    def __init__(self, runtime: Any, server: Server, options: WorkerOptions) -> None:
        from dynamo.health_check import HEALTH_CHECK_KEY

        self._runtime = runtime
        self._server = server
        self._options = options
        self._probe: str = HEALTH_CHECK_KEY
        self._models: list[ServedModel] = []
        self._endpoints: list[Any] = []
        self._ends = asyncio.Event()
        self._status = 0

    async def serve(self) -> int:
        """Join the fleet, answer until a signal comes, leave, and return the exit status. Raises Refused and
        TritonError for a model that cannot be served, before any model is announced."""
        names = sorted({name for name, _ in self._server.models(exclude_not_ready=True)})
        if not names:
            repository = self._options.model_repository
            raise Refused(f"no model is loaded of '{repository}': a worker serves what is there when it starts")
        self._models = [ServedModel(self._server.model(name), self._probe) for name in names]
        self._endpoints = [self._runtime.endpoint(self._path(model.name)) for model in self._models]
        for model, endpoint in zip(self._models, self._endpoints, strict=True):
            await self._check(model, endpoint)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ends.set)
        self._endpoints[0].metrics.register_prometheus_expfmt_callback(self._metrics)
        serving = [
            asyncio.ensure_future(self._join(model, endpoint))
            for model, endpoint in zip(self._models, self._endpoints, strict=True)
        ]
        watching = asyncio.ensure_future(self._watch())
        ends = asyncio.ensure_future(self._ends.wait())
        done, _ = await asyncio.wait([ends, watching, *serving], return_when=asyncio.FIRST_COMPLETED)
        await self._leave()
        watching.cancel()
        for task in done:
            if task is not ends:
                task.result()
        return self._status

    def _path(self, name: str) -> str:
        """Return the path of a model's endpoint. No name is the beginning of another, as Dynamo matches beginnings."""
        plain = re.sub(r"[^a-z0-9_-]", "_", name.lower())
        mark = hashlib.sha256(name.encode()).hexdigest()[:8]
        return f"{self._options.namespace}.{self._options.component}.{plain}_{mark}"

    async def _join(self, model: ServedModel, endpoint: Any) -> None:
        from dynamo.llm import ModelInput, ModelType, WorkerType, register_model

        config = from_json(json.dumps(model.config)).SerializeToString()
        await register_model(
            ModelInput.Tensor,
            ModelType.TensorBased,
            endpoint,
            model.name,
            worker_type=WorkerType.Aggregated,
            tensor_model_config={"name": "", "inputs": [], "outputs": [], "triton_model_config": config},
        )
        print(f"serves {model.name} as {self._path(model.name)}", flush=True)
        probe = {"model": model.name, self._probe: True}
        await endpoint.serve_endpoint(model.generate, graceful_shutdown=True, health_check_payload=probe)

    async def _check(self, model: ServedModel, endpoint: Any) -> None:
        """Raise Refused if the fleet serves this model with another config; for a model that keeps sequences, if the
        fleet serves it at all."""
        client = await endpoint.client()
        end = time.monotonic() + _LOOKING
        while not client.instance_ids() and time.monotonic() < end:
            await asyncio.sleep(0.05)
        for instance in client.instance_ids():
            if instance == endpoint.connection_id():
                continue
            digest = await _ask(client, instance)
            if digest is None:
                continue
            if model.keeps_sequences:  # its router spreads tensors despite session affinity (1.6.1, measured)
                raise Refused(
                    f"the model '{model.name}' keeps sequences and another worker serves it already: Dynamo would send "
                    "the requests of one sequence to both; run one worker, or take another --namespace"
                )
            if digest and digest != model.digest:
                raise Refused(
                    f"the fleet serves the model '{model.name}' with another config: requests would reach either; stop "
                    "those workers first, or take another name or --namespace"
                )
            if not digest:
                _log.warning("another program serves '%s' too, and does not say with which config", model.name)

    async def _watch(self) -> None:
        """End this worker if it was stopped so long that the fleet has given it up: Dynamo does not take it back. Check
        once again whether it may serve, because other workers may have started at the same time; if not, raise
        Refused."""
        last = joined = time.monotonic()
        while True:
            await asyncio.sleep(_BEAT)
            now = time.monotonic()
            if now - last > _BEAT + _LOST:
                still = f"tritonlab: this worker stood still for {now - last:.0f} seconds"
                print(f"{still}, and the fleet has given it up; it ends, to be started again", flush=True)
                self._status = os.EX_TEMPFAIL
                self._ends.set()
                return
            last = now
            if joined and now - joined > _AGAIN:
                joined = 0.0
                for model, endpoint in zip(self._models, self._endpoints, strict=True):
                    await self._check(model, endpoint)
                last = time.monotonic()

    async def _leave(self) -> None:
        """Leave the fleet, wait until its frontends have noticed and send nothing more, and wait for the end of running
        requests."""
        await asyncio.gather(
            *(endpoint.unregister_endpoint_instance() for endpoint in self._endpoints), return_exceptions=True
        )
        left = time.monotonic()
        quiet = 0.0 if self._status else _LEAVING  # the fleet sends nothing to a worker that it has given up
        while time.monotonic() < left + _DRAINING and (
            any(model.busy for model in self._models)
            or time.monotonic() < max(left, *(model.last_request for model in self._models)) + quiet
        ):
            await asyncio.sleep(0.05)
        self._runtime.shutdown()

    def _metrics(self) -> str:
        return self._server.metrics() if self._server.live() else ""


async def _ask(client: Any, instance: int) -> str | None:
    """Return the digest of the config that a worker serves; "" if it is not tritonlab's, None if it is gone."""
    try:
        async with asyncio.timeout(_ANSWER):
            async for item in await client.direct({ASK: True}, instance):
                answer = item.data() if hasattr(item, "data") else item
                if isinstance(answer, dict) and ASK in (answer.get("parameters") or {}):
                    return str(answer["parameters"][ASK]["string"])
        return ""
    except (TimeoutError, InvalidArgumentError):
        return None
    except Exception as error:
        text = str(error)
        return None if "connect" in text.lower() or "disconnect" in text.lower() else ""
