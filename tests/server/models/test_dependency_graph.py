"""Graphs of ensembles, built by hand; each ensemble is named after the models in it."""

from __future__ import annotations

import pytest

from tritonlab.core.config.model_config import ModelConfig
from tritonlab.server.models.dependency_graph import DependencyGraph, composing_models, required_models


def ensemble(*models: str) -> ModelConfig:
    config = ModelConfig(platform="ensemble")
    for model in models:
        config.ensemble_scheduling.step.add(model_name=model)
    return config


MODEL = ModelConfig(backend="python")
CONFIGS = {
    "a": MODEL,
    "b": MODEL,
    "c": MODEL,
    "ab": ensemble("a", "b", "a"),
    "abc": ensemble("ab", "c"),
    "bc": ensemble("b", "c"),
}
GRAPH = DependencyGraph(CONFIGS)


def test_models_of_another_namespace_are_other_models() -> None:
    config = ensemble("a")
    config.ensemble_scheduling.step[0].model_namespace = "/b"
    assert composing_models(config) == ("/b::a",)
    assert DependencyGraph({"/b::e": config}).dependents(["a", "/b::a"]) == ["/b::e"]
    assert DependencyGraph({"/b::e": config}).dependents(["a"]) == []


def test_composing_models_are_named_once_in_the_order_of_the_steps() -> None:
    assert composing_models(ensemble("b", "a", "b")) == ("b", "a")
    assert composing_models(MODEL) == ()
    assert GRAPH.composing("ab") == ("a", "b")
    assert GRAPH.composing("unknown") == ()


def test_a_load_needs_what_is_contained_at_any_depth_and_not_loaded() -> None:
    assert list(required_models({"abc": CONFIGS["abc"]}, CONFIGS.get)) == ["ab", "c", "a", "b"]
    on_disk = {name: config for name, config in CONFIGS.items() if name != "ab"}  # it is loaded, or cannot be read
    assert list(required_models({"abc": CONFIGS["abc"]}, on_disk.get)) == ["c"]


def test_what_a_load_needs_ends_although_ensembles_contain_each_other() -> None:
    configs = {"x": ensemble("y"), "y": ensemble("x")}
    assert list(required_models({"x": configs["x"]}, configs.get)) == ["y"]


@pytest.mark.parametrize(
    ("gone", "with_it"),
    [(["a"], ["ab", "abc"]), (["c"], ["abc", "bc"]), (["ab"], ["abc"]), (["abc"], []), (["a", "ab"], ["abc"])],
)
def test_ensembles_go_with_what_they_contain(gone: list[str], with_it: list[str]) -> None:
    assert GRAPH.dependents(gone) == with_it


def test_a_model_is_loaded_after_what_it_contains() -> None:
    assert GRAPH.load_order(["abc", "ab", "c", "b", "a"]) == ["a", "b", "ab", "c", "abc"]
    assert GRAPH.load_order(["abc", "b"]) == ["b", "abc"]  # through an ensemble that is not loaded now


def test_an_order_exists_for_ensembles_that_contain_each_other_too() -> None:
    graph = DependencyGraph({"x": ensemble("y"), "y": ensemble("x"), "a": MODEL})
    assert sorted(graph.load_order(["x", "y", "a"])) == ["a", "x", "y"]
    assert graph.dependents(["y"]) == ["x"]


@pytest.mark.parametrize(
    ("name", "text"), [("a", "x -> y"), ("self", "self -> self"), ("x", ""), ("outer", "")], ids=str
)
def test_an_ensemble_that_contains_itself_is_refused(name: str, text: str) -> None:
    graph = DependencyGraph(
        {"a": ensemble("b"), "b": ensemble("a"), "self": ensemble("self"), "x": ensemble("m"), "outer": ensemble("a")}
    )
    found = graph.circle(name)
    assert bool(found) == bool(text)
    if name == "a":
        assert found == "circular dependency between ensembles: a -> ... -> b -> a"
    if name == "self":
        assert found == "circular dependency between ensembles: self -> ... -> self -> self"


@pytest.mark.parametrize(
    ("explicit", "unloaded"),
    [
        (["abc"], ["ab", "a"]),  # bc needs the others
        (["abc", "bc", "ab"], []),  # ab was loaded by name, and what it contains stays with it
        (["abc", "bc", "a"], ["ab"]),
    ],
)
def test_dependents_are_unloaded_that_nobody_else_needs(explicit: list[str], unloaded: list[str]) -> None:
    assert GRAPH.needed_by_none_but("abc", explicit) == unloaded


def test_all_that_is_contained_goes_if_nothing_else_contains_it() -> None:
    graph = DependencyGraph({name: config for name, config in CONFIGS.items() if name != "bc"})
    assert graph.needed_by_none_but("abc", ["abc"]) == ["c", "ab", "b", "a"]
