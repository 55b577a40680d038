"""`%triton profile`, in the numbers of the cell."""

from __future__ import annotations

from typing import Any

PROFILED = """%%triton_model slow --max-batch-size 4 --input IN:FP32[-1] --output OUT:FP32[-1] --quiet
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""


def test_the_lines_have_the_numbers_of_the_cell(notebook: Any) -> None:
    notebook.run(PROFILED)
    place = f"Cell In[{notebook.number()}]"
    result = notebook.run("found = %triton profile slow --seconds 0.3 --batch 2\nfound")
    assert result.success and "Lines of slow: " in result.text
    slowest = notebook["found"].slowest
    assert (slowest.place, slowest.line, slowest.text.strip()) == (place, 7, "time.sleep(0.01)")
    assert notebook["found"].sizes == [2]


def test_it_is_json_for_programs(notebook: Any) -> None:
    notebook.run(PROFILED)
    found = notebook.run("%triton profile slow --seconds 0.2 --json").result
    assert found["lines"][0]["line"] == 7 and found["lines"][0]["sizes"]["1"]["own_s"] > 0.05


def test_it_watches_what_others_send(notebook: Any) -> None:
    notebook.run(PROFILED)
    assert "nothing was executed" in notebook.run("%triton profile slow --watch --seconds 0.05").text


def test_it_looks_at_memory(notebook: Any) -> None:
    notebook.run(PROFILED)
    result = notebook.run("%triton profile slow --seconds 0.2 --memory")
    assert result.success and "Memory by line of slow: " in result.text
