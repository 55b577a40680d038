from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.status import Frame, RemoteException
from tritonlab.notebook.authoring.hints import hint, line_hint

CONFIGS: dict[str, dict[str, Any]] = {
    "m": {"max_batch_size": 8, "input": [{"name": "A", "dims": [-1, 3]}, {"name": "B"}], "output": [{"name": "SUM"}]},
    "flat": {"max_batch_size": 0, "input": []},
}
P = "[request id: <id_unknown>] "
DECODE = "text arrives as bytes: value.decode()"
PARAMETER = "a parameter of the config is an object: config['parameters'][KEY]['string_value'] is its text"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            P + "unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [4]. NOTE: Setting a non-zero",
            "the first dimension is the batch: array[None], or a list within a list, has shape [1, 4]",
        ),
        (
            P + "input 'A' has no shape but model requires batch dimension for 'm'",
            "send an array of shape [batch ≤ 8, any, 3]",
        ),
        (P + "input 'X' has no shape but model requires batch dimension for 'm'", ""),
        (
            P + "unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [5].",
            "send an array of shape [batch ≤ 8, 4]",
        ),
        (
            P + "unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [1,5].",
            "send an array of shape [batch ≤ 8, 4]",
        ),
        (
            P + "unexpected shape for input 'A' for model 'flat'. Expected [-1,4], got [5].  ",
            "send an array of shape [any, 4]",
        ),
        (
            P + "inference input 'A' data-type is 'FP64', but model 'm' expects 'FP32'",
            "convert it: array.astype(numpy.float32)",
        ),
        ("unexpected inference input 'X' for model 'm'", "its inputs are A, B"),
        (
            "TritonModelException: Model m - Error when running inference: unexpected inference output 'SUN' for "
            "model 'm'",
            "did you mean 'SUM'? Its outputs are SUM",
        ),
        ("unexpected inference output 'X' for model 'flat'", ""),
        ("unexpected inference input 'a' for model 'm'", "did you mean 'A'? Its inputs are A, B"),
        ("AttributeError: 'MetricFamily' object has no attribute 'metric'", "did you mean 'Metric'?"),
        ("AttributeError: 'Metric' object has no attribute 'incremnt'", "did you mean 'increment'?"),
        ("TypeError: float() argument must be a string or a real number, not 'dict'", PARAMETER),
        ("TypeError: int() argument must be a string, a bytes-like object or a real number, not 'dict'", PARAMETER),
        ("TypeError: the JSON object must be str, bytes or bytearray, not dict", PARAMETER),
        (
            "inputs for model 'm'. Got input(s) ['A','correlation_id','sequence_start'], but missing required input(s)",
            "sequence_start is not an input: m.infer(inputs={…}, flags=1)",
        ),
        ("TypeError: a bytes-like object is required, not 'str'", DECODE),
        ("TypeError: startswith first arg must be bytes or a tuple of bytes, not str", DECODE),
        ("TypeError: argument should be integer or bytes-like object, not 'str'", DECODE),
        ("TypeError: cannot use a string pattern on a bytes-like object", DECODE),
        ("TypeError: 'in <string>' requires string as left operand, not bytes", DECODE),
        ("TypeError: sequence item 0: expected str instance, bytes found", DECODE),
        ("TypeError: can't concat str to bytes", DECODE),
        ('TypeError: can only concatenate str (not "bytes") to str', DECODE),
        ("TypeError: Object of type bytes is not JSON serializable", DECODE),
        ("AttributeError: 'bytes' object has no attribute 'casefold'", DECODE),
        (
            "AttributeError: 'numpy.ndarray' object has no attribute 'split'",
            "a tensor of text is an array of bytes: [text.decode() for text in array.ravel()]",
        ),
        ("AttributeError: 'numpy.ndarray' object has no attribute 'unknown'", ""),
        (
            "Python model 'm_0' is using the decoupled mode and the execute function must return None.",
            "a decoupled model answers with request.get_response_sender().send(…), the last time with "
            "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL",
        ),
        (
            "TritonModelException: Unable to send response. Non-decoupled model cannot send more than one response.",
            "only a decoupled model may send several: --decoupled at %%triton_model",
        ),
        (
            "TritonModelException: NumPy dtype is not supported.",
            "text goes as objects: numpy.array([...], dtype=object); Triton has no complex numbers, dates and records",
        ),
        (
            "AttributeError: module 'triton_python_backend_utils' has no attribute 'Tensor'",
            "on a Triton server too, Tensor is there only once model.py has been imported: use it inside the methods; "
            "for annotations begin with `from __future__ import annotations`",
        ),
        ("AttributeError: module 'triton_python_backend_utils' has no attribute 'Tensr'", "did you mean 'Tensor'?"),
        (
            "AttributeError: module 'triton_python_backend_utils' has no attribute 'get_input_by_name'",
            "did you mean 'get_input_tensor_by_name' or 'get_input_config_by_name'?",
        ),
        ("AttributeError: module 'triton_python_backend_utils' has no attribute 'nothing_like_it'", ""),
        (
            "TypeError: __init__(): incompatible constructor arguments. The following argument types are supported:\n"
            "    1. c_python_backend_utils.Tensor(arg0: str, arg1: numpy.ndarray)\n\nInvoked with: 'Y', tensor([1.])",
            "Tensor.from_dlpack(name, tensor) takes a torch tensor; Tensor(name, array) takes a numpy array",
        ),
        ("TypeError: initialize() takes 1 positional argument but 2 were given", "write def initialize(self, args)"),
        (
            "TypeError: TritonPythonModel.auto_complete_config() missing 1 required positional argument: 'config'",
            "write @staticmethod, and below it def auto_complete_config(auto_complete_model_config)",
        ),
        ("TypeError: check() takes 1 positional argument but 2 were given", ""),
        (
            "AttributeError: '_asyncio.Future' object has no attribute 'error'",
            "await it: answer = await request.async_exec()",
        ),
        (
            "TypeError: Tensor.__init__() got some positional-only arguments passed as keyword arguments: 'name'",
            "Tensor(name, array) takes a numpy array, such as numpy.array([value]), and no keywords",
        ),
        (
            "TypeError: unsupported operand type(s) for *: 'Tensor' and 'int'",
            "the array of a tensor is tensor.as_numpy()",
        ),
        (
            "TypeError: __init__(): incompatible constructor arguments. The following argument types are supported:\n"
            "    1. c_python_backend_utils.InferenceResponse(output_tensors: List[c_python_backend_utils.Tensor] = [], "
            "error: c_python_backend_utils.TritonError = None, parameters: object = None)\n\n"
            "Invoked with: kwargs: error='no'",
            "write InferenceResponse([pb_utils.Tensor(name, array), …]), or of a failure "
            "InferenceResponse(error=pb_utils.TritonError(text))",
        ),
        (
            "AttributeError: 'list' object has no attribute 'inputs'",
            "execute gets a list of requests: for request in requests: …",
        ),
        (
            "AttributeError: module 'triton_python_backend_utils' has no attribute 'deserialize_bytes_tensor'",
            "Triton's stub took a triton_python_backend_utils.py of the model for its own: delete or rename that file",
        ),
        (
            "AttributeError: type object 'Logger' has no attribute 'info'",
            "it has log_info, log_warn, log_error and log_verbose",
        ),
        (
            "AttributeError: 'numpy.ndarray' object has no attribute 'c_contiguous'",
            "Triton has no masked arrays: send array.filled(value)",
        ),
        (
            "NameError: name 'np' is not defined",
            "model.py does not see what other cells define: import or define np in the model's own cell",
        ),
        (
            "TypeError: string indices must be integers, not 'str'",
            "args['model_config'] is a JSON text: json.loads(args['model_config']) reads it",
        ),
        ("RuntimeError: no running event loop", "async_exec() is for `async def execute`; elsewhere call exec()"),
        ('TypeError: can only concatenate str (not "bytes") to str', "text arrives as bytes: value.decode()"),
        ("ImportError: cannot import name 'Tensor' from 'torch' (/torch.py)", ""),
        (
            "TritonModelException: Error when creating MetricFamily: Failed to process the request for model 'm_0', "
            "message: Family name already exists with different type",
            "a loaded model has this metric with another kind, perhaps the version that still serves: %triton unload "
            "it and run the cell again, or give the metric another name",
        ),
        (
            "Invalid argument: instance group m_0 of model m has kind KIND_GPU but no GPUs are available;\n",
            "this machine has no GPU: leave kind out of instance_group, which then takes GPUs where there are some and "
            "the CPU here; or tritonlab.reset(simulated_gpus=1) simulates one, and the cells are run again",
        ),
        (
            "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
            "this machine has no such GPU: tritonlab.reset(simulated_gpus=1) simulates one; then run the cells again",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '${engine_dir}/rank0.engine'",
            "${engine_dir} is a placeholder that config.pbtxt still has from its template: write a value for it",
        ),
        ("specifies invalid or unsupported gpu id 5. GPUs with … compatibility of 6.000000 are: 0, 1;\n", ""),
        (
            "expected 1 inputs but got 2 inputs for model 'm'. Got input(s) ['A','correlation_id'], but missing "
            "required input(s) ]. Please provide all required input(s).",
            "correlation_id is not an input: m.infer(inputs={…}, correlation_id=…)",
        ),
        (
            "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ['B']",
            "",
        ),
        (
            "inference request to model 'm' must specify a non-zero or non-empty correlation ID",
            "m.infer(inputs={…}, correlation_id=1, flags=1) begins a sequence; flags=2 ends it, 3 does both",
        ),
        (
            "inference request for sequence 6 to model 'm' must specify the START flag on the first request of the "
            "sequence",
            "m.infer(inputs={…}, correlation_id=1, flags=1) begins a sequence; flags=2 ends it, 3 does both",
        ),
        (
            "AttributeError: module '1.model' has no attribute 'TritonPythonModel'",
            "call the class of the model TritonPythonModel",
        ),
        (
            "TritonModelException: Failed to set metric value: Invalid metric operation as the corresponding "
            "'MetricFamily' has been deleted. The 'MetricFamily' object should be deleted AFTER its corresponding",
            "keep the MetricFamily for as long as its metrics, as in self.family = pb_utils.MetricFamily(…)",
        ),
        ("something nobody has seen", ""),
    ],
)
def test_texts_of_triton_get_advice(text: str, expected: str) -> None:
    assert hint(text, CONFIGS.get) == expected


def test_an_unknown_model_gets_the_cell_to_run() -> None:
    assert "%%triton_model x cell first" in hint("Request for unknown model: 'x' is not found", CONFIGS.get)


@pytest.mark.parametrize(
    "text",
    [
        "Request for unknown model: 'clean' has no available versions",
        "Model clean - Error when running inference: Failed for execute the inference request. Model 'clean' is not "
        "ready.",
    ],
)
def test_a_model_that_is_unloaded_is_not_another_model(text: str) -> None:
    assert hint(text, CONFIGS.get, lambda: ["class", "clean"]) == "it is not loaded: %triton load clean"
    assert hint(text, CONFIGS.get, lambda: ["clear"]) == "did you mean 'clear'?"


def test_a_step_of_an_ensemble_whose_model_does_not_exist() -> None:
    text = "load failed for model 'e': ensemble e contains models that are not available or ambiguous: clas\n"
    assert hint(text, CONFIGS.get, lambda: ["e", "class"]) == "did you mean 'class'?"
    assert hint(text, CONFIGS.get) == "load clas first, or name another model in the step"


def test_a_version_that_does_not_serve_is_not_a_model_that_is_not_loaded() -> None:
    text = "Failed for execute the inference request. Model 'class' is not ready."
    assert hint(text, lambda name: {}, lambda: ["class"]).startswith("class serves, but not the version")


CONFIG: dict[str, Any] = {
    "input": [{"name": "IN"}, {"name": "MASK"}],
    "max_batch_size": 8,
    "parameters": {"scale": {"string_value": "2"}, "k": {"string_value": "1"}},
    "sequence_batching": {"control_input": [{"name": "START"}], "state": [{"input_name": "STATE"}]},
}
NONE = "'NoneType' object has no attribute 'as_numpy'"


@pytest.mark.parametrize(
    ("kind", "text", "line", "advice"),
    [
        ("KeyError", "'value'", 'self.k = config["parameters"]["k"]["value"]', PARAMETER),
        ("KeyError", "'value'", "k = params['k']['value']", PARAMETER),
        ("KeyError", "'scal'", 'config["parameters"]["scal"]', "the config has no parameter 'scal': did you mean "
         "'scale'?"),
        ("KeyError", "'threshold'", 'p = parameters["threshold"]["string_value"]', "the config has no parameter "
         "'threshold': it has scale, k"),
        ("KeyError", "'inputs'", 'json.loads(x); config["inputs"]', "the config has no field 'inputs': did you mean "
         "'input'?"),
        ("KeyError", "'inputs'", 'table["inputs"]', ""),
        ("KeyError", "3", "table[3]", ""),
        ("KeyError", "'k'", 'other["k"]', ""),
        ("TypeError", "unsupported operand type(s) for +: 'dict' and 'int'", 'cfg["parameters"]["k"] + 1', PARAMETER),
        ("TypeError", "'>' not supported between instances of 'dict' and 'int'", "params['k'] > 3", PARAMETER),
        ("TypeError", "unsupported operand type(s) for +: 'dict' and 'int'", "{} + 1", ""),
        ("AttributeError", NONE, 'pb_utils.get_input_tensor_by_name(request, "in").as_numpy()', "the config has no "
         "input 'in': did you mean 'IN'?"),
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'X').as_numpy()", "the config has no input 'X': "
         "it has IN, MASK, START, STATE"),
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'MASK').as_numpy()", ""),  # it is optional
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'STATE').as_numpy()", ""),
        ("AttributeError", "'int' object has no attribute 'as_numpy'", "get_input_tensor_by_name(r, 'X')", ""),
    ],
)  # fmt: skip
def test_a_name_that_the_config_does_not_have(kind: str, text: str, line: str, advice: str) -> None:
    assert line_hint(RemoteException(kind, text, (Frame("model.py", 2, "f"),)), CONFIG, ["\n", line]) == advice


def test_a_name_on_another_line_than_the_one_that_failed() -> None:
    lines = ['a = pb_utils.get_input_tensor_by_name(request, "mask")\n', "a.as_numpy()\n"]
    exception = RemoteException("AttributeError", NONE, (Frame("model.py", 2, "f"),))
    assert line_hint(exception, CONFIG, lines) == "the config has no input 'mask': did you mean 'MASK'?"


def test_a_config_without_parameters() -> None:
    exception = RemoteException("KeyError", "'k'", (Frame("model.py", 1, "initialize"),))
    advice = "the config has no parameters: --param k=VALUE at %%triton_model writes one"
    assert line_hint(exception, {}, ['config["parameters"]["k"]']) == advice
    assert line_hint(RemoteException("KeyError", "'parameters'", exception.frames), {}, ['c["parameters"]["k"]']) == (
        "the config has no parameters: --param KEY=VALUE at %%triton_model writes one"
    )
