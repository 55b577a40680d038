"""Exports through a real server, compared with what was served."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.ensembles import ensemble_text, step
from tests.models import answers, completes
from tests.serving import write_model
from tritonlab import Model, Server, export
from tritonlab.core.status import InvalidArgumentError
from tritonlab.ipc.processes.own_stub import NAME, write_own_stub
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.repository.place import NoRepository
from tritonlab.tools.deploy import secrets
from tritonlab.tools.deploy.report import ExportConflict, ExportReport

SOURCE = completes(answers("-x"))
CONFIG = """\
name: "m"
backend: "python"
max_batch_size: 4
input {
  name: "IN"
  data_type: TYPE_FP32
  dims: [-1]
}
output {
  name: "OUT"
  data_type: TYPE_FP32
  dims: [-1]
}
instance_group {
  name: "m"
  count: 1
}
dynamic_batching {
}
"""


#: Who calls whom: with the name spelt out, and with one that only a call shows.
CALLS = {"first": ("written", "computed"), "written": ("nowhere", ""), "computed": ("", "")}


def calling(spelt: str, computed: str) -> str:
    call = "pb_utils.InferenceRequest(model_name={}, inputs=[], requested_output_names=['OUT'])"
    written = f"if spelt: {call.format(repr(spelt))}.exec()" if spelt else "pass"
    return SOURCE.replace(
        "        responses = []",
        f"""\
        spelt, computed = {spelt == "written"}, {computed.upper()!r}
        {written}
        if computed: {call.format("computed.lower()")}.exec()
        responses = []""",
    )


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    version = tmp_path / "source" / "m" / "1"
    (version / "__pycache__").mkdir(parents=True)
    (version / "__pycache__" / "model.pyc").write_bytes(b"")
    (version / "model.py").write_text(SOURCE)
    (version / "helper.txt").write_text("help")
    (tmp_path / "source" / "m" / "labels.txt").write_text("a\nb\n")
    with Server(tmp_path / "source") as server:
        yield server.model("m")


def files(path: Path) -> list[str]:
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


def test_the_directory_is_complete_and_nothing_else(model: Model, tmp_path: Path) -> None:
    report = export(model, tmp_path / "models")
    target = tmp_path / "models" / "m"
    assert files(target) == ["1/helper.txt", "1/model.py", "config.pbtxt", "labels.txt"]
    assert report.plan.files == tuple(files(target))
    assert sorted((target / "config.pbtxt").read_text().split()) == sorted(CONFIG.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["models", "models.export.json", "source"]


#: A config that is complete, as a person writes it.
COMPLETE = """\
# Negates rows.   Ask the team of the eighth floor.
name: "m"
backend: "python"
max_batch_size: 4  # more does not pay

input [ { name: "IN",  data_type: TYPE_FP32, dims: [ -1 ] } ]
output [ { name: "OUT", data_type: TYPE_FP32, dims: [ -1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]  # no GPU is needed
dynamic_batching { }
# the end, without a newline"""


def exported_text(tmp_path: Path, text: str, source: str = SOURCE) -> tuple[str, ExportReport]:
    """Return the config.pbtxt of an export, of which today's server makes the same, and the report."""
    write_model(tmp_path / "source", "m", source)
    (tmp_path / "source" / "m" / "config.pbtxt").write_bytes(text.encode("utf-8", "surrogateescape"))
    with Server(tmp_path / "source") as server:
        report = export(server.model("m"), tmp_path / "models")
        config = server.model("m").config()
    with Server(tmp_path / "models") as server:
        assert server.model("m").config() == config
    return (tmp_path / "models" / "m" / "config.pbtxt").read_bytes().decode("utf-8", "surrogateescape"), report


@pytest.mark.parametrize(
    "text",
    [COMPLETE, COMPLETE.replace("\n", "\r\n"), COMPLETE.replace("eighth", "caf\udce9")],
    ids=["lf", "crlf", "latin-1"],
)
def test_a_complete_config_is_exported_byte_for_byte(tmp_path: Path, text: str) -> None:
    found, report = exported_text(tmp_path, text)
    assert found == text
    assert report.plan.warnings == ()
    with zipfile.ZipFile(report.zip().path) as packed:
        assert packed.read("models/m/config.pbtxt") == text.encode("utf-8", "surrogateescape")


def test_what_a_config_lacks_is_added_to_the_authors_text(tmp_path: Path) -> None:
    text = "# mine\ninput [ { name: 'IN', data_type: TYPE_FP32, dims: [ -1 ] } ]  # rows\n"
    found, report = exported_text(tmp_path, text)
    assert found.startswith(f"{text}# added by tritonlab\n")
    assert sorted(line for line in found[len(text) :].splitlines() if line[:1].isalpha()) == [
        'backend: "python"',
        "dynamic_batching {",
        "instance_group {",
        "max_batch_size: 4",
        'name: "m"',
        "output {",
    ]
    assert report.plan.warnings == ()


def test_a_config_that_is_completed_within_is_written_again_and_the_report_says_so(tmp_path: Path) -> None:
    found, report = exported_text(tmp_path, "# mine\ninput { name: 'IN' }\n")
    assert "# mine" not in found
    (warning,) = report.plan.warnings
    expected = "its config.pbtxt was rewritten without its comments: input had to be completed in place"
    assert warning == expected
    assert f"  Attention: {warning}." in str(report).splitlines()


def test_another_server_answers_the_same_from_it(model: Model, tmp_path: Path) -> None:
    export(model, tmp_path / "models")
    row = np.array([[1, -2]], np.float32)
    with Server(tmp_path / "models") as server:
        assert server.model("m")(IN=row)["OUT"].tolist() == model(IN=row)["OUT"].tolist()
        assert server.model("m").config() == model.config()


def test_a_number_is_not_a_model_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"3 is not a model: .*server.model\(NAME\) return it"):
        export(3, tmp_path / "new")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_equal_is_left_alone(model: Model, tmp_path: Path) -> None:
    export(model, tmp_path / "models")
    stamp = (tmp_path / "models" / "m" / "1" / "model.py").stat().st_mtime_ns
    report = export(model, tmp_path / "models")
    assert not report.plan.differs
    assert "  m/  (was up to date)\n" in str(report)
    assert (tmp_path / "models" / "m" / "1" / "model.py").stat().st_mtime_ns == stamp


def test_the_report_says_where_what_and_how_to_serve_it(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    report = export(model, "~/my models")
    where = tmp_path / "my models"
    assert str(report).splitlines() == [
        f"{where}/",
        "  m/",
        "    1/",
        "      helper.txt",
        "      model.py",
        "    config.pbtxt",
        "    labels.txt",
        f"  Version: {report.version}",
        "Serve it with Triton:",
        "  docker run --rm --shm-size=1g -p 8000:8000 -p 8001:8001 -p 8002:8002 "
        f"-v '{where}:/models' nvcr.io/nvidia/tritonserver:24.10-py3 tritonserver --model-repository=/models",
        "or here:",
        f"  tritonlab serve --model-repository='{where}'",
    ]
    assert export(model, "~/my models", dry_run=True).path == where / "m"
    html = report._repr_html_()
    assert "      model.py\n" in html and f"--model-repository=&#x27;{where}&#x27;" in html


def test_the_printed_command_serves_it(model: Model, tmp_path: Path) -> None:
    words = shlex.split(export(model, tmp_path / "my models").commands()[1])
    command = [sys.executable, "-m", *words, "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            assert any(re.search(r"\| m +\| 1 +\| READY", line) for line in server.stdout)
        finally:
            server.terminate()


def test_a_zip_file_is_written_on_request(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = export(model, tmp_path / "models")
    archive = report.zip()
    assert archive.path == tmp_path / "models-m.zip"
    before = archive.path.read_bytes()
    assert report.zip().path.read_bytes() == before
    with zipfile.ZipFile(archive.path) as packed:
        packed.extractall(tmp_path / "there")
    assert files(tmp_path / "there" / "models") == files(tmp_path / "models")
    assert archive._repr_html_() == f"<div class='tl-export'>{archive.path} ({len(before):,} bytes)</div>"
    monkeypatch.chdir(tmp_path)
    assert "<a href='models-m.zip' download='models-m.zip'>" in archive._repr_html_()
    assert report.zip(tmp_path / "other.zip").path.read_bytes() == before


def test_a_zip_file_has_what_lies_beside_the_models(model: Model, tmp_path: Path) -> None:
    report = export(model, tmp_path / "models", deploy="docker")
    (tmp_path / "deploy/compose.yaml").chmod(0o755)
    (tmp_path / "other.txt").write_text("not of the export")
    with zipfile.ZipFile(report.zip().path) as packed:
        names = packed.namelist()
        assert packed.getinfo("deploy/compose.yaml").external_attr >> 16 & 0o777 == 0o755
    monitoring = ["deploy/monitoring/alerts.yaml", "deploy/monitoring/dashboard.json"]
    beside = ["README.md", "deploy/Dockerfile", "deploy/compose.yaml", *monitoring, "openapi.json"]
    assert [name for name in names if not name.startswith("models/")] == [*beside, "export.json"]
    with pytest.raises(InvalidArgumentError, match="it was a dry run"):
        export(model, tmp_path / "elsewhere", dry_run=True).zip()


@pytest.mark.parametrize("scanner", [False, True])
def test_secrets_are_named_and_left_out_unless_they_are_requested(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scanner: bool
) -> None:
    """They are named in the same words with detect-secrets and without."""
    monkeypatch.setattr(secrets, "_has_scanner", lambda: scanner)
    source = Path(model.directory) / "1"
    (source / "settings.json").write_text('{"rate": 1,\n "key": "-----BEGIN RSA PRIVATE KEY-----"}')
    for name in ("id_rsa", "hf_token.txt", "token", "netrc", "tokens.txt", "hf_tokenizer.json"):
        (source / name).write_text("key")
    report = export(model, tmp_path / "models")
    there = files(tmp_path / "models" / "m")
    assert there == ["1/helper.txt", "1/hf_tokenizer.json", "1/model.py", "1/tokens.txt", "config.pbtxt", "labels.txt"]
    assert [warning.partition(" looks")[0] for warning in report.plan.warnings] == [
        *("1/hf_token.txt", "1/id_rsa", "1/netrc", "1/settings.json", "1/token"),
    ]
    assert report.plan.warnings[3] == (
        "1/settings.json looks like a secret (private key in line 2) and was left out; mount it where the model runs: "
        "include=['1/settings.json'] (--include 1/settings.json) exports it all the same"
    )
    (warning,) = export(model, tmp_path / "all", include=["*token*", "id_rsa", "netrc", "*.json"]).plan.warnings
    assert warning.startswith("1/hf_token.txt and 4 more look like secrets and are exported: take them out of the")


def test_a_key_in_the_code_is_named_with_its_line(model: Model, tmp_path: Path) -> None:
    source = Path(model.directory) / "1" / "model.py"
    source.write_text(f"{source.read_text()}\nKEY = 'hf_{'aB3' * 11}'\n")
    report = export(model, tmp_path / "models")
    (warning,) = report.plan.warnings
    line = len(source.read_text().splitlines())
    assert warning.startswith(f"line {line} of 1/model.py has what looks like a secret (Hugging Face token), and is")
    assert "1/model.py" in files(tmp_path / "models" / "m") and "aB3" not in str(report)


def test_a_name_that_no_zip_file_can_have_is_refused(model: Model, tmp_path: Path) -> None:
    (Path(model.directory) / "1" / os.fsdecode(b"\xff.bin")).write_bytes(b"")
    report = export(model, tmp_path / "models")
    assert "'\\udcff.bin'" in str(report)
    with pytest.raises(InvalidArgumentError, match="is not UTF-8, and a zip file has no other names"):
        report.zip()
    assert not list(tmp_path.glob("*.zip*"))


def test_models_that_bls_calls_name_come_along_and_missing_ones_are_reported(tmp_path: Path) -> None:
    for name, callees in CALLS.items():
        (tmp_path / "source" / name / "1").mkdir(parents=True)
        (tmp_path / "source" / name / "1" / "model.py").write_text(calling(*callees))
    row = np.array([[1, -2]], np.float32)
    with Server(tmp_path / "source") as server:
        before = export(server.model("first"), tmp_path / "before")
        server.model("first")(IN=row)
        report = export(server.model("first"), tmp_path / "models")
        alone = export(server.model("first"), tmp_path / "alone", alone=True)
    assert [each.path.name for each in before.composing] == ["written"]
    assert [each.path.name for each in report.composing] == ["written", "computed"]
    (warning,) = report.composing[0].plan.warnings
    assert warning == "it calls the model 'nowhere', which is not loaded here and so was not exported"
    assert f"  Attention: written: {warning}." in str(report).splitlines()
    assert os.listdir(tmp_path / "alone") == ["first"]
    assert alone.plan.warnings == tuple(
        f"it needs the model '{name}', which was not exported with it" for name in ("written", "computed")
    )
    with Server(tmp_path / "models") as server:
        assert server.model("first")(IN=row)["OUT"].tolist() == [[-1, 2]]


def test_what_is_there_is_not_touched_but_named(model: Model, tmp_path: Path) -> None:
    target = tmp_path / "models" / "m"
    export(model, tmp_path / "models")
    (target / "1" / "model.py").write_text("# other\n")
    (target / "1" / "mine.txt").write_text("precious")
    (target / "labels.txt").unlink()
    with pytest.raises(ExportConflict) as caught:
        export(model, tmp_path / "models")
    plan = caught.value.plan
    assert (plan.added, plan.changed, plan.removed) == (("labels.txt",), ("1/model.py",), ("1/mine.txt",))
    text = str(caught.value)
    assert re.search(r"add +labels.txt\n +change +1/model.py\n +remove +1/mine.txt\n", text)
    assert files(target) == ["1/helper.txt", "1/mine.txt", "1/model.py", "config.pbtxt"]


@pytest.mark.parametrize("overwrite", [True, "replace"])
def test_replacing_keeps_a_backup_outside_the_repository(model: Model, tmp_path: Path, overwrite: bool) -> None:
    target = tmp_path / "models" / "m"
    for number in range(2):
        target.mkdir(parents=True, exist_ok=True)
        (target / "mine.txt").write_text(f"precious {number}")
        report = export(model, tmp_path / "models", overwrite=overwrite)
        assert report.backup is not None
        assert (report.backup / "mine.txt").read_text() == f"precious {number}"
        assert report.backup.parent == tmp_path / "models.backup"
        assert files(target) == ["1/helper.txt", "1/model.py", "config.pbtxt", "labels.txt"]
    assert len(list((tmp_path / "models.backup").iterdir())) == 2
    assert os.listdir(tmp_path / "models") == ["m"]


def test_a_plan_writes_nothing(model: Model, tmp_path: Path) -> None:
    plan = export(model, tmp_path / "models", dry_run=True).plan
    assert plan.differs and plan.added[0] == "1/helper.txt"
    assert not (tmp_path / "models").exists()


def test_what_holds_on_this_machine_only_is_left_out_and_named(tmp_path: Path) -> None:
    version = tmp_path / "source" / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(SOURCE)
    write_own_stub(version.parent, sys.executable)
    with Server(tmp_path / "source") as server:
        report = export(server.model("m"), tmp_path / "models")
        again = export(server.model("m"), tmp_path / "models")
    assert files(tmp_path / "models" / "m") == ["1/model.py", "config.pbtxt"]
    for export_report in (report, again):
        (warning,) = export_report.plan.warnings
        assert f"  Attention: {warning}." in str(export_report).splitlines()


def test_a_failure_in_the_middle_loses_nothing(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "models" / "m"
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("precious")
    real = os.replace

    def replace(source: Path, destination: Path) -> None:
        if Path(destination) == target and "tritonlab-export" in str(source):
            raise OSError("disk on fire")
        real(source, destination)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="disk on fire"):
        export(model, tmp_path / "models", overwrite=True)
    assert files(target) == ["mine.txt"]


def test_a_link_or_a_file_in_the_way_is_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match="is not a directory; nothing was written"):
        export(model, tmp_path / "models", overwrite=True)


@pytest.mark.parametrize(
    "path", ["a_file", "a_file/below", "~nobody_of_that_name/models", "x" * 300, "a_link_to_nothing"]
)
def test_where_no_repository_can_be_one_sentence_explains_it(model: Model, tmp_path: Path, path: str) -> None:
    (tmp_path / "a_file").write_text("mine")
    (tmp_path / "a_link_to_nothing").symlink_to(tmp_path / "nothing")
    place = path if path.startswith("~") else tmp_path / path
    with pytest.raises(
        NoRepository, match=r"is not a directory|no such user|cannot be made: file name too long"
    ) as caught:
        export(model, place)
    assert "Errno" not in str(caught.value) and caught.value.fix == "name another directory"
    if "x" not in path:
        with pytest.raises(NoRepository, match=r"is not a directory|no such user"):
            export(model, place, dry_run=True)


def test_a_repository_may_be_a_file_system_of_its_own(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "mounted"
    real = os.replace

    def replace(source: Path, destination: Path) -> None:
        if len({repository in Path(path).parents for path in (source, destination)}) == 2:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, destination)

    monkeypatch.setattr(os, "replace", replace)
    export(model, repository)
    written = files(repository / "m")
    (repository / "m" / "1" / "model.py").write_text("# mine")
    backup = export(model, repository, overwrite=True).backup
    assert backup is not None and (backup / "1" / "model.py").read_text() == "# mine"
    assert files(repository / "m") == written and "# mine" not in (repository / "m" / "1" / "model.py").read_text()
    assert [path.name for path in repository.iterdir()] == ["m"]
    beside = ["mounted", "mounted.backup", "mounted.export.json"]
    assert sorted(path.name for path in tmp_path.iterdir() if "mounted" in path.name) == beside
    assert not list(tmp_path.glob(".tritonlab*"))


def test_nothing_is_replaced_without_a_backup(model: Model, tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "mine.txt").write_text("precious")
    (tmp_path / "models.backup").write_text("a file in the way")
    with pytest.raises(NoRepository, match=r"was not replaced, because its backup .*models.backup cannot be made"):
        export(model, tmp_path / "models", overwrite=True)
    assert files(tmp_path / "models" / "m") == ["mine.txt"]


def test_an_ensemble_brings_the_models_of_its_steps(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("part", "part2", "other"):
        (source / name / "1").mkdir(parents=True)
        (source / name / "1" / "model.py").write_text(SOURCE)
    text = ensemble_text(step("part", "IN=X", "OUT=Z"), step("inner", "X=Z", "Y=W"), step("part", "IN=W", "OUT=Y"))
    inner = ensemble_text(step("part2", "IN=X", "OUT=Y"), batch=4)
    for name, written in (("whole", text.replace("max_batch_size: 0", "max_batch_size: 4")), ("inner", inner)):
        (source / name / "2").mkdir(parents=True)
        (source / name / "config.pbtxt").write_text(written)
    with Server(source) as server:
        report = export(server.model("whole"), tmp_path / "models")
        row = np.array([[1, -2]], np.float32)
        answer = server.model("whole")(X=row)["Y"].tolist()
        config = server.model("whole").config()
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == ["inner", "part", "part2", "whole"]
    for folder in (tmp_path / "models").rglob("*"):  # git keeps no empty directory
        assert folder.is_file() or any(folder.iterdir())
    assert "  whole/\n    2/\n      .gitkeep\n    config.pbtxt\n" in str(report)
    assert [each.path.name for each in report.composing] == ["part", "inner", "part2"]
    assert str(report).count("config.pbtxt") == 4
    with Server(tmp_path / "models") as server:
        assert server.model("whole")(X=row)["Y"].tolist() == answer == [[-1, 2]]
        assert server.model("whole").config() == config
        assert not export(server.model("whole"), tmp_path / "models").plan.differs


def test_nothing_of_an_ensemble_is_written_if_one_directory_is_in_the_way(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "part" / "1").mkdir(parents=True)
    (source / "part" / "1" / "model.py").write_text(SOURCE)
    (source / "whole" / "1").mkdir(parents=True)
    (source / "whole" / "config.pbtxt").write_text(ensemble_text(step("part", "IN=X", "OUT=Y"), batch=4))
    (tmp_path / "models" / "part").mkdir(parents=True)
    (tmp_path / "models" / "part" / "mine.txt").write_text("precious")
    with Server(source) as server:
        with pytest.raises(ExportConflict) as caught:
            export(server.model("whole"), tmp_path / "models")
        assert caught.value.plan.path.name == "part"
        assert not (tmp_path / "models" / "whole").exists()
        report = export(server.model("whole"), tmp_path / "models", overwrite=True)
    assert report.backup is None
    assert report.composing[0].backup is not None


def test_parameters_reach_the_model_and_the_export_as_they_are_written(tmp_path: Path) -> None:
    """Those of models for AWS Inferentia, which mean nothing here."""
    values = {
        "COMPILED_MODEL": "/opt/models/compiled.pt",
        "NEURON_CORE_START_INDEX": "0",
        "NEURON_CORE_END_INDEX": "3",
        "NUM_THREADS_PER_CORE": "1",
    }
    source = SOURCE.replace(
        "    def execute",
        """\
    def initialize(self, args):
        import json
        found = json.loads(args["model_config"])
        print(json.dumps([found["parameters"], found["instance_group"][0]["kind"]]))
    def execute""",
    )
    parameters = "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in values.items())
    write_model(tmp_path / "models", "m", source, parameters + "instance_group { kind: KIND_MODEL }")
    with Server(tmp_path / "models") as server:
        model = server.model("m")
        wire = {name: {"string_value": value} for name, value in values.items()}
        (printed,) = [record.text for record in model.logs() if record.stream == "stdout"]
        assert json.loads(printed) == [wire, "KIND_MODEL"]
        assert model.config()["parameters"] == wire
        export(model, tmp_path / "exported")
    with Server(tmp_path / "exported") as server:
        found = server.model("m").config()
        assert (found["parameters"], found["instance_group"][0]["kind"]) == (wire, "KIND_MODEL")


def test_a_full_disk_is_reported_and_leaves_nothing(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    target = tmp_path / "out"
    with pytest.raises(NoRepository, match=f"'m' was not exported to {target}: no space left in ") as raised:
        export(model, target)
    assert "make room there" in str(raised.value)
    assert not target.exists()
    target.mkdir()
    with pytest.raises(NoRepository, match="no space left in "):
        export(model, target)
    assert list(target.iterdir()) == []


def test_what_a_link_outside_leads_to_is_exported_on_request_only(model: Model, tmp_path: Path) -> None:
    home, source = tmp_path / "home", Path(model.directory)
    home.mkdir()
    (home / "key").write_text("secret")
    (source / "1" / "secret").symlink_to(home / "key")
    (source / "1" / "home").symlink_to(home)
    (source.parent / "shared.txt").write_text("of the repository")
    (source / "1" / "shared.txt").symlink_to("../../shared.txt")
    report = export(model, tmp_path / "out" / "models")
    assert (report.path / "1" / "shared.txt").read_text() == "of the repository"
    assert not [each for each in report.path.rglob("*") if each.name in ("secret", "home", "key")]
    for name, end in (("1/home", home), ("1/secret", home / "key")):
        assert f"Attention: {name} leads to {end}, outside of the repository, and was left out: include=['{name}']" in (
            str(report)
        )
    with zipfile.ZipFile(report.zip().path) as packed:
        assert not [name for name in packed.namelist() if "secret" in name or "home" in name]
    report = export(model, tmp_path / "whole" / "models", include=["secret", "1/home"])
    assert (report.path / "1" / "secret").read_text() == "secret" == (report.path / "1" / "home" / "key").read_text()


def test_modes_links_and_directories_are_exported_as_they_are_twice_the_same(model: Model, tmp_path: Path) -> None:
    source = Path(model.directory)
    (source / "1" / "x.sh").write_text("#!/bin/sh\n")
    (source / "1" / "x.sh").chmod(0o755)
    (source / "lib").mkdir()
    (source / "lib" / "a.txt").write_text("a")
    (source / "lib64").symlink_to("lib")
    (source / "gone").symlink_to("/nowhere/at/all")
    (source / "empty").mkdir()
    first = export(model, tmp_path / "one" / "models")
    second = export(model, tmp_path / "two" / "models")
    target = tmp_path / "one" / "models" / "m"
    assert os.access(target / "1" / "x.sh", os.X_OK) and not os.access(target / "1" / "model.py", os.X_OK)
    assert os.readlink(target / "lib64") == "lib" and (target / "empty").is_dir()
    (warning,) = first.plan.warnings
    assert warning == (
        "its link gone leads to '/nowhere/at/all', which is not there or left out, and was left out: put the file "
        "there, or remove the link"
    )
    assert not export(model, tmp_path / "two" / "models").plan.differs
    assert first.zip().path.read_bytes() == second.zip().path.read_bytes()
    with zipfile.ZipFile(first.zip().path) as packed:
        assert packed.read("models/m/lib64") == b"lib"
        modes = {info.filename: info.external_attr >> 16 for info in packed.infolist()}
    assert stat.S_ISLNK(modes["models/m/lib64"]) and modes["models/m/1/x.sh"] & 0o111
    (target / "1" / "x.sh").chmod(0o644)
    assert export(model, tmp_path / "one" / "models", dry_run=True).plan.changed == ("1/x.sh",)


def test_secrets_and_clutter_are_named_and_left_out_unless_they_are_requested(model: Model, tmp_path: Path) -> None:
    source = Path(model.directory)
    (source / ".env").write_text("TOKEN=1")
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("x")
    (source / "big.bin").touch()
    os.truncate(source / "big.bin", 100_000_001)
    report = export(model, tmp_path / "models")
    assert files(tmp_path / "models" / "m") == ["1/helper.txt", "1/model.py", "config.pbtxt", "labels.txt"]
    assert report.plan.warnings == (
        ".env, .git/ are hidden and were left out: include=['NAME'] (--include NAME) exports one",
        "big.bin has 100 MB and was left out, and the model does not deploy until it is there: include=['big.bin'] "
        "(--include big.bin) copies it",
    )
    again = export(model, tmp_path / "all", include=["*.bin", ".env"])
    assert [".env" in again.plan.files, "big.bin" in again.plan.files, ".git/HEAD" in again.plan.files] == [1, 1, 0]


def test_the_report_does_not_list_the_files_of_an_environment(model: Model, tmp_path: Path) -> None:
    for number in range(40):
        (Path(model.directory) / "env" / "lib" / f"{number}").mkdir(parents=True)
        (Path(model.directory) / "env" / "lib" / f"{number}" / "a.py").touch()
    report = export(model, tmp_path / "models")
    assert str(report).count("\n") < 15 and "    env/\n      …  (40 files)\n" in str(report)
    assert len(report.to_dict()["models"][0]["files"]) == 44


@pytest.mark.parametrize("way", ["served", "loaded"])
def test_a_compiled_stub_is_kept_while_ours_runs_the_model(tmp_path: Path, way: str) -> None:
    """As a directory that a server has, and as one that a notebook copies."""
    compiled = b"\x7fELF\x02\x01\x01\0libpython3.12.so.1.0\0"
    version = tmp_path / "source" / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(SOURCE)
    (version.parent / NAME).write_bytes(compiled)
    (version.parent / NAME).chmod(0o755)
    (version / "link.py").symlink_to("model.py")
    (tmp_path / "notebook").mkdir()
    place, mode = ("source", "none") if way == "served" else ("notebook", "explicit")
    with Server(tmp_path / place, model_control_mode=mode) as server:
        if way == "loaded":
            Workspace(server, tmp_path / "notebook").load("m", version.parent)
        model = server.model("m")
        assert model(IN=np.array([[1]], np.float32))["OUT"].tolist() == [[-1]]
        assert any(
            "is compiled for Triton and Python 3.12; it is kept, and tritonlab's stub runs" in record.text
            for record in model.logs()
        )
        report = export(model, tmp_path / "models")
    target = tmp_path / "models" / "m"
    assert (target / NAME).read_bytes() == compiled and os.access(target / NAME, os.X_OK)
    assert os.readlink(target / "1" / "link.py") == "model.py"
    assert report.plan.warnings == ()
    with Server(tmp_path / "models") as server:
        again = export(server.model("m"), tmp_path / "again")
    assert {path: (target / path).read_bytes() for path in files(target)} == {
        path: (again.path / path).read_bytes() for path in files(again.path)
    }
