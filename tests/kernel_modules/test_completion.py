"""What jedi offers after `pb_utils.`: in a kernel, and in a cell of ours through the shell's own completer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jedi
import pytest

import tritonlab

IMPORT = "import triton_python_backend_utils as pb_utils\n"
BODY = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "IN")
            data = tensor.as_numpy()
            """


def jedi_names(code: str) -> set[str]:
    return {found.name for found in jedi.Interpreter(IMPORT + code, [{"tritonlab": tritonlab}]).complete()}


@pytest.mark.parametrize(
    ("code", "offered"),
    [
        ("pb_utils.", {"Tensor", "InferenceResponse", "Logger", "get_input_tensor_by_name", "MetricFamily"}),
        ("pb_utils.Tensor('A', x).", {"as_numpy", "shape", "to_dlpack"}),
        ("pb_utils.Tensor('A', x).as_numpy().", {"astype", "reshape", "dtype"}),
        ("pb_utils.get_input_tensor_by_name(request, 'A').", {"as_numpy", "name"}),
        ("request: pb_utils.InferenceRequest\nrequest.", {"inputs", "get_response_sender", "exec"}),
        ("request: pb_utils.InferenceRequest\nrequest.inputs()[0].", {"as_numpy"}),
        ("request: pb_utils.InferenceRequest\nrequest.get_response_sender().", {"send"}),
        ("request: pb_utils.InferenceRequest\nrequest.exec().", {"has_error", "output_tensors"}),
        ("request: pb_utils.InferenceRequest\nfor r in request.exec(decoupled=True):\n    r.", {"output_tensors"}),
        ("async def f(request: pb_utils.InferenceRequest):\n    (await request.async_exec()).", {"output_tensors"}),
        ("pb_utils.MetricFamily('a', 'b', pb_utils.MetricFamily.COUNTER).Metric().", {"increment", "value"}),
        ("pb_utils.TritonError.", {"INVALID_ARG", "CANCELLED"}),
        ("pb_utils.Logger.", {"log_info", "WARNING"}),
        ("def auto_complete_config(c: pb_utils.ModelConfig):\n    c.", {"add_input", "set_dynamic_batching"}),
    ],
)
def test_names_in_a_kernel(code: str, offered: set[str]) -> None:
    assert offered <= jedi_names(code)


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))  # type: ignore[no-untyped-call]
    # the default deadline answers with what was found so far; a cold jedi reads numpy's types first
    shell.Completer.jedi_compute_type_timeout = 0
    tritonlab.load_ipython_extension(shell)
    yield shell
    tritonlab.reset()


@pytest.mark.parametrize(
    ("code", "offered"),
    [
        ("pb_utils.Inference", {"InferenceRequest", "InferenceResponse"}),
        ("tensor.as", {"as_numpy"}),
        ("data.resh", {"reshape"}),
    ],
)
def test_names_in_the_body_of_a_cell(shell: Any, code: str, offered: set[str]) -> None:
    from IPython.core.completer import provisionalcompleter

    text = f"%%triton_model completed\n{BODY}{code}"
    with provisionalcompleter():
        found = {completion.text for completion in shell.Completer.completions(text, len(text))}
    assert offered <= found
