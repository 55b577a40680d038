from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.backends.in_process import in_process
from tests.backends.onnx_models import ELEMENTS, one, refused, write
from tests.conformance.rules import rule
from tests.serving import config
from tritonlab import Server
from tritonlab.core.config.load_advice import load_advice
from tritonlab.core.status import InternalError, InvalidArgumentError, TritonError
from tritonlab.testing import build_request

# looked for and not imported: every worker of a run would pay for it
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

#: What is scripted is read from a file.
MODULES = """
from typing import Dict, List, Tuple

import torch


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        )

    def forward(self, x):
        return self.layers(x)


class Subtract(torch.nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return left - right, left


class Named(torch.nn.Module):
    def forward(self, pair: Dict[str, torch.Tensor]) -> torch.Tensor:
        return pair["a"] - pair["b"]


class Words(torch.nn.Module):
    def forward(self, words: List[str]) -> List[str]:
        return [word + "!" for word in words]


class Scalar(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class Checked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("a negative sum")
        return x


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Turn(torch.nn.Module):
    def __init__(self, orders):
        super().__init__()
        self.orders = orders

    def forward(self, *arrays):
        return tuple(array.permute(order) for array, order in zip(arrays, self.orders))


class Mixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, List[str]]:
        x.add_(1)
        return x.t(), ["a", ""]


class Dictionary(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        return {"y": x}


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        return x, [x]


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


class Summed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0, keepdim=True)


class Numbered(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n
"""


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the TorchScript file of a module, by its class."""
    import torch

    place = tmp_path_factory.mktemp("modules")
    (place / "written.py").write_text(MODULES)
    scope: dict[str, Any] = {"__name__": "written"}
    exec(compile(MODULES, str(place / "written.py"), "exec"), scope)

    def script(name: str) -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.script(scope[name]().eval()).save(str(place / name))
        return (place / name).read_bytes()

    script.made = scope  # type: ignore[attr-defined]
    return script


def torch_config(inputs: str, outputs: str, *rest: str) -> str:
    return config(inputs, outputs, *rest).replace('"python"', '"pytorch"')


@rule("2.15.1")
def test_values_are_those_of_torch(server: Server, repository: Path, scripted: Any) -> None:
    import torch

    write(
        repository,
        "layers",
        {"model.pt": scripted("Layers")},
        torch_config("x FP32 8", "y FP32 4", "max_batch_size: 8"),
    )
    loaded = server.load("layers")
    assert (loaded.config()["backend"], loaded.config()["default_model_filename"]) == ("pytorch", "model.pt")
    x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
    with torch.no_grad():
        expected = scripted.made["Layers"]().eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(one(server, "layers", x=x)["y"], expected, rtol=1e-6)


@rule("2.15.2")
@pytest.mark.parametrize(
    "names", [("right", "left"), ("RIGHT__1", "LEFT__0"), ("first", "second")], ids=["argument", "index", "order"]
)
def test_which_argument_an_input_is(server: Server, repository: Path, scripted: Any, names: tuple[str, str]) -> None:
    second, first = names
    name = f"subtract_{second}"
    outputs = "OUT__1 FP32 -1; OUT__0 FP32 -1" if "__" in second else "difference FP32 -1; kept FP32 -1"
    write(
        repository,
        name,
        {"model.pt": scripted("Subtract")},
        torch_config(f"{second} FP32 -1; {first} FP32 -1", outputs),
    )
    server.load(name)
    arrays = {second: np.array([1], np.float32), first: np.array([5], np.float32)}
    found = one(server, name, **arrays)
    if second == "first":  # by order: the first of the config is the first of the model
        assert (found["difference"].tolist(), found["kept"].tolist()) == ([-4.0], [1.0])
    elif "__" in second:
        assert (found["OUT__0"].tolist(), found["OUT__1"].tolist()) == ([4.0], [5.0])
    else:
        assert (found["difference"].tolist(), found["kept"].tolist()) == ([4.0], [5.0])


@rule("2.15.2")
def test_a_dictionary_and_lists_of_text(server: Server, repository: Path, scripted: Any) -> None:
    write(repository, "named", {"model.pt": scripted("Named")}, torch_config("b FP32 -1; a FP32 -1", "OUT FP32 -1"))
    write(repository, "words", {"model.pt": scripted("Words")}, torch_config("words STRING -1", "OUT STRING -1"))
    server.load("named")
    server.load("words")
    assert one(server, "named", a=np.ones(2, np.float32), b=np.zeros(2, np.float32))["OUT"].tolist() == [1.0, 1.0]
    words = np.array(["ä".encode(), b""], np.object_)
    assert one(server, "words", words=words)["OUT"].tolist() == ["ä!".encode(), b"!"]
    assert (
        refused(
            server,
            repository,
            "words_2d",
            {"model.pt": scripted("Words")},
            torch_config("words STRING 2,2", "OUT STRING -1"),
        )
        == "Internal: Triton only supports 1 dimensional List of String as input for 'words' for model 'words_2d'"
    )


_names = iter(range(1_000_000))
#: Those that torch has.
DTYPES = {name: kind for name, kind in ELEMENTS.items() if name not in ("UINT16", "UINT32", "UINT64")}


@st.composite
def turned(draw: st.DrawFn, batches: bool) -> tuple[str, list[int], list[int], list[int]]:
    """Draw a data type, the shape of a request, its dims in the config, and how the model turns the axes."""
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    if batches:
        shape[0] = 2
    dims = [-1 if draw(st.booleans()) or not size else size for size in shape[batches:]] or [1]
    order = [0, *draw(st.permutations(range(1, len(shape))))] if batches else draw(st.permutations(range(len(shape))))
    return draw(st.sampled_from(list(DTYPES))), shape, dims, list(order)


def test_element_types(server: Server, repository: Path, scripted: Any) -> None:
    turn_all(server, repository, scripted, [(datatype, [2, 3], [-1, 3], [1, 0]) for datatype in DTYPES], False)


@settings(max_examples=6, phases=[Phase.generate])
@given(st.data(), st.booleans())
def test_all_types_ranks_and_variable_dimensions(
    server: Server, repository: Path, scripted: Any, data: st.DataObject, batches: bool
) -> None:
    turn_all(server, repository, scripted, data.draw(st.lists(turned(batches), min_size=1, max_size=4)), batches)


def turn_all(server: Server, repository: Path, scripted: Any, found: list[Any], batches: bool) -> None:
    """Load a model that turns the axes of its inputs, as `turned` has them, and compare what it answers."""
    import torch

    orders, inputs, outputs, arrays, expected = [], [], [], {}, {}
    for number, (datatype, shape, dims, order) in enumerate(found):
        # what has no dimension besides the batch has one of size 1 in the config
        outside = [*shape, 1] if len(shape) == int(batches) else shape
        order = [*order, len(order)] if outside != shape else order
        array = np.random.default_rng(number).integers(0, 2, outside).astype(DTYPES[datatype])
        arrays[f"x{number}"], expected[f"y{number}"] = array, np.transpose(array, order)
        inputs.append(f"x{number} {datatype} {','.join(map(str, dims))}")
        turned_dims = [dims[axis - batches] for axis in order[batches:]]
        outputs.append(f"y{number} {datatype} {','.join(map(str, turned_dims))}")
        orders.append(order)
    module = scripted.made["Turn"](orders)
    example = tuple(torch.from_numpy(array) for array in arrays.values())
    file, name = io.BytesIO(), f"generated{next(_names)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(module, example, check_trace=False), file)
    batching = ["max_batch_size: 4"] if batches else []
    write(
        repository, name, {"model.pt": file.getvalue()}, torch_config("; ".join(inputs), "; ".join(outputs), *batching)
    )
    server.load(name)
    try:
        answered = one(server, name, **arrays)
        assert answered.keys() == expected.keys()
        for key, value in answered.items():
            assert (value.dtype, value.shape) == (expected[key].dtype, expected[key].shape)
            np.testing.assert_array_equal(value, expected[key])
    finally:
        server.unload(name)


@rule("2.15.1")
def test_files_that_are_missing_or_corrupt_are_load_errors(server: Server, repository: Path, scripted: Any) -> None:
    import torch

    same = torch_config("x FP32 -1", "y FP32 -1")
    assert refused(server, repository, "missing", {}, same) == (
        "Unavailable: unable to find '<repository>/missing/1/model.pt' for model instance 'missing_0_0'"
    )
    text = refused(server, repository, "corrupt", {"model.pt": b"not a model"}, same)
    assert text.startswith("Internal: failed to load model 'corrupt_0_0': PytorchStreamReader failed"), text
    two = torch_config("x FP32 -1; z FP32 -1", "y FP32 -1")
    assert refused(server, repository, "inputs", {"model.pt": scripted("Same")}, two) == (
        "Invalid argument: unable to load model 'inputs', configuration expects 2 inputs, model provides 1"
    )
    text = refused(server, repository, "numbered", {"model.pt": scripted("Numbered")}, two)
    assert text.startswith("Internal: An input of type 'int' was detected in the model."), text
    file = io.BytesIO()
    torch.save(torch.nn.Linear(1, 1).state_dict(), file)
    text = refused(server, repository, "weights", {"model.pt": file.getvalue()}, same)
    assert text.startswith("Internal: failed to load model 'weights_0_0': PytorchStreamReader failed locating"), text
    assert load_advice(text).startswith("the file is not TorchScript")
    text = refused(server, repository, "cut", {"model.pt": scripted("Layers")[:700]}, same)
    assert text.startswith("Internal: failed to load model 'cut_0_0': PytorchStreamReader failed reading zip"), text
    write(repository, "after", {"model.pt": scripted("Same")}, same)
    assert server.load("after").ready()  # the rest keeps serving
    text = refused(server, repository, "types", {"model.pt": scripted("Same")}, torch_config("x UINT32 1", "y FP32 1"))
    assert text == "Internal: unsupported datatype TYPE_UINT32 for input 'x' for model 'types'"


PARAMETERS = [
    f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'
    for name, value in {
        "INFERENCE_MODE": "true",
        "DISABLE_OPTIMIZED_EXECUTION": "1",
        "ENABLE_CACHE_CLEANING": "on",
        "ENABLE_WEIGHT_SHARING": "true",
        "ENABLE_JIT_PROFILING": "false",
        "ENABLE_TENSOR_FUSER": "0",
        "ENABLE_NVFUSER": "off",
        "DISABLE_CUDNN": "true",
        "INTRA_OP_THREAD_COUNT": "3",
        "INTER_OP_THREAD_COUNT": "2",
    }.items()
]


@rule("2.15.3")
def test_parameters(server: Server, repository: Path, scripted: Any) -> None:
    same = ("x FP32 -1", "y FP32 -1")
    write(repository, "tuned", {"model.pt": scripted("Same")}, torch_config(*same, *PARAMETERS))
    server.load("tuned")
    assert one(server, "tuned", x=np.ones(2, np.float32))["y"].tolist() == [1.0, 1.0]
    wrong = 'parameters { key: "INFERENCE_MODE" value { string_value: "maybe" } }'
    text = refused(server, repository, "wrong", {"model.pt": scripted("Same")}, torch_config(*same, wrong))
    assert text == "Invalid argument: failed to convert 'maybe' to boolean"
    wrong = 'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "many" } }'
    text = refused(server, repository, "wrong", {"model.pt": scripted("Same")}, torch_config(*same, wrong))
    assert text == "Invalid argument: failed to convert 'many' to integral number"
    state = """sequence_batching { state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: 1 } }"""
    text = refused(server, repository, "state", {"model.pt": scripted("Same")}, torch_config(*same, state))
    assert text.startswith(
        "Unsupported: model 'state' has sequence_batching.state, which tritonlab's pytorch backend is without. "
    )


@rule("2.15.3")
def test_threads_and_the_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted: Any) -> None:
    """torch reads the request's array where it lies, and what the module returns is what is sent."""
    import torch

    count = 'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "3" } }'
    model = write(tmp_path, "same", {"model.pt": scripted("Same")}, torch_config("x FP32 -1", "y FP32 -1", count))
    before = torch.get_num_threads()
    try:
        instance = in_process("pytorch", model, monkeypatch)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    request = build_request({"x": np.ones(4, np.float32)}, requested_outputs=["y"])
    (response,) = instance.execute([request])
    assert np.shares_memory(response.output_tensors()[0].as_numpy(), request.inputs()[0].as_numpy())


@rule("2.15.3")
def test_what_goes_wrong_in_a_request(server: Server, repository: Path, scripted: Any) -> None:
    cases = {"Checked": "y FP32 -1", "Scalar": "y FP32 -1", "Same": "y INT32 -1"}
    for module, outputs in cases.items():
        write(repository, module, {"model.pt": scripted(module)}, torch_config("x FP32 -1", outputs))
        server.load(module)
    x = np.full(2, -1, np.float32)
    with pytest.raises(InternalError, match=r"^PyTorch execute failure: .*(?s:.*)a negative sum"):
        one(server, "Checked", x=x)
    with pytest.raises(InvalidArgumentError, match=r"^output 'y' is a scalar which is not supported.$"):
        one(server, "Scalar", x=x)
    text = "^configuration expects datatype TYPE_INT32 for output 'y', model provides TYPE_FP32$"
    with pytest.raises(InvalidArgumentError, match=text):
        one(server, "Same", x=x)
    assert one(server, "Checked", x=-x)["y"].tolist() == [1.0, 1.0]


@rule("2.15.3")
def test_what_modules_return(server: Server, repository: Path, scripted: Any) -> None:
    write(
        repository,
        "Mixed",
        {"model.pt": scripted("Mixed")},
        torch_config("x FP32 -1,-1", "y FP32 -1,-1; z STRING -1"),
    )
    server.load("Mixed")
    x = np.array([[1, 2, 3]], np.float32)
    found = one(server, "Mixed", x=x)
    assert (found["y"].tolist(), found["z"].tolist()) == ([[2], [3], [4]], [b"a", b""])
    assert x.tolist() == [[1, 2, 3]]  # what the module changes is its own
    errors = {
        "Dictionary": "output must be of type Tensor, List[str] or Tuple containing one of these two types. It should "
        "not be a List / Dictionary of Tensors or a Scalar",
        "Nested": "output at index 1 must be of type Tensor or List[str], received List[Tensor]",
        "Half": "configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_<invalid>",
        "Summed": "failed to split the output tensor 'y' in responses: expected batch size of atleast 3 in model "
        "output, got 1",
    }
    for module, text in errors.items():
        config = torch_config("x FP32 -1", "y FP32 -1", "max_batch_size: 4")
        write(repository, module, {"model.pt": scripted(module)}, config)
        server.load(module)
        with pytest.raises(TritonError) as caught:
            one(server, module, x=np.ones((3, 2), np.float32))
        assert caught.value.message.removeprefix("PyTorch execute failure: ") == text
