"""`Bench`, the shared tools of all relations of a check: the copy of the model, accepted requests, their answers, the
noise, and the remaining time.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...core.config.model_config import ModelConfig
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from .generated import (
    FILLS,
    LONG_SIZES,
    Fill,
    Generator,
    RequestShape,
    fill_tensor,
    is_extreme,
    new_values,
    value_edges,
    with_rows,
)
from .noise import AnswerNoise
from .problems import answer_problems, rule_broken
from .sample import ModelAnswer, Sample
from .scratch_model import ScratchModel

#: The most accepted requests that are kept, and the most that are tried to find them.
_POOL, _TRIED = 12, 40
#: The most inputs that are exchanged between two accepted requests.
_MIXED = 4
#: The shortest time limit of an answer, in seconds, and the limit as a multiple of the slowest known answer.
_LEAST_TIMEOUT, _TIMES = 2.0, 20.0
#: Seconds for which a trial may continue after the time of its relation is over.
_GRACE = 2.0
#: The most elements of a request with many elements.
_MOST_ELEMENTS = 1 << 16
#: Seconds between two answers of a model that reads a clock: more than one, as clocks often show whole seconds.
_TICK = 1.1
#: Requests that are enough to judge whether the model is slow.
_FEW = 4


class OutOfTime(Exception):
    """The time of a relation is over."""


class Stopped(Exception):
    """The check must end now, with the findings so far."""


class Known(NamedTuple):
    """A request and the answer that it gets alone. `words`: its special property."""

    sample: Sample
    answer: ModelAnswer
    words: str = ""


@dataclass(eq=False)
class Bench:
    """The bench of one check.

    `pool`: requests that the model answers. `refused`: requests that it answers with an error. `edges`: requests with
    edge values, whatever the answer. `long`: requests with many elements. `contract`: requests whose answers break a
    rule of Triton's. `endless`: requests whose answers had not ended in time, while the model went on with them.
    `found`: the relations and kinds of findings.
    """

    scratch: ScratchModel
    generator: Generator
    examples: Sequence[Sample]
    random: np.random.Generator
    is_random: bool = False
    is_clocked: bool = False
    #: whether the model's sources make sets or call hash()
    is_hashed: bool = False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    noise: AnswerNoise = field(default_factory=AnswerNoise)
    pool: list[Known] = field(default_factory=list)
    refused: list[Known] = field(default_factory=list)
    edges: list[Known] = field(default_factory=list)
    long: list[Known] = field(default_factory=list)
    contract: list[Known] = field(default_factory=list)
    endless: list[Known] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: set[tuple[str, str]] = field(default_factory=set)
    #: whether two instances of the model failed to start together
    has_one_instance: bool = False
    deadline: float = math.inf
    #: when the whole check must be over
    end: float = math.inf
    say: Callable[[str], None] = lambda text: None
    #: called before each request; raises Stopped
    poll: Callable[[], None] = lambda: None
    sent: int = 0
    #: the first answers of new processes, by request
    _first_answers: dict[tuple[Any, ...], ModelAnswer] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _fill: Fill = FILLS[0]

    # -- time

    @property
    def left(self) -> float:
        """The seconds that are left for the current step."""
        return self.deadline - self.clock()

    def over(self) -> bool:
        return self.left <= 0

    def limit(self, seconds: float) -> None:
        """Limit the current step to `seconds`, or to the rest of the check's time."""
        self.deadline = min(self.clock() + seconds, self.end)

    def need(self, seconds: float) -> None:
        """Give the current step at least `seconds` more, or the rest of the check's time."""
        self.deadline = max(self.deadline, min(self.clock() + seconds, self.end))

    def _check_time(self) -> None:
        self.poll()
        if self.left < -_GRACE:
            raise OutOfTime

    # -- requests

    @property
    def shape(self) -> RequestShape:
        return self.generator.shape

    @property
    def config(self) -> ModelConfig:
        return self.scratch.config

    @property
    def sequences(self) -> bool:
        return bool(self.config.HasField("sequence_batching"))

    def sequence_id(self) -> int | str:
        """Return an unused sequence id, of the type that the model takes."""
        number = next(self._ids)
        controls = [control for one in self.config.sequence_batching.control_input for control in one.control]
        is_text = any(control.kind == 3 and control.data_type == DataType.BYTES for control in controls)
        return f"sequence-{number}" if is_text else number

    def whole_sequence(self) -> dict[str, Any]:
        """Return the fields of a request that is a whole sequence; none if the model has no sequences."""
        flags = SEQUENCE_START | SEQUENCE_END
        return {"correlation_id": self.sequence_id(), "flags": flags} if self.sequences else {}

    def alone(self, sample: Sample) -> ModelAnswer:
        """Send one request, as a whole sequence if the model has sequences, and wait for its end."""
        return self.ask([sample.request(self.scratch.name, **self.whole_sequence())])[0]

    def retry(self, sample: Sample, unanswered: ModelAnswer) -> ModelAnswer:
        """Send a request again with twice the time limit: a slow start is not a missing answer."""
        self.recover(unanswered)
        before, self.scratch.timeout = self.scratch.timeout, 2 * self.scratch.timeout
        try:
            return self.alone(sample)
        finally:
            self.scratch.timeout = before

    def together(self, samples: Sequence[Sample], instance: int = 0) -> list[ModelAnswer]:
        """Send requests as one batch, in that order, to that instance."""
        return self.at_once(samples, instance=instance, gather=True)

    def at_once(self, samples: Sequence[Sample], **how: Any) -> list[ModelAnswer]:
        """Send requests one right after the other, without waiting for an answer. `how`: as for `ScratchModel.ask`."""
        return self.ask([one.request(self.scratch.name) for one in samples], **how)

    def ask(self, requests: Sequence[InferenceRequest], **how: Any) -> list[ModelAnswer]:
        """Run `ScratchModel.ask`, and count the requests. Raises Stopped, and OutOfTime."""
        self._check_time()
        self.sent += len(requests)
        return self.scratch.ask(requests, **how)

    def renew(self, careful: bool = True) -> None:
        """Start new processes, if the case requires them."""
        if careful:
            self._check_time()
            self.scratch.fresh()

    def varied(self) -> Sample:
        """Return a request of new values, with one row and the size of the known requests."""
        return self.generator.one(new_values if self._fill is FILLS[0] else self._fill, 1, 2)

    def renew_after_time(self) -> None:
        """Start new processes for the next step, after something was cut short."""
        self.scratch.stop(0.2)
        self.scratch.fresh()

    def fresh_answer(self, sample: Sample, after: float = 0.0) -> ModelAnswer:
        """Return the first answer of new processes, after `after` seconds. If they answered differently before, the
        difference depends on the time or on nothing, and is noise."""
        self.renew()
        if after:
            self.sleep(after)
        answer = self.alone(sample)
        earlier = self._first_answers.setdefault(sample.key, answer)
        if earlier.good and answer.good and self.noise.differ(earlier, answer) is not None:
            self.noise.learn([earlier, answer])
        return answer

    def depends_on_time(self, sample: Sample) -> bool:
        """Return whether new processes of a model that reads a clock answer differently a little later."""
        if not self.is_clocked:
            return False
        before = deepcopy(self.noise)
        self.fresh_answer(sample)
        self.fresh_answer(sample, _TICK)
        return self.noise != before

    def recover(self, answer: ModelAnswer) -> None:
        """Start new processes if the last answer shows that the old ones are dead or hang."""
        if answer.died or not answer.ended:
            self.renew_after_time()

    # -- errors within one answer

    def problems(self, sample: Sample, answer: ModelAnswer) -> Iterator[tuple[str, str]]:
        """Yield each difference between an answer and the config, as the output and a sentence."""
        for name, words in answer_problems(self.scratch.version.config, sample, answer, self.shape.rows(sample)):
            if not self.is_left_out_at_times(words):
                yield name, words

    def is_left_out_at_times(self, words: str) -> bool:
        """Return whether a sentence reports a missing output that other answers have: the model may leave it out on
        purpose."""
        names = {name for one in (*self.pool, *self.edges) for outputs in one.answer.responses for name in outputs}
        return any(f"does not have '{name}', which" in words for name in names)

    # -- the properties of the model

    def learn(self) -> None:
        """Find requests that the model answers, their answers alone, and the noise."""
        self.say("looking for requests that the model takes")
        self._fill_pool()
        if not self.pool:
            return
        self._set_timeout(known.answer.seconds for known in self.pool)
        self._measure_noise()
        self._sweep_edges()
        self._sweep_sizes()

    def prepare(self, samples: Sequence[Sample], answers: Sequence[ModelAnswer]) -> None:
        """Use these as the only known requests, to repeat one case."""
        for sample, answer in zip(samples, answers, strict=True):
            (self.pool if answer.good else self.refused).append(Known(sample, answer))
        self._set_timeout(answer.seconds for answer in answers if answer.ended)
        if self.pool:
            self._learn_of(self.pool[0].sample, 2)

    def _set_timeout(self, seconds: Iterable[float]) -> None:
        """Set the time limit of answers from the times of these."""
        self.scratch.timeout = max(_LEAST_TIMEOUT, _TIMES * max(seconds, default=0.0) + self.scratch.load_seconds)

    def _fill_pool(self) -> None:
        for sample in self.examples:
            self._try(sample)
        if self.pool and self.examples and not self.generator.has_given and len(self.pool) >= _POOL:
            return
        for fill in FILLS:
            taken = len(self.pool)
            candidates = self.generator.candidates(fill, lambda taken=taken: len(self.pool) > taken)  # type: ignore[misc]
            for tried in range(_TRIED):
                if len(self.pool) >= _POOL or self.over() or self._is_slow():
                    break
                if (tried >= 6 and len(self.pool) == taken) or (self.endless and not self.pool):
                    break  # this kind of values does not fit the model, or no answer ends in time
                self._try(next(candidates))
            if len(self.pool) > taken or self.over():
                self._fill = fill
                self._mix()
                return

    def _mix(self) -> None:
        """Try requests that differ in one input only: the model may distinguish requests by the other inputs alone."""
        if not self.pool:
            return
        first, *others = self.pool
        other = next((one for one in others if one.sample.shapes == first.sample.shapes), None)
        if other is None or len(first.sample.inputs) < 2:
            return
        for name in list(first.sample.inputs)[:_MIXED]:
            if not self.over():
                self._try(first.sample.with_input(name, other.sample.inputs[name]))

    def _is_slow(self) -> bool:
        """Return whether enough requests are known for a model that is slow on each."""
        spent = sum(known.answer.seconds for known in (*self.pool, *self.refused))
        return len(self.pool) >= _FEW and spent > 0.1 * self.left

    def _try(self, sample: Sample) -> None:
        answer = self.alone(sample)
        known = Known(sample, answer)
        if rule_broken(answer):
            self.contract.append(known)
        elif answer.good:
            self.pool.append(known)
        elif answer.ended:
            self.refused.append(known)
        else:
            self.endless.append(known)
        self.recover(answer)

    def _measure_noise(self) -> None:
        """Send the requests to new processes again, from the last to the first: a different answer depends on earlier
        requests, or on nothing."""
        self.say("measuring whether it is deterministic")
        self._learn_of(self.pool[0].sample, 3)
        self.renew()  # all later answers may depend on the first request
        again: list[Known] = [Known(one.sample, self.alone(one.sample)) for one in reversed(self.pool)][::-1]
        for place, (before, after) in enumerate(zip(self.pool, again, strict=True)):
            if self.noise.differ(before.answer, after.answer) is None:
                continue
            ones = [self.fresh_answer(before.sample) for _ in range(2)]
            if self.is_random:
                ones += [before.answer, after.answer]
            self.noise.learn(ones)
            self.pool[place] = Known(before.sample, ones[0])

    def _learn_of(self, sample: Sample, times: int) -> None:
        """Learn the noise of a request in `times` new processes, as their first and as their second request: if the
        answer differs after the same requests, the difference depends on the time, or on nothing."""
        answers = [(self.fresh_answer(sample), self.alone(sample)) for _ in range(times)]
        firsts, seconds = zip(*answers, strict=True)
        if self.is_random:  # processes forked from one share the state of its random numbers
            firsts = (*firsts, *seconds[-1:], *(self.alone(sample) for _ in range(3)))
        if self.is_clocked and (later := self.fresh_answer(sample, _TICK)).good:
            firsts = (*firsts, later)
        self.noise.learn(firsts)
        self.noise.learn(seconds)

    def _sweep_edges(self) -> None:
        self.say("sending edge values")
        for words, sample in self.edge_samples():
            if self.over():
                return
            answer = self.alone(sample)
            known = Known(sample, answer, words)
            self.edges.append(known)
            if answer.is_refusal:
                self.refused.append(known)
            self.recover(answer)

    def _sweep_sizes(self) -> None:
        """Try more elements than the other requests have, where dimensions are variable."""
        if not self.shape.is_variable or self.generator.given_names:
            return
        self.say("sending many elements")
        is_picky = any(not one.words for one in self.refused)  # the model may accept even sizes only
        for size in LONG_SIZES:
            if self.over() or self._is_slow() or self.shape.elements(size) > _MOST_ELEMENTS:
                return
            sample = self.generator.one(self._fill, 1, size)
            answer = self.alone(sample)
            known = Known(sample, answer, f"dimensions of any size are {size}")
            if answer.good:
                self.long.append(known)
            elif answer.is_refusal:
                self.refused.append(known)
            if not answer.good and not (answer.is_refusal and is_picky):
                self.edges.append(known)
            self.recover(answer)

    def mixed_company(self) -> list[Known]:
        """Return answered requests with edge values or many elements; none for a model with noise, as the noise was
        measured with the requests of the pool only."""
        if not self.noise.is_silent:
            return []
        return [one for one in self.edges if one.answer.good and not is_extreme(one.words)] + self.long

    def edge_samples(self) -> Iterator[tuple[str, Sample]]:
        """Yield requests with edge values and their description, one input after the other, made from an answered
        request."""
        base = self.pool[0].sample
        amounts = self.amounts()
        for name, tensor in base.inputs.items():
            if name in self.generator.given_names:
                continue
            for words, value in value_edges(tensor.datatype):
                if name in amounts and words.startswith(("the largest", "the smallest", "infinity", "1000")):
                    continue
                yield f"{name} is {words}", base.with_input(name, fill_tensor(tensor, value))
        if self.shape.is_variable and not self.generator.given_names:
            yield "no elements", Sample(self.shape.make_inputs(self.random, self._fill, 1, 0))
        if self.shape.batches:
            yield "no rows", with_rows(base, [])
        yield "timeout is 1 microsecond", replace(base, fields={**base.fields, "timeout": 1})

    def amounts(self) -> set[str]:
        """Return the integer inputs that seem to set the amount of work: with a larger value the model answers more, or
        later."""
        base, found = self.pool[0], set()
        for name, tensor in base.sample.inputs.items():
            if tensor.datatype.numpy.kind not in "iuf" or name in self.generator.given_names:
                continue
            few = self.alone(base.sample.with_input(name, fill_tensor(tensor, 1)))
            many = self.alone(base.sample.with_input(name, fill_tensor(tensor, 40)))
            self.recover(many)
            is_same = few.good and many.good and _shapes(few) == _shapes(many)
            if not is_same or many.seconds > 3 * few.seconds + 0.03:
                found.add(name)
        return found


def _shapes(answer: ModelAnswer) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (name, one.shape if one.datatype is not DataType.BYTES else (one.byte_size // 20,))
        for each in answer.responses
        for name, one in each.items()
    ]
