from __future__ import annotations

from typing import Any

import pytest

from tests.models import IDENTITY
from tritonlab.notebook.shell.completion import call_arguments


def complete(notebook: Any, text: str) -> list[str]:
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        return [found.text for found in notebook.shell.Completer.completions(text, len(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%%triton_model m --max", ["--max-batch-size"]),
        ("%%triton_model m --kind g", ["gpu"]),
        ("%%triton_model m --in", ["--instances", "--input"]),
        ("%%triton_model m --input A:FP32[1] --inp", ["--input"]),
        ("%triton un", ["unload"]),
        ("%triton help exp", ["export"]),
        ("%triton export m --o", ["--overwrite"]),
        ("%triton serve --http-p", ["--http-port"]),
        ("%triton serve --http-port 0 --no-t", ["--no-token"]),
        ("%%triton_model m --input A:FP", ["A:FP16[", "A:FP32[", "A:FP64["]),
        ("%%triton_model m --input A:FP32[1] in:0:BY", ["in:0:BYTES["]),
        ("%%triton_model m --decoupled \\\n    --in", ["--instances", "--input"]),
        ("\n%%triton_model m --kind \\\n  g", ["gpu"]),
        ("%%triton_config m --base . \\\n  --fi", ["--file"]),
        ("%%triton_config m \\\n  --base .\nmax_b", ["max_batch_size: "]),
        ("%%triton_config m\nmax_b", ["max_batch_size: "]),
        ("%%triton_config m\n# a comment\ndynamic_batching { preserve", ["preserve_ordering: "]),
        ("%%triton_config m\ninput { data_type: TYPE_FP1", ["TYPE_FP16"]),
        ("%%triton_config m\ninstance_group [ { count: 2 }, { kind: KIND_G", ["KIND_GPU"]),
        ("%%triton_config m\ninput { dims: [ 2, 3 ]\n  opt", ["optional: "]),
        ('%%triton_config m\nparameters { key: "{" value: { string', ["string_value: "]),
        ("%%triton_config m\nmodel_transaction_policy { decoupled: t", ["true"]),
        ("%%triton_config m\nensemble_scheduling { step [ { model_v", ["model_version: "]),
    ],
)
def test_options_subcommands_and_values(notebook: Any, text: str, found: list[str]) -> None:
    assert complete(notebook, text) == found


ADD = "%%triton_model add --quiet --max-batch-size 8 --input A:FP32[4] in:0:INT8[-1] B:FP32[1]? --output OUT:FP32[4]\n"
CELL = (
    "%%triton_model n --input IN:FP32[1] in:0:INT8[-1] --output OUT:FP32[1]\nimport triton_python_backend_utils as p\n"
)
LOOP = "    def execute(self, requests):\n        for number, query in enumerate(requests):\n            "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CELL + "request.is_", ["is_cancelled"]),
        (CELL + "x = [request.corr", ["correlation_id"]),
        (CELL + LOOP + "query.get_res", ["get_response_sender"]),
        (CELL + "requests[0].request_", ["request_id"]),
        (CELL + "pb_utils.get_input_t", ["get_input_tensor_by_name"]),
        (CELL + 'pb_utils.get_input_tensor_by_name(request, "', ["IN", "in:0"]),
        (CELL + "a = pb_utils.get_input_tensor_by_name(requests[0], 'I", ["IN"]),
        (CELL + 'pb_utils.Tensor("', ["OUT"]),
        (CELL.replace(" --output", " \\\n    --output") + 'pb_utils.Tensor("', ["OUT"]),
        (CELL + "json.loads(args['model_c", ["model_config"]),
        ('%%triton_model both\npb_utils.get_input_tensor_by_name(request, "', ["X"]),
        ('%%triton_model add\npb_utils.Tensor("', ["OUT"]),
        ('add.infer(inputs={"', ["A", "in:0", "B"]),
        ('list(add.infer(request_id="1", inputs={"A": [[1]], "', ["in:0", "B"]),
        ("add.async_infer(inputs={'A': numpy.ones((1, 4)),\n    'i", ["in:0"]),
        ("%triton view add me", ["metrics", "memory"]),
        ("%triton golden ", ["add", "check", "update"]),
        ("%triton golden check bot", ["both"]),
        ("%triton golden add add A=[[1]], in", ["in:0="]),
        ("%triton view add ", ["timeline", "streams", "metrics", "graph", "memory"]),
    ],
)
def test_names_in_the_body_of_a_cell_and_of_inputs(notebook: Any, text: str, found: list[str]) -> None:
    notebook.run(ADD + IDENTITY)
    notebook.run("%%triton_config both --quiet\ninput { name: 'X' data_type: TYPE_FP32 dims: [ 1 ] }\n")
    assert complete(notebook, text) == found


@pytest.mark.parametrize(
    "text",
    [
        "request.is_",  # not in a model's cell
        CELL + "other.is_",
        CELL + "self.request.is_",
        'other.infer(inputs={"',
        'add.infer(inputs={"A": "',
        '%%triton_model --inp\npb_utils.Tensor("',
    ],
)
def test_names_are_not_offered_elsewhere(notebook: Any, text: str) -> None:
    notebook.run(ADD + IDENTITY)
    assert not {"is_cancelled", "A", "B", "OUT"}.intersection(complete(notebook, text))


def test_an_option_is_offered_once(notebook: Any) -> None:
    assert "--max-batch-size" not in complete(notebook, "%%triton_model m --max-batch-size 8 --m")


def test_models_by_name(notebook: Any) -> None:
    notebook.run("%%triton_file add_sub helper.py --quiet\nx = 1\n")
    notebook.run("%%triton_file other helper.py --quiet\nx = 1\n")
    names = complete(notebook, "%triton unload ")  # and what the shared server saw in other tests
    assert {"add_sub", "other"} <= set(names)
    assert complete(notebook, "%%triton_model add_s") == ["add_sub"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("add(", ["A=", "B="]),
        ("x = add(A=numpy.ones((1, 4)), ", ["B="]),
        ("x = f(add(B", ["B="]),
        ("add(\n    A=[1, (2)],\n    ", ["B="]),
        ("add.infer(tim", ["timeout="]),
        ("add.async_infer(inputs={}, request", ["request=", "request_id=", "requested_outputs="]),
        ("%triton infer add ", ["A=", "in:0=", "B="]),
    ],
)
def test_the_arguments_of_a_call(notebook: Any, text: str, found: list[str]) -> None:
    notebook.run(ADD + IDENTITY)
    assert [word for word in complete(notebook, text) if word.endswith("=")] == found


@pytest.mark.parametrize("text", ["add(A=", "add([", "other.add(", "add.name(", "add.server.infer(", "add(1", "'add("])
def test_where_no_argument_is_expected_none_is_offered(notebook: Any, text: str) -> None:
    notebook.run(ADD + IDENTITY)
    assert call_arguments(text, notebook.shell.user_ns) is None


def test_the_body_of_the_cell_is_not_ours(notebook: Any) -> None:
    assert "import" in complete(notebook, "%%triton_model m\nimp")


def test_the_models_of_an_ensembles_steps(notebook: Any) -> None:
    notebook.run("%%triton_file add_sub helper.py --quiet\nx = 1\n")
    text = '%%triton_config both\nensemble_scheduling { step [ { model_name: "'
    assert complete(notebook, text + "add_s") == ["add_sub"]
    assert complete(notebook, text + "unheard") == []
