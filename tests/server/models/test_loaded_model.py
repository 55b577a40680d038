"""The decision what a load has to do, from what was loaded and what is found (rule 5.11.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tritonlab.core.config.model_config import ModelConfig, parse_pbtxt
from tritonlab.repository.model_repository_manager import ModelFiles
from tritonlab.server.models.loaded_model import Changes, LoadedModel, find_changes
from tritonlab.server.models.model_lifecycle import ModelState

CONFIG = 'name: "m" backend: "python" version_policy { all { } }'
FILES = {"config.pbtxt": (1, 10), "helper.py": (1, 10), "1/model.py": (1, 10), "2/model.py": (1, 10)}


def config(more: str = "") -> ModelConfig:
    return parse_pbtxt(CONFIG + more, "")


def files(versions: tuple[int, ...] = (1, 2), more: str = "", **changed: tuple[int, int]) -> ModelFiles:
    stamps = {path.replace("__", "/").replace("_dot_", "."): stamp for path, stamp in changed.items()}
    return ModelFiles("m", Path("models/m"), config(more), versions, {**FILES, **stamps})


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        (files(), Changes((), (1, 2))),
        (files(config_dot_pbtxt=(2, 12)), Changes((), (1, 2))),  # a comment: Triton compares what it says
        (files(**{"2__model_dot_py": (2, 10)}), Changes((2,), (1,))),
        (files(**{"2__data__x": (2, 1)}), Changes((2,), (1,))),
        (files(**{"9__model_dot_py": (2, 10)}), Changes((), (1, 2))),  # no version that is selected
        (files(helper_dot_py=(2, 10)), Changes((1, 2))),
        (files(data__x=(2, 10)), Changes((1, 2))),
        (files((1, 2, 3), **{"3__model_dot_py": (2, 10)}), Changes((3,), (1, 2))),
        (files((2,)), Changes((), (2,))),
        (files(more="max_batch_size: 2"), Changes((1, 2))),
        (files(more="instance_group { count: 2 }"), Changes((), (1, 2), update=True)),
        (files(more="instance_group { count: 2 }", **{"2__model_dot_py": (2, 10)}), Changes((2,), (1,), update=True)),
        (files(more="instance_group { count: 2 } max_batch_size: 2"), Changes((1, 2))),
        (files(more="instance_group { count: 2 } sequence_batching { }"), Changes((1, 2))),
    ],
)
def test_changes(found: ModelFiles, changes: Changes) -> None:
    assert find_changes({1, 2}, files(), found) == changes


def test_without_anything_that_serves_all_is_loaded() -> None:
    assert find_changes((), files(), files()) == Changes((1, 2))
    assert find_changes((), None, files()) == Changes((1, 2))


def test_a_version_that_does_not_serve_is_loaded() -> None:
    assert find_changes({1}, files((1,)), files()) == Changes((2,), (1,))


def test_of_other_configurations_only_the_one_in_use_counts() -> None:
    custom = replace(files(), config_file="configs/h100.pbtxt")
    assert find_changes({1, 2}, custom, custom).nothing({1, 2})
    others = {"configs__a100_dot_pbtxt": (2, 10), "configs__h100_dot_pbtxt": (2, 12)}
    assert find_changes({1, 2}, custom, replace(files(**others), config_file=custom.config_file)).nothing({1, 2})
    beside = replace(files(config_dot_pbtxt=(2, 10)), config_file=custom.config_file)
    assert find_changes({1, 2}, custom, beside) == Changes((1, 2))  # a file above the versions, as any other
    assert find_changes({1, 2}, files(), files(**others)) == Changes((1, 2))
    assert find_changes({1, 2}, custom, files()) == Changes((1, 2))


def test_another_directory_is_another_model() -> None:
    assert find_changes({1, 2}, files(), replace(files(), directory=Path("other/m"))) == Changes((1, 2))


def test_a_configuration_that_a_load_brought_stays_until_a_file_changes() -> None:  # measured on 2.51
    brought = replace(files(more="max_batch_size: 2"), override="{}")
    assert find_changes({1, 2}, brought, files()).nothing({1, 2})
    assert find_changes({1, 2}, brought, files(config_dot_pbtxt=(2, 10))) == Changes((1, 2))
    again = replace(files(), override="{}")
    assert find_changes({1, 2}, brought, again) == Changes((1, 2))


@pytest.mark.parametrize(
    ("changes", "nothing"),
    [
        (Changes((), (1, 2)), True),
        (Changes((), (1,)), False),
        (Changes((2,), (1,)), False),
        (Changes((), (1, 2), True), False),
    ],
)
def test_nothing_to_do(changes: Changes, nothing: bool) -> None:
    assert changes.nothing({1, 2}) is nothing
    assert not changes.nothing(())


def test_the_states_of_what_has_ended() -> None:
    model = LoadedModel("m")
    model.not_ready = {2: (ModelState.UNAVAILABLE, "unloaded"), 1: (ModelState.UNAVAILABLE, "Internal: no")}
    assert model.states() == {1: ("UNAVAILABLE", "Internal: no"), 2: ("UNAVAILABLE", "unloaded")}
    assert list(model.states()) == [1, 2]
    assert not model.settled()
    del model.not_ready[1]
    assert model.settled()
    for state in (ModelState.UNLOADING, ModelState.LOADING):
        model.not_ready[3] = (state, "")
        assert not model.settled()


def test_a_model_without_a_version_is_known_and_unsettled() -> None:
    model = LoadedModel("m")
    assert (model.is_known, model.settled()) == (False, True)
    model.is_without_version = True
    assert (model.is_known, model.settled()) == (True, False)
    model.not_ready[1] = (ModelState.UNAVAILABLE, "unloaded")
    assert model.settled()
