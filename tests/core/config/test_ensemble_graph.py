from __future__ import annotations

import numpy as np
import pytest

from tests.ensembles import DECOUPLED, ensemble_text, graph, model_text, step, tensor
from tritonlab.core.config.ensemble_graph import TensorRead
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor

MODELS = {
    "echo": model_text(),
    "split": model_text(outputs="OUT OUT2"),
    "join": model_text("A B?"),
    "batching": model_text(batch=4, dims="[2]"),
    "stream": model_text(more=DECOUPLED),
}
DIAMOND = ensemble_text(
    step("split", "IN=X", "OUT=P OUT2=Q"),
    step("echo", "IN=P", "OUT=Y1"),
    step("echo", "IN=Q", "OUT=R"),
    step("join", "A=R B=Q", "OUT=Y2"),
    inputs="X U?",
    outputs="Y1 Y2",
)


def test_the_graph_knows_who_reads_and_writes_what() -> None:
    found = graph(DIAMOND, MODELS)
    assert {name: [s.number for s in steps] for name, steps in found.readers.items()} == {
        "X": [0],
        "P": [1],
        "Q": [2, 3],
        "R": [3],
    }
    assert {name: (s.number, output) for name, (s, output) in found.writers.items()} == {
        "P": (0, "OUT"),
        "Q": (0, "OUT2"),
        "Y1": (1, "OUT"),
        "R": (2, "OUT"),
        "Y2": (3, "OUT"),
    }
    assert (found.inputs, found.optional_inputs, tuple(found.outputs)) == (("X", "U"), ("U",), ("Y1", "Y2"))
    assert found.origin("R") == "OUT of step 2 (model 'echo')"
    assert found.origin("X") == "an input of the ensemble"


@pytest.mark.parametrize(
    ("outputs", "steps"), [(["Y1"], {0, 1}), (["Y2"], {0, 2, 3}), (["Y1", "Y2"], {0, 1, 2, 3}), ([], set())]
)
def test_only_steps_that_wanted_outputs_depend_on_are_needed(outputs: list[str], steps: set[int]) -> None:
    assert graph(DIAMOND, MODELS).needed(outputs) == steps


def test_a_step_asks_for_outputs_by_name_only_if_it_does_not_want_all() -> None:
    some = ensemble_text(step("split", "IN=X", "OUT2=Z"), step("echo", "IN=Z", "OUT=Y"))
    assert [s.requested for s in graph(some, MODELS).steps] == [("OUT2",), ()]


def test_a_decoupled_step_makes_the_ensemble_decoupled() -> None:
    found = graph(ensemble_text(step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")), MODELS)
    assert [s.decoupled for s in found.steps] == [True, False]
    assert found.decoupled
    assert not graph(DIAMOND, MODELS).decoupled


def test_the_limit_of_requests_in_flight_is_read_where_the_message_has_it() -> None:
    text = ensemble_text(step("echo", "IN=X", "OUT=Y"))
    assert graph(text, MODELS).max_inflight_requests == 0
    limited = text.replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 3")
    assert graph(limited, MODELS).max_inflight_requests == 3


def fp32(*shape: int) -> Tensor:
    return Tensor(DataType.FP32, shape, np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("dims", "batch", "shape", "read"),
    [
        ((2,), 1, (2,), (1, 2)),
        ((2,), 1, (3, 2), (3, 2)),
        ((-1,), 1, (5,), (1, 5)),
        ((-1,), 1, (5, 2), (5, 2)),
        ((2,), -1, (1, 2), (2,)),
        ((2,), -1, (3, 2), (3, 2)),
        ((1, 2), -1, (1, 2), (1, 2)),
        ((2,), -1, (1, 3), (3,)),
        ((2,), 1, (3,), (3,)),
        ((1, 2), -1, (1, 1, 2), (1, 2)),
        ((2,), 0, (1, 2), (1, 2)),
        ((2,), 0, (2,), (2,)),
    ],
)
def test_a_batch_dimension_of_1_comes_and_goes_between_batching_models_and_others(
    dims: tuple[int, ...], batch: int, shape: tuple[int, ...], read: tuple[int, ...]
) -> None:
    tensor = fp32(*shape)
    got = TensorRead("IN", "Z", dims, batch).read(tensor)
    assert got.shape == read
    assert got.data is tensor.data
    assert (got is tensor) == (read == shape)


@pytest.mark.parametrize(
    ("reshape", "dims", "shape", "read"),
    [
        ((3, 2), (6,), (3, 2), (6,)),
        ((3, 2), (6,), (4, 3, 2), (4, 6)),
        ((-1,), (-1, 1), (5,), (5, 1)),
        ((3, 2), (6,), (2, 2), (2, 2)),
        ((3, 2), (6,), (4, 5, 3, 2), (4, 5, 3, 2)),
    ],
)
def test_an_output_of_the_ensemble_is_reshaped_where_it_fits(
    reshape: tuple[int, ...], dims: tuple[int, ...], shape: tuple[int, ...], read: tuple[int, ...]
) -> None:
    assert TensorRead("Y", "Y", dims, 0, reshape).read(fp32(*shape)).shape == read


def test_readings_know_which_side_batches() -> None:
    text = ensemble_text(step("batching", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"), batch=4)
    found = graph(text, MODELS)
    assert [reading.batch for s in found.steps for reading in s.inputs] == [0, -1]
    assert found.outputs["Y"].batch == 1
    reshaped = tensor("input", "X") + tensor("output", "Y", "[6]", more="reshape { shape: [3,2] }")
    found = graph(ensemble_text(step("echo", "IN=X", "OUT=Y"), io=reshaped), MODELS)
    assert (found.outputs["Y"].dims, found.outputs["Y"].reshape) == ((6,), (3, 2))
