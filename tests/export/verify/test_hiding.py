from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tritonlab.export.verify.hiding import find_hiding

if find_hiding([]).kind != "namespace":
    pytest.skip("no mount namespaces here", allow_module_level=True)


def test_a_directory_is_empty_and_what_is_bound_is_there(tmp_path: Path) -> None:
    for name in ("secret", "models", "scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    hiding = find_hiding([Path("/opt"), tmp_path / "secret"])
    inside = f"cat {hiding.place('models', tmp_path / 'models')}/file; ls {tmp_path / 'secret'} /tmp"
    command = hiding.command(["sh", "-c", inside], {"models": tmp_path / "models"}, tmp_path / "scratch")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout.split("\n")[0] == "models/tmp:", done.stderr  # /tmp is the scratch directory
    assert "file" in done.stdout and "secret" not in done.stdout
    assert str(hiding).startswith(f"hidden: /opt, {tmp_path / 'secret'} and /tmp")


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
