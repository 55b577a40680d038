"""The choice of the model that a name stands for."""

from __future__ import annotations

from typing import cast

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.status import InvalidArgumentError, NotFoundError, TritonError
from tritonlab.server.models.global_map import GlobalMap, parse_version
from tritonlab.server.models.loaded_model import LoadedModel
from tritonlab.server.models.model_lifecycle import ModelState, ModelVersion


def known(*places: tuple[str, str], namespacing: bool = True) -> GlobalMap:
    """Return a map with models of these namespaces and names, all of them listed."""
    models = GlobalMap(namespacing)
    for namespace, name in places:
        model = LoadedModel(name, namespace)
        model.listed = True
        models[model.identifier] = model
    return models


MODELS = known(("/a", "dup"), ("/b", "dup"), ("/b", "one"))


def ensemble(*names: str) -> ModelConfig:
    config = ModelConfig(platform="ensemble")
    for name in names:
        config.ensemble_scheduling.step.add(model_name=name)
    return config


def namespaces(config: ModelConfig) -> list[str]:
    return [step.model_namespace for step in config.ensemble_scheduling.step]


def refusal(models: GlobalMap, name: str) -> TritonError:
    with pytest.raises(TritonError) as refused:
        models.only(name)
    return refused.value


@rule("5.11.12")
def test_a_name_means_the_only_model_that_has_it() -> None:
    assert MODELS.only("one").identifier == "/b::one"
    assert MODELS.only("/a::dup").namespace == "/a"
    ambiguous = refusal(MODELS, "dup")
    assert isinstance(ambiguous, InvalidArgumentError)
    assert ambiguous.message == (
        "There are 2 identifiers of model 'dup' in global map, model namespace must be provided to resolve ambiguity."
    )


@rule("5.11.12")
def test_a_name_that_means_none() -> None:
    models = known(("/a", "gone"))
    models["/a::gone"].listed = False
    models["/a::gone"].not_ready[1] = (ModelState.UNAVAILABLE, "unloaded")
    unloaded, unknown = refusal(models, "gone"), refusal(models, "nobody")
    assert isinstance(unloaded, NotFoundError) and isinstance(unknown, InvalidArgumentError)
    assert unloaded.message == "Identifier of model 'gone' is not found in global map"
    assert unknown.message == "Request for unknown model: 'nobody' is not found"
    alone = refusal(known(namespacing=False), "nobody")
    assert isinstance(alone, NotFoundError) and alone.message == unknown.message


@rule("5.11.12")
@pytest.mark.parametrize(("own", "found"), [("/a", ["/a", "/b"]), ("/b", ["/b", "/b"]), ("/c", ["", "/b"])])
def test_an_ensemble_prefers_the_models_beside_it(own: str, found: list[str]) -> None:
    config = ensemble("dup", "one")
    assert namespaces(MODELS.resolve(config, own)) == found
    assert namespaces(config) == ["", ""]


def test_models_that_are_not_loaded_may_count() -> None:
    config = ensemble("dup", "one", "new")
    assert namespaces(MODELS.resolve(config, "/c", lambda name: ["/c"])) == ["/c", "/c", "/c"]
    assert namespaces(MODELS.resolve(config, "/d", lambda name: ["/b"])) == ["", "/b", "/b"]


def test_what_a_configuration_says_itself_does_not_count() -> None:
    config = ensemble("one")
    config.ensemble_scheduling.step[0].model_namespace = "/x"
    assert namespaces(MODELS.resolve(config, "/a")) == ["/b"]
    assert namespaces(known(("", "one"), namespacing=False).resolve(config, "")) == [""]


def test_an_ensemble_is_resolved_again_when_its_names_mean_other_models_that_are_there() -> None:
    models = known(("/a", "dup"))
    resolved = models.resolve(ensemble("dup"), "/b")
    assert namespaces(resolved) == ["/a"] and not models.is_resolved_differently(resolved, "/b")
    beside = known(("/a", "dup"), ("/b", "dup"))
    assert beside.is_resolved_differently(resolved, "/b") and beside.is_resolved_differently(resolved, "/c")
    models["/a::dup"].listed = False
    assert not models.is_resolved_differently(resolved, "/b")  # it waits


def test_a_model_that_is_unloaded_during_the_lookup_is_refused() -> None:
    class Unloading(LoadedModel):
        """A model whose last version leaves once somebody has read it."""

        reads = 0

        @property
        def latest(self) -> ModelVersion | None:
            self.reads += 1
            return cast(ModelVersion, "the version") if self.reads == 1 else None

        @latest.setter
        def latest(self, version: ModelVersion | None) -> None: ...

    models = GlobalMap(namespacing=False)
    models["m"] = Unloading("m")
    assert models.find("m") == "the version"


@pytest.mark.parametrize(("text", "number"), [("", -1), ("1", 1), ("12", 12), ("0", 0), (" +7x", 7)])
def test_versions_as_text(text: str, number: int) -> None:  # rule 1.15.7
    assert parse_version(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "version string 'abc' (details: stol), version should be an integral value > 0"),
        ("-3", "version string '-3', version should be an integral value > 0"),
        ("9" * 20, f"version string '{'9' * 20}' (details: stol), version should be an integral value > 0"),
    ],
)
def test_versions_that_are_none(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_version(text)
    assert raised.value.message == "failed to get model version from specified " + message
