"""The requests of a load test: values, batches, mixes and sequences."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError
from tritonlab.tools.measure.load_testing.request_mix import Lane, ModelInputs, RequestMix

from .fakes import model_inputs

ONE = {"X": [1, 2, 3], "TEXT": ["a"]}


def every_type(shape: list[int], **config: object) -> ModelInputs:
    types = [t for t in DataType if t is not DataType.INVALID]
    inputs = [{"name": t.name, "datatype": t.name, "shape": shape} for t in types]
    return ModelInputs("m", {"inputs": inputs}, config)


def test_random_values_have_the_datatypes_and_shapes_of_the_config() -> None:
    request = RequestMix(every_type([-1, 2, 3], max_batch_size=8), batch=4, seed=5).request(Lane(0))
    assert request.batch_size == 4
    for name, tensor in request.inputs.items():
        assert (tensor.datatype.name, tensor.shape) == (name, (4, 2, 3))
        expected = 24 * tensor.datatype.byte_size if tensor.datatype is not DataType.BYTES else 24 * (16 + 4)
        assert tensor.byte_size == expected
    again = RequestMix(every_type([-1, 2, 3], max_batch_size=8), batch=4, seed=5).request(Lane(0))
    assert all(np.array_equal(again.inputs[name].data, tensor.data) for name, tensor in request.inputs.items())


def test_dimensions_of_any_size_need_shapes() -> None:
    model = every_type([-1])
    with pytest.raises(InvalidArgumentError, match=r"input 'BOOL' of model 'm' has shape \[-1\].*give shapes="):
        RequestMix(model)
    with pytest.raises(InvalidArgumentError, match="has no input 'NOPE'"):
        RequestMix(model, shapes={"NOPE": [1]})
    shapes = {t.name: [5] for t in DataType if t is not DataType.INVALID}
    assert RequestMix(model, shapes=shapes).request(Lane(0)).inputs["FP16"].shape == (5,)


def test_optional_inputs_are_left_out() -> None:
    model = ModelInputs(
        "m",
        {"inputs": [{"name": name, "datatype": "FP32", "shape": ["2"]} for name in ("X", "Y")]},
        {"input": [{"name": "Y", "optional": True}]},
    )
    assert [*RequestMix(model).request(Lane(0)).inputs] == ["X"]
    assert [*RequestMix(model, shapes={"Y": [2]}).request(Lane(0)).inputs] == ["X", "Y"]


def test_a_list_of_inputs_is_sent_in_turn_or_as_weights_say() -> None:
    many = [{**ONE, "X": [number] * 3} for number in range(3)]
    mix = RequestMix(model_inputs(), inputs=many)
    assert [int(mix.request(Lane(0)).inputs["X"].numpy()[0]) for _ in range(5)] == [0, 1, 2, 0, 1]
    mix = RequestMix(model_inputs(), inputs=many, weights=[3, 0, 1], seed=1)
    counts = collections.Counter(int(mix.request(Lane(0)).inputs["X"].numpy()[0]) for _ in range(4000))
    assert counts[1] == 0
    assert counts[0] / counts[2] == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0]])
def test_weights_have_to_fit_the_inputs(weights: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="2 inputs need 2 weights"):
        RequestMix(model_inputs(), inputs=[ONE, ONE], weights=weights)


def test_inputs_may_be_a_function_or_requests() -> None:
    mix = RequestMix(model_inputs(), inputs=lambda number: {**ONE, "X": [number] * 3})
    assert [int(mix.request(Lane(0)).inputs["X"].numpy()[0]) for _ in range(3)] == [0, 1, 2]
    saved = InferenceRequest("other", {"X": Tensor.from_numpy(np.ones(3, np.float32))}, request_id="7")
    request = RequestMix(model_inputs(), inputs=[saved], parameters={"k": 1}, priority=2, timeout=3).request(Lane(0))
    assert (request.model_name, request.inputs, request.request_id) == ("m", saved.inputs, "")
    assert (request.parameters, request.priority, request.timeout) == ({"k": 1}, 2, 3)
    with pytest.raises(InvalidArgumentError, match="empty"):
        RequestMix(model_inputs(), inputs=[])
    with pytest.raises(InvalidArgumentError, match="not a function"):
        RequestMix(model_inputs(), inputs=lambda number: ONE, weights=[1])


def test_a_batch_repeats_the_rows_that_there_are() -> None:
    mix = RequestMix(
        model_inputs(max_batch_size=8), inputs={"X": [[1, 1, 1], [2, 2, 2]], "TEXT": [["a"], ["b"]]}, batch=5
    )
    request = mix.request(Lane(0))
    assert request.batch_size == 5
    assert request.inputs["X"].numpy()[:, 0].tolist() == [1, 2, 1, 2, 1]
    assert request.inputs["TEXT"].numpy()[:, 0].tolist() == [b"a", b"b", b"a", b"b", b"a"]
    with pytest.raises(InvalidArgumentError, match="does not batch"):
        RequestMix(model_inputs(), inputs=ONE, batch=2)


def test_sequences_have_a_start_and_an_end_and_ids_of_their_own() -> None:
    mix, lanes = RequestMix(model_inputs(sequence_batching={}), sequence_length=3), [Lane(0), Lane(1)]
    sent = [(lane.number, mix.request(lane)) for _ in range(4) for lane in lanes]
    flags = [request.flags for number, request in sent if number == 0]
    assert flags == [SEQUENCE_START, 0, SEQUENCE_END, SEQUENCE_START]
    ids = [[request.correlation_id for number, request in sent if number == lane] for lane in (0, 1)]
    assert len({ids[0][0], ids[0][3], ids[1][0], ids[1][3]}) == 4
    assert ids[0][0] == ids[0][1] == ids[0][2]
    last = mix.last(lanes[0])
    assert last is not None
    assert (last.correlation_id, last.flags) == (ids[0][3], SEQUENCE_END)
    assert mix.last(lanes[0]) is None


def test_a_sequence_of_one_request_starts_and_ends_with_it() -> None:
    mix = RequestMix(model_inputs(sequence_batching={}), sequence_length=1)
    assert mix.request(Lane(0)).flags == SEQUENCE_START | SEQUENCE_END
