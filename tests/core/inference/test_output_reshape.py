from __future__ import annotations

import numpy as np
import pytest

from tests.ensembles import config, tensor
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.output_reshape import OutputReshapes, matches
from tritonlab.core.inference.tensor import Tensor

OUTPUTS = "".join(
    tensor("output", name, dims, more=reshape)
    for name, dims, reshape in (
        ("FIXED", "[4]", "reshape { shape: [2, 2] }"),
        ("SCALAR", "[1]", "reshape { }"),
        ("VARIABLE", "[-1, 4, -1]", "reshape { shape: [-1, 2, 2, -1] }"),
        ("PLAIN", "[2, 2]", ""),
    )
)


def zeros(*shape: int) -> Tensor:
    return Tensor(DataType.FP32, shape, np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("name", "dims", "out"),
    [
        ("FIXED", (2, 2), (4,)),
        ("SCALAR", (), (1,)),
        ("VARIABLE", (3, 2, 2, 5), (3, 4, 5)),
        ("PLAIN", (2, 2), (2, 2)),
        ("FIXED", (4,), (4,)),
        ("FIXED", (3, 3), (3, 3)),
        ("VARIABLE", (3, 4, 5), (3, 4, 5)),
    ],
)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_clients_get_the_dims_of_what_fits_the_reshape(
    name: str, dims: tuple[int, ...], out: tuple[int, ...], batch: tuple[int, ...]
) -> None:
    """Rule 5.4.6."""
    reshapes = OutputReshapes(config(f'backend: "python" max_batch_size: {4 * len(batch)} {OUTPUTS}', "m"))
    outputs = {name: zeros(*batch, *dims)}
    data = outputs[name].data
    reshapes.apply(outputs)
    assert (outputs[name].shape, outputs[name].numpy().shape) == ((*batch, *out), (*batch, *out))
    assert outputs[name].data is data


def test_a_scalar_has_no_batch_dimension() -> None:
    outputs = {"SCALAR": zeros()}
    OutputReshapes(config(f'backend: "python" max_batch_size: 4 {OUTPUTS}', "m")).apply(outputs)
    assert outputs["SCALAR"].shape == ()


def test_most_models_have_none() -> None:
    assert OutputReshapes.from_config(config('backend: "python" ' + tensor("output", "A"), "m")) is None
    assert OutputReshapes.from_config(config(f'backend: "python" {OUTPUTS}', "m")) is not None


def test_any_size_matches_minus_1() -> None:
    assert matches((3, 0), (3, -1))
    assert not matches((3,), (3, -1))
    assert not matches((4, 1), (3, -1))
