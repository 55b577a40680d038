"""Repositories that are opened in a workspace, with a real server and its stubs."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tests.damaged import CORPUS, GOOD, write
from tests.models import initializes
from tests.notebook.repositories import DESCRIBED, POST, config, contents, write_repository
from tests.serving import eventually
from tritonlab import export
from tritonlab.core.status import InvalidArgumentError, ModelLoadError, NotFoundError
from tritonlab.core.unknown_option import UnknownOption
from tritonlab.notebook.authoring.cell_text import split_cell
from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.authoring.opened_repository import OpenedRepository
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.repository.place import NoRepository
from tritonlab.tools.deploy.export_options import ExportOptionError
from tritonlab.tools.deploy.report import ExportConflict

ROW = np.array([1, 2], np.float32)
POST_MODEL = POST.decode().replace("x + 1", "x + 100")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_repository(tmp_path / "models")


@pytest.fixture
def opened(workspace: Workspace, root: Path) -> OpenedRepository:
    return OpenedRepository.open(workspace, root)


def answer(workspace: Workspace) -> list[float]:
    found: list[float] = workspace.server.model("all")(X=ROW)["Y"].tolist()
    return found


def states(opened: OpenedRepository) -> dict[str, str]:
    return {row.name: row.state for row in opened.facts()}


def test_one_that_fails_does_not_stop_the_others(workspace: Workspace, opened: OpenedRepository) -> None:
    assert list(opened) == ["all", "post", "pre", "resnet", "template"]
    ready = {"all": "READY", "post": "READY", "pre": "READY"}
    assert states(opened) == {**ready, "resnet": "FAILED", "template": "FAILED"}
    assert answer(workspace) == [3, 5]
    assert workspace.server.model("pre").directory == opened["pre"].directory
    rows = {row.name: row for row in opened.facts()}
    assert [rows[name].kind for name in opened] == ["ensemble", "Python", "Python", "backend tensorrt", "Python"]
    assert "unable to find backend library for backend 'tensorrt'" in rows["resnet"].reason
    assert "line 2" in rows["template"].reason and "${max_batch_size}" in rows["template"].advice
    assert opened.to_dict()["models"][1]["name"] == "post"
    for text in ("template", "FAILED", "${max_batch_size}"):
        assert text in opened.text()


def test_what_answers_is_chosen_for_one_model(workspace: Workspace, root: Path) -> None:
    (root / "resnet" / "config.pbtxt").write_bytes(DESCRIBED)
    opened = OpenedRepository.open(workspace, root)
    row = opened["resnet"].facts()
    assert (row.state, row.to_choose) == ("FAILED", True)
    assert not opened["pre"].facts().to_choose
    with pytest.raises(InvalidArgumentError, match="the choice for 'resnet' is 'fake', expected one of"):
        opened["resnet"].choose("fake")
    opened["resnet"].choose("stand-in")
    row = opened["resnet"].facts()
    assert (row.state, row.answers) == ("READY", "stand-in that invents its answers (zeros)")
    assert row.to_choose
    with pytest.raises(ModelLoadError, match="unable to find backend library for backend 'tensorrt'"):
        opened["resnet"].choose("real")
    row = opened["resnet"].facts()
    assert (row.state, row.answers) == ("READY", "stand-in that invents its answers (zeros)")
    assert row.reason.startswith("Choose what answers for 'resnet': ")


def test_models_come_after_those_that_they_need(opened: OpenedRepository) -> None:
    order = opened.in_order()
    assert order.index("all") > max(order.index("pre"), order.index("post"))


def test_only_the_named_models_are_served(workspace: Workspace, root: Path) -> None:
    opened = OpenedRepository.open(workspace, root, ["post"])
    assert states(opened)["post"] == "READY"
    assert states(opened)["pre"] == "NOT OPENED"
    with pytest.raises(NotFoundError, match=r"no model 'nobody' in .*: all, post, pre, resnet, template"):
        OpenedRepository.open(workspace, root, ["nobody"])


def test_what_is_no_repository_is_refused_in_words(workspace: Workspace, root: Path) -> None:
    with pytest.raises(FileError, match="there is no directory"):
        OpenedRepository.open(workspace, root / "nowhere")
    with pytest.raises(FileError, match="is one model, not a repository: open"):
        OpenedRepository.open(workspace, root / "pre")
    assert workspace.repositories == {}


def test_models_without_versions_are_copied_into_a_repository(workspace: Workspace, tmp_path: Path) -> None:
    examples, models = tmp_path / "examples", tmp_path / "models"
    (examples / "post").mkdir(parents=True)
    (examples / "post" / "model.py").write_bytes(POST)
    (examples / "post" / "config.pbtxt").write_bytes(config("post", "T", "Y"))
    for directory in (examples, examples / "post"):
        with pytest.raises(FileError, match=r"as in the examples of NVIDIA's python_backend \(post\): %triton open"):
            OpenedRepository.open(workspace, directory)
    opened = OpenedRepository.open(workspace, examples, into=models)
    assert opened.path == models and states(opened) == {"post": "READY"}
    assert workspace.server.model("post")(T=ROW)["Y"].tolist() == [2, 3]
    (models / "post" / "1" / "model.py").write_bytes(POST.replace(b"x + 1", b"x + 5"))
    assert OpenedRepository.open(workspace, examples, into=models) is opened
    assert workspace.server.model("post")(T=ROW)["Y"].tolist() == [6, 7]
    with pytest.raises(FileError, match="has no models without version directories"):
        OpenedRepository.open(workspace, models, into=tmp_path / "other")


def test_a_change_of_its_files_is_served(workspace: Workspace, opened: OpenedRepository) -> None:
    source = opened["post"].directory / "1" / "model.py"
    source.write_bytes(POST.replace(b"x + 1", b"x + 10"))
    eventually(lambda: answer(workspace) == [12, 14])
    (opened.path / "resnet" / "config.pbtxt").write_text('backend: "python"\n')
    (opened.path / "resnet" / "1" / "model.py").write_bytes(POST)
    shutil.rmtree(opened.path / "template")
    eventually(lambda: "resnet" in states(opened) and states(opened)["resnet"] == "READY")
    eventually(lambda: list(opened) == ["all", "post", "pre", "resnet"])


def test_a_second_call_looks_again(workspace: Workspace, opened: OpenedRepository) -> None:
    (opened["template"].directory / "config.pbtxt").write_text('backend: "python"\n')
    assert OpenedRepository.open(workspace, opened.path) is opened
    assert states(opened)["template"] == "READY"


def test_a_cell_counts_before_the_repository(workspace: Workspace, opened: OpenedRepository) -> None:
    inputs = 'input [ { name: "T" data_type: TYPE_FP32 dims: [ 2 ] } ]'
    outputs = 'output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]'
    workspace.load("post", POST_MODEL, config=f"{inputs}\n{outputs}")
    assert answer(workspace) == [102, 104]
    row = opened["post"].facts()
    assert row.state == "NOT SERVED" and "a cell of this notebook" in row.reason and "load()" in row.advice
    opened["post"].load()
    assert answer(workspace) == [3, 5]
    assert opened["post"].facts().state == "READY"


def test_of_two_repositories_the_first_counts(workspace: Workspace, opened: OpenedRepository, tmp_path: Path) -> None:
    other = OpenedRepository.open(workspace, write_repository(tmp_path / "other"))
    row = other["pre"].facts()
    assert row.state == "NOT SERVED" and str(opened.path) in row.reason and ".close()" in row.advice
    opened.close()
    other.refresh()
    assert states(other)["pre"] == "READY"
    assert states(opened)["pre"] == "CLOSED"
    assert workspace.server.model("pre").directory == other["pre"].directory


def test_closing_unloads_what_it_served(workspace: Workspace, opened: OpenedRepository) -> None:
    opened.close()
    assert not workspace.server.models(exclude_not_ready=True)
    assert opened.path not in workspace.server.repositories
    opened.close()


def test_what_failed_does_not_keep_the_server_from_being_ready_after_the_end(
    workspace: Workspace, opened: OpenedRepository
) -> None:
    assert not workspace.server.core.ready()
    opened.close()
    eventually(workspace.server.core.ready)
    assert [entry for entry in workspace.server.core.index() if entry["name"] in ("resnet", "template")] == []
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'resnet' is not found$"):
        workspace.server.model("resnet")(X=ROW)


# -- cells


def run(workspace: Workspace, cells: list[str]) -> None:
    """Do what the magics do with the cells; the tests of the shell run them there."""
    for cell in cells:
        line, body = split_cell(cell)
        assert body is not None
        magic, name, *words = line.split()
        options = dict(zip(words[::2], words[1::2], strict=True)) if magic != "%%triton_file" else {}
        base = options.get("--base")
        if magic == "%%triton_config":
            workspace.write_config(name, body + "\n", base=base)
            if workspace.draft(name).loadable:
                workspace.load(name)
        elif magic == "%%triton_file":
            workspace.write_file(name, words[0], body + "\n")
        else:
            version = int(options["--version"]) if "--version" in options else None
            workspace.load(name, body + "\n", base=base, version=version)


def test_cells_write_what_a_cell_can_hold(opened: OpenedRepository) -> None:
    heads = [split_cell(cell)[0] for cell in opened["pre"].to_cells()]
    assert heads[:2] == ["%%triton_config pre", "%%triton_file pre helper.py"]
    assert heads[2].startswith("%%triton_model pre --base ") and heads[2].endswith("models/pre")
    assert [cell.split()[0] for cell in opened["all"].to_cells()] == ["%%triton_config"]
    assert "étape 1" in opened["pre"].to_cells()[-1]


def test_a_round_trip_changes_nothing(workspace: Workspace, opened: OpenedRepository, tmp_path: Path) -> None:
    before = contents(opened.path)
    for name in ("pre", "post", "all"):
        run(workspace, opened[name].to_cells())
        assert opened[name].in_cells and opened[name].facts().state == "READY"
    assert answer(workspace) == [3, 5]
    assert workspace.server.model("pre").directory != opened["pre"].directory
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == before
    assert contents(opened.path) == before
    # each model's own export has the same bytes
    export(workspace.server.model("all"), tmp_path / "alone")
    expected = {path: entry for path, entry in before.items() if path.split("/")[0] in ("all", "pre", "post")}
    assert contents(tmp_path / "alone") == expected
    assert not export(workspace.server.model("all"), tmp_path / "out").plan.differs
    assert not opened.export(tmp_path / "out").differs


def test_a_whole_repository_has_the_options_of_other_exports(opened: OpenedRepository, tmp_path: Path) -> None:
    place = tmp_path / "out" / "models"
    planned = opened.export(place, dry_run=True, target="2.49").to_dict()
    assert not place.parent.exists() and planned["dry_run"] and "24.08" in planned["commands"][0]
    assert all(each["preflight"] for each in planned["models"]) and planned["version"].startswith("24.08-")
    report = opened.export(place, target="2.49")
    assert report.to_dict()["version"] == report.version == planned["version"] and report.verification is None
    with pytest.raises(UnknownOption, match="no option 'capture'"):
        opened.export(place, capture=True)
    with pytest.raises(ExportOptionError, match="served here, and these are not: resnet, template"):
        opened.export(place, deploy="docker")


def test_without_cells_the_export_is_the_same(workspace: Workspace, opened: OpenedRepository, tmp_path: Path) -> None:
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(opened.path)
    export(workspace.server.model("pre"), tmp_path / "alone")
    assert contents(tmp_path / "alone" / "pre") == contents(opened["pre"].directory)


def test_an_edit_is_all_that_changes(workspace: Workspace, opened: OpenedRepository, tmp_path: Path) -> None:
    before = contents(opened.path)
    config, helper, model = opened["pre"].to_cells()
    config = config.replace("dims: [ 2 ] } ]\n\noutput", "dims: [ -1 ] } ]\n\noutput")
    run(workspace, [config, helper.replace("return x", "return 10 * x"), model])
    assert answer(workspace) == [21, 41]
    opened.export(tmp_path / "out")
    after = contents(tmp_path / "out")
    assert {path for path in before if after[path] != before[path]} == {"pre/1/helper.py", "pre/config.pbtxt"}
    assert after["pre/1/helper.py"][2] == before["pre/1/helper.py"][2].replace(b"return x", b"return 10 * x")
    assert after["pre/config.pbtxt"][2] == before["pre/config.pbtxt"][2].replace(
        b"dims: [ 2 ] } ]\n\n", b"dims: [ -1 ] } ]\n\n"
    )


def test_weights_are_not_copied(workspace: Workspace, opened: OpenedRepository) -> None:
    run(workspace, opened["pre"].to_cells())
    served = workspace.server.model("pre").directory
    assert (served / "1" / "weights.txt").resolve() == opened["pre"].directory / "1" / "weights.txt"
    (opened["pre"].directory / "1" / "weights.txt").write_text("3")
    workspace.load("pre")
    assert answer(workspace) == [4, 7]


def test_a_cell_that_does_not_load_exports_what_serves(
    workspace: Workspace, opened: OpenedRepository, tmp_path: Path
) -> None:
    cells = opened["post"].to_cells()
    run(workspace, cells)
    with pytest.raises(Exception, match="broken"):
        run(workspace, [cells[-1].replace("import", "raise ValueError('broken')\nimport", 1)])
    assert "broken" in opened["post"].facts().reason
    report = opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(opened.path)
    assert "its cells did not load when they ran last: the version that serves was exported" in str(report)


def test_an_export_in_the_way_is_a_conflict(opened: OpenedRepository, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("other")
    with pytest.raises(ExportConflict, match=r"change README\.md"):
        opened.export(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["README.md"]
    opened.export(tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out") == contents(opened.path)


def test_an_export_over_the_repository_itself_keeps_it_whole(workspace: Workspace, opened: OpenedRepository) -> None:
    before = contents(opened.path)
    cells = opened["post"].to_cells()
    run(workspace, [*cells[:-1], cells[-1].replace("x + 1", "x + 5")])
    opened.export(opened.path, overwrite=True)
    after = contents(opened.path)
    assert {path for path in before if after[path] != before[path]} == {"post/1/model.py"}
    assert not opened.export(opened.path).differs


def test_several_versions(workspace: Workspace, opened: OpenedRepository, tmp_path: Path) -> None:
    directory = opened["post"].directory
    (directory / "3").mkdir()
    (directory / "3" / "model.py").write_bytes(POST.replace(b"x + 1", b"x + 3"))
    opened.refresh()
    assert answer(workspace) == [5, 7]
    cells = opened["post"].to_cells()
    assert "--version" not in cells[-1] and "x + 3" in cells[-1]
    assert "--version 1" in opened["post"].to_cells(version=1)[-1]
    run(workspace, cells)
    assert answer(workspace) == [5, 7]
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(opened.path)
    run(workspace, opened["post"].to_cells(version=1))
    opened.export(tmp_path / "out")
    with pytest.raises(FileError, match=r"'post' has no 2/model.py; versions with a model.py: 1, 3|: 3"):
        opened["post"].to_cells(version=2)


def test_another_model_file_and_no_config(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    inputs = b'input [ { name: "T" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
    outputs = b'output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
    (root / "named" / "1").mkdir(parents=True)
    (root / "named" / "1" / "step.py").write_bytes(POST)
    named = b'backend: "python"\ndefault_model_filename: "step.py"\n' + inputs + outputs
    (root / "named" / "config.pbtxt").write_bytes(named)
    (root / "bare" / "1").mkdir(parents=True)
    completes = (
        POST
        + b"""

    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "T", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [2]})
        return config
"""
    )
    (root / "bare" / "1" / "model.py").write_bytes(completes)
    opened = OpenedRepository.open(workspace, root)
    for name in ("named", "bare"):
        run(workspace, opened[name].to_cells())
        assert workspace.server.model(name)(T=ROW)["Y"].tolist() == [2, 3]
    assert len(opened["bare"].to_cells()) == 1
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(root)


def test_a_model_that_no_cell_can_hold_says_so(opened: OpenedRepository) -> None:
    (opened["post"].directory / "1" / "model.py").write_bytes(POST + b"\n# " + b"x" * 300_000)
    with pytest.raises(FileError, match=r"1/model.py of 'post' is empty, not a text, or has more than 256,000 bytes"):
        opened["post"].to_cells()


def test_hidden_files_are_left_out_and_named(opened: OpenedRepository, tmp_path: Path) -> None:
    (opened["pre"].directory / ".env").write_text("TOKEN=1")
    report = opened.export(tmp_path / "out")
    assert ".env is hidden and was left out" in str(report)
    assert not (tmp_path / "out" / "pre" / ".env").exists()
    opened.export(tmp_path / "whole", include=".env")
    assert contents(tmp_path / "whole") == contents(opened.path)


@pytest.mark.parametrize("in_cells", [False, True])
def test_files_outside_of_the_repository_are_left_out_and_named(
    opened: OpenedRepository, workspace: Workspace, in_cells: bool, tmp_path: Path
) -> None:
    home, source = tmp_path / "home", opened["post"].directory
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "key").write_text("secret")
    (source / "1" / "secret").symlink_to(home / "deep" / "key")
    (source / "1" / "home").symlink_to(home)
    (source / "1" / "labels.txt").write_text("of the model")
    (opened.path / "home").symlink_to(home)
    (opened.path / "key").symlink_to(home / "deep" / "key")
    if in_cells:
        workspace.load("post", POST.decode(), base=source)
    report = opened.export(tmp_path / "out")
    assert not [each for each in (tmp_path / "out").rglob("*") if each.name in ("secret", "home", "key")]
    for name in ("post: 1/secret", "post: 1/home", "home", "key"):
        assert f"Attention: {name} leads to {home}" in str(report)
    files = export(workspace.server.model("post"), tmp_path / "one").plan.files
    assert "1/labels.txt" in files and not [file for file in files if "secret" in file or "home" in file]
    assert (opened["post"].directory / "1" / "secret").read_text() == "secret"
    assert (opened.path / "home" / "deep" / "key").exists()
    opened.export(tmp_path / "whole", include=["home", "secret", "key"])
    assert (tmp_path / "whole" / "home" / "deep" / "key").read_text() == "secret"
    assert (tmp_path / "whole" / "post" / "1" / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    ("source", "config_text"),
    [("x = 1\n  y = 2\n", None), (POST.decode(), "backend: 7"), (POST.decode() + "\nraise ValueError(1)\n", None)],
    ids=["syntax", "config", "import"],
)
def test_a_model_whose_cells_never_loaded_does_not_stop_the_export(
    opened: OpenedRepository, workspace: Workspace, source: str, config_text: str | None, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"unindent|unexpected indent|config|ValueError"):
        workspace.load("post", source, base=opened["post"].directory, config=config_text)
    report = opened.export(tmp_path / "out")
    assert sorted(each.path.name for each in report.models) == sorted(opened)
    written = tmp_path / "out" / "post" / "1" / "model.py"
    if "raise" in source:
        assert "Attention: post: its cells did not load when they ran last: what could not be loaded was" in str(report)
        assert written.read_text().strip() == source.strip()
    else:
        assert written.read_bytes() == POST
    if config_text is None and "raise" not in source:
        assert "did not load when they ran last: the model as it lies in the repository was exported" in str(report)


def test_labels_of_a_model_in_cells_are_those_of_its_directory(opened: OpenedRepository, workspace: Workspace) -> None:
    source = opened["post"].directory
    text = (source / "config.pbtxt").read_text()
    (source / "config.pbtxt").write_text(text.replace('name: "Y"', 'name: "Y" label_filename: "labels.txt"'))
    workspace.load("post", POST.decode(), base=source)
    assert opened["post"].in_cells and workspace.server.core.find("post").labels == {"Y": ("one", "two")}


# -- while models load


def write_slow(root: Path, count: int) -> None:
    for number in range(count):
        directory = root / f"slow{number}" / "1"
        directory.mkdir(parents=True)
        (directory / "model.py").write_text(initializes("import time; time.sleep(60)"))
        (directory.parent / "config.pbtxt").write_text('backend: "python"\n')


def test_an_interrupt_ends_what_loads_and_keeps_what_serves(workspace: Workspace, root: Path) -> None:
    write_slow(root, 6)

    def interrupt() -> None:
        def is_under_way() -> bool:
            found = states(cast(OpenedRepository, workspace.repositories[root])) if workspace.repositories else {}
            return sorted(found.get(f"slow{number}", "") for number in range(6)) == ["LOADING"] * 4 + ["WAITING"] * 2

        eventually(is_under_way)
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        OpenedRepository.open(workspace, root)
    thread.join()
    assert time.monotonic() - began < 40
    opened = cast(OpenedRepository, workspace.repositories[root])
    eventually(lambda: not workspace.server.core.control.loading())
    found = states(opened)
    assert found["post"] == "READY" and "LOADING" not in found.values() and "WAITING" not in found.values()
    assert sorted(found[f"slow{number}"] for number in range(6)) == ["FAILED"] * 3 + ["NOT LOADED"] * 3
    failed = [row for row in opened.facts() if row.name.startswith("slow") and row.state == "FAILED"]
    assert {(row.reason, row.advice) for row in failed} == {("the load was stopped.", "load it again")}
    assert all(row.advice == "open the repository again" for row in opened.facts() if row.state == "NOT LOADED")
    for number in range(6):
        shutil.rmtree(root / f"slow{number}")
    assert OpenedRepository.open(workspace, root) is opened
    assert answer(workspace) == [3, 5]


def test_damaged_models_fail_alone(workspace: Workspace, tmp_path: Path) -> None:
    assert len(CORPUS) >= 40
    opened = OpenedRepository.open(workspace, write(tmp_path / "models"))
    assert workspace.server.model(GOOD)(IN=[1])["OUT"].tolist() == [1]
    rows = {row.name: row for row in opened.facts()}
    assert rows.pop(GOOD).state == "READY"
    assert rows.keys() == CORPUS.keys()
    for name, row in rows.items():
        assert row.state == "FAILED", name
        assert CORPUS[name].says in f"{row.reason} {workspace.server.model(name).reason}", name
    report = opened.export(tmp_path / "exported")
    assert len(report.models) == 1 + len(CORPUS)
    assert (tmp_path / "exported" / "binary" / "config.pbtxt").read_bytes() == CORPUS["binary"].files["config.pbtxt"]


def test_an_export_that_fails_leaves_no_directory(
    opened: OpenedRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(NoRepository, match=f"was not exported to {tmp_path}/a/out: no space left in "):
        opened.export(tmp_path / "a" / "out")
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    with pytest.raises(NoRepository):
        opened.export(tmp_path / "a" / "out")
    assert list((tmp_path / "a").iterdir()) == []
