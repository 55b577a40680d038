"""A notebook's model and server: with views, load tests, tuning and checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..core.observe.failure_capsule import FailureCapsule
from ..core.status import TritonError
from ..core.unknown_option import UnknownName, did_you_mean, explains_unknown
from ..core.version import DEFAULT_TARGET
from ..exchanges.snippets import Snippet, failure_test
from ..server.api import model as served
from ..server.api import server as served_server
from ..server.api.failures import FailedModel, KeptFailure
from ..server.api.load_tested import LoadTested
from ..server.api.model_signature import HelpOfModel
from ..server.api.replayable import Replayable
from ..server.observe.why import Why
from ..tool_table import magic_words, tool_function, tool_methods
from .authoring.notebook_ports import Ports, open_address
from .authoring.workspace import Workspace
from .views.card.failure_pane import FailurePane
from .views.card.live_card import card_of
from .views.opener import open_view

if TYPE_CHECKING:
    from ..record.line_profile import LineProfile
    from ..tools.check.check_result import CheckResult
    from ..tools.deploy.preflight.finding import Preflight
    from ..tools.measure.tuning.tune_result import TuneResult
    from ..tools.measure.tuning.what_if import WhatIf
    from .views.record.record_view import RecordView


class ToolMethods:
    """The base of `Model` and `Server`: further methods that tools have (`Tool.functions`)."""

    if not TYPE_CHECKING:  # a type checker refuses names that the class does not have

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            text = f"{kind!r} object has no attribute {name!r}"
            if name.startswith("_"):  # IPython looks for many
                raise AttributeError(text, name=name, obj=self)
            if name in tool_methods(kind):
                return partial(tool_function(f"{kind}.{name}"), self)
            known = [each for each in dir(self) if not each.startswith("_")]
            # a call has the name of its subcommand
            advice = did_you_mean(name, known, {each: words for each, words in magic_words().items() if each in known})
            raise UnknownName(f"{text}: {advice}" if advice else text, advice)

    def __dir__(self) -> Iterable[str]:
        return {*super().__dir__(), *tool_methods(type(self).__name__)}


class ShownFailure(KeptFailure):
    """A failure of a model, shown by a cell as a pane with buttons."""

    def __init__(
        self,
        model: FailedModel,
        capsule: FailureCapsule,
        cite: Callable[[str], str] = str,
        ports: Ports = lambda: None,
    ) -> None:
        """cite: function that names the cell in a text that names a model file's line. ports: the notebook's own."""
        super().__init__(model, capsule)
        self._cite = cite
        self._ports = ports

    def to_pytest(self, path: str | Path | None = None) -> Snippet:
        """Return a pytest that sends the same request over gRPC, with the tensors in a `.npz` next to it, and fails
        until the model answers: to the notebook's own ports if they are open, else to Triton's. `path`: the directory
        for both files.
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


class Model(ToolMethods, LoadTested, Replayable, served.Model):
    __doc__ = HelpOfModel(served.Model.__doc__)

    def __init__(self, server: served.Host, name: str, version: int = -1, workspace: Workspace | None = None) -> None:
        """workspace: the notebook's, with the cells and the settings of its models."""
        super().__init__(server, name, version)
        self._workspace = workspace

    def _ipython_display_(self) -> None:
        """Show the card, where a cell ends with the model; a handle on one version, or without cells, its repr."""
        if self._workspace is None or self.version != -1 or self._workspace.report(self.name) is None:
            raise NotImplementedError
        card_of(self._workspace, self.name).show()

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
        """Return a view of the model's present and past work: `timeline` (its batches and why they closed), `streams`
        (the responses of a decoupled model, and its open requests), `metrics`, `memory` (of its instances, and the
        --shm-size that Triton needs for the same) or `graph` (the calls of a request to other models: steps of an
        ensemble, BLS calls; and the slots of sequences).

        It is updated while a cell shows it; `text()` states the facts, `figure()` is an SVG; `plot(ax)` of all but a
        graph, and `plot_batch_sizes(ax)` of a timeline, draw with matplotlib. Raises InvalidArgumentError for another
        kind.
        """
        return open_view(self, kind, profile=lambda seconds: self.profile(seconds=seconds))

    @explains_unknown
    def preflight(self, target: str = DEFAULT_TARGET) -> Preflight:
        """Return the parts of the model that will not work at `target`, each as a sentence with what to do. `target`: a
        release of Triton as 2.49, its container as 24.08, kserve, dynamo or ray.

        The model is loaded again in a separate process, which gets its last and golden requests and records the files
        that it reads; then again with this machine's files hidden. Raises UnknownTarget, which names the nearest
        target.
        """
        judge: Callable[..., Preflight] = tool_function("Model.preflight")
        return judge(self, target).cited(self._cited)

    def profile(
        self,
        requests: Sequence[Mapping[str, Any]] | None = None,
        seconds: float | None = None,
        *,
        memory: bool = False,
        **load: Any,
    ) -> LineProfile:
        """Return how long each line of its code takes, by batch size, with the cell's line numbers: `execute` and its
        calls, threads, coroutines and helper files. `memory=True`: return how much memory allocated meanwhile each line
        still holds, which slows the model down.

        `requests`: inputs that are sent one after the other, once. With options of `load_test` such as `concurrency=8`,
        or with `requests` and `seconds`, a load is sent for that time (3 s): of `requests`, or of random values. With
        `seconds` alone, the requests of others are profiled (5 s without any argument). An interrupt ends the profile
        with the result so far.

        Lines are timed by events in Python 3.12 and later, as long as these cost little, else by sampling the code
        every 5 ms of processor time. The result has `of(size)`, `plot(ax)` and `to_dict()`. Raises UnavailableError if
        the model has no process, and the errors of `load_test`.
        """
        from ..record.line_profiling import profile_lines

        meanwhile: Callable[[], object]
        if load or (requests is not None and seconds is not None):
            fixed = {"inputs": list(requests)} if requests is not None else {}
            options = {"seconds": seconds or 3.0, "warmup": 0.0, "progress": False, **fixed, **load}
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

    @explains_unknown
    def what_if(
        self,
        *,
        max_queue_delay_microseconds: int | None = None,
        preferred_batch_size: Sequence[int] | int | None = None,
        max_batch_size: int | None = None,
        instances: int | None = None,
    ) -> WhatIf:
        """Return the effect of other settings on the recorded requests: latency percentiles, throughput and batch
        sizes, before and after.

        The recorded arrivals run through the serving batcher, in simulated time; nothing is executed or reloaded. The
        duration of a batch's execution is fitted to the recorded ones; the result says how exact that is. `apply()` of
        the result loads the model with the settings, unless an ensemble around it would stop serving; `config` has the
        lines for its config.pbtxt; `plot(ax)` draws the latencies, `plot_lanes(ax)` the batches.

        Raises InvalidArgumentError for settings that a config cannot have, or if no request was recorded yet;
        UnsupportedError for sequence models and ensembles.
        """
        arguments = dict(locals())
        ask: Callable[..., WhatIf] = tool_function("Model.what_if")
        return ask(arguments.pop("self"), **arguments)

    def tune(
        self,
        p99_ms: float | None = None,
        *,
        concurrency: int | None = None,
        request_rate: float | None = None,
        arrivals: Sequence[float] | None = None,
        max_instances: int | None = None,
        max_batch_size: int | None = None,
        seconds: float = 60.0,
        **requests: Any,
    ) -> TuneResult:
        """Find the delay, the preferred sizes, the largest batch and the number of instances with the most requests per
        second while 99 of 100 are answered within `p99_ms` milliseconds, and return them with their measurements.

        The duration of executions is measured first, by batch size and number of instances; then thousands of settings
        are replayed through the serving batcher, and the best three, and the present ones, are measured live. The model
        is left as it was: `apply()` of the result loads it with the best settings, `config` has their lines for
        config.pbtxt; `plot(ax)` and `plot_gains(ax)` draw the result. A notebook shows the progress with Stop, which
        like an interrupt ends the search with the result so far; a terminal shows a line. An ensemble around the model
        keeps serving, because a `max_batch_size` that is too small for it is not tried.

        Only one of `concurrency`, `request_rate` and `arrivals` sets the load; with the last two the shortest p99 wins.

        Args:
            p99_ms: the limit of the p99, in milliseconds.
            concurrency: clients that each wait for their answer; by default the best number.
            request_rate: requests per second.
            arrivals: the times of the requests, in seconds.
            max_instances: the most instances; by default the number of the machine's processors, from 2 to 4.
            max_batch_size: the largest batch; by default the model's.
            seconds: about the most seconds that the search takes.
            requests: options of `load_test` that set the requests, such as `inputs` or `shapes`.

        Raises InvalidArgumentError, TypeError for an unknown option, UnsupportedError for sequence models and
        ensembles, and TritonError if the model fails its requests.
        """
        arguments = dict(locals())
        find_best: Callable[..., TuneResult] = tool_function("Model.tune")
        return find_best(arguments.pop("self"), **arguments.pop("requests"), **arguments)

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
        """Look for faults that appear only in company: answers that depend on other requests, on a batch or on an
        earlier request; failures that spread; wrong responses, streams and sequences; leaks.

        A copy of the model, in processes of its own, gets requests: golden ones, those of kept failures, `example`, and
        generated ones of the config's datatypes and shapes. Findings are made as small as possible. The model itself
        keeps serving and is not touched. An interrupt ends the check with the findings so far.

        Args:
            seconds: about how long the check takes.
            seed: the same seed makes the same requests again.
            relations: the relations to try, of company, neighbours, answers, streams, sequences, resources, life and
                edges; by default all.
            example: inputs by name that the model accepts, a request, or a list of these; the batch dimension may be
                left out.
            strategies: for some inputs the source of their values, without the batch dimension: a strategy of
                hypothesis, a list of values, or a function of a numpy Generator.
            side_effects: whether to check a model that talks to others, which a check does thousands of times.
            progress: called with the current step, which prints as a line; it returns False to end the check. True
                prints the lines, False shows nothing; by default a notebook shows the progress with Stop, and a
                terminal a line.

        Raises InvalidArgumentError, also for a model that talks to others, ModelLoadError if its copy does not load,
        and ImportError for a strategy without hypothesis.
        """
        arguments = dict(locals())
        run: Callable[..., CheckResult] = tool_function("Model.check")
        return run(arguments.pop("self"), **arguments, cite=self._cited)


class Server(ToolMethods, served_server.Server):
    __doc__ = served_server.Server.__doc__

    #: the notebook's models in the server's repository; None for a server without a notebook's models
    workspace: Workspace | None = None

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> Model:
        try:
            return cast(Model, super().load(name, config, files))  # the result of `model` below
        except TritonError as error:
            if self.workspace is not None:
                error.explained_by = self.workspace.shell.explain
            raise

    load.__doc__ = served_server.Server.load.__doc__

    def why(self, name: str | None = None) -> Why:
        return super().why(name).cited(self.workspace.shell.cite if self.workspace is not None else str)

    why.__doc__ = served_server.Server.why.__doc__

    def model(self, name: str, version: int = -1) -> Model:
        """Return a handle on a model, loaded or not; version -1 is the latest one that its policy serves."""
        return Model(self, name, version, self.workspace)

    def models(self, exclude_not_ready: bool = False) -> Mapping[tuple[str, int], Model]:
        """Return every version that was loaded or tried, or only those that are READY, by (name, version)."""
        return {(name, version): self.model(name, version) for name, version in super().models(exclude_not_ready)}
