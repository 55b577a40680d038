from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tritonlab.tools.deploy.verify.hiding import author_paths, common_entries, find_hiding, folders_of_the_machine

if find_hiding({}).kind != "namespace":
    pytest.skip("no mount namespaces here", allow_module_level=True)


def test_a_directory_is_empty_and_what_is_bound_is_there(tmp_path: Path) -> None:
    for name in ("models", "scratch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of_{name}").touch()
    hidden = Path(__file__).parent  # not below /tmp, which is another directory anyway
    hiding = find_hiding({hidden: "a folder"})
    inside = f"ls {hidden}; echo; ls {hiding.place('models', tmp_path / 'models')}; echo; ls /tmp"
    command = hiding.command(["sh", "-c", inside], {"models": tmp_path / "models"}, tmp_path / "scratch")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "\nof_models\n\nof_scratch\n", done.stderr
    assert (str(hiding), hiding.words) == (f"hidden: {hidden} and /tmp", "hidden: a folder and /tmp")


def test_a_server_below_tmp_is_there(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho runs\n")
    program.chmod(0o755)
    hiding = find_hiding({Path("/opt"): "a folder"}, program=program)
    command = hiding.command([str(program)], {}, tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "runs\n", done.stderr
    assert str(hiding) == f"hidden: /opt; /tmp cannot be hidden, the server needs {program}"


def test_what_the_server_needs_is_put_back_into_a_hidden_directory(tmp_path: Path) -> None:
    for name in ("home/.cache/python", "home/project", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / ".cache" / "python" / "lib").touch()
    home = tmp_path / "home"
    hiding = find_hiding({home: "the home directory"}, keep=[home / ".cache" / "python"])
    inside = f"ls {home}; ls -A {home}; ls {home}/.cache/python; touch {home}/x 2>/dev/null || echo read-only"
    done = subprocess.run(
        hiding.command(["sh", "-c", inside], {}, tmp_path / "scratch"), capture_output=True, text=True, timeout=30
    )
    # below /tmp, which is another directory, or elsewhere: what is kept is there, and nothing else
    assert done.stdout.startswith(".cache\nlib\n"), done.stdout + done.stderr
    assert "but for" in str(hiding) and hiding.words.endswith("but for what the server runs from")


def test_single_files_of_directories_that_every_machine_has_are_gone(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    file = Path("/etc/tritonlab-test-of-hiding")
    try:
        file.write_text("x")
    except OSError:
        pytest.skip("/etc cannot be written")
    try:
        hiding = find_hiding({file: "what the models read of this machine", Path("/etc/passwd"): "not hidden"})
        assert hiding.files == (str(file),) and not hiding.hidden
        inside = f"test -e {file} && echo there; ls /etc | grep -c tritonlab-test; head -c 4 /etc/passwd"
        done = subprocess.run(
            hiding.command(["sh", "-c", inside], {}, tmp_path / "scratch"), capture_output=True, text=True, timeout=30
        )
        assert done.stdout == "0\nroot", done.stdout + done.stderr
    finally:
        file.unlink()


def test_the_authors_paths_are_hidden_with_the_folders_of_what_models_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "work", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "scale.txt").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    found = author_paths(reads=[tmp_path / "data" / "scale.txt", tmp_path / "gone"])
    assert {word for path, word in found.items() if tmp_path in path.parents} == {
        "the home directory",
        "the working directory",
        "what the models read of this machine",
    }
    hiding = find_hiding({**found, Path("/var/tmp"): "x"})
    assert "/var/tmp" in hiding.hidden and hiding.own_tmp  # tmp_path is below /tmp, which is another directory


def test_nothing_of_this_machine_is_left_but_what_every_machine_has(tmp_path: Path) -> None:
    for each in ("scratch", "models"):
        (tmp_path / each).mkdir()
    hiding = find_hiding(folders_of_the_machine(), common=common_entries())
    inside = (
        "ls -A /opt /home /var/tmp /var/lib; ls /etc/passwd /etc/hosts; ls /etc/fstab.d /etc/adduser.conf; "
        "getent hosts localhost > /dev/null && echo resolves; touch /var/tmp/x /tmp/x && echo writes; "
        "touch /opt/x /etc/x 2> /dev/null || echo read-only"
    )
    command = hiding.command(["sh", "-c", inside], {"models": tmp_path / "models"}, tmp_path / "scratch")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    folders = [f"{each}:\n" for each in ("/home", "/opt", "/var/lib", "/var/tmp") if Path(each).is_dir()]
    assert done.stdout == "\n".join(folders) + "/etc/hosts\n/etc/passwd\nresolves\nwrites\nread-only\n", done.stderr
    assert "the folders of this machine that are not its system's" in hiding.words and "/etc/passwd" not in str(hiding)
