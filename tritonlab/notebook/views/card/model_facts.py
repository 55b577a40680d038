"""`ModelFacts`, the content of a model's card as plain data."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....core.config.model_config import ModelConfig
from ....core.config.model_config_rules import is_decoupled
from ....core.inference.data_type import DataType
from ....core.plain_facts import plain
from ....core.short_number import duration_text
from ....core.status import TritonError
from ....server.api.model import instance_facts
from ....server.api.model_signature import shape_text
from ....server.models.backends import answer_words
from ...authoring.draft import Draft
from ...authoring.workspace import Workspace
from .device_text import per_request_text, place_text, places_text
from .hanging import can_hang, draining_text, hanging_texts, lasting

if TYPE_CHECKING:
    from ....ipc.processes.stub_log import LogRecord
    from ....server.api.model import Model

#: The states of a model that do not last, so that it is checked again.
MOVING = ("LOADING", "UNLOADING", "NOT READY")
#: The tone of each state; "bad" for any other.
TONES = {"READY": "good"} | dict.fromkeys(("LOADING", "UNLOADING"), "warn")
TONES |= dict.fromkeys(("WAITING", "UNLOADED", "NOT OPENED", "NOT LOADED", "CLOSED", "REPLACED"), "off")


@dataclass(frozen=True)
class TensorFacts:
    """One input or output. `shape`: the client's shape, including the batch dimension."""

    name: str
    datatype: str
    shape: str
    optional: bool = False


@dataclass(frozen=True)
class StepFacts:
    """One step of an ensemble. `reads`, `writes`: ensemble tensors."""

    model: str
    reads: str
    writes: str


@dataclass(frozen=True)
class ModelFacts:
    """A model as its card shows it.

    `state`: LOADING, READY, NOT READY (an instance does not run), UNLOADING, UNLOADED or FAILED (its last load); of a
    card whose load was replaced, REPLACED, `by` another cell. `seconds`: how long this notebook took to load it, else
    None.
    """

    name: str
    version: int
    state: str
    seconds: float | None
    instances: str
    batching: str
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    #: the steps of an ensemble, which has no instances
    steps: tuple[StepFacts, ...] = ()
    warnings: tuple[str, ...] = ()
    log: tuple[LogRecord, ...] = ()
    #: in plain words, the program that answers for a model of another backend than Python's
    answers: str = ""
    #: the modules that the model imported itself, and why; empty if they were ready
    imports_again: str = ""
    #: the bytes that the model's requests have copied between host and GPU
    copies: str = ""
    #: the error of the last load, if the version shown is an earlier one
    kept: str = ""
    #: why the model is FAILED
    reason: str = ""
    by: str = ""
    #: seconds since the load began
    loading: float | None = None
    #: a sentence about each version that no longer serves but takes long to end
    draining: tuple[str, ...] = ()
    #: a sentence about requests that the serving version holds for long
    hanging: str = ""
    #: the code that these versions execute, as Python stacks
    executing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "log"}
        parts = {name: [vars(part) for part in values[name]] for name in ("inputs", "outputs", "steps")}
        found: dict[str, Any] = plain({**values, **parts, "log": [record.text for record in self.log]})
        return found

    @cached_property
    def state_text(self) -> str:
        return f"{self.state} by {self.by}" if self.by else self.state

    @cached_property
    def headline(self) -> str:
        ready = f"ready in {duration_text(self.seconds)}" if self.seconds is not None else ""
        return " · ".join(filter(None, [f"version {self.version}", ready, self.instances, self.batching]))

    def lasting(self) -> ModelFacts:
        """Return the facts for a card without a kernel, which cannot end hanging requests."""
        if not (self.draining or self.hanging or self.executing) and self.loading is None:
            return self
        return replace(self, draining=(), hanging="", executing="", loading=None)

    @property
    def call(self) -> str:
        """Return the Python call that sends a request."""
        variable = self.name if self.name.isidentifier() else "model"
        return f"{variable}({', '.join(f'{tensor.name}=…' for tensor in self.inputs if not tensor.optional)})"


def current_facts(workspace: Workspace, name: str, last: ModelFacts | None = None) -> ModelFacts:
    """Return the current facts about a model in any state. `last`: the earlier ones, for those the server lost."""
    model = workspace.server.model(name)
    try:
        facts = model_facts(workspace, model)
    except TritonError:
        facts = _without_server(workspace, model, last)
    progress = workspace.loading(name)
    if progress is not None:
        serving = "The version loaded before serves meanwhile." if facts.state in ("READY", "NOT READY") else ""
        log, reason = progress.printed(), workspace.shell.cite(workspace.server.debugger.words(name))
        again = next((version["imports_again"] for version in workspace.server.loading(name)), "")
        facts = replace(facts, state="LOADING", loading=progress.age(), kept=serving, reason=reason, log=log)
        facts = replace(facts, imports_again=again)
    if name in workspace.tuned:
        facts = replace(facts, kept="It is being tuned: its settings change until the search ends.")
    draining = tuple(map(draining_text, lasting(workspace.server.draining(name))))
    hanging = "" if _is_fresh(workspace, model) else hanging_texts(workspace.server, name).get(name, "")
    is_same = (facts.draining, facts.hanging) == (draining, hanging)
    return facts if is_same else replace(facts, draining=draining, hanging=hanging)


def _is_fresh(workspace: Workspace, model: Model) -> bool:
    """Return whether the only serving version was loaded so recently that its requests cannot hang yet."""
    report = workspace.report(model.name)
    return report is not None and not can_hang(report.ready_at) and len(model.versions()) == 1


def _without_server(workspace: Workspace, model: Model, last: ModelFacts | None) -> ModelFacts:
    """Return the facts about a model that does not serve."""
    report = workspace.report(model.name)
    base = last or ModelFacts(
        model.name, workspace.draft(model.name).version, state="", seconds=None, instances="", batching=""
    )
    state, reason = model.state, model.reason.split("\n\nAt:", 1)[0]
    # `model.state` is the state of its highest version, which may have ended long ago
    if workspace.server.draining(model.name):
        state, reason = "UNLOADING", ""
    elif report is not None and report.error is not None:
        words = reason if state == "UNAVAILABLE" and reason != "unloaded" else str(report.error)
        state, reason = "FAILED", words.strip() or "The load was interrupted."
    elif state == "UNAVAILABLE":
        state, reason = ("UNLOADED", "") if reason in ("", "unloaded") else ("FAILED", reason)
    elif state == "UNKNOWN":
        state = "NOT LOADED"
    log = report.log if report is not None and state == "FAILED" else ()
    return replace(base, state=state, reason=reason, seconds=None, kept="", loading=None, warnings=(), log=log)


def model_facts(workspace: Workspace, model: Model) -> ModelFacts:
    """Return the facts about a serving model, and about its last load. Raises TritonError if it does not serve."""
    serving = model.serving_version()
    config, version, limit = serving.config, serving.version, serving.config.max_batch_size
    report = workspace.report(model.name)
    draft = workspace.draft(model.name)
    steps = _steps(config)
    instances = instance_facts(serving, workspace.server.core)
    troubles = instance_troubles(instances)
    still_serving = ""
    if report is not None and report.error is not None and report.ready_at:
        since = time.strftime("%H:%M:%S", time.localtime(report.ready_at))
        still_serving = f"The last cell did not load. The version loaded at {since} keeps serving."
    return ModelFacts(
        name=model.name,
        version=version,
        state="NOT READY" if troubles and serving.serves else serving.state.value,
        seconds=report.seconds if report is not None and not still_serving else None,
        instances=_count(len(steps), "step") if steps else _instances(instances),
        batching=_batching(config) + (", decoupled" if is_decoupled(config) else ""),
        inputs=tuple(
            TensorFacts(each.name, DataType(each.data_type).name, shape_text(each.dims, limit), each.optional)
            for each in config.input
        ),
        outputs=tuple(
            TensorFacts(each.name, DataType(each.data_type).name, shape_text(each.dims, limit, limit=False))
            for each in config.output
        ),
        steps=steps,
        warnings=(
            *troubles,
            *(_warnings(config, version, draft) if not still_serving else ()),
            *workspace.unchecked_warnings(model.name),
        ),
        answers=answer_words(config),
        imports_again=instances[0]["imports_again"] if instances and not still_serving else "",
        copies=per_request_text(model),
        log=report.log if report is not None else (),
        kept=still_serving,
    )


def served_words(model: Model) -> str:
    """Return in plain words the program that answers for a model of another backend than Python's; "" for others."""
    versions = model.versions()
    return answer_words(versions[-1].config) if versions else ""


def instance_troubles(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each instance that does not run: why, and when it starts again."""
    troubles = []
    for instance in instances:
        if instance["state"] == "restarting":
            cause = instance["failure"] or instance["last_death"]
            troubles.append(f"'{instance['name']}' is being started again: {cause}".rstrip(": "))
        elif instance["state"] == "failed":
            when = instance["next_try"]
            again = f" Next try in {duration_text(when)}." if when else ""
            troubles.append(f"'{instance['name']}' does not run: {instance['failure']}{again}")
    return troubles


def _instances(instances: Sequence[Mapping[str, Any]]) -> str:
    """Return "2 instances on CPU", "1 instance on each of GPUs 0, 1", "1 instance on GPU 0, 2 instances on GPU 1"."""
    counts = Counter(map(place_text, instances))
    if len(counts) > 1 and len(set(counts.values())) == 1 and {each["kind"] for each in instances} == {"GPU"}:
        return f"{_count(len(instances) // len(counts), 'instance')} on each of {places_text(instances)}"
    return ", ".join(f"{_count(n, 'instance')} on {device}" for device, n in counts.items()) or "no instance"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _steps(config: ModelConfig) -> tuple[StepFacts, ...]:
    return tuple(
        StepFacts(
            step.model_name + (f"/{step.model_version}" if step.model_version != -1 else ""),
            ", ".join(sorted(set(step.input_map.values()))),
            ", ".join(sorted(step.output_map.values())),
        )
        for step in config.ensemble_scheduling.step
    )


def _batching(config: ModelConfig) -> str:
    """Describe how requests become batches."""
    limit = config.max_batch_size
    if config.HasField("sequence_batching"):
        return "sequence batching"
    if not config.HasField("dynamic_batching"):
        return f"requests of up to {limit} row{'s' if limit > 1 else ''}" if limit else "no batching"
    delay = config.dynamic_batching.max_queue_delay_microseconds
    return f"dynamic batching up to {limit}" + (f", delay {delay} µs" if delay else "")


def _warnings(config: ModelConfig, version: int, draft: Draft) -> list[str]:
    found = []
    if config.HasField("dynamic_batching") and not config.max_batch_size:
        found.append("dynamic_batching does nothing while max_batch_size is 0.")
    if not config.input:
        found.append("The config has no input, so no request can carry one: add --input or auto_complete_config().")
    if not config.output:
        found.append("The config has no output: add --output or auto_complete_config().")
    if draft.source is not None:
        if "def execute" not in draft.source.text():
            found.append("model.py has no execute(): every request will fail.")
        if version != draft.version:
            found.append(
                f"Version {version} is served; version {draft.version} was written last (version_policy decides)."
            )
    return found
