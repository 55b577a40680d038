from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.serving import write_model
from tritonlab.core.status import AlreadyExistsError, Code, InvalidArgumentError, ModelLoadError
from tritonlab.repository import model_repository_manager
from tritonlab.repository.model_repository_manager import ModelRepositoryManager, check_name

SOURCE = "class TritonPythonModel: pass\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = tmp_path / "repository"
    directory.mkdir()
    return directory


@pytest.fixture
def manager(repository: Path) -> ModelRepositoryManager:
    return ModelRepositoryManager([repository])


def failure(manager: ModelRepositoryManager, name: str = "m", **more: object) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as raised:
        manager.read(name, **more)  # type: ignore[arg-type]
    assert raised.value.message == f"failed to load '{name}', failed to poll from model repository"  # rule 2.5.3
    assert raised.value.code is Code.INTERNAL
    return raised.value


# -- what is there


def test_every_directory_is_a_model(manager: ModelRepositoryManager, repository: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (repository / name).mkdir()
    (repository / "file").touch()
    assert manager.names() == ["a", "b"]


def test_a_repository_may_not_be_there_yet(tmp_path: Path) -> None:
    manager = ModelRepositoryManager([tmp_path / "later", str(tmp_path)])
    assert manager.names() == []
    assert "there is no directory 'm' in " in failure(manager).reason


def test_a_name_that_two_repositories_have_can_be_loaded_from_none(tmp_path: Path) -> None:  # rule 5.11.10
    first, second = tmp_path / "1", tmp_path / "2"
    write_model(second, "m", SOURCE, "max_batch_size: 2")
    manager = ModelRepositoryManager([first, second])
    assert manager.read("m").config.max_batch_size == 2
    assert manager.holds("m")
    write_model(first, "m", SOURCE, "max_batch_size: 1")
    assert failure(manager).reason == "failed to poll model 'm': not unique across all model repositories"
    assert manager.directories() == {"m": [first / "m", second / "m"]}
    assert not manager.holds("m")


# -- repositories behind the others


def test_a_repository_behind_the_others_gives_way(tmp_path: Path) -> None:
    front, behind, last = tmp_path / "front", tmp_path / "behind", tmp_path / "last"
    for place, size in ((front, 1), (behind, 2), (last, 3)):
        write_model(place, "m", SOURCE, f"max_batch_size: {size}")
    write_model(behind, "n", SOURCE)
    manager = ModelRepositoryManager([front])
    manager.register(behind, behind=True)
    manager.register(last, behind=True)
    assert manager.read("m").config.max_batch_size == 1
    assert manager.directories() == {"m": [front / "m"], "n": [behind / "n"]}
    assert manager.holds("m")
    assert not manager.is_kept("m") and manager.is_kept("n")
    manager.unregister(front)
    assert manager.read("m").config.max_batch_size == 2  # of two behind, the first
    manager.unregister(behind)
    assert manager.read("m").config.max_batch_size == 3


def test_a_model_that_is_written_over_a_kept_one_is_kept_too(tmp_path: Path) -> None:
    write_model(tmp_path, "m", SOURCE)
    manager = ModelRepositoryManager([tmp_path])
    manager.write_over("m", tmp_path / "kept" / "m")
    assert manager.is_kept("m")
    manager.write_over("m", None)
    assert not manager.is_kept("m")


# -- repositories that come and go


@rule("5.11.11")
def test_a_registered_repository_is_one_more(tmp_path: Path) -> None:
    manager = ModelRepositoryManager([])
    write_model(tmp_path, "m", SOURCE)
    manager.register(tmp_path)
    assert manager.names() == ["m"]
    manager.unregister(str(tmp_path))
    assert manager.names() == []


@rule("5.11.11")
def test_a_mapping_gives_directories_other_names(tmp_path: Path) -> None:
    manager = ModelRepositoryManager([])
    for name in ("d", "plain"):
        write_model(tmp_path, name, SOURCE)
    manager.register(tmp_path, {"d": "x", "missing": "y"})
    assert manager.names() == ["plain", "x"]
    assert manager.read("x").directory == tmp_path / "d"
    assert manager.read("x").config.name == "x"
    for absent in ("d", "y", "missing"):
        failure(manager, absent)


@rule("5.11.11")
def test_what_cannot_be_registered(tmp_path: Path) -> None:
    manager = ModelRepositoryManager([tmp_path])
    nowhere, other = tmp_path / "nowhere", tmp_path / "other"
    other.mkdir()
    with pytest.raises(InvalidArgumentError, match=f"^failed to register '{nowhere}', repository not found$"):
        manager.register(nowhere)
    with pytest.raises(AlreadyExistsError, match=f"^model repository '{tmp_path}' has already been registered$"):
        manager.register(tmp_path)
    with pytest.raises(InvalidArgumentError, match=f"^failed to unregister '{nowhere}', repository not found$"):
        manager.unregister(nowhere)
    with pytest.raises(InvalidArgumentError, match=f"^failed to register '{other}', there is a conflict"):
        manager.register(other, {"a": "x", "b": "x"})
    manager.register(other, {"a": "x"})
    third = tmp_path / "third"
    third.mkdir()
    with pytest.raises(AlreadyExistsError, match=r"^failed to register 'x', there is a conflicting mapping for 'x'$"):
        manager.register(third, {"q": "x"})
    assert manager.repositories == [tmp_path, other]


def test_without_a_config_the_python_file_decides(manager: ModelRepositoryManager, repository: Path) -> None:
    write_model(repository, "m", SOURCE)  # rule 2.4.5
    found = manager.read("m")
    assert (found.name, found.versions, found.config.backend) == ("m", (1,), "python")
    assert found.config.default_model_filename == "model.py"
    assert found.directory == repository / "m"


def test_a_relative_repository_stays_relative(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # rule 1.1.5: the model sees the path as it was set for the server
    write_model(repository, "m", SOURCE)
    monkeypatch.chdir(repository.parent)
    assert ModelRepositoryManager(["repository"]).read("m").directory == Path("repository/m")


# -- namespaces


@rule("5.11.12")
def test_with_namespaces_every_repository_has_models_of_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for number, repository in enumerate((first, second)):
        write_model(repository, "m", SOURCE, f"max_batch_size: {number}")
    write_model(second, "one", SOURCE)
    manager = ModelRepositoryManager([first, second], namespacing=True)
    both = [f"{first}::m", f"{second}::m"]
    assert manager.names() == [*both, f"{second}::one"]
    assert (manager.identifiers("m"), manager.namespaces("m")) == (both, [str(first), str(second)])
    assert [manager.read(each).config.max_batch_size for each in both] == [0, 1]
    found = manager.read(both[1])
    assert (found.name, found.namespace, found.identifier, found.config.name) == ("m", str(second), both[1], "m")
    assert manager.split(both[0]) == (str(first), "m")
    assert manager.holds(both[0]) and not manager.holds("m") and not manager.holds(f"{first}::one")
    failure(manager)
    assert (manager.identifiers("gone"), manager.namespaces("gone")) == (["gone"], [])
    for trick in manager.identifiers("../1/m"):
        assert "not found in any model repository" in failure(manager, trick).reason


@rule("5.11.12")
def test_what_cannot_be_read_is_reported_with_its_repository(tmp_path: Path) -> None:
    write_model(tmp_path, "m", SOURCE, "nonsense: 1")
    manager = ModelRepositoryManager([tmp_path], namespacing=True)
    with pytest.raises(ModelLoadError) as raised:
        manager.read(f"{tmp_path}::m")
    assert raised.value.message == "failed to load 'm', failed to poll from model repository"
    assert raised.value.reason.startswith(f"Poll failed for model directory '{tmp_path}::m': ")


def test_without_them_a_name_is_its_identifier(manager: ModelRepositoryManager, repository: Path) -> None:
    write_model(repository, "a::b", SOURCE)
    assert (manager.identifiers("a::b"), manager.split("a::b"), manager.namespaces("a::b")) == (
        ["a::b"],
        ("", "a::b"),
        [],
    )
    assert manager.read("a::b").identifier == "a::b"


# -- what is wrong with it


def test_an_unknown_model(manager: ModelRepositoryManager, repository: Path) -> None:  # rule 2.5.4
    assert failure(manager).reason == (
        "failed to poll model 'm': model not found in any model repository: "
        f"there is no directory 'm' in '{repository}'"
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("max_batch_size: many", "failed to read text proto from {directory}/config.pbtxt ("),
        ("no_such_field: 1", "failed to read text proto from {directory}/config.pbtxt ("),
        ('name: "other"', "unexpected directory name 'm' for model 'other', directory name must equal model name"),
    ],
)
def test_a_config_that_cannot_be_used(
    manager: ModelRepositoryManager, repository: Path, config: str, reason: str
) -> None:
    directory = write_model(repository, "m", SOURCE, config)
    expected = "Poll failed for model directory 'm': " + reason.format(directory=directory)
    assert failure(manager).reason.startswith(expected)


def test_a_config_that_is_no_text(manager: ModelRepositoryManager, repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    (directory / "config.pbtxt").write_bytes(b"\xff\xfe")
    assert f"failed to read text proto from {directory / 'config.pbtxt'}" in failure(manager).reason


@pytest.mark.parametrize("name", ["../m", "a/b", ".", "..", "/m", "", " ", "\t\n"])
def test_names_that_no_model_may_have(name: str) -> None:  # rule 5.11.4
    blank = "Model name cannot be empty. Please enter a valid name to deploy."
    elsewhere = f"invalid model name '{name}', model name must not contain path traversal characters"
    with pytest.raises(InvalidArgumentError) as caught:
        check_name(name)
    assert caught.value.message == (elsewhere if name.strip() else blank)


@rule("5.11.4")
def test_blanks_around_a_name_do_not_hide_where_it_leads(manager: ModelRepositoryManager) -> None:
    with pytest.raises(InvalidArgumentError, match="path traversal"):
        check_name(" .. ")
    for name in ("m", " m", "a\\b", "m.v2", "..m"):
        check_name(name)


def test_names_that_lead_elsewhere_are_nowhere(manager: ModelRepositoryManager, repository: Path) -> None:
    write_model(repository / "team", "m", SOURCE)
    write_model(repository.parent, "beside", SOURCE)
    for name in ("team/m", "../beside"):
        assert "not found in any model repository" in failure(manager, name).reason
    manager.allow(["team/m", "../beside"])  # as start-up models
    assert manager.read("team/m").name == "team/m"
    assert manager.read("../beside").directory == repository / "../beside"


@rule("5.1.7")
def test_a_configuration_of_another_name_counts_where_there_is_one(repository: Path) -> None:
    write_model(repository, "m", SOURCE, "max_batch_size: 1")
    manager = ModelRepositoryManager([repository], config_name="h100")
    assert (manager.read("m").config.max_batch_size, manager.read("m").config_file) == (1, "config.pbtxt")
    (repository / "m" / "configs").mkdir()
    named = repository / "m" / "configs" / "h100.pbtxt"
    named.write_text("max_batch_size: 2")
    assert (manager.read("m").config.max_batch_size, manager.read("m").config_file) == (2, "configs/h100.pbtxt")
    assert ModelRepositoryManager([repository]).read("m").config.max_batch_size == 1
    (repository / "m" / "config.pbtxt").unlink()
    assert manager.read("m").configured and not ModelRepositoryManager([repository]).read("m").configured
    named.write_text("nonsense: 1")
    assert f"failed to read text proto from {named}" in failure(manager).reason


# -- versions


@pytest.mark.parametrize(
    ("directories", "policy", "selected"),
    [
        (["1", "2", "10"], "", (10,)),  # rule 5.1.3: the latest one
        (["1", "2", "10"], "version_policy { latest { num_versions: 2 } }", (2, 10)),
        (["1", "2"], "version_policy { latest { num_versions: 5 } }", (1, 2)),
        (["1", "2", "10"], "version_policy { all { } }", (1, 2, 10)),
        (["1", "2", "3"], "version_policy { specific { versions: [ 3, 1, 7 ] } }", (1, 3)),
        (["1"], "version_policy { specific { versions: 2 } }", ()),
        (["0"], "", (0,)),
        (["abc", "01", "-1", "1.5", "\u0661", " 3", "2"], "version_policy { all { } }", (-1, 1, 2, 3)),  # rule 2.1.1
        (["abc"], "", ()),
    ],
)
def test_versions(
    manager: ModelRepositoryManager, repository: Path, directories: list[str], policy: str, selected: tuple[int, ...]
) -> None:
    (repository / "m").mkdir()
    for name in directories:
        (repository / "m" / name).mkdir()
        (repository / "m" / name / "model.py").write_text(SOURCE)
    (repository / "m" / "config.pbtxt").write_text(f'backend: "python" {policy}')
    assert manager.read("m").versions == selected


def test_a_file_is_no_version(manager: ModelRepositoryManager, repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE)
    (directory / "2").touch()
    assert manager.read("m").versions == (1,)


# -- overrides


def test_a_config_instead_of_the_file(manager: ModelRepositoryManager, repository: Path) -> None:  # rule 5.11.3
    write_model(repository, "m", SOURCE, "max_batch_size: 1")
    for override in ({"max_batch_size": 4}, '{"max_batch_size": 4}'):
        found = manager.read("m", override)
        assert found.config.max_batch_size == 4
        assert found.config.name == "m"
        assert found.config.backend == "python"
        assert found.override is not None


@pytest.mark.parametrize("override", ["{", "[]", '{"no_such_field": 1}', "not json"])
def test_a_config_that_is_none(manager: ModelRepositoryManager, repository: Path, override: str) -> None:
    write_model(repository, "m", SOURCE)
    assert failure(manager, config=override).reason.startswith("Poll failed for model directory 'm': ")


def test_files_instead_of_the_directory(manager: ModelRepositoryManager, repository: Path) -> None:
    directory = write_model(repository, "m", SOURCE, helper_dot_py="x = 1")
    files = {"file:2/model.py": b"# two", "file:lib/a.py": b"# a", "ignored.txt": b"x"}
    found = manager.read("m", {"backend": "python"}, files)
    assert found.versions == (2,)
    assert found.directory != directory
    inside = sorted(str(p.relative_to(found.directory)) for p in found.directory.rglob("*") if p.is_file())
    assert inside == [
        "2/model.py",
        "config.pbtxt",
        "lib/a.py",
    ]  # the whole directory is replaced; keys without the prefix are ignored
    assert (found.directory / "2" / "model.py").read_bytes() == b"# two"
    temporary = found.directory
    del found
    gc.collect()
    assert not temporary.exists()


def test_files_need_a_config(manager: ModelRepositoryManager, repository: Path) -> None:  # rule 1.15.4
    write_model(repository, "m", SOURCE)
    error = failure(manager, files={"file:1/model.py": b""})
    assert error.reason == "Load parameter 'config' must be specified for model file override"


@pytest.mark.parametrize("path", ["../x", "1/../../x", "/../x"])
def test_files_must_stay_inside(manager: ModelRepositoryManager, tmp_path: Path, path: str) -> None:
    error = failure(manager, config={"backend": "python"}, files={f"file:{path}": b""})
    assert f"Invalid file parameter 'file:{path}' with normalized path '" in error.reason
    assert error.reason.endswith("must stay within model directory.")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("path", "cause"),
    [("x" * 300, "File name too long"), ("a\0b", "embedded null byte"), (".", "Is a directory")],
    ids=["long", "nul", "directory"],
)
def test_files_that_cannot_be_written(manager: ModelRepositoryManager, path: str, cause: str) -> None:
    reason = failure(manager, config={"backend": "python"}, files={f"file:{path}": b""}).reason
    assert "failed to open binary file for write " in reason and reason.endswith(f": {cause}")


def test_a_directory_that_may_not_be_read_fails_its_model_alone(
    manager: ModelRepositoryManager, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_model(repository, "m", SOURCE)
    denied = PermissionError(13, "Permission denied", str(directory / "1"))
    monkeypatch.setattr(model_repository_manager, "read_contents", lambda path: (_ for _ in ()).throw(denied))
    expected = f"Poll failed for model directory 'm': failed to open directory {directory}/1 (Permission denied)"
    assert failure(manager).reason == expected
