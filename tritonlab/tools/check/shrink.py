"""The shrinking of a case to the smallest one with the same result: fewer requests, rows and elements, plain values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from .bench import Bench, OutOfTime
from .case import Case, Judgement, Relation
from .generated import array_of, fill_tensor, tensor_of, with_rows
from .sample import Sample

#: The most elements of a tensor that are tried one by one.
_SINGLE = 12


def shrink(
    bench: Bench, relation: Relation, case: Case, judgement: Judgement, seconds: float
) -> tuple[Case, Judgement]:
    """Return the smallest case found in that time, and its result."""
    judge, until = relation.judges[case.kind], time.monotonic() + seconds
    careful = case.kind in relation.careful
    trials = 0

    def shows(smaller: Case) -> Judgement | None:
        # a case that quickly fails to show it need not be tried in new processes
        if not careful and judge(bench, smaller, False) is None:
            return None
        return judge(bench, smaller, True)

    progressed = True
    while progressed and time.monotonic() < until:
        progressed = False
        for smaller in smaller_cases(bench, case):
            if time.monotonic() >= until:
                break
            trials += 1
            bench.say(f"making it smaller ({trials})")
            try:
                found = shows(smaller)
            except OutOfTime:
                bench.renew_after_time()
                return case, judgement
            if found is not None and _is_same_failure(found, judgement):
                case, judgement, progressed = smaller, found, True
                break
    return case, judgement


def _is_same_failure(one: Judgement, other: Judgement) -> bool:
    """Return whether two judgements show the same kind of failure, so that shrinking does not replace one error by
    another.
    """
    kinds = [each.difference.kind if each.difference is not None else None for each in (one, other)]
    return kinds[0] == kinds[1]


def smaller_cases(bench: Bench, case: Case) -> Iterator[Case]:
    """Yield cases that are smaller in one way each, the largest savings first."""
    yield from _shorter(case)
    if bench.generator.given_names and not bench.shape.batches:
        return
    for change in _sizes(bench, case.samples):
        changed = tuple(map(change, case.samples))
        if _is_smaller(changed, case.samples):
            yield case.changed(samples=changed)
    for place, sample in enumerate(case.samples):
        for name in (each for each in sample.inputs if each not in bench.generator.given_names):
            for tensor in _plainer_tensors(sample.inputs[name]):
                samples = (*case.samples[:place], sample.with_input(name, tensor), *case.samples[place + 1 :])
                if _is_smaller(samples, case.samples):
                    yield case.changed(samples=samples)


def _is_smaller(ones: tuple[Sample, ...], others: tuple[Sample, ...]) -> bool:
    return [one.size for one in ones] < [one.size for one in others] and sum(one.size[0] for one in ones) <= sum(
        one.size[0] for one in others
    )


def _shorter(case: Case) -> Iterator[Case]:
    """Yield cases with fewer requests sent."""
    order = case.order
    is_pair = len(case.samples) == len(order) == 2 and case.kind in ("state", "batch")
    if is_pair and case.samples[0].key != case.samples[1].key:
        yield case.changed(samples=(case.samples[0], case.samples[0]))
    if len(order) > 2:
        place = order.index(0) if 0 in order else 0
        for shorter in ((0, 1), (1, 0), (*order[: place + 1],), (*order[place:],), order[: len(order) // 2]):
            if 0 in shorter and 1 < len(shorter) < len(order):
                yield case.changed(order=tuple(shorter))
        if order.count(1) > 1:
            last = len(order) - 1 - order[::-1].index(1)
            yield case.changed(order=order[:last] + order[last + 1 :])


def _sizes(bench: Bench, samples: tuple[Sample, ...]) -> Iterator[Callable[[Sample], Sample]]:
    """Yield functions that make a request smaller."""
    if bench.shape.batches and any(bench.shape.rows(one) > 1 for one in samples):
        yield lambda sample: with_rows(sample, [0]) if bench.shape.rows(sample) > 1 else sample
        yield lambda sample: with_rows(sample, range(min(2, bench.shape.rows(sample))))
    if bench.shape.is_variable:
        for size in (1, 2):
            yield lambda sample, size=size: _cut(bench, sample, size)  # type: ignore[misc]


def _cut(bench: Bench, sample: Sample, size: int) -> Sample:
    """Return the request with its variable dimensions cut to that size."""
    inputs = {}
    for name, tensor in sample.inputs.items():
        dims = bench.shape.dims.get(name, [])
        lead = len(tensor.shape) - len(dims)
        array = array_of(tensor)
        for axis, dim in enumerate(dims):
            if dim < 0:
                array = np.take(array, range(min(size, array.shape[lead + axis])), axis=lead + axis)
        inputs[name] = tensor_of(tensor.datatype, array)
    return sample.with_inputs(inputs)


def _plainer_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensor with zeros or ones, all elements at once or one by one; texts are made short."""
    if tensor.datatype in (DataType.BF16, DataType.BOOL):
        return
    plain = [b"", b"a", b"b"] if tensor.datatype is DataType.BYTES else [0, 1, 2]
    for value in plain:
        yield fill_tensor(tensor, value)
    array = tensor.numpy()
    if array.size == 1 and tensor.datatype is DataType.BYTES:
        text = bytes(array.reshape(-1)[0])
        for cut in (text[: len(text) // 2], text[:-1]):
            yield fill_tensor(tensor, cut)
    if 1 < array.size <= _SINGLE:
        for index in np.ndindex(array.shape):
            for value in plain[:2]:
                changed = array.copy()
                changed[index] = value
                yield tensor_of(tensor.datatype, changed)
