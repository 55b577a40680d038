"""The life of a model version: from files to READY, and to its end.

load:    import in two stubs at once -> auto_complete_config in the one that is thrown away
         -> merge, check -> initialize -> READY
reload:  the same beside the running version; only when the new one is READY it takes over,
         and the old one finishes and finalizes
unload:  no new requests, requests in flight end, finalize, process ends
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from functools import partial

from ...core.config.model_config import ModelConfig
from ...core.inference.delivery import deliver_error
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.request_rules import RequestRules
from ...core.metrics.latency_stats import Histogram
from ...core.status import TritonError, UnavailableError
from ...instances.life.instance_state import InstanceState
from ...instances.life.model_instance import ModelInstance
from ...ipc.processes.stub_log import LogBook, LogRecord
from ...schedulers.ensemble_scheduler import EnsembleScheduler
from ...schedulers.scheduler import Scheduler
from .label_provider import Labels
from .model_repository_manager import ModelFiles
from .response_cache import CachedModel
from .version_load import LoadServices, VersionLoad, final_config


class ModelState(enum.Enum):
    """The states as the repository index reports them (rule 5.11.7)."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class ModelEvent(enum.Enum):
    LOADED = "loaded"
    FAILED = "failed"
    UNLOAD = "unload"
    UNLOADED = "unloaded"


#: Any pair that is not here is a defect of ours and raises.
TRANSITIONS = {
    (ModelState.LOADING, ModelEvent.LOADED): ModelState.READY,
    (ModelState.LOADING, ModelEvent.FAILED): ModelState.UNAVAILABLE,
    (ModelState.READY, ModelEvent.UNLOAD): ModelState.UNLOADING,
    (ModelState.UNLOADING, ModelEvent.UNLOADED): ModelState.UNAVAILABLE,
}


class ModelVersion:
    """One loaded version: its configuration, rules, scheduler and instances.

    `on_state` gets every state change as (version, reason).
    """

    def __init__(
        self,
        files: ModelFiles,
        version: int,
        services: LoadServices,
        on_state: Callable[[ModelVersion, str], None],
    ) -> None:
        self.name = files.name
        self.identifier = files.identifier
        self.version = version
        self.files = files
        self.state = ModelState.LOADING
        self.reason = ""
        self.load_ns, self.load_started = 0, services.instances.clock.now()
        self.config: ModelConfig = files.config
        self.labels: Labels = {}
        self.rules: RequestRules
        self.scheduler: Scheduler
        self.stats = services.metrics.stats()
        self.first_response: Histogram | None = None
        self._say = partial(_say, services.instances.log, self.name, version)
        self._warn = partial(self._say, "WARNING")
        self.loading = VersionLoad(files, version, services, self.stats, self._warn)
        self._services = services
        self._on_state = on_state
        self._has_is_ready = True
        self._submit: Callable[[InferenceRequest], None]
        self._cached: CachedModel | None = None

    @property
    def instances(self) -> list[ModelInstance]:
        """The instances that serve; an ensemble has none."""
        running = self.loading.instances
        return running.serving if running is not None else []

    @property
    def leaving(self) -> list[ModelInstance]:
        """The instances that only finish their last requests, since others serve now."""
        running = self.loading.instances
        return list(running.leaving) if running is not None else []

    @property
    def serves(self) -> bool:
        """Return whether new requests go here."""
        return self.state is ModelState.READY

    def advance(self, event: ModelEvent, reason: str = "") -> None:
        self.state = TRANSITIONS[self.state, event]
        self.reason = reason
        self._on_state(self, reason)

    # -- load

    def load(self) -> None:
        """Load the version; blocks. Raises TritonError with the text of `<Code>: <text>` in a load failure (rule
        2.5.1).
        """
        clock = self._services.instances.clock
        self.load_started = clock.now()
        self._on_state(self, "")
        try:
            parts = self.loading.load()
            self.config, self.labels, self.rules = parts.config, parts.labels, parts.rules
            self.scheduler, self.first_response = parts.scheduler, parts.first_response
            self._submit = self._entrance()
        except TritonError as error:
            self.advance(ModelEvent.FAILED, f"{error.code.text}: {error.message}")
            raise
        except BaseException as error:
            self.advance(ModelEvent.FAILED, str(error) or f"{type(error).__name__} while loading")
            raise
        self.load_ns = clock.now() - self.load_started
        self.advance(ModelEvent.LOADED)

    def update_instances(self, files: ModelFiles) -> None:
        """Replace the instances for a configuration that differs in nothing else (rule 5.11.2), while the version goes
        on serving; blocks. Raises TritonError; then nothing has changed, and `reason` says why.
        """
        assert self.loading.instances is not None
        config = ModelConfig()
        config.CopyFrom(self.config)
        config.ClearField("instance_group")
        config.instance_group.extend(files.config.instance_group)
        try:
            config = final_config(config, self._services.gpus)
            self.loading.instances.update(config)
        except TritonError as error:
            self.reason = f"{error.code.text}: {error.message}"
            raise
        self.config, self.files, self.reason = config, files, ""

    def _entrance(self) -> Callable[[InferenceRequest], None]:
        """Return where checked requests go. It is decided here, so that what is off costs a request nothing."""
        services, cache = self._services.instances, self._services.execution.cache
        if self.instances and all(instance.plan.passive for instance in self.instances):
            return self._refuse
        if not self.config.response_cache.enable:
            return self.scheduler.enqueue
        if cache is None:
            self._warn(
                "response_cache has no effect: the server has no cache. In a notebook `tritonlab.reset(cache_config="
                "'local,size=<bytes>')` makes one that has, elsewhere Server(…, cache_config=…) or --cache-config."
            )
            return self.scheduler.enqueue
        self._cached = CachedModel(
            cache,
            self.name,
            self.version,
            outputs=[output.name for output in self.config.output],
            execute=self.scheduler.enqueue,
            stats=self.stats,
            clock=services.clock,
            instruments=services.instruments,
            warn=self._warn,
        )
        return self._cached.enqueue

    def _refuse(self, request: InferenceRequest) -> None:
        """Refuse a request where Triton 2.51 crashes."""
        raise UnavailableError(
            f"{request.prefix}all instance groups of model '{self.name}' are passive: nothing executes its requests"
        )

    # -- use

    def enqueue(self, request: InferenceRequest) -> None:
        """Check the request and hand it to the scheduler. Raises TritonError; then nothing was executed."""
        self.rules.check(request)
        self._submit(request)

    def withdraw(self, request: InferenceRequest, error: TritonError) -> bool:
        """Take a request out of the queue and end it with `error`; returns False if it is not there (any more)."""
        if not self.scheduler.withdraw(request):
            return False
        services = self._services.instances
        deliver_error(request, self.version, error, services.instruments, services.clock)
        return True

    def ready(self) -> bool:
        """Return whether it is READY, every stub is alive, and the author's `is_ready()` agrees (rules 2.6.2, 2.6.3,
        2.7).
        """
        if self.state is not ModelState.READY:
            return False
        if any(instance.state is not InstanceState.READY for instance in self.instances):
            return False
        return not self._has_is_ready or self._author_says_ready()

    def failed(self) -> bool:
        """Return whether an instance does not run: its stub died, and no other has come up yet."""
        return any(instance.state is InstanceState.FAILED for instance in self.instances)

    def _author_says_ready(self) -> bool:
        """Ask all instances at once. Only the log tells why one is not ready, as in Triton (rule 2.7.4)."""
        checks = [instance.stub.readiness for instance in self.instances if instance.stub is not None]
        queries = [check.ask() for check in checks]
        try:
            answers = [check.await_ready(query) for check, query in zip(checks, queries, strict=True)]
        except UnavailableError as error:
            self._say("VERBOSE", error.message)
            return False
        self._has_is_ready = any(answers)
        return True

    # -- end

    def unload(self, reason: str = "unloaded") -> None:
        """Let requests end, finalizes, and end the processes; blocks. The state is UNLOADING already."""
        self.scheduler.stop()
        if self.loading.instances is not None:
            self.loading.instances.stop()
        self._leave()
        self.advance(ModelEvent.UNLOADED, reason)

    def awaited(self) -> str:
        """Return in words what an unload waits for; empty if that is over in a moment."""
        found = [text for instance in [*self.instances, *self.leaving] if (text := instance.awaited())]
        pending = self.scheduler.pending
        return ", ".join([*found, *([f"{pending} more in the queue"] if pending else [])])

    def abort(self) -> None:
        """End everything at once, whatever the state: requests that wait or execute fail, a load fails."""
        self.loading.abort()
        if isinstance(scheduler := getattr(self, "scheduler", None), EnsembleScheduler):  # a failed load has none
            scheduler.abort()
        self._leave()

    def _leave(self) -> None:
        """Drop what the server keeps of this version: cached answers."""
        if self._cached is not None:
            self._cached.close()

    def __repr__(self) -> str:
        return f"<ModelVersion {self.name}/{self.version} [{self.state.value} | {len(self.instances)} instances]>"


def _say(log: LogBook, name: str, version: int, level: str, text: str) -> None:
    """Add a line to the server's log, in the version's name."""
    log.add(
        LogRecord(
            time_ns=time.time_ns(), model=name, version=version, instance="", stream="server", level=level, text=text
        )
    )
