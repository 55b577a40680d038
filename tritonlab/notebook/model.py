"""A model and a server as a notebook has them: with views, load tests, tuning and checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..core.observe.failure_capsule import FailureCapsule
from ..core.status import TritonError
from ..core.unknown_option import explains_unknown
from ..exchanges.golden import GoldenSet
from ..exchanges.last_cases import last_cases
from ..exchanges.snippets import Snippet, failure_test
from ..server.api import model as served
from ..server.api import server as served_server
from ..server.api.failures import FailedModel, KeptFailure
from ..server.api.model_signature import HelpOfModel
from ..server.observe.why import Why
from ..tools.deploy.preflight.finding import Preflight
from ..tools.deploy.preflight.judge import preflight
from ..tools.deploy.releases import DEFAULT_TARGET
from ..tools.measure.load_testing.load_target import LocalTarget
from ..tools.measure.load_testing.load_tested import LoadTested
from .authoring.notebook_ports import Ports, open_address
from .authoring.workspace import Workspace
from .views.card.failure_pane import FailurePane
from .views.opener import open_view, show_progress

if TYPE_CHECKING:
    from ..record.line_profile import LineProfile
    from ..tools.check.check_result import CheckResult
    from ..tools.measure.load_testing.load_run import LoadTest
    from ..tools.measure.tuning.tune_result import TuneResult
    from ..tools.measure.tuning.tuned_model import Written
    from ..tools.measure.tuning.what_if import WhatIf
    from .views.record.record_view import RecordView


class ShownFailure(KeptFailure):
    """A failure of a model that a cell shows as a pane, with buttons."""

    def __init__(
        self,
        model: FailedModel,
        capsule: FailureCapsule,
        cite: Callable[[str], str] = str,
        ports: Ports = lambda: None,
    ) -> None:
        """cite: what names the cell in a text that names a line of a model's file. ports: the notebook's own."""
        super().__init__(model, capsule)
        self._cite = cite
        self._ports = ports

    def to_pytest(self, path: str | Path | None = None) -> Snippet:
        """Return a pytest that sends a server the same over gRPC, with the tensors in a `.npz` beside it, and fails as
        long as the model does: the notebook's own ports if they are open, else Triton's. `path`: the directory to write
        both to.
        """
        address = open_address(self._ports)
        snippet = failure_test(self.requests(), self.model.config(), self.capsule.headline, address)
        if path is not None:
            snippet.save(path)
        return snippet

    def _cited(self, text: str) -> str:
        return self._cite(text)

    def _pane(self) -> FailurePane:
        return FailurePane(self, self._cite, self._ports)

    def _repr_html_(self) -> str:
        return str(self._pane()._bundle()["text/html"])

    def _ipython_display_(self) -> None:
        self._pane().show()


class Model(LoadTested, served.Model):
    __doc__ = HelpOfModel(served.Model.__doc__)

    def __init__(self, server: served.Host, name: str, version: int = -1, workspace: Workspace | None = None) -> None:
        """workspace: the notebook's, which knows the cells and the settings of the models that it has written."""
        super().__init__(server, name, version)
        self._workspace = workspace

    def _failure(self, capsule: FailureCapsule) -> ShownFailure:
        workspace = self._workspace
        if workspace is None:
            return ShownFailure(self, capsule)
        return ShownFailure(self, capsule, workspace.shell.cite, lambda: workspace.ports.endpoints)

    def _explain(self, error: TritonError) -> None:
        if self._workspace is not None:
            error.explained_by = self._workspace.shell.explain

    def why(self) -> Why:
        return super().why().cited(self._cited)

    why.__doc__ = served.Model.why.__doc__

    @explains_unknown
    def view(self, kind: str = "timeline") -> RecordView:
        """Return what a notebook shows of what the model does and did: `timeline` (its batches and why they closed),
        `streams` (the responses of a decoupled one, and what has not ended), `metrics`, `memory` (of its instances, and
        the --shm-size that Triton needs for the same) or `graph` (what a request made other models do: steps of an
        ensemble, BLS calls; and the slots of sequences).

        It moves while a cell shows it; `text()` states the facts, `figure()` is an SVG; `plot(ax)` of all but a graph,
        and `plot_batch_sizes(ax)` of a timeline, draw with matplotlib. Raises InvalidArgumentError for another kind.
        """
        return open_view(self, kind, written=self._written, profile=lambda seconds: self.profile(seconds=seconds))

    @explains_unknown
    def preflight(self, target: str = DEFAULT_TARGET) -> Preflight:
        """Return what of the model will not work at `target`, each in one sentence with what to do: a release of Triton
        as 2.49, its container as 24.08, kserve, dynamo or ray.

        It is loaded once more in a process of its own, which is sent its last requests and golden ones, and records
        what it reads; then where this machine's files are hidden. Raises UnknownTarget, which names the nearest.
        """
        cases = [*last_cases([self]), *GoldenSet().cases(self.name)]
        return preflight(self, target, cases=cases).cited(self._cited)

    def profile(
        self,
        requests: Sequence[Mapping[str, Any]] | None = None,
        seconds: float | None = None,
        *,
        memory: bool = False,
        **load: Any,
    ) -> LineProfile:
        """Return how long each line of its code takes, by batch size, in the numbers of the cell: `execute`, what it
        calls, threads, coroutines and helper files. `memory=True`: what each line still holds of what it allocated
        meanwhile, which slows the model down.

        `requests`: inputs that are sent one after the other, once. With `seconds`, or with options of `load_test` as
        `concurrency=8`, a load is sent so long (3 s): of `requests`, or of random values. With `seconds` alone, it
        looks at what others send (5 s without any argument). An interrupt ends it with what was found.

        Lines are timed by events in Python 3.12 and later, as long as these cost little, else by looking where the code
        is every 5 ms. The result has `of(size)`, `plot(ax)` and `to_dict()`. Raises UnavailableError if the model has
        no process, and what `load_test` raises.
        """
        from ..record.line_profiling import profile_lines

        meanwhile: Callable[[], object]
        if load or (requests is not None and seconds is not None):
            fixed = {"inputs": list(requests)} if requests is not None else {}
            options = {"duration": seconds or 3.0, "warmup": 0.0, "progress": False, **fixed, **load}
            meanwhile = partial(self.load_test, **options)
        elif requests is not None:
            meanwhile = partial(self._send_each, requests)
        else:
            meanwhile = partial(time.sleep, 5.0 if seconds is None else seconds)
        return profile_lines(self, self.server.instruments, meanwhile=meanwhile, memory=memory, cite=self._cited)

    def _send_each(self, requests: Sequence[Mapping[str, Any]]) -> None:
        for inputs in requests:
            for _ in self.infer(inputs=inputs):
                pass

    def _cited(self, text: str) -> str:
        return self._workspace.shell.cite(text) if self._workspace is not None else text

    def load_target(self) -> LocalTarget:
        return LocalTarget(self)

    def _show_progress(self, test: LoadTest) -> Callable[[], None]:
        return show_progress(test)

    @explains_unknown
    def what_if(
        self,
        *,
        max_queue_delay_microseconds: int | None = None,
        preferred_batch_size: Sequence[int] | int | None = None,
        max_batch_size: int | None = None,
        instances: int | None = None,
    ) -> WhatIf:
        """Return what other settings would have made of the requests that were recorded: latency percentiles,
        throughput and batch sizes, before and after.

        The recorded arrivals run through the batcher that serves, in simulated time; nothing is executed or reloaded.
        How long an execution of a batch takes is fitted to those recorded; the result says how exact that is. `apply()`
        of the result loads the model with the settings, unless an ensemble around it would stop serving; `config`
        are the lines for its config.pbtxt; `plot(ax)` draws the latencies, `plot_lanes(ax)` the batches.

        Raises InvalidArgumentError for settings that no config can say, or if no request was recorded yet;
        UnsupportedError for sequence models and ensembles.
        """
        differing = {
            "max_queue_delay_microseconds": max_queue_delay_microseconds,
            "preferred_batch_size": preferred_batch_size,
            "max_batch_size": max_batch_size,
            "instances": instances,
        }
        from ..tools.measure.tuning.tuned_model import what_if

        return what_if(self, differing, self._written)

    def tune(
        self,
        p99_ms: float | None = None,
        *,
        concurrency: int | None = None,
        request_rate: float | None = None,
        arrivals: Sequence[float] | None = None,
        max_instances: int | None = None,
        max_batch_size: int | None = None,
        budget_s: float = 60.0,
        **requests: Any,
    ) -> TuneResult:
        """Find the delay, the preferred sizes, the largest batch and the number of instances that do most requests per
        second with 99 of 100 answered within `p99_ms` milliseconds, and return them with what they do.

        How long executions take is measured first, by batch size and number of instances; then thousands of settings
        are replayed through the batcher that serves, and the best three, and the present ones, are measured live. The
        model is left as it was: `apply()` of the result loads it with the best settings, `config` are their lines for
        config.pbtxt; `plot(ax)` and `plot_gains(ax)` draw what was found.

        The load is one of `concurrency` (clients that each wait for their answer; by default whatever number does
        best), `request_rate` (per second) and `arrivals` (seconds); of the last two the shortest p99 wins. At most
        `max_instances` instances (by default as many as the machine has processors, from 2 to 4), and batches of
        `max_batch_size` (by default the model's). It takes about `budget_s` seconds at most; an interrupt ends it with
        what was found. `requests`: options of `load_test` that say what is sent, such as `inputs` or `shapes`. An
        ensemble around the model serves on, because no `max_batch_size` that is too small for it is tried.

        Raises InvalidArgumentError, TypeError for an unknown option, UnsupportedError for sequence models and
        ensembles, and TritonError if the model fails its requests.
        """
        load = {"concurrency": concurrency, "request_rate": request_rate, "arrivals": arrivals}
        most = {"max_instances": max_instances, "max_batch_size": max_batch_size, "budget_s": budget_s}
        from ..tools.measure.tuning.tune import tune_model

        return tune_model(self, {"p99_ms": p99_ms, **load, **most, **requests}, self._written)

    @explains_unknown
    def check(
        self,
        seconds: float = 60.0,
        *,
        seed: int = 0,
        relations: Iterable[str] | None = None,
        example: Any = None,
        strategies: Mapping[str, Any] | None = None,
        side_effects: bool = False,
        progress: Callable[[Any], object] | bool | None = None,
    ) -> CheckResult:
        """Look for what goes wrong in company: answers that depend on other requests, on a batch or on an earlier
        request; failures that spread; responses, streams and sequences that are not as they should be; leaks.

        A copy of the model, in processes of its own, is sent requests: golden ones, those of kept failures, `example`,
        and generated ones of the config's datatypes and shapes. What is found is made as small as it gets. The model
        itself goes on serving, and is not touched. It takes about so many `seconds`; an interrupt ends it with what was
        found until then. `seed` makes the same requests again.

        relations: those to try, of company, neighbours, answers, streams, sequences, resources, life and edges; all by
        default. example: inputs by name that the model takes, a request, or a list of these; the batch dimension may
        be left out. strategies: for some inputs what makes their values, without the batch dimension: a strategy of
        hypothesis, a list of values, or a function of a numpy Generator. side_effects: also check a model that talks to
        others, which a check does thousands of times. progress: called with what is done now, which prints as a line;
        it returns False to end it. True prints the lines.

        Raises InvalidArgumentError, also for a model that talks to others, ModelLoadError if its copy does not load,
        and ImportError for a strategy without hypothesis.
        """
        from ..tools.check.run import CheckOptions, check_model

        call = (lambda doing: print(doing, flush=True)) if progress is True else progress or None
        options = CheckOptions(
            seconds,
            seed,
            relations=relations,
            example=example,
            strategies=strategies,
            side_effects=side_effects,
            progress=call,
        )
        return check_model(self, options, golden=GoldenSet(), cite=self._cited)

    def _written(self) -> Written | None:
        return self._workspace.written(self.name) if self._workspace is not None else None


class Server(served_server.Server):
    __doc__ = served_server.Server.__doc__

    #: what the notebook writes into the server's repository; None for a server that no notebook writes to
    workspace: Workspace | None = None

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> Model:
        try:
            return cast(Model, super().load(name, config, files))  # what `model` below returns
        except TritonError as error:
            if self.workspace is not None:
                error.explained_by = self.workspace.shell.explain
            raise

    load.__doc__ = served_server.Server.load.__doc__

    def why(self, name: str | None = None) -> Why:
        return super().why(name).cited(self.workspace.shell.cite if self.workspace is not None else str)

    why.__doc__ = served_server.Server.why.__doc__

    def model(self, name: str, version: int = -1) -> Model:
        """Return a handle on a model, loaded or not; version -1 is the latest that its policy serves."""
        return Model(self, name, version, self.workspace)

    def models(self, exclude_not_ready: bool = False) -> Mapping[tuple[str, int], Model]:
        """Return every version that was loaded or tried, or only those that are READY, by (name, version)."""
        return {(name, version): self.model(name, version) for name, version in super().models(exclude_not_ready)}
