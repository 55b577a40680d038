from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tritonlab.export.verify.hiding import find_hiding

if find_hiding([]).kind != "namespace":
    pytest.skip("no mount namespaces here", allow_module_level=True)


def test_a_directory_is_empty_and_what_is_bound_is_there(tmp_path: Path) -> None:
    for name in ("models", "scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of_{name}").touch()
    hidden = Path(__file__).parent  # not below /tmp, which is another directory anyway
    hiding = find_hiding([hidden])
    inside = f"ls {hidden}; echo; ls {hiding.place('models', tmp_path / 'models')}; echo; ls /tmp"
    command = hiding.command(["sh", "-c", inside], {"models": tmp_path / "models"}, tmp_path / "scratch")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "\nof_models\n\nof_scratch\n", done.stderr
    assert str(hiding) == f"hidden: {hidden} and /tmp"


def test_a_server_below_tmp_is_there(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho runs\n")
    program.chmod(0o755)
    hiding = find_hiding([Path("/opt")], keep=[program])
    command = hiding.command([str(program)], {}, tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "runs\n", done.stderr
    assert str(hiding) == f"hidden: /opt; /tmp cannot be hidden, the server needs {program}"
