"""A workspace on the real server and its stubs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tritonlab import export
from tritonlab.core.config.model_config import print_pbtxt
from tritonlab.core.status import ModelError, ModelLoadError, NotFoundError
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.config_text import ConfigText, ConfigTextError
from tritonlab.notebook.authoring.errors import FileError, OptionError
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.repository.model_names import ADVICE

IDENTITY = """\
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.answer(t))]) for t in tensors]
    def answer(self, data):
        return data
"""
#: prints from a thread of its own, as a model that executes meanwhile
CHATTER = """\
    def initialize(self, args):
        import threading, time
        print("chatter")
        def talk():
            while True:
                print("chatter")
                time.sleep(0.005)
        threading.Thread(target=talk, daemon=True).start()
"""
OPTIONS = ConfigOptions(max_batch_size=8, inputs=("IN:FP32[-1]",), outputs=("OUT:FP32[-1]",))
ROW = np.array([[1, 2, 3]], np.float32)


def answer(workspace: Workspace, name: str = "m") -> list[float]:
    return workspace.server.model(name)(IN=ROW)["OUT"][0].tolist()


def replaced(text: str) -> str:
    return IDENTITY.replace("return data", text)


def test_a_model_answers(workspace: Workspace) -> None:
    model = workspace.load("m", IDENTITY, options=OPTIONS)
    assert model.state == "READY"
    assert answer(workspace) == [1, 2, 3]
    report = workspace.report("m")
    assert report is not None and report.error is None and report.ready_at > 0


def test_a_name_that_no_directory_can_have_is_refused_in_words(workspace: Workspace) -> None:
    with pytest.raises(FileError, match=r"^a file name is too long: 'n{40}\.\.\.' has \d+ bytes, and may have 255$"):
        workspace.load("n" * 300, IDENTITY, options=OPTIONS)
    assert workspace.load("m", IDENTITY, options=OPTIONS).ready()


def test_a_full_disk_is_reported_in_words(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(FileError, match=r"^no space left in .*; make room there, or set TMPDIR to a directory"):
            workspace.load("m", IDENTITY, options=OPTIONS)
    assert workspace.load("m", IDENTITY, options=OPTIONS).ready()


def test_a_helper_file_that_is_gone_is_reported_in_words(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 2")
    workspace.load("m", IDENTITY, options=OPTIONS, files=[tmp_path / "helper.py"])
    (tmp_path / "helper.py").unlink()
    with pytest.raises(FileError, match=r"^No such file or directory: .*helper\.py$"):
        workspace.load("m")
    assert answer(workspace) == [1, 2, 3]


def test_a_load_that_fails_leaves_files_and_lines_of_the_good_one(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    directory = workspace.repository / "m"
    good = (directory / "1" / "model.py").read_text()
    with pytest.raises(ModelLoadError):
        workspace.load("m", "import notthere\n", options=OPTIONS)
    assert answer(workspace) == [1, 2, 3]
    assert (directory / "1" / "model.py").read_text() == good
    assert workspace.sources.locate(str(directory / "1" / "model.py"), 1) == (str(directory / "1" / "model.py"), 1)
    report = workspace.report("m")
    assert report is not None and report.error is not None and report.ready_at > 0


def test_a_first_load_that_fails_leaves_its_files_to_look_at(workspace: Workspace) -> None:
    with pytest.raises(ModelLoadError) as caught:
        workspace.load("m", "print('before')\nimport notthere\n")
    assert caught.value.exception is not None
    assert caught.value.exception.type_name == "ModuleNotFoundError"
    assert "before" in caught.value.log
    assert (workspace.repository / "m" / "1" / "model.py").is_file()
    report = workspace.report("m")
    assert report is not None and report.ready_at == 0.0


def test_the_last_output_in_an_error_is_of_the_version_that_failed(workspace: Workspace) -> None:
    talking = 'import threading\nprint("old version")\n' + IDENTITY
    workspace.load("m", talking, options=OPTIONS)
    with pytest.raises(ModelLoadError) as silent:
        workspace.load("m", "import notthere\n", options=OPTIONS)
    assert silent.value.log == ()
    failing = replaced('print("in", "execute"); raise ValueError("bad")')
    model = workspace.load("m", failing, options=OPTIONS)
    with pytest.raises(ModelError) as failed:
        model(IN=np.ones((1, 1), np.float32))
    assert failed.value.log == ("in execute",)


def test_what_the_version_that_serves_prints_is_not_of_the_load(workspace: Workspace) -> None:
    """It answers requests while the next one loads."""
    chatty = IDENTITY.replace("    def execute", CHATTER + "    def execute")
    workspace.load("m", chatty, options=OPTIONS)
    first = workspace.report("m")
    workspace.load("m", "import time; time.sleep(0.1)\n" + IDENTITY, options=OPTIONS)
    second = workspace.report("m")
    assert first is not None and second is not None
    assert (first.log == (), [record.text for record in second.log]) == (False, [])


def test_a_syntax_error_is_found_without_a_stub(workspace: Workspace) -> None:
    with pytest.raises(ModelLoadError) as caught:
        workspace.load("m", "class TritonPythonModel:\n    def f(self)\n")
    assert caught.value.message == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: "
        "SyntaxError: expected ':' (model.py, line 2);\n"
    )
    assert not (workspace.repository / "m").exists()
    with pytest.raises(NotFoundError):
        workspace.server.model("m").config()


def test_the_line_of_a_syntax_error_is_that_of_the_new_text(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    with pytest.raises(ModelLoadError) as caught:
        workspace.load("m", "%time\n" + IDENTITY)
    assert caught.value.exception is not None
    assert caught.value.exception.detail["text"] == "%time\n"
    assert caught.value.message.endswith("SyntaxError: invalid syntax (model.py, line 1);\n")


def test_a_helper_file_takes_effect_at_the_next_load(workspace: Workspace) -> None:
    source = replaced("return data * factor.FACTOR").replace("import triton", "import factor\nimport triton", 1)
    assert workspace.write_file("m", "factor.py", "FACTOR = 2\n") == "1/factor.py"
    workspace.load("m", source, options=OPTIONS)
    assert answer(workspace) == [2, 4, 6]
    workspace.write_file("m", "factor.py", "FACTOR = 3\n")
    workspace.load("m")
    assert answer(workspace) == [3, 6, 9]
    with pytest.raises(FileError, match="helper file needs another name"):
        workspace.write_file("m", "model.py", "")


def test_files_are_copied_beside_the_model(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "weights.npy").write_bytes(b"")
    np.save(tmp_path / "weights.npy", np.float32(5))
    source = replaced("return data * numpy.load(Path(__file__).with_name('weights.npy'))")
    source = "import numpy\nfrom pathlib import Path\n" + source
    workspace.load("m", source, files=[tmp_path / "weights.npy"], options=OPTIONS)
    assert answer(workspace) == [5, 10, 15]


def test_the_config_is_the_text_and_the_options(workspace: Workspace) -> None:
    workspace.write_config("m", "# mine\nmax_batch_size: 8\n")
    tensors = ConfigOptions(inputs=OPTIONS.inputs, outputs=OPTIONS.outputs)
    assert workspace.load("m", IDENTITY, options=tensors).config()["max_batch_size"] == 8
    with pytest.raises(OptionError, match="both set max_batch_size"):
        workspace.load("m", IDENTITY, options=ConfigOptions(max_batch_size=2))
    assert answer(workspace) == [1, 2, 3]


def test_a_config_the_server_would_refuse_is_refused_at_once(workspace: Workspace) -> None:
    workspace.write_config("m", "max_batch_size: 8\n")
    with pytest.raises(ConfigTextError):
        workspace.write_config("m", "max_batch_size: x\n")
    assert workspace.draft("m").config.text == "max_batch_size: 8\n"


def test_a_text_that_needs_nothing_is_written_as_it_is(workspace: Workspace) -> None:
    text = '# a comment\nname: "m"\nbackend: "python"\n'
    workspace.load("m", IDENTITY, config=text)
    assert (workspace.repository / "m" / "config.pbtxt").read_text() == text


def test_options_of_one_load_are_gone_with_the_next_source(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    assert workspace.load("m").config()["max_batch_size"] == 8
    assert workspace.load("m", IDENTITY).config()["max_batch_size"] == 0


def test_a_second_version_is_served_and_the_first_stays(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    workspace.load("m", replaced("return -data"), version=2, options=OPTIONS)
    assert answer(workspace) == [-1, -2, -3]
    assert (workspace.repository / "m" / "1" / "model.py").read_text() == IDENTITY


def test_a_path_and_a_class_are_sources(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "doubler.py"
    path.write_text(replaced("return data * 2"))
    workspace.load("m", path, options=OPTIONS)
    assert answer(workspace) == [2, 4, 6]
    with pytest.raises(FileError, match="No such file or directory: nowhere"):
        workspace.load("m", "nowhere/model.py")


def test_nothing_to_load_says_what_to_do(workspace: Workspace) -> None:
    with pytest.raises(FileError, match="run a %%triton_model m cell first"):
        workspace.load("m")
    with pytest.raises(FileError, match=r"there is no model\.py for 'm' yet"):
        workspace.load("m", config="max_batch_size: 8")
    with pytest.raises(FileError):
        workspace.load("misspelt")
    assert "misspelt" not in workspace.names()


def test_an_unloaded_model_can_be_loaded_again(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    workspace.unload("m")
    with pytest.raises(NotFoundError):
        answer(workspace)
    workspace.load("m")
    assert answer(workspace) == [1, 2, 3]


def test_nothing_is_left_beside_the_repository(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    workspace.load("m", IDENTITY, options=OPTIONS)
    spare = workspace._spare.path
    assert os.listdir(spare) == []
    assert sorted(os.listdir(workspace.repository)) == ["m"]


def test_a_config_that_names_the_file(workspace: Workspace, tmp_path: Path) -> None:
    """The source lies under that name wherever it is: served, in errors, beside helper files, and exported."""
    config = OPTIONS.apply(ConfigText('default_model_filename: "postprocess.py"'))
    text = print_pbtxt(config)
    source = replaced("return data * 2 if data[0, 0] else raises()")
    model = workspace.load("m", source, config=text)
    assert answer(workspace) == [2, 4, 6]
    assert sorted(os.listdir(model.directory / "1")) == ["postprocess.py"]
    with pytest.raises(ModelError, match=r"1/postprocess.py\(7\): answer"):
        model(IN=np.zeros((1, 1), np.float32))
    with pytest.raises(FileError, match=r"^postprocess\.py is what %%triton_model m writes"):
        workspace.write_file("m", "postprocess.py", "x = 1\n")
    workspace.write_file("m", "model.py", "FACTOR = 3\n")
    workspace.load("m", "from model import FACTOR\n" + replaced("return data * FACTOR"), config=text)
    assert answer(workspace) == [3, 6, 9]
    report = export(model, tmp_path / "repository")
    assert sorted(os.listdir(report.path / "1")) == ["model.py", "postprocess.py"]
    assert 'default_model_filename: "postprocess.py"' in (report.path / "config.pbtxt").read_text()
    workspace.unload("m")
    assert workspace.load("m", report.path).ready()
    assert answer(workspace) == [3, 6, 9]


def test_a_config_that_names_another_file_later(workspace: Workspace) -> None:
    model = workspace.load("m", IDENTITY, options=OPTIONS)
    workspace.load("m", config='default_model_filename: "late.py"')
    assert answer(workspace) == [1, 2, 3]
    assert os.listdir(model.directory / "1") == ["late.py"]
    with pytest.raises(ModelLoadError, match=r"late.py, line 1"):
        workspace.load("m", "class\n", options=OPTIONS, config='default_model_filename: "late.py"')


def test_after_a_tuning_the_report_has_the_time_of_the_authors_own_load(workspace: Workspace) -> None:
    workspace.load("m", IDENTITY, options=OPTIONS)
    first = workspace.report("m")
    assert first is not None
    wider = Settings(max_batch_size=4, instances=2)
    workspace.tune("m", wider)
    tuned = workspace.report("m")
    workspace.tune("m", None)
    again = workspace.report("m")
    assert tuned is not None and again is not None
    assert again.seconds == pytest.approx(first.seconds, abs=0.02) and again.ready_at > first.ready_at
    workspace.load("m", IDENTITY, options=OPTIONS)
    assert workspace.report("m").seconds != again.seconds  # type: ignore[union-attr]


def test_a_config_of_another_model_leaves_no_empty_field_in_an_export(workspace: Workspace, tmp_path: Path) -> None:
    first = workspace.load("m", IDENTITY, options=OPTIONS)
    config = {**first.config(), "name": "other", "model_transaction_policy": {"decoupled": False}}
    report = export(workspace.load("other", IDENTITY, config=config), tmp_path / "models")
    assert "model_transaction_policy" not in (report.path / "config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x\ny", r"has '\n'"),
        ("a\x1bb", r"has '\x1b'"),
        ("a\u202eb", r"has '\u202e'"),
        ("-rf", "an option"),
        (".hid", "hidden"),
        ("..", "a directory"),
        ("a/b", "a directory"),
        ("a b", "has a space"),
        ("\u00e9", "is not ASCII"),
        ("a&b", "has '&'"),
    ],
)
def test_names_that_commands_or_the_stub_of_triton_cannot_have(workspace: Workspace, name: str, why: str) -> None:
    with pytest.raises(OptionError) as raised:
        workspace.load(name, IDENTITY, options=OPTIONS)
    assert why in str(raised.value) and raised.value.fix == ADVICE and ADVICE in str(raised.value)
    assert not list(workspace.repository.glob("*"))


def test_an_ensemble_has_no_stub(workspace: Workspace) -> None:
    workspace.write_config("\u00e9 1", "max_batch_size: 1")
    with pytest.raises(OptionError, match="has a space"):
        workspace.load("\u00e9 1", IDENTITY, options=OPTIONS)
    with pytest.raises(OptionError, match="an option"):
        workspace.write_config("-1", "max_batch_size: 1")
