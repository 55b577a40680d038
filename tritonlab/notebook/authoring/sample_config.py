"""The inputs and outputs of a config as a sample request has them.

A server sends only outputs in the config, so the outputs of a model without any are not visible from outside. The model
is loaded once with lines after its source that answer with a description of the outputs, then unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.config.model_config import ModelConfig
from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...core.status import TritonError
from .config_options import ConfigOptions
from .errors import OptionError

if TYPE_CHECKING:
    from ...server.api.model import Model

#: The text before the description of the outputs, in the error with which the lines below answer.
_MARK = "tritonlab: the outputs are "
_PROBE = f"""


def _tritonlab_probe(execute):
    import asyncio
    import json

    import triton_python_backend_utils as pb_utils

    def described(response):
        if response.has_error():
            return response
        arrays = [(tensor.name(), tensor.as_numpy()) for tensor in response.output_tensors()]
        text = json.dumps([[name, array.dtype.str, array.shape] for name, array in arrays])
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("{_MARK}" + text))

    def probing(self, requests):
        found = execute(self, requests)
        if asyncio.iscoroutine(found):
            found = asyncio.new_event_loop().run_until_complete(found)
        return [described(response) for response in found]

    return probing


TritonPythonModel.execute = _tritonlab_probe(TritonPythonModel.execute)
"""


def load_by_sample(
    sample: Mapping[str, Any],
    options: ConfigOptions,
    config: ModelConfig,
    load: Callable[[ConfigOptions, str], Model],
) -> Model:
    """Load a model with the inputs of the sample and the outputs of its answer. `load` gets options and the lines to
    write after the source. Inputs or outputs in `options` or in `config`, the text of its config, take precedence.

    Sizes are the sample's, without the batch dimension if the model batches. Raises OptionError for a value that cannot
    be an input, and for a model that answers with a response sender; also the errors of a load and of the request.
    """
    tensors = {name: _tensor(name, value) for name, value in sample.items()}
    batches = bool(config.max_batch_size if options.max_batch_size is None else options.max_batch_size)
    if not options.inputs and not config.input:
        options = replace(options, inputs=[_spec(name, tensor, batches) for name, tensor in tensors.items()])
    if not options.outputs and not config.output:
        if options.decoupled or config.model_transaction_policy.decoupled:
            fix = "--output NAME:TYPE[DIMS]"
            raise OptionError(f"the outputs of a decoupled model are not found by a sample: write {fix}", fix=fix)
        answered = _answered(load(options, _PROBE), tensors)
        options = replace(options, outputs=[_spec(name, tensor, batches) for name, tensor in answered.items()])
    return load(options, "")


def _answered(model: Model, sample: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors like the outputs with which a model with these lines answers the sample. Raises its errors."""
    try:
        for response in model.infer(inputs=dict(sample)):
            if response.error is not None:
                raise response.error
    except TritonError as error:
        _, mark, text = error.message.partition(_MARK)
        if not mark:
            raise
        found = json.loads(text.splitlines()[0])
        return {name: Tensor.from_numpy(np.zeros(shape, np.dtype(kind))) for name, kind, shape in found}
    raise OptionError("the model answered the sample without a response", fix="--output NAME:TYPE[DIMS]")


def _tensor(name: str, value: Any) -> Tensor:
    try:
        return value if isinstance(value, Tensor) else Tensor.from_numpy(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise OptionError(f"the sample of {name} is not a tensor: {error}", field=name) from None


def _spec(name: str, tensor: Tensor, batches: bool) -> str:
    dims = list(tensor.shape)[1 if batches else 0 :]
    if not dims:
        where = "besides its batch dimension" if batches else ""
        text = f"the sample of {name} has no dimension {where}".rstrip()
        raise OptionError(f"{text}: give an array of shape [1, N]" if batches else f"{text}: give [value]", field=name)
    datatype = "STRING" if tensor.datatype is DataType.BYTES else tensor.datatype.name
    return f"{name}:{datatype}[{','.join(map(str, dims))}]"
