from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.repository.loose_models import arrange, find_loose_models

CONFIG = 'name: "{}" backend: "python"\n'


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return the layout of python_backend/examples, with all its kinds of names."""
    files = {
        "add_sub/model.py": "import helper\nimport json\n",
        "add_sub/config.pbtxt": CONFIG.format("add_sub"),
        "add_sub/helper.py": "X = 1\n",
        "add_sub/client.py": "import tritonclient\n",
        "auto_complete/batch_model.py": "",
        "auto_complete/nobatch_model.py": "",
        "auto_complete/README.md": "",
        "bls/sync_model.py": "",
        "bls/sync_config.pbtxt": CONFIG.format("bls_sync"),
        "decoupled/repeat_model.py": "syntax error(",
        "decoupled/repeat_config.pbtxt": CONFIG.format("repeat_int32"),
        "escaping/model.py": "",
        "escaping/config.pbtxt": CONFIG.format("../out"),
        "resnet50_trt/config.pbtxt": "nonsense",
        ".hidden/model.py": "",
        "empty/README.md": "",
    }
    for path, text in files.items():
        (tmp_path / "examples" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "examples" / path).write_text(text)
    return tmp_path / "examples"


def tree(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_names_are_the_configs_or_those_that_nvidias_texts_use(examples: Path) -> None:
    assert [model.name for model in find_loose_models(examples)] == [
        "add_sub",
        "batch_auto_complete",
        "nobatch_auto_complete",
        "bls_sync",
        "repeat_int32",
        "escaping",
        "resnet50_trt",
    ]
    assert [model.name for model in find_loose_models(examples / "bls")] == ["bls_sync"]
    assert find_loose_models(examples / "empty") == []
    assert find_loose_models(examples / "resnet50_trt") == []  # a config alone is a model that waits for its version


def test_they_are_copied_as_nvidias_texts_say(examples: Path, tmp_path: Path) -> None:
    models = tmp_path / "made" / "models"
    (models / "bls_sync").mkdir(parents=True)
    arrange(find_loose_models(examples), models)
    assert tree(models) == [
        "add_sub/1/helper.py",
        "add_sub/1/model.py",
        "add_sub/config.pbtxt",
        "batch_auto_complete/1/model.py",
        "escaping/1/model.py",
        "escaping/config.pbtxt",
        "nobatch_auto_complete/1/model.py",
        "repeat_int32/1/model.py",
        "repeat_int32/config.pbtxt",
        "resnet50_trt/config.pbtxt",
    ]  # what was there stays as it was
    assert (models / "resnet50_trt" / "1").is_dir()
    assert list((tmp_path / "made").iterdir()) == [models]
    assert find_loose_models(models) == []


def test_a_repository_has_none(examples: Path) -> None:
    (examples / "add_sub" / "1").mkdir()
    assert find_loose_models(examples) == []


def test_a_file_that_is_a_link_to_another_place_is_not_copied(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "key.py").write_text("secret")
    (examples / "add_sub" / "helper.py").unlink()
    (examples / "add_sub" / "helper.py").symlink_to(tmp_path / "key.py")
    (examples / "escaping" / "model.py").unlink()
    (examples / "escaping" / "model.py").symlink_to("config.pbtxt")
    arrange(find_loose_models(examples), tmp_path / "models")
    helper = tmp_path / "models" / "add_sub" / "1" / "helper.py"
    assert helper.is_symlink() and helper.read_text() == "secret"
    assert not (tmp_path / "models" / "escaping" / "1" / "model.py").is_symlink()
