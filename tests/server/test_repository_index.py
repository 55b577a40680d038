from __future__ import annotations

from pathlib import Path

from tests.conformance.rules import rule
from tritonlab.repository.model_repository_manager import ModelRepositoryManager
from tritonlab.server.inference_server import repository_index
from tritonlab.server.models.loaded_model import LoadedModel
from tritonlab.server.models.model_lifecycle import ModelState


def repositories(root: Path) -> list[Path]:
    """Return two repositories, with a name that both have and one of its own each."""
    found = [root / "1", root / "2"]
    for repository, own in zip(found, ("a", "b"), strict=True):
        for name in ("dup", own):
            (repository / name).mkdir(parents=True)
    return found


def failed(name: str, namespace: str = "") -> LoadedModel:
    model = LoadedModel(name, namespace)
    model.not_ready = {2: (ModelState.UNAVAILABLE, "why"), 1: (ModelState.UNAVAILABLE, "")}
    return model


@rule("5.11.7", "5.11.10")
def test_what_was_tried_has_states_and_a_name_in_two_repositories_a_reason(tmp_path: Path) -> None:
    manager = ModelRepositoryManager(repositories(tmp_path))
    models = {"b": failed("b"), "elsewhere": failed("elsewhere")}
    twice = {"name": "dup", "state": "UNAVAILABLE", "reason": "model appears in two or more repositories"}
    assert list(repository_index(manager, models)) == [
        {"name": "a"},
        {"name": "b", "version": "1", "state": "UNAVAILABLE"},
        {"name": "b", "version": "2", "state": "UNAVAILABLE", "reason": "why"},
        twice,
    ]
    assert list(repository_index(manager, models, ready=True)) == [twice]


@rule("5.11.12")
def test_with_namespaces_a_name_has_an_entry_for_each(tmp_path: Path) -> None:
    first, second = repositories(tmp_path)
    model = failed("dup", str(second))
    index = repository_index(ModelRepositoryManager([first, second], namespacing=True), {model.identifier: model})
    assert [(entry["name"], entry.get("version")) for entry in index] == [
        ("a", None),
        ("dup", None),
        ("b", None),
        ("dup", "1"),
        ("dup", "2"),
    ]
