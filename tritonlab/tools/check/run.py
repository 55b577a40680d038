"""A check, from the copy of a model to its findings."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.config.model_config_rules import is_ensemble
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError, TritonError
from ...exchanges.golden import GoldenSet
from ...exchanges.last_cases import last_cases
from ...notebook.views.work_view import Work, WorkStep, shown_work
from ...server.api.model import Model
from ...server.api.server import Server
from ...server.models.dependency_graph import composing_models
from .bench import Bench, OutOfTime, Stopped
from .case import Case, Judgement, Relation
from .check_finding import CheckFinding, group_findings, read_from
from .check_result import CheckResult, Tried
from .contacts import Contacts, uses_clock, uses_hashes, uses_random
from .generated import Generator, RequestShape
from .probe import Probe
from .relations.answers import ANSWERS
from .relations.company import COMPANY, search_more
from .relations.decoupled_streams import STREAMS
from .relations.edges import EDGES
from .relations.life import LIFE
from .relations.neighbours import NEIGHBOURS
from .relations.resources import RESOURCES
from .relations.sequences import SEQUENCES
from .sample import Sample
from .scratch_model import ScratchModel
from .shrink import shrink
from .strategies import drawing

#: In the order of trial.
RELATIONS: tuple[Relation, ...] = (ANSWERS, STREAMS, SEQUENCES, COMPANY, NEIGHBOURS, EDGES, LIFE, RESOURCES)
#: The share of the time for finding requests, and the most seconds for shrinking one case.
_LEARN, _SHRINK = 0.3, 8.0
#: The share of the time for the first answer.
_FIRST = 0.15
#: The least seconds for finding requests: without requests nothing can be tried.
_LEARN_LEAST = 5.0
#: The least share of the time for the relations, however long the start and the first answers took.
_TRY = 0.5
#: The share that is reserved for repeating findings at the end.
_CONFIRMED = 0.08
_NO_TIME = "no time was left"
#: The most seconds to repeat a case.
_CONFIRM = 20.0
#: Seconds between two progress reports.
_EVERY = 0.25
#: The least microseconds after which a sequence expires; `sequences` tries expiry with less.
_SEQUENCE_IDLE = 60_000_000
#: The most requests of earlier failures that are sent.
_FAILED = 4
#: The most findings of one relation.
_FINDINGS = 2

Progress = Callable[["Doing"], object]
#: Returns the line of a cell, in words, for a text that names a line of a model's file.
Cite = Callable[[str], str]


@dataclass(frozen=True)
class Doing:
    """The current step of a check: `relation` and `text` in words, the seconds since the start, the seconds allowed,
    and the number of findings."""

    relation: str
    text: str
    seconds: float
    budget: float
    findings: int

    def __str__(self) -> str:
        found = f", {self.findings} found" if self.findings else ""
        return f"{self.relation}: {self.text} ({self.seconds:.0f} of {self.budget:g} s{found})"


@dataclass(frozen=True)
class CheckOptions:
    """The options of `Model.check`."""

    seconds: float = 60.0
    seed: int = 0
    relations: Iterable[str] | None = None
    example: Any = None
    strategies: Mapping[str, Any] | None = None
    side_effects: bool = False
    progress: Progress | None = None

    def chosen(self) -> list[Relation]:
        """Return the relations to try. Raises InvalidArgumentError for an unknown name."""
        names = [one.name for one in RELATIONS]
        wanted = names if self.relations is None else list(self.relations)
        if isinstance(self.relations, str):
            wanted = [self.relations]
        for name in wanted:
            if name not in names:
                raise InvalidArgumentError(f"'{name}' is not a relation; there are {', '.join(names)}")
        if not (self.seconds > 0):
            raise InvalidArgumentError(f"seconds must be more than 0, not {self.seconds:g}")
        return [one for one in RELATIONS if one.name in wanted]


def check_model(model: Model, options: CheckOptions, golden: GoldenSet | None = None, cite: Cite = str) -> CheckResult:
    """Check a model, also with its last requests and its last failed ones, as far as the server has kept them.

    `golden`: kept requests to send as well. An interrupt ends the check with the findings so far. Raises
    InvalidArgumentError, and ModelLoadError if the copy does not load.
    """
    relations = options.chosen()
    contacts = Contacts.of_model(model)
    if contacts.any and not options.side_effects:
        raise InvalidArgumentError(
            f"'{model.name}' talks to others, which a check would do thousands of times: {contacts.words()}. "
            "check(side_effects=True) does it nevertheless"
        )
    run = _Run(model, options, cite)
    given = [*_read_examples(model, options.example), *_goldens(model, golden)]
    return run.check(relations, [*given, *_last(model), *_find_failed(model)], contacts)


def check(
    model: Model, seconds: float, *, cite: Cite, progress: Progress | bool | None = None, **options: Any
) -> CheckResult:
    """Run `Model.check`."""
    if progress is None:
        work = Work(f"Check of {model.name}", seconds, WorkStep("loading a copy of the model"))

        def look(doing: Doing) -> bool:
            work.begin(f"{doing.relation}: {doing.text}", ("findings", str(doing.findings)))
            return not work.stopping.is_set()

        with shown_work(work):
            return check_model(model, CheckOptions(seconds, progress=look, **options), GoldenSet(), cite)
    call = (lambda doing: print(doing, flush=True)) if progress is True else progress or None
    return check_model(model, CheckOptions(seconds, progress=call, **options), GoldenSet(), cite)


class _Run:
    """One check in progress."""

    def __init__(self, model: Model, options: CheckOptions, cite: Cite) -> None:
        self._model = model
        self._options = options
        self._cite = cite
        self._began = time.monotonic()
        self._relation = "start"
        self._text, self._reported_at = "", self._began
        self._findings: list[CheckFinding] = []
        self._tried: list[Tried] = []
        self._notes: list[str] = []

    def check(self, relations: Sequence[Relation], examples: Sequence[Sample], contacts: Contacts) -> CheckResult:
        stopped, sent = "", 0
        bench: Bench | None = None
        try:
            self._say("copying the model")
            with open_scratch(self._model, examples) as scratch:
                bench = self._bench(scratch, examples)
                self._go(bench, relations)
        except KeyboardInterrupt:
            stopped = "interrupted"
        except Stopped:
            stopped = "stopped"
        except TritonError as error:
            if bench is None or not (bench.pool or bench.contract):
                raise
            stopped = "its copy starts no more"
            self._notes.append(f"The check ended early: {error.message.strip().partition(chr(10))[0]}")
        if bench is not None:
            sent = bench.sent
            self._notes += [text for text in (bench.noise.sentence(), *bench.notes) if text]
        if contacts.any:
            self._notes.append(f"The model talks to others: {contacts.words()}.")
        named = {one.relation for one in self._tried}
        self._tried += [
            Tried(one.name, one.explanation, stopped or _NO_TIME) for one in relations if one.name not in named
        ]
        seconds = time.monotonic() - self._began
        answered = bool(self._findings) or bool(bench is not None and bench.pool)
        has_tried = any(not one.left_out for one in self._tried)
        return CheckResult(
            self._model.name,
            group_findings(self._findings),
            tuple(self._tried),
            tuple(self._notes),
            seconds=seconds,
            requests=sent,
            seed=self._options.seed,
            checked=answered and has_tried,
            stopped=stopped,
        )

    def _bench(self, scratch: ScratchModel, examples: Sequence[Sample]) -> Bench:
        bench = make_bench(scratch, self._model, self._options, examples)
        bench.say, bench.poll = self._say, self._poll
        scratch.timeout = max(scratch.timeout, self._options.seconds * _FIRST)
        self._say("starting the copy")
        scratch.start()
        bench.limit(max(self._options.seconds * _LEARN, _LEARN_LEAST))
        return bench

    def _go(self, bench: Bench, relations: Sequence[Relation]) -> None:
        try:
            bench.learn()
        except OutOfTime:
            bench.renew_after_time()
        bench.end = max(self._began + self._options.seconds, time.monotonic() + self._options.seconds * _TRY)
        if not bench.pool and not bench.contract:
            if bench.endless and STREAMS in relations and not STREAMS.why_not(bench):
                self._relation = STREAMS.name
                bench.limit(bench.end - time.monotonic())
                is_whole = self._try(bench, STREAMS, bench.left)
                if self._findings:
                    self._tried.append(Tried(STREAMS.name, STREAMS.explanation, cut=not is_whole))
                    relations = [one for one in relations if one is not STREAMS]
            nothing = _nothing_taken(bench, self._options.seconds)
            self._notes.append(nothing.replace("Nothing", "Nothing else", 1) if self._findings else nothing)
            self._tried += [Tried(one.name, one.explanation, "no request was answered") for one in relations]
            return
        left = list(relations)
        end = bench.end - _CONFIRMED * self._options.seconds
        for relation in relations:
            left.remove(relation)
            why = relation.why_not(bench)
            if not why and not bench.pool and relation is not ANSWERS:
                why = "no request is answered as it should be"
            if why:
                self._tried.append(Tried(relation.name, relation.explanation, why))
                continue
            rest = sum(one.weight for one in left if not one.why_not(bench))
            share = max(end - time.monotonic(), 0.0) * relation.weight / (relation.weight + rest)
            self._relation = relation.name
            bench.limit(share)
            if share < 0.05:
                continue
            is_whole = self._try(bench, relation, share)
            self._tried.append(Tried(relation.name, relation.explanation, cut=not is_whole))
            if relation.beyond is not None:
                name, why = relation.beyond
                self._tried.append(Tried(name, f"A part of {relation.name}.", why))
        # where other requests were found to change answers, more of them show nothing new
        has_company = any(one.relation == COMPANY.name for one in self._findings)
        if COMPANY in relations and bench.pool and not bench.sequences and not has_company:
            self._relation = COMPANY.name
            bench.limit(end - time.monotonic())
            bench.say("random company")
            self._try(bench, replace(COMPANY, search=search_more), bench.left)

    def _try(self, bench: Bench, relation: Relation, share: float) -> bool:
        """Try a relation; return whether there was enough time."""
        try:
            self._search(bench, relation, share)
        except OutOfTime:
            bench.renew_after_time()
            return False
        except TritonError as error:
            text = error.message.strip().partition("\n")[0]
            self._notes.append(f"'{relation.name}' was not finished: {text}")
            bench.renew_after_time()
            return False
        return not bench.over()

    def _search(self, bench: Bench, relation: Relation, share: float) -> None:
        found: set[str] = set()
        for case in relation.search(bench):
            if case.kind in found:
                continue
            finding = self._confirm(bench, relation, case, share)
            if finding is not None:
                found.add(case.kind)
                bench.found.add((relation.name, case.kind))
                self._findings.append(finding)
                self._say(finding.sentence)
            if len(found) >= _FINDINGS or bench.over():
                return

    def _confirm(self, bench: Bench, relation: Relation, case: Case, share: float) -> CheckFinding | None:
        """Repeat a case, as it must fail twice, and shrink it."""
        left, seconds = bench.left, min(_SHRINK, max(share / 2, 1.0))
        bench.need(_CONFIRM)
        judgement = relation.judges[case.kind](bench, case, True)
        difference = judgement.difference if judgement is not None else None
        if difference is not None and difference.kind != "error" and bench.depends_on_time(case.samples[0]):
            judgement = None
        if judgement is None:
            bench.limit(left)
            return None
        bench.need(seconds + _CONFIRM)
        if relation.shrinks and case.samples:
            case, judgement = shrink(bench, relation, case=case, judgement=judgement, seconds=seconds)
        bench.limit(left)
        sentence, place = judgement.sentence, judgement.place
        where = ""
        if place is not None:
            copy, _, inside = place[0].rpartition(f"/{bench.scratch.name}/")
            file = str(self._model.directory / inside) if "/check-" in copy else place[0]
            judgement = replace(judgement, place=(file, place[1]))
            where = self._cite(f'File "{file}", line {place[1]}')
        return CheckFinding(
            self._model.name,
            relation.name,
            sentence=sentence,
            case=case,
            judgement=judgement,
            directory=self._model.directory,
            where=where,
            seed=self._options.seed,
            side_effects=self._options.side_effects,
            again=lambda one: repeat(self._model, one, self._options),
        )

    def _say(self, text: str) -> None:
        """Report the current step. Raises Stopped if the callback returns False."""
        self._text, self._reported_at = text, time.monotonic()
        since, options = self._reported_at - self._began, self._options
        doing = Doing(self._relation, text, since, options.seconds, len(self._findings))
        if options.progress is not None and options.progress(doing) is False:
            raise Stopped

    def _poll(self) -> None:
        if time.monotonic() - self._reported_at > _EVERY:
            self._say(self._text)


def make_bench(scratch: ScratchModel, model: Model, options: CheckOptions, examples: Sequence[Sample]) -> Bench:
    """Return a bench for a copy that is not started yet."""
    scratch.base = _batching(scratch)
    random = np.random.default_rng(options.seed)
    shape = RequestShape(scratch.config)
    generator = Generator(shape, random, drawing(options.strategies, options.seed))
    return Bench(
        scratch,
        generator,
        examples,
        random,
        is_random=uses_random(model.directory),
        is_clocked=uses_clock(model.directory),
        is_hashed=uses_hashes(model.directory),
    )


def _batching(scratch: ScratchModel) -> dict[str, Any]:
    """Return the changes of the config in the copy: a model that takes batches gets them, even if its author has not
    enabled batching yet. Sequences do not expire on a busy machine."""
    config = scratch.config
    if config.HasField("sequence_batching"):
        idle = max(int(config.sequence_batching.max_sequence_idle_microseconds), _SEQUENCE_IDLE)
        return {"sequence_batching": {**scratch.written()["sequence_batching"], "max_sequence_idle_microseconds": idle}}
    if config.max_batch_size > 1 and not is_ensemble(config):
        if not config.HasField("dynamic_batching"):
            return {"dynamic_batching": {}}
        batching = dict(scratch.written()["dynamic_batching"])
        for key in ("max_queue_delay_microseconds", "preferred_batch_size"):
            batching.pop(key, None)
        return {"dynamic_batching": batching}
    return {}


def open_scratch(model: Model, examples: Sequence[Sample] = ()) -> ScratchModel:
    """Return a copy of a serving model and of the models that it needs, also for the given requests."""
    core = model.server.core
    version = core.find(model.name, model.version)
    others = []
    for name in _find_needed(model, examples):
        with suppress(TritonError):
            others.append((name, core.find(name).files.directory))
    is_python = not is_ensemble(version.config) and version.config.backend == "python"
    return ScratchModel(
        model.name,
        version.files.directory,
        version.config,
        core.options,
        others=others,
        probe=Probe() if is_python else None,
    )


def _find_needed(model: Model, examples: Sequence[Sample]) -> list[str]:
    """Return the models that this one consists of, has called, or names in its source or a request, and the models that
    these need."""
    core = model.server.core
    found: list[str] = []
    todo = [model.name]
    known = {one.identifier for one in core.models.known()}
    in_requests = [text for one in examples for text in one.texts() if text in known]
    while todo:
        name = todo.pop()
        with suppress(TritonError):
            version = core.find(name)
            called = [*composing_models(version.config), *(one for each in version.instances for one in each.called)]
            called += [one for one in Contacts.named_in(version.files.directory) if one in known]
            called += in_requests
            for one in called:
                if one not in found and one != model.name:
                    found.append(one)
                    todo.append(one)
    return found


def _read_examples(model: Model, example: Any) -> list[Sample]:
    """Return the requests that the author gives: inputs by name, a request, or several requests."""
    if example is None:
        return []
    several = example if isinstance(example, (list, tuple)) else [example]
    version = model.server.core.find(model.name, model.version)
    types, shape = version.rules.input_types, RequestShape(version.config)
    found = []
    for one in several:
        if isinstance(one, InferenceRequest):
            found.append(Sample.from_request(one))
        elif isinstance(one, Mapping):
            tensors = {}
            for name, value in one.items():
                if name not in types:
                    raise InvalidArgumentError(f"example names '{name}', which is not an input of '{model.name}'")
                tensors[name] = Tensor.from_any(value, types[name])
            found.append(shape.with_batch(Sample(tensors)))
        else:
            kind = type(one).__name__
            raise InvalidArgumentError(f"example is of type {kind}; give inputs by name, a request, or a list of them")
    return found


def _goldens(model: Model, golden: GoldenSet | None) -> list[Sample]:
    if golden is None:
        return []
    with suppress(ValueError, OSError):
        return [Sample.from_request(case.request) for case in golden.cases(model.name) if not case.error]
    return []


def _last(model: Model) -> list[Sample]:
    """Return the last requests that the server has recorded of the model, each once."""
    samples = [Sample.from_request(case.request) for case in last_cases([model])]
    return list({one.key: one for one in samples}.values())


def _find_failed(model: Model) -> list[Sample]:
    """Return the last failed requests, as far as they were kept."""
    found: list[Sample] = []
    for failure in model.failures:
        with suppress(TritonError):
            found += [Sample.from_request(request) for request in failure.requests()]
    return found[-_FAILED:]


def _nothing_taken(bench: Bench, seconds: float) -> str:
    if bench.endless:
        answer = bench.endless[0].answer
        came = f"{len(answer.responses)} responses and no end" if answer.responses else "no response"
        return (
            f"Nothing could be checked: a request had {came} after {answer.seconds:.0f} s, as long as a check "
            f"of {seconds:g} s waits. Give check({4 * seconds:g}) more time, or check(example={{...}}) a request "
            "that takes less."
        )
    if (example := next(iter(bench.refused), None)) is not None and example.sample in bench.examples:
        return f"Nothing could be checked: the model refuses the request that was given: {example.answer.summary}."
    refused = bench.refused[-1].answer.summary if bench.refused else "no answer"
    return (
        f"Nothing could be checked: the model refuses every request that was generated, the last one with: {refused}. "
        "Give check(example={...}) a request that it takes, or strategies={...} for its values."
    )


def repeat(model: Model, case: Case, options: CheckOptions) -> Judgement | None:
    """Repeat a case with the current model."""
    relation = next(one for one in RELATIONS if one.name == case.relation)
    with open_scratch(model, case.samples) as scratch:
        bench = make_bench(scratch, model, options, case.samples)
        scratch.start()
        answers = [bench.alone(sample) for sample in case.samples]
        for answer in answers:
            bench.recover(answer)
        bench.prepare(case.samples, answers)
        for _ in range(2):
            judgement = relation.judges[case.kind](bench, case, True)
            if judgement is not None:
                return judgement
    return None


def check_case(
    case: str | os.PathLike[str], model: str | os.PathLike[str] | Model, *, side_effects: bool = False
) -> None:
    """Repeat a kept case of a finding, and raise AssertionError with the result as long as the model has the problem.

    case: the directory that `to_pytest` of a finding has written next to the test. model: a model directory, or a
    serving model. Raises FileNotFoundError for a missing directory.
    """
    kept_case = read_from(os.fspath(case))
    options = CheckOptions(side_effects=side_effects)
    if isinstance(model, Model):
        judgement = repeat(model, kept_case, options)
    else:
        judgement = _repeat_directory(Path(model), kept_case, options)
    if judgement is not None:
        raise AssertionError(judgement.sentence)


def _repeat_directory(directory: Path, case: Case, options: CheckOptions) -> Judgement | None:
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is not a model directory: set TRITONLAB_MODEL to the model's")
    directory = directory.resolve()
    with tempfile.TemporaryDirectory(prefix="tritonlab-check-") as repository:
        for each in directory.parent.iterdir():  # the model may call its neighbours
            if each.is_dir():
                (Path(repository) / each.name).symlink_to(each)
        with Server(repository, model_control_mode="explicit") as server:
            return repeat(server.load(directory.name), case, options)
