"""Models that are loaded, reloaded and unloaded together: ensembles and their models, several repositories, the start
of a server."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.conformance import rules
from tests.models import answers
from tests.serving import (
    SCRIPTED,
    Lab,
    Script,
    alive,
    config,
    eventually,
    instances,
    meeting_at,
    stub_processes,
    write_model,
)
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.status import (
    AlreadyExistsError,
    Code,
    InvalidArgumentError,
    ModelError,
    ModelLoadError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tritonlab.engine.schedulers.scheduler import Scheduler
from tritonlab.repository import model_repository_manager
from tritonlab.server.api.model import Model
from tritonlab.server.api.server import Server
from tritonlab.server.models.model_lifecycle import VersionLoad, VersionParts
from tritonlab.testing import RecordingInstrument

#: Adds `{n}` to its input.
ADDS = answers("x + {n}")
ADDS_CONFIG = config("IN INT64 1", "OUT INT64 1")


def ensemble(*models: str, version: int = -1) -> str:
    """Return the config of an ensemble that runs these models one after the other."""
    steps = []
    for number, model in enumerate(models):
        source = "IN" if number == 0 else f"T{number}"
        target = "OUT" if number == len(models) - 1 else f"T{number + 1}"
        maps = f'input_map {{ key: "IN" value: "{source}" }} output_map {{ key: "OUT" value: "{target}" }}'
        steps.append(f'step {{ model_name: "{model}" model_version: {version} {maps} }}')
    return f"""platform: "ensemble"
input {{ name: "IN" data_type: TYPE_INT64 dims: [ 1 ] }}
output {{ name: "OUT" data_type: TYPE_INT64 dims: [ 1 ] }}
ensemble_scheduling {{ {" ".join(steps)} }}
"""


def write_ensemble(repository: Path, name: str, *models: str, version: int = -1) -> None:
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(ensemble(*models, version=version))


def infer(server: Server, name: str) -> int:
    return int(server.model(name)(IN=np.array([0]))["OUT"][0])


def states(server: Server, *names: str) -> dict[str, str]:
    """Return by model the state of its only version, with its reason; empty for one that was never tried."""
    found = {}
    for entry in server.index():
        if not names or entry["name"] in names:
            found[entry["name"]] = " ".join(filter(None, (entry.get("state"), entry.get("reason"))))
    return found


class Chain:
    """A server with models `a` and `b`, an ensemble `e` of both and one, `outer`, of `e`; nothing is loaded."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        for n, name in enumerate("ab", 1):
            write_model(repository, name, ADDS.format(n=n), ADDS_CONFIG)
        write_ensemble(repository, "e", "a", "b")
        write_ensemble(repository, "outer", "e")
        self.server = Server(repository, model_control_mode="explicit")

    def ready(self) -> str:
        """Return the names of the models that are ready."""
        return " ".join(entry["name"] for entry in self.server.index(ready=True))


@pytest.fixture(scope="module")
def chain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    chain = Chain(tmp_path_factory.mktemp("repository"))
    yield chain
    chain.server.stop()


@pytest.fixture
def chain(chain_server: Chain) -> Iterator[Chain]:
    yield chain_server
    for name in ("outer", "e", "a", "b"):
        chain_server.server.unload(name)


def failure(server: Server, name: str) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as raised:
        server.load(name)
    return raised.value


# -- ensembles, rule 5.7.4


def test_an_ensemble_brings_its_models(chain: Chain) -> None:
    chain.server.load("outer")
    assert chain.ready() == "a b e outer"
    assert infer(chain.server, "outer") == 3


def test_without_a_model_of_it_an_ensemble_waits_until_it_is_back(chain: Chain) -> None:
    chain.server.load("outer")
    chain.server.unload("a")
    assert chain.ready() == "b"
    assert states(chain.server, "e", "outer") == {"e": "UNAVAILABLE unloaded", "outer": "UNAVAILABLE unloaded"}
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'outer' has no available versions$"):
        infer(chain.server, "outer")
    assert chain.server.ready()
    chain.server.load("a")
    assert chain.ready() == "a b e outer"
    assert infer(chain.server, "outer") == 3


def test_a_reload_of_a_model_reaches_its_ensembles(chain: Chain) -> None:
    chain.server.load("outer")
    write_model(chain.repository, "a", ADDS.format(n=100), ADDS_CONFIG)
    chain.server.load("a")
    assert infer(chain.server, "outer") == 102
    write_model(chain.repository, "a", "1 / 0", ADDS_CONFIG)
    failure(chain.server, "a")
    assert infer(chain.server, "outer") == 102
    write_model(chain.repository, "a", ADDS.format(n=1), ADDS_CONFIG)


def test_an_ensemble_that_its_models_no_longer_fit_waits_until_they_do(chain: Chain) -> None:  # measured on 2.51
    chain.server.load("e")
    write_model(chain.repository, "a", ADDS.format(n=1), config("IN INT64 1", "OUT FP32 1"))
    chain.server.load("a")
    assert chain.ready() == "a b"
    assert any("inconsistent data type" in record.text for record in chain.server.logs("e"))
    write_model(chain.repository, "a", ADDS.format(n=1), ADDS_CONFIG)
    chain.server.load("a")
    assert chain.ready() == "a b e"


def test_an_ensemble_is_loaded_once_with_its_models(chain: Chain) -> None:
    events = RecordingInstrument()
    chain.server.instruments.add(events)
    chain.server.load("outer")
    chain.server.instruments.remove(events)
    loaded = [event[0] for event in events.named("model_state") if event[2] == "READY"]
    assert loaded == ["a", "b", "e", "outer"]


def test_a_load_that_changes_nothing_asks_for_nothing(chain: Chain) -> None:  # measured on 2.51
    chain.server.load("e")
    chain.server.load("b")
    chain.server.unload("e", unload_dependents=True)
    assert chain.ready() == ""


#: What each ensemble contains; one comes after those of it.
CONTENTS = {"e": "ab", "solo": "a", "outer": ["e", "solo"]}
LEAVES = st.sampled_from("ab")
NAMES = st.sampled_from(["a", "b", *CONTENTS])


class ModelControlMachine(RuleBasedStateMachine):
    """Loads and unloads of models beside a model of them: which serve, and from which load (rules 5.7.4, 5.11.2). The
    models start nothing.
    """

    def __init__(self, server: Server, repository: Path) -> None:
        super().__init__()
        self.server, self.repository = server, repository
        self.numbers = itertools.count()
        self.files: dict[str, tuple[int, bool]] = {}  # of leaves: what changes with each edit, and whether it loads
        self.serving: dict[str, tuple[int, tuple[int, bool] | None]] = {}  # the load, and what a leaf is loaded from
        self.wanted: set[str] = set()  # ensembles that come back by themselves
        self.explicit: set[str] = set()  # loaded by name
        self.found: dict[str, tuple[object, object]] = {}
        for name in "ab":
            self.edit(name, broken=False)
        for name, contents in CONTENTS.items():
            write_ensemble(repository, name, *contents)

    # -- the model

    def load(self, name: str, by_name: bool) -> bool:
        if name in self.files:
            if name in self.serving and self.serving[name][1] == self.files[name]:
                return True
            if self.files[name][1]:
                return False
        else:
            for part in ["a", "b", *CONTENTS] if by_name else []:
                if part in self.serving and name in self.containing(part, CONTENTS.keys()):
                    self.load(part, False)
            if not self.complete(name):
                return False
            if name in self.serving:
                return True
        self.serving[name] = (next(self.numbers), self.files.get(name))
        self.explicit |= {name} if by_name else set()
        for ensemble in self.containing(name, self.wanted):
            if ensemble in self.wanted and self.complete(ensemble):
                self.serving[ensemble] = (next(self.numbers), None)
        return True

    def complete(self, ensemble: str) -> bool:
        """Load what an ensemble contains; without all of it the ensemble does not serve."""
        self.wanted.discard(ensemble)
        for part in CONTENTS[ensemble]:
            if part not in self.serving:
                self.load(part, False)
        self.wanted.add(ensemble)
        if all(part in self.serving for part in CONTENTS[ensemble]):
            return True
        self.serving.pop(ensemble, None)
        return False

    def containing(self, name: str, among: Collection[str]) -> list[str]:
        """Return those of the ensembles that contain a model, directly or not."""
        found = {name}
        for ensemble, contents in CONTENTS.items():
            found |= {ensemble} if ensemble in among and found & set(contents) else set()
        return [ensemble for ensemble in CONTENTS if ensemble in found - {name}]

    def needed_only_by(self, name: str) -> set[str]:
        going = {name}
        for part in reversed(["a", "b", *CONTENTS]):
            users = {ensemble for ensemble in self.wanted if part in CONTENTS[ensemble]}
            if users and users <= going and part not in self.explicit:
                going.add(part)
        return going

    # -- what happens

    @rule(name=LEAVES, broken=st.booleans())
    def edit(self, name: str, broken: bool) -> None:
        self.files[name] = (next(self.numbers), broken)
        write_model(self.repository, name, f"{self.files[name]}", ADDS_CONFIG)

    @rule(name=NAMES)
    def load_by_name(self, name: str) -> None:
        if self.load(name, True):
            self.server.load(name)
        else:
            with pytest.raises(ModelLoadError):
                self.server.load(name)

    @rule(name=NAMES, dependents=st.booleans())
    def unload(self, name: str, dependents: bool) -> None:
        for each in self.needed_only_by(name) if dependents else {name}:
            self.wanted.discard(each)
            self.explicit.discard(each)
            for gone in (each, *self.containing(each, self.wanted)):
                self.serving.pop(gone, None)
        self.server.unload(name, unload_dependents=dependents)

    @invariant()
    def those_serve_that_should(self) -> None:
        assert {entry["name"] for entry in self.server.index(ready=True)} == self.serving.keys()
        for name, loaded in self.serving.items():
            version = self.server.core.find(name)
            before, of = self.found.get(name, (None, None))
            assert (before is version) == (of == loaded), f"{name} was loaded again, or was not"
            self.found[name] = (version, loaded)

    def teardown(self) -> None:
        for name in [*reversed(CONTENTS), "a", "b"]:
            self.server.unload(name)


def test_models_serve_from_the_loads_that_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_nothing(load: VersionLoad) -> VersionParts:
        files = load._files
        if "True" in (files.directory / "1" / "model.py").read_text():
            raise ModelError("broken")
        scheduler = cast(Scheduler, SimpleNamespace(enqueue=None, stop=lambda: None, pending=0))
        return VersionParts(files.config, {}, RequestRules(files.config, model_name=files.name), scheduler)

    monkeypatch.setattr(VersionLoad, "_model", start_nothing)
    with Server(tmp_path, model_control_mode="explicit") as server:
        some = settings(max_examples=30, stateful_step_count=25)
        run_state_machine_as_test(partial(ModelControlMachine, server, tmp_path), settings=some)


# -- ensembles that cannot be loaded; each text measured on 2.51


def test_a_model_that_fails_is_named_with_its_error(chain: Chain) -> None:
    write_model(chain.repository, "broken", "raise ValueError('no')", ADDS_CONFIG)
    write_ensemble(chain.repository, "of_broken", "a", "broken")
    error = failure(chain.server, "of_broken")
    assert error.message.startswith(
        "load failed for model 'of_broken': ensemble 'of_broken' depends on 'broken' which has no loaded version. "
        "Model 'broken' loading failed with error: version 1 is at UNAVAILABLE state: Internal: ValueError: no\n\nAt:"
    )
    assert error.message.endswith(";\n")
    assert error.code is Code.INVALID_ARG
    assert states(chain.server, "of_broken") == {"of_broken": ""}
    write_model(chain.repository, "broken", ADDS.format(n=1), ADDS_CONFIG)
    chain.server.load("broken")
    assert infer(chain.server, "of_broken") == 2  # it was wanted, and now it can be
    chain.server.unload("of_broken")
    chain.server.unload("broken")


@pytest.mark.parametrize(
    ("models", "version", "text"),
    [
        (["nowhere"], -1, "ensemble odd contains models that are not available or ambiguous: nowhere"),
        (["a"], 7, "ensemble 'odd' depends on 'a' whose required version 7 is not loaded."),
        (["odd"], -1, "circular dependency between ensembles: odd -> ... -> odd -> odd"),
    ],
)
def test_what_an_ensemble_cannot_contain(chain: Chain, models: list[str], version: int, text: str) -> None:
    write_ensemble(chain.repository, "odd", *models, version=version)
    assert failure(chain.server, "odd").message == f"load failed for model 'odd': {text}\n"
    assert states(chain.server, "odd") == {"odd": ""}


def test_an_ensemble_that_never_loaded_is_unknown(chain: Chain) -> None:
    write_ensemble(chain.repository, "vain", "nobody")
    failure(chain.server, "vain")
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'vain' is not found$"):
        infer(chain.server, "vain")
    chain.server.unload("vain")


def test_ensembles_of_one_another(chain: Chain) -> None:
    write_ensemble(chain.repository, "hen", "egg")
    write_ensemble(chain.repository, "egg", "hen")
    text = "circular dependency between ensembles: hen -> ... -> egg -> hen"
    assert failure(chain.server, "hen").message == f"load failed for model 'hen': {text}\n"


def test_a_model_that_cannot_be_read_fails_the_ensemble_like_itself(chain: Chain) -> None:
    write_model(chain.repository, "unreadable", ADDS.format(n=1), "nonsense: 1")
    write_ensemble(chain.repository, "of_unreadable", "unreadable")
    error = failure(chain.server, "of_unreadable")
    text = "ensemble of_unreadable contains models that are not available or ambiguous: unreadable"
    assert error.message == f"load failed for model 'of_unreadable': {text}\n"
    assert "failed to read text proto from" in error.reason
    error = failure(chain.server, "of_unreadable")
    assert error.message == "failed to load 'of_unreadable', failed to poll from model repository"
    assert "failed to read text proto from" in error.reason


def test_a_reload_that_cannot_be_takes_the_ensemble_down(chain: Chain) -> None:  # measured on 2.51
    write_ensemble(chain.repository, "turning", "a")
    chain.server.load("turning")
    write_ensemble(chain.repository, "turning", "a", version=7)
    failure(chain.server, "turning")
    eventually(lambda: states(chain.server, "turning") == {"turning": "UNAVAILABLE unloaded"})
    chain.server.unload("turning")


# -- versions, rule 5.11.2


def test_only_the_version_whose_files_changed_is_loaded_again(lab: Lab) -> None:
    policy = ADDS_CONFIG + "version_policy { all { } }"
    for version in (1, 2):
        lab.write("pair", ADDS.format(n=version), policy, version=version)
    lab.server.load("pair")
    one, two = (lab.server.core.find("pair", version) for version in (1, 2))
    lab.load("pair", ADDS.format(n=20), policy, version=2)
    assert lab.server.core.find("pair", 1) is one
    assert lab.server.core.find("pair", 2) is not two
    assert infer(lab.server, "pair") == 20
    lab.load("pair", ADDS.format(n=3), policy, version=3)
    assert lab.server.core.find("pair", 1) is one
    lab.load("pair", ADDS.format(n=3), policy + "# nothing\n", version=3)
    lab.load("pair", ADDS.format(n=3), ADDS_CONFIG + "version_policy { specific { versions: [ 1 ] } }", version=3)
    assert lab.server.core.find("pair") is one
    lab.server.unload("pair")


def test_a_version_that_fails_takes_the_new_ones_back(lab: Lab) -> None:
    policy = ADDS_CONFIG + "version_policy { all { } }"
    lab.write("half", ADDS.format(n=1), policy, version=1)
    lab.write("half", "1 / 0", policy, version=2)
    failure(lab.server, "half")

    def reasons() -> list[str]:
        return [entry.get("reason", "") for entry in lab.server.index() if entry["name"] == "half"]

    eventually(lambda: reasons()[0] == "unloaded")
    assert reasons()[1].startswith("Internal: ZeroDivisionError")
    lab.load("half", ADDS.format(n=2), policy, version=2)
    assert lab.server.ready()
    lab.server.unload("half")


@rules.rule("2.5.9")
@pytest.mark.parametrize(("retries", "good", "tries"), [(0, 2, 1), (1, 2, 2), (2, 9, 3), (-1, 4, 4)])
def test_what_fails_to_load_is_tried_again(tmp_path: Path, retries: int, good: int, tries: int) -> None:
    count = tmp_path / "tries"
    count.touch()
    source = f"""
class TritonPythonModel:
    def initialize(self, args):
        with open({str(count)!r}, "a+b") as count:
            count.write(b"x")
            if count.tell() < {good}:
                raise RuntimeError(f"try {{count.tell()}}")
"""
    write_model(tmp_path, "m", source)
    with Server(tmp_path, model_control_mode="explicit", model_load_retry_count=retries) as server:
        if tries < good:
            with pytest.raises(ModelLoadError, match=f"RuntimeError: try {tries}\n") as failure:
                server.load("m")
            assert failure.value.reason.startswith(f"RuntimeError: try {tries}")
            assert states(server)["m"].startswith(f"UNAVAILABLE Internal: RuntimeError: try {tries}")
        else:
            assert server.load("m").ready()
        logged = [record.text for record in server.logs("m") if "failed to load 'm' version 1: " in record.text]
        assert len(logged) == count.stat().st_size - (tries == good)
        assert count.stat().st_size == tries


# -- repositories, rules 5.11.10, 5.11.11


@rules.rule("5.11.10", "5.11.11")
def test_a_name_in_two_repositories_is_marked_in_the_index(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for repository, names in ((first, ["both", "mine"]), (second, ["both", "yours"])):
        for name in names:
            write_model(repository, name, ADDS.format(n=1), ADDS_CONFIG)
    both = {"name": "both", "state": "UNAVAILABLE", "reason": "model appears in two or more repositories"}
    with Server([first, second], model_control_mode="explicit") as server:
        assert server.index() == [both, {"name": "mine"}, {"name": "yours"}]
        assert server.index(ready=True) == [both]
        assert failure(server, "both").code is Code.INTERNAL
        server.load("yours")
        assert server.index(ready=True) == [both, {"name": "yours", "version": "1", "state": "READY"}]
        server.unregister_model_repository(first)
        server.load("both")
        assert server.index() == [{"name": name, "version": "1", "state": "READY"} for name in ("both", "yours")]
        server.unregister_model_repository(second)
        assert server.index() == []  # as Triton: what serves from nowhere is not in it
        assert infer(server, "yours") == 1
        with pytest.raises(AlreadyExistsError):
            server.register_model_repository(first)
            server.register_model_repository(first)


@rules.rule("5.11.12")
def test_models_of_one_name_are_reached_by_their_identifiers(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for n, repository in enumerate((first, second), 1):
        write_model(repository, "a", ADDS.format(n=n), ADDS_CONFIG)
        write_ensemble(repository, f"e{n}", "a")
    with Server([first, second], model_namespacing=True) as server:
        assert [infer(server, name) for name in ("e1", "e2", f"{first}::a", f"{second}::a")] == [1, 2, 1, 2]
        assert not server.model("a").ready()
        with pytest.raises(InvalidArgumentError, match="There are 2 identifiers of model 'a' in global map"):
            infer(server, "a")
        models = server.models()
        assert sorted(name for name, _ in models) == [f"{first}::a", f"{first}::e1", f"{second}::a", f"{second}::e2"]
        assert all(model.state == "READY" and model.ready() for model in models.values())
        assert [entry["name"] for entry in server.model("a").statistics()["model_stats"]] == ["a", "a"]
        assert len(models[f"{first}::a", 1].statistics()["model_stats"]) == 1
        assert len(server.core.statistics()["model_stats"]) == 4
        assert models[f"{second}::a", 1].metadata()["versions"] == ["1"]
        assert 'model="a",namespace="' in server.metrics()


@rules.rule("5.11.12")
def test_an_identifier_unloads_one_of_them(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for n, repository in enumerate((first, second), 1):
        write_model(repository, "a", ADDS.format(n=n), ADDS_CONFIG)
    with Server([first, second], model_namespacing=True, model_control_mode="explicit") as server:
        server.load("a")
        server.unload(server.model(f"{first}::a"))
        assert infer(server, "a") == 2
        write_ensemble(first, "e", "a")
        server.load("e")  # brings back the model beside it
        assert infer(server, "e") == 1
        server.unload("a")
        with pytest.raises(NotFoundError, match=f"^Request for unknown model: '{first}::e' has no available versions$"):
            infer(server, "e")


@rules.rule("5.11.11")
def test_repositories_are_registered_in_the_explicit_mode_only(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        text = "is not allowed if model control mode is not EXPLICIT"
        with pytest.raises(UnsupportedError, match=f"^repository registration {text}$"):
            server.register_model_repository(tmp_path)
        with pytest.raises(UnsupportedError, match=f"^repository unregistration {text}$"):
            server.unregister_model_repository(tmp_path)
        with pytest.raises(UnavailableError, match=r"^polling is disabled$"):
            server.poll_model_repository()


def test_the_index_is_what_the_repositories_hold(lab: Lab) -> None:  # measured on 2.51
    files = {"file:1/model.py": ADDS.format(n=5).encode()}
    lab.load("donor", ADDS.format(n=5), ADDS_CONFIG)
    whole = {**lab.server.model("donor").config(), "name": "ghost"}
    lab.server.load("ghost", whole, files)
    assert infer(lab.server, "ghost") == 5
    assert "ghost" not in states(lab.server)
    assert ("ghost", 1) in lab.server.models()
    lab.server.unload("ghost")
    lab.server.unload("donor")


# -- the start


def test_models_load_at_once_at_the_start(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    for n in range(3):
        write_model(tmp_path / "models", f"m{n}", meeting_at(meeting, 3), "")
    with Server(tmp_path / "models", model_load_thread_count=3) as server:
        assert len(server.index(ready=True)) == 3


def test_ensembles_load_after_their_models_at_the_start(tmp_path: Path) -> None:
    write_ensemble(tmp_path, "a_first_by_name", "b_inner")
    write_ensemble(tmp_path, "b_inner", "z")
    write_model(tmp_path, "z", ADDS.format(n=1), ADDS_CONFIG)
    with Server(tmp_path) as server:
        assert infer(server, "a_first_by_name") == 1


def test_all_are_tried_before_the_server_fails(tmp_path: Path) -> None:
    write_model(tmp_path, "a_bad", "1 / 0", "")
    write_model(tmp_path, "b_bad", ADDS.format(n=1), "nonsense: 1")
    write_model(tmp_path, "good", ADDS.format(n=1), ADDS_CONFIG)
    before = len(stub_processes())
    with pytest.raises(ModelLoadError) as raised:
        Server(tmp_path)
    assert raised.value.code is Code.INTERNAL
    assert raised.value.message.startswith("failed to load all models\nload failed for model 'a_bad': version 1 is at")
    assert "failed to load 'b_bad', failed to poll from model repository" in raised.value.message
    eventually(lambda: len(stub_processes()) <= before)
    with Server(tmp_path, exit_on_error=False) as server:
        assert infer(server, "good") == 1
        assert not server.ready()


def test_a_readiness_that_is_not_strict(tmp_path: Path) -> None:  # rule 5.11.9
    write_model(tmp_path, "bad", "1 / 0", "")
    with Server(tmp_path, exit_on_error=False, strict_readiness=False) as server:
        assert server.ready()


def test_the_wildcard_stands_alone(tmp_path: Path) -> None:
    text = "Wildcard model name '*' must be the ONLY startup model if specified at all."
    with pytest.raises(InvalidArgumentError, match=text.replace("*", r"\*")):
        Server(tmp_path, model_control_mode="explicit", startup_models=["*", "m"])


def test_what_is_unknown_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"^failed to load all models\nfailed to load 'no', failed to poll"):
        Server(tmp_path, model_control_mode="explicit", startup_models=["no"])


# -- poll mode with a server around it; its rules are in test_repository_poller.py


def test_a_polling_server_follows_its_repository(tmp_path: Path) -> None:  # rule 5.11.1
    write_model(tmp_path, "m", ADDS.format(n=1), ADDS_CONFIG)
    with Server(tmp_path, model_control_mode="poll", repository_poll_secs=3600) as server:
        assert infer(server, "m") == 1
        for act in (lambda: server.load("m"), lambda: server.unload("m")):
            with pytest.raises(UnavailableError, match=r"^explicit model load / unload is not allowed if polling is"):
                act()
        write_model(tmp_path, "m", ADDS.format(n=22), ADDS_CONFIG)
        write_model(tmp_path, "new", ADDS.format(n=3), ADDS_CONFIG)
        server.poll_model_repository()
        eventually(lambda: len(server.index(ready=True)) == 2 and infer(server, "m") == 22)
        write_model(tmp_path, "m", "1 / 0", ADDS_CONFIG)
        server.poll_model_repository()
        eventually(lambda: any("ZeroDivisionError" in record.text for record in server.logs("m")))
        assert infer(server, "m") == 22
        (tmp_path / "new").rename(tmp_path.with_name("gone"))
        server.poll_model_repository()
        eventually(lambda: not server.model("new").ready())
        assert [entry["name"] for entry in server.index()] == ["m"]
        with pytest.raises(NotFoundError):
            infer(server, "new")
        eventually(server.ready)


# -- byte-code


def test_nothing_is_written_into_a_repository(tmp_path: Path) -> None:
    source = "import beside\n" + ADDS.format(n=1)
    write_model(tmp_path, "m", source, ADDS_CONFIG, **{"1__beside_dot_py": "x = 1\n"})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with Server(tmp_path) as server:
        assert infer(server, "m") == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# -- other instances in place, rule 5.11.2


def in_groups(*groups: str) -> str:
    return config("CODE STRING 1", "OUT FP32 1; TEXT STRING 1", kind="KIND_CPU").replace(
        "instance_group { kind: KIND_CPU count: 1 }",
        "\n".join(f"instance_group {{ kind: KIND_CPU {g} }}" for g in groups),
    )


def reconfigure(lab: Lab, name: str, *groups: str) -> None:
    (lab.repository / name / "config.pbtxt").write_text(in_groups(*groups))
    lab.server.load(name)


def names(model: Model) -> list[str]:
    return [instance["name"] for instance in model.instances()]


def test_instances_come_and_go_while_the_others_serve(lab: Lab) -> None:
    model = lab.load("crew", SCRIPTED, in_groups("count: 1"))
    (first,) = (instance["pid"] for instance in model.instances())
    reconfigure(lab, "crew", "count: 3")
    assert names(model) == ["crew_0_0", "crew_0_1", "crew_0_2"]
    assert model.instances()[0]["pid"] == first
    assert model.config()["instance_group"][0]["count"] == 3
    version = lab.server.core.find("crew")
    reconfigure(lab, "crew", "count: 2")
    assert sorted(names(model)) == ["crew_0_1", "crew_0_2"]  # as Triton: the last ones stay
    eventually(lambda: not alive(first) and not version.leaving)
    reconfigure(lab, "crew", "count: 2", 'name: "more"')
    assert sorted(names(model)) == ["crew_0_1", "crew_0_2", "more_0"]
    assert lab.server.core.find("crew") is version
    assert {Script(model).text("self.args['model_instance_name']") for _ in range(30)} <= set(names(model))
    assert lab.server.ready()
    lab.server.unload("crew")
    assert not any(alive(instance.pid) for instance in version.instances)


def test_an_instance_that_leaves_ends_its_request_first(lab: Lab) -> None:
    model = lab.load("leaver", SCRIPTED, in_groups("count: 2"))
    script = Script(model)
    go = lab.repository / "leaver.go"
    held = f"while not os.path.exists({str(go)!r}): time.sleep(0.005)\nreturn [answer(OUT=np.float32([os.getpid()]))]"
    waiting = [script.infer(held) for _ in range(2)]
    eventually(lambda: all(len(instance.inflight) == 1 for instance in instances(model)))
    reconfigure(lab, "leaver", "count: 1")
    (stays,) = model.instances()
    assert len(lab.server.requests()) == 2
    queued = script.infer("return [answer(OUT=np.float32([os.getpid()]))]")
    go.touch()
    assert len({float(next(w).outputs["OUT"].numpy()[0]) for w in waiting}) == 2
    assert float(next(queued).outputs["OUT"].numpy()[0]) == stays["pid"]
    version = lab.server.core.find("leaver")
    eventually(lambda: not version.leaving)
    lab.server.unload("leaver")


def test_instances_that_cannot_start_change_nothing(lab: Lab) -> None:  # texts measured on 2.51
    hold = lab.repository / "no_more"
    source = SCRIPTED.replace(
        "        self.args = args",
        f"        if os.path.exists({str(hold)!r}): raise ValueError('no more')\n        self.args = args",
    )
    model = lab.load("stubborn", source, in_groups("count: 1"))
    hold.touch()
    (lab.repository / "stubborn" / "config.pbtxt").write_text(in_groups("count: 3"))
    error = failure(lab.server, "stubborn")
    text = "load failed for model 'stubborn': version 1 is at READY state: Internal: ValueError: no more\n\nAt:"
    assert error.message.startswith(text)
    assert names(model) == ["stubborn_0_0"]
    assert states(lab.server, "stubborn")["stubborn"].startswith("READY Internal: ValueError: no more")
    assert lab.server.ready()
    assert model.config()["instance_group"][0]["count"] == 1
    hold.unlink()
    lab.server.load("stubborn")
    assert len(names(model)) == 3
    assert states(lab.server, "stubborn") == {"stubborn": "READY"}
    (lab.repository / "stubborn" / "config.pbtxt").write_text(in_groups("count: 1 gpus: 0"))
    assert failure(lab.server, "stubborn").message == (
        "load failed for model 'stubborn': version 1 is at READY state: Invalid argument: instance group stubborn_0 of "
        "model stubborn has kind KIND_CPU but specifies one or more GPUs;\n"
    )
    lab.server.unload("stubborn")


# -- the end, while models load

#: Its stubs leave their process ids in the directory `{pids}`, then hang in one of three places.
HANGS = """
import os, time

open(os.path.join({pids!r}, str(os.getpid())), "w").close()
if {where!r} == "import":
    time.sleep(600)

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        if {where!r} == "auto_complete_config":
            time.sleep(600)
        return config

    def initialize(self, args):
        time.sleep(600)
"""


def hanging(tmp_path: Path, where: str) -> tuple[str, Callable[[], list[int]]]:
    """Return the source of a model that hangs, and a function that returns the processes that have run it."""
    pids = tmp_path / "pids"
    pids.mkdir()
    return HANGS.format(pids=str(pids), where=where), lambda: [int(path.name) for path in pids.iterdir()]


@pytest.mark.parametrize("where", ["import", "auto_complete_config", "initialize"])
def test_a_server_that_stops_does_not_wait_for_a_load(tmp_path: Path, where: str) -> None:
    source, pids = hanging(tmp_path, where)
    write_model(tmp_path / "models", "slow", source, config(count=2))
    server = Server(tmp_path / "models", model_control_mode="explicit")
    failures: list[ModelLoadError] = []
    loading = threading.Thread(target=lambda: failures.append(failure(server, "slow")))
    loading.start()
    eventually(lambda: len(pids()) >= 2)
    server.stop()
    loading.join(60)
    assert not loading.is_alive()
    assert len(failures) == 1
    eventually(lambda: not any(map(alive, pids())))


def test_a_server_that_stops_does_not_wait_for_ever_for_a_load_that_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(stub_processes())
    monkeypatch.setattr("tritonlab.server.models.model_control._ABORTED", 0.2)
    reads, released = threading.Event(), threading.Event()

    def read(path: Path) -> bytes:
        reads.set()
        released.wait(60)
        return bytes(4)

    monkeypatch.setattr("tritonlab.engine.life.warmup.read_file", read)
    data = 'key: "X" value { data_type: TYPE_FP32 dims: 1 input_data_file: "slow" }'
    warmup = f'model_warmup {{ name: "w" batch_size: 1 inputs {{ {data} }} }}'
    directory = write_model(tmp_path, "reads", SCRIPTED, config("X FP32 1", "Y FP32 1", warmup))
    (directory / "warmup").mkdir()
    (directory / "warmup" / "slow").touch()
    server = Server(tmp_path, model_control_mode="explicit")
    failures: list[ModelLoadError] = []
    loading = threading.Thread(target=lambda: failures.append(failure(server, "reads")), daemon=True)
    loading.start()
    assert reads.wait(60)
    server.stop()
    assert loading.is_alive()
    released.set()
    loading.join(60)
    assert len(failures) == 1
    eventually(lambda: others.issuperset(stub_processes()))


def test_an_interrupt_of_a_start_ends_what_loads(tmp_path: Path) -> None:
    source, pids = hanging(tmp_path, "initialize")
    for name in ("one", "two"):
        write_model(tmp_path / "models", name, source, config())

    def when_both_load() -> None:
        eventually(lambda: len(pids()) >= 3)  # two stubs each
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=when_both_load, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        Server(tmp_path / "models")
    eventually(lambda: not any(map(alive, pids())))


def test_instances_give_their_resources_back_when_they_leave(tmp_path: Path) -> None:
    def groups(priority: int) -> str:
        return in_groups(f'count: 2 rate_limiter {{ resources {{ name: "r" count: 1 }} priority: {priority} }}')

    write_model(tmp_path, "limited", SCRIPTED, groups(1))
    limits = {"rate_limit": "execution_count", "rate_limit_resource": {"r": 1}}
    with Server(tmp_path, model_control_mode="explicit", startup_models=["limited"], **limits) as server:
        model = server.model("limited")
        script = Script(model)
        go = tmp_path / "go"
        held = script.infer(f"while not os.path.exists({str(go)!r}): time.sleep(0.005)\nreturn [answer()]")
        eventually(lambda: any(instance.inflight for instance in instances(model)))
        old = {instance["pid"] for instance in model.instances()}
        (tmp_path / "limited" / "config.pbtxt").write_text(groups(2))
        server.load("limited")
        assert not old & {instance["pid"] for instance in model.instances()}
        queued = script.infer("return [answer(OUT=np.float32([1]))]")  # waits for what the held one has
        go.touch()
        next(held)
        assert next(queued).outputs["OUT"].numpy() == [1]
        version = server.core.find("limited")
        eventually(lambda: not version.leaving)
        assert [script.value("1") for _ in range(4)] == [1] * 4


def test_a_load_reads_the_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path, "once", SCRIPTED, config())
    with Server(tmp_path, model_control_mode="explicit") as server:
        calls: list[str] = []
        for name in ("read_config", "read_contents", "polled"):
            function = getattr(model_repository_manager, name)

            def counted(*args: Any, _name: str = name, _function: Callable[..., Any] = function, **more: Any) -> Any:
                calls.append(_name)
                return _function(*args, **more)

            monkeypatch.setattr(model_repository_manager, name, counted)
        server.load("once")
        assert sorted(calls) == ["polled", "read_config", "read_contents"]
        server.load("once")  # serves, and nothing has changed
        assert len(calls) == 6


def test_a_load_that_was_overtaken_reads_the_model_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path, "m", SCRIPTED, config())
    with Server(tmp_path, model_control_mode="explicit") as server:
        follow = server.core.control.ensembles.follow_files

        def overtaken(identifier: str) -> Any:
            followed = follow(identifier)
            monkeypatch.undo()
            write_model(tmp_path, "m", SCRIPTED, in_groups("count: 2"))
            server.load("m")
            return followed

        monkeypatch.setattr(server.core.control.ensembles, "follow_files", overtaken)
        assert len(server.load("m").instances()) == 2
