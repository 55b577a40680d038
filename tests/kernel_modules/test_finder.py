"""`import triton_python_backend_utils` in processes that are not stubs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tritonlab.kernel_modules import KernelModules, install
from tritonlab.stub import c_python_backend_utils as compiled
from tritonlab.stub import triton_python_backend_utils as pure

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, *path: Path, directory: Path = ROOT) -> str:
    """Return what a fresh interpreter prints; `path` goes before everything else on its sys.path."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": ":".join(map(str, (*path, ROOT))), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.rule("1.1.3")
def test_the_whole_surface_is_there() -> None:
    import triton_python_backend_utils as pb_utils

    # what a stub has after the model's import, less what Triton's implementation leaks into dir()
    stub = {name for name in vars(pure) if not name.startswith("_")} | set(compiled.JOINS_LATE) | {"get_model_dir"}
    assert {name for name in vars(pb_utils) if not name.startswith("_")} == stub - {"annotations"}
    assert sorted(vars(pb_utils)["__all__"]) == sorted(stub - {"annotations"})


@pytest.mark.rule("1.1.4")
def test_what_is_reached_as_instances_only_is_not_there() -> None:
    import c_python_backend_utils
    import triton_python_backend_utils as pb_utils

    assert not hasattr(pb_utils, "InferenceResponseSender")
    assert c_python_backend_utils.InferenceResponseSender is compiled.InferenceResponseSender


def test_the_classes_are_the_stubs() -> None:
    import triton_python_backend_utils as pb_utils

    for name in compiled.JOINS_LATE:
        assert getattr(pb_utils, name) is getattr(compiled, name)
    assert pb_utils.ModelConfig is pure.ModelConfig
    # the stub's own module stays without them: there rule 1.1.2 holds
    assert not hasattr(pure, "Tensor")


def test_it_needs_nothing_but_the_import_of_tritonlab() -> None:
    found = python("import tritonlab, triton_python_backend_utils as pb_utils; print(pb_utils.__file__)")
    assert found == str(ROOT / "tritonlab" / "kernel_modules" / "triton_python_backend_utils.py")


def test_without_tritonlab_there_is_no_such_module() -> None:
    code = """
        import importlib.util
        print(importlib.util.find_spec("triton_python_backend_utils"))
    """
    assert python(code) == "None"


def test_one_that_is_really_installed_wins(tmp_path: Path) -> None:
    (tmp_path / "triton_python_backend_utils.py").write_text("whose = 'Triton'\n")
    # PYTHONPATH would win anyway: the last place of sys.path is the test
    code = f"""
        import sys, tritonlab
        sys.path.append({str(tmp_path)!r})
        import triton_python_backend_utils as pb_utils
        print(pb_utils.whose)
    """
    assert python(code) == "Triton"


def test_nothing_importable_lies_beside_the_package() -> None:
    assert not list((ROOT / "tritonlab" / "site_packages").glob("*python_backend_utils*.py"))
    assert not list((ROOT / "tritonlab" / "site_packages").glob("*python_backend_utils/"))


def test_it_is_the_last_finder_and_there_is_one() -> None:
    code = """
        import sys, tritonlab
        from tritonlab import kernel_modules
        kernel_modules.install()
        names = [type(finder).__name__ for finder in sys.meta_path]
        print(names.count("KernelModules"), names[-1])
    """
    assert python(code) == "1 KernelModules"


def test_it_finds_nothing_else() -> None:
    install()
    finder = KernelModules()
    assert finder.find_spec("triton_python_backend_stub") is None
    assert finder.find_spec("__init__") is None
    assert finder.find_spec("tritonlab.triton_python_backend_utils") is None


@pytest.mark.rule("1.13.4")
def test_objects_that_need_a_server_say_so() -> None:
    code = """
        import numpy as np
        import tritonlab, triton_python_backend_utils as pb_utils

        def says(call):
            try:
                call()
            except pb_utils.TritonModelException as error:
                print(error)

        says(lambda: pb_utils.MetricFamily("a", "b", pb_utils.MetricFamily.COUNTER))
        says(lambda: pb_utils.load_model("m"))
        says(lambda: pb_utils.is_model_ready("m"))
        says(pb_utils.get_model_dir)
        request = pb_utils.InferenceRequest(
            inputs=[pb_utils.Tensor("A", np.zeros(1))], requested_output_names=[], model_name="m"
        )
        says(request.exec)
        says(lambda: request.get_response_sender().send(pb_utils.InferenceResponse([])))
        says(request.is_cancelled)
        pb_utils.Logger.log_info("to stderr")
    """
    needs = (
        "needs a running model: it works inside a stub process, not in this one "
        "(in a test, tritonlab.testing.FakeTriton stands in for the server)."
    )
    assert python(code).splitlines() == [
        f"Error when creating MetricFamily: MetricFamily() {needs}",
        f"Failed to load model: load_model() {needs}",
        f"Failed to check model readiness: is_model_ready() {needs}",
        "get_model_dir() needs a running model: only a stub process has a model directory.",
        "BLS is only supported during the 'execute' function.",
        "Unable to send response. Response sender has no reference to the decoupled state of the model.",
        "Cannot determine request cancellation: the model built this request itself, and only a received one has a "
        "client.",
    ]
