"""Servers that load by themselves, at the start and by polling, and what they report of all their models (5.11,
5.12)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tritonlab import Server

from .clients import Client, Failure, Files
from .grpc_messages import Rpc
from .grpc_served import grpc_served
from .lab_client import LabClient
from .models import CPU, model
from .real_client import RealClient
from .rules import rule
from .scripts import eventually
from .test_first_load import check_loading, counted, held
from .test_load import ANSWERING_CONFIG
from .test_model_control import GONE, READY, answers, ensemble, settled, states, traceless, who, write

# -- statistics and metadata


@rule("5.12.1", "5.12.2", "6.1.2")
def test_statistics_of_versions(side: Client) -> None:
    policy = ANSWERING_CONFIG + "version_policy { all { } }"
    files = {"config.pbtxt": policy, **{f"{number}/model.py": who("") for number in (1, 2, 3)}}
    assert side.placed("counted", files) is None
    answers(side, "counted", 2)

    def counts(version: int = -1) -> Any:
        found = side.statistics("counted", version)
        if isinstance(found, Failure):
            return found.text
        return [(entry["version"], entry["inference_count"]) for entry in found]

    eventually(lambda: counts() == [("1", 0), ("2", 1), ("3", 0)])
    assert counts(2) == [("2", 1)]
    assert counts(7) == "requested model version is not available for model 'counted'"
    for version, versions in ((-1, ["1", "2", "3"]), (2, ["2"])):
        metadata = side.metadata("counted", version)
        assert not isinstance(metadata, Failure)
        assert metadata["versions"] == versions
    found = side.statistics("counted", 2)
    assert not isinstance(found, Failure)
    (stats,) = found
    assert set(stats) == {
        *("name", "version", "last_inference", "inference_count", "execution_count"),
        *("inference_stats", "response_stats", "batch_stats", "memory_usage"),
    }
    assert abs(stats["last_inference"] / 1000 - time.time()) < 60
    durations = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    assert list(stats["inference_stats"]) == [*durations, "cache_hit", "cache_miss"]
    assert {stats["inference_stats"][name]["count"] for name in durations} == {0, 1}
    (batch,) = stats["batch_stats"]
    assert (batch["batch_size"], batch["compute_infer"]["count"]) == (1, 1)
    side.unload("counted")
    assert counts() == "requested model 'counted' is not available"


@rule("5.12.3")
def test_what_is_refused_is_counted_nowhere(side: Client) -> None:
    assert side.placed("strict", model(who(""), ANSWERING_CONFIG)) is None
    assert side.infer("strict", {"IN": np.zeros(2, dtype=np.int32)}).code == "INVALID_ARG"
    found = side.statistics("strict")
    assert not isinstance(found, Failure)
    (stats,) = found
    assert {stats["inference_stats"][name]["count"] for name in ("success", "fail")} == {0}
    assert (stats["response_stats"], stats["memory_usage"]) == ({}, [])
    side.unload("strict")


# -- servers of their own


@rule("5.11.9", "5.11.7")
def test_a_server_is_ready_while_all_it_knows_is(fresh: Client) -> None:
    fresh.place("good", model(who(""), ANSWERING_CONFIG))
    fresh.place("bad", model("1 / 0", ANSWERING_CONFIG))
    assert fresh.ready()
    assert fresh.load("good") is None
    assert fresh.load("bad") is not None
    assert not fresh.ready()
    assert fresh.index(ready=True) == [{"name": "good", "version": "1", "state": "READY"}]
    assert fresh.unload("bad") is None
    assert not fresh.ready()
    write(fresh, "bad", "1/model.py", who(""))
    assert fresh.load("bad") is None
    assert fresh.ready()
    write(fresh, "bad", "1/model.py", "1 / 0")
    assert fresh.load("bad") is not None
    assert fresh.ready()  # the one before serves
    assert fresh.unload("good") is None
    assert settled(fresh, "good") == {"good": GONE}
    assert fresh.ready()


def fill(repository: Path, models: Mapping[str, Files]) -> None:
    for name, files in models.items():
        for path, text in files.items():
            target = repository / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(str(text))


#: Of Triton, which takes whole ones only.
POLL_SECONDS = 1


@pytest.fixture
def start(request: pytest.FixtureRequest, program: str) -> Iterator[Callable[..., Client]]:
    """Start servers on repositories that are there already, and end them."""
    ended: list[Callable[[], None]] = []

    def start(
        mode: str, *repositories: Path, strict_model_config: bool = False, model_namespacing: bool = False
    ) -> Client:
        if program == "lab":
            lab = LabClient(repositories[0])
            lab.close()
            lab.server = Server(
                repositories,
                model_control_mode=mode,
                exit_on_error=False,
                repository_poll_secs=POLL_SECONDS / 10,
                strict_model_config=strict_model_config,
                model_namespacing=model_namespacing,
            )
            ended.append(lab.close)
            return lab
        arguments = [f"--model-control-mode={mode}", f"--repository-poll-secs={POLL_SECONDS}"]
        arguments += [f"--model-repository={repository}" for repository in repositories[1:]]
        arguments += ["--disable-auto-complete-config"] * strict_model_config
        arguments += ["--model-namespacing=true"] * model_namespacing
        real = RealClient(request.getfixturevalue("reference_server")(repositories[0], arguments))
        ended.extend([real.close, real.server.stop])
        return real

    yield start
    for end in ended:
        end()


REFUSED = ("UNAVAILABLE", "explicit model load / unload is not allowed if polling is enabled")


def refused(side: Client, name: str) -> bool:
    failures = [side.load(name), side.unload(name)]
    return all(failure is not None and (failure.code, failure.text) == REFUSED for failure in failures)


@rule("5.7.3", "5.11.7")
@pytest.mark.parametrize("program", ["real", "lab"])
@pytest.mark.parametrize("mode", ["none", "poll"])
def test_the_log_of_a_start_says_why_ensembles_were_refused(
    start: Callable[..., Client], tmp_path: Path, mode: str
) -> None:
    fill(tmp_path, {"good": model(who(""), ANSWERING_CONFIG), "bad": model("1 / 0", ANSWERING_CONFIG)})
    fill(tmp_path, {"of_missing": ensemble("missing"), "of_bad": ensemble("bad"), "of_good": ensemble("good")})
    side = start(mode, tmp_path)
    refused = {"of_missing": [()], "of_bad": [()], "of_good": READY}
    assert eventually(lambda: states(side, *refused) == refused)
    assert (
        "Invalid argument: ensemble of_missing contains models that are not available or ambiguous: missing"
        in side.log()
    )
    assert "Invalid argument: ensemble 'of_bad' depends on 'bad' which has no loaded version." in side.log()


@rule("5.11.1", "5.11.7")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_polling_server_follows_its_repository(start: Callable[..., Client], tmp_path: Path) -> None:
    """One change at a time: 2.51 stops polling for ever if there are several (rule 5.11.1)."""
    models = {name: traceless(model(who("1"), ANSWERING_CONFIG)) for name in ("good", "leaves")}
    fill(tmp_path, {**models, "unreadable": model(who(""), "nonsense: 1")})
    side = start("poll", tmp_path)
    assert states(side, "good", "leaves", "unreadable") == {"good": READY, "leaves": READY, "unreadable": [()]}
    assert refused(side, "good")

    def now(name: str) -> Any:
        return answers(side, name)[-1]

    fill(tmp_path, {"good": {"1/model.py": who("2")}})
    eventually(lambda: now("good") == "2")
    fill(tmp_path, {"new": traceless(model(who("new"), ANSWERING_CONFIG))})
    eventually(lambda: now("new") == "new")
    shutil.rmtree(tmp_path / "leaves")
    eventually(lambda: now("leaves") == "Request for unknown model: 'leaves' has no available versions")
    assert states(side, "leaves") == {}
    fill(tmp_path, {"good": {"1/model.py": "1 / 0"}})
    eventually(lambda: "failed to load 'good' version 1" in side.log())
    assert now("good") == "2"
    assert states(side, "good") == {"good": READY}


@rule("5.11.1", "5.11.9", "5.11.10", "5.1.5")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_server_without_model_control_loads_all_it_can(start: Callable[..., Client], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    whole = {path: str(text) for path, text in ensemble("z_part").items()}
    fill(first, {"a_whole": whole, "unreadable": model(who(""), "nonsense: 1")})
    never = "\n    @staticmethod\n    def auto_complete_config(config):\n        raise ValueError('not asked')\n"
    plain = ANSWERING_CONFIG.replace(CPU, "")
    fill(second, {"z_part": model(who("p") + never, plain), "unreadable": model(who(""), ANSWERING_CONFIG)})
    side = start("none", first, second, strict_model_config=True)
    found = side.config("z_part")
    assert not isinstance(found, Failure)
    assert found["version_policy"] == {"latest": {"num_versions": 1}}
    assert [group["name"] for group in found["instance_group"]] == ["z_part"]
    assert answers(side, "a_whole")[2] == "p"
    assert refused(side, "a_whole")
    assert refused(side, "nobody")
    assert states(side, "unreadable") == {"unreadable": [("UNAVAILABLE", "model appears in two or more repositories")]}
    assert side.ready()


@rule("5.11.1", "5.11.6", "5.11.7", "5.11.9", "5.13.1", "6.1")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_polled_model_is_known_while_it_loads(start: Callable[..., Client], tmp_path: Path) -> None:
    side = start("poll", tmp_path)
    assert side.ready()
    fill(tmp_path, {"new": model(held(), ANSWERING_CONFIG)})
    eventually((tmp_path / "new" / "begun.1").exists)
    assert not side.ready()
    assert states(side, "new") == {"new": [("1", "LOADING")]}
    assert answers(side, "new") == ("NOT_FOUND", "Request for unknown model: 'new' has no available versions")
    assert set(counted(side, "new").values()) == {0}
    with grpc_served(side) as address, grpc.insecure_channel(address) as channel:
        check_loading(Rpc(channel), "new")
    (tmp_path / "new" / "go.1").touch()
    eventually(lambda: states(side, "new") == {"new": READY})


@rule("5.11.1", "5.11.10", "5.7.4")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_polling_server_serves_nothing_of_a_name_that_two_repositories_have(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    fill(first, {"twice": traceless(model(who("1"), ANSWERING_CONFIG)), "around": ensemble("twice")})
    side = start("poll", first, second)

    def now(*names: str) -> list[Any]:
        return [answers(side, name)[-1] for name in names]

    about = "Request for unknown model: '{}' has no available versions"
    copies = {"name": "twice", "state": "UNAVAILABLE", "reason": "model appears in two or more repositories"}
    assert now("twice", "around") == ["1", "1"]
    (second / "twice").mkdir()  # what is in it does not matter
    eventually(lambda: now("twice", "around") == [about.format("twice"), about.format("around")])
    assert copies in side.index()
    assert settled(side, "around") == {"around": GONE}
    assert "failed to poll model 'twice': not unique across all model repositories" in side.log()
    eventually(side.ready)
    (second / "twice").rmdir()
    eventually(lambda: now("twice", "around") == ["1", "1"])
    shutil.copytree(first / "around", second / "around")
    eventually(lambda: now("twice", "around") == ["1", about.format("around")])
    shutil.rmtree(first / "around")
    eventually(lambda: now("twice", "around") == ["1", "1"])


@rule("5.11.7", "5.11.9")
@pytest.mark.parametrize("program", ["real", "lab"])
@pytest.mark.parametrize("mode", ["none", "poll"])
def test_a_server_that_finds_no_version_is_not_ready(start: Callable[..., Client], tmp_path: Path, mode: str) -> None:
    fill(tmp_path, {"bare": {"config.pbtxt": ANSWERING_CONFIG}})
    side = start(mode, tmp_path)
    assert not side.ready()
    assert side.index() == []
    assert answers(side, "bare")[-1] == "Request for unknown model: 'bare' has no available versions"


# -- models of one name in several repositories


class Namespaces:
    """A server of several repositories that has namespaces; `first` is the `repository` of its client."""

    def __init__(self, side: Client, *repositories: Path) -> None:
        self.side = side
        self.first, self.second = (str(repository) for repository in repositories[:2])

    def text(self, failure: Failure | None) -> str:
        assert failure is not None
        return failure.text.replace("<repository>", self.first)

    def answer(self, name: str) -> Any:
        """Return the tag of the model that answers, or code and text."""
        found = answers(self.side, name)
        return found[-1] if isinstance(found, list) else (found[0], found[1].replace("<repository>", self.first))


AMBIGUOUS = (
    "There are 2 identifiers of model '{}' in global map, model namespace must be provided to resolve ambiguity."
)


def of(tag: str) -> Files:
    return traceless(model(who(tag), ANSWERING_CONFIG))


@pytest.fixture
def spaces(start: Callable[..., Client], tmp_path: Path) -> Callable[..., Namespaces]:
    """Fill repositories `0`, `1`, … and start a server on them."""

    def spaces(mode: str, *repositories: Mapping[str, Files]) -> Namespaces:
        paths = [tmp_path / str(number) for number in range(len(repositories))]
        for path, models in zip(paths, repositories, strict=True):
            path.mkdir()
            fill(path, models)
        return Namespaces(start(mode, *paths, model_namespacing=True), *paths)

    return spaces


@rule("5.11.12", "5.11.7", "5.13.1")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_name_loads_the_models_of_all_repositories(spaces: Callable[..., Namespaces]) -> None:
    found = spaces("explicit", {"dup": of("a"), "one": of("one")}, {"dup": of("b"), "other": of("other")})
    side = found.side
    assert found.answer("dup") == ("INVALID_ARG", "Request for unknown model: 'dup' is not found")
    for name in ("dup", "one", "other"):
        assert side.load(name) is None
    entries = [(entry["name"], entry["state"]) for entry in side.index()]
    assert entries == [("dup", "READY"), ("one", "READY"), ("dup", "READY"), ("other", "READY")]
    assert (found.answer("one"), found.answer("other")) == ("one", "other")
    assert found.answer("dup") == ("INVALID_ARG", AMBIGUOUS.format("dup"))
    for document in (side.config("dup"), side.metadata("dup")):
        assert isinstance(document, Failure)
        assert document.text == AMBIGUOUS.format("dup")
    assert side.ready() and side.ready("one") and not side.ready("dup")
    succeeded = [line for line in side.metrics().splitlines() if line.startswith("nv_inference_request_success{")]
    assert sorted(line.partition("{")[2].partition("}")[0] for line in succeeded) == sorted(
        f'model="{name}",namespace="{space}",version="1"'
        for space, names in ((found.first, ("dup", "one")), (found.second, ("dup", "other")))
        for name in names
    )
    assert side.unload("dup") is None
    assert settled(side, "dup") == {"dup": [*GONE, *GONE]}
    assert found.answer("dup") == ("NOT_FOUND", "Identifier of model 'dup' is not found in global map")
    assert side.unload("dup") is None
    assert side.load("dup") is None
    assert states(side, "dup") == {"dup": [*READY, *READY]}


@rule("5.11.12", "5.7.3", "5.7.4")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_an_ensemble_contains_the_models_of_its_own_repository(spaces: Callable[..., Namespaces]) -> None:
    wrong = {path: str(text).replace("TYPE_STRING", "TYPE_INT8") for path, text in ensemble("dup").items()}
    found = spaces(
        "explicit",
        {"dup": of("a"), "here": ensemble("dup"), "wrong": wrong, "seventh": ensemble("dup", version=7)},
        {"dup": of("b"), "there": ensemble("dup"), "far": ensemble("only"), "nobodys": ensemble("gone")},
        {"only": of("only"), "ring": ensemble("ring")},
    )
    side, first = found.side, found.first
    for name in ("dup", "here", "there", "far"):
        assert side.load(name) is None
    assert [found.answer(name) for name in ("here", "there", "far")] == ["a", "b", "only"]
    config = side.config("here")
    assert not isinstance(config, Failure)
    assert [step["model_namespace"] for step in config["ensemble_scheduling"]["step"]] == [first]
    before = "load failed for model '{}': "
    here = f"{first}::wrong"
    assert found.text(side.load("wrong")) == before.format(here) + (
        f"in ensemble {here}, ensemble tensor OUT: inconsistent data type: TYPE_INT8 is inferred from model {here} "
        f"while TYPE_STRING is inferred from model {first}::dup\n"
    )
    assert found.text(side.load("seventh")) == before.format(f"{first}::seventh") + (
        f"ensemble '{first}::seventh' depends on '{first}::dup' whose required version 7 is not loaded.\n"
    )
    assert found.text(side.load("nobodys")) == before.format(f"{found.second}::nobodys") + (
        f"ensemble {found.second}::nobodys contains models that are not available or ambiguous: gone\n"
    )
    assert side.unload("dup") is None
    assert settled(side, "here", "there", "far") == {"here": GONE, "there": GONE, "far": READY}
    assert found.answer("here") == (
        "NOT_FOUND",
        f"Request for unknown model: '{first}::here' has no available versions",
    )
    assert side.load("dup") is None
    assert (found.answer("here"), found.answer("there")) == ("a", "b")


@rule("5.11.12", "2.5.1", "2.5.8")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_of_a_name_all_that_can_be_is_loaded(spaces: Callable[..., Namespaces], tmp_path: Path) -> None:
    found = spaces("explicit", {"dup": of("a"), "here": ensemble("dup")}, {"dup": model("1 / 0", ANSWERING_CONFIG)})
    failed = "load failed for model '{}::dup': version 1 is at UNAVAILABLE state: Internal: ZeroDivisionError: "
    assert found.text(found.side.load("dup")).startswith(failed.format(found.second))
    assert [entry[1] for entry in states(found.side, "dup")["dup"]] == ["READY", "UNAVAILABLE"]
    assert found.answer("dup") == ("INVALID_ARG", AMBIGUOUS.format("dup"))
    assert found.side.load("here") is None
    assert found.answer("here") == "a"
    fill(tmp_path / "0", {"dup": {"1/model.py": "1 / 0"}})
    text = found.text(found.side.load("dup"))
    assert text.startswith(failed.format(found.first)) and f"\n;\n{failed.format(found.second)}" in text
    assert found.answer("here") == "a"
    fill(tmp_path / "0", {"dup": {"config.pbtxt": "nonsense: 1"}})
    assert found.text(found.side.load("dup")).startswith(failed.format(found.second))
    fill(tmp_path / "1", {"dup": {"1/model.py": who("b")}})
    assert found.text(found.side.load("dup")) == "failed to load 'dup', failed to poll from model repository"
    assert [entry[1] for entry in states(found.side, "dup")["dup"]] == ["READY", "READY"]
    assert f"Poll failed for model directory '{found.first}::dup': " in found.side.log().replace(
        "<repository>", found.first
    )


@rule("5.11.12")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_an_ensemble_without_a_model_beside_it_takes_the_only_one(
    spaces: Callable[..., Namespaces], tmp_path: Path
) -> None:
    found = spaces("explicit", {"dup": of("a")}, {}, {"far": ensemble("dup")})
    assert found.side.load("far") is None
    assert (found.answer("dup"), found.answer("far")) == ("a", "a")
    fill(tmp_path / "1", {"dup": of("b")})
    assert found.answer("far") == "a"
    assert found.side.load("dup") is None
    assert settled(found.side, "far") == {"far": GONE}


@rule("5.11.12", "5.11.1")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_polling_server_minds_whose_model_changes(spaces: Callable[..., Namespaces], tmp_path: Path) -> None:
    found = spaces("poll", {"dup": of("a"), "here": ensemble("dup")}, {"dup": of("b"), "there": ensemble("dup")})

    def answers_of_both() -> list[Any]:
        return [found.answer(name) for name in ("here", "there")]

    assert answers_of_both() == ["a", "b"]
    write(found.side, "dup", "1/model.py", who("a2"))
    eventually(lambda: answers_of_both() == ["a2", "b"])
    shutil.rmtree(tmp_path / "0" / "dup")
    eventually(lambda: answers_of_both() == ["b", "b"])
    assert found.answer("dup") == "b"


@rule("5.11.12", "5.11.1")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_polling_server_takes_an_ensemble_down_while_its_model_is_ambiguous(
    spaces: Callable[..., Namespaces], tmp_path: Path
) -> None:
    found = spaces("poll", {"dup": of("a")}, {}, {"far": ensemble("dup")})
    waits = ("NOT_FOUND", f"Request for unknown model: '{tmp_path}/2::far' has no available versions")
    assert found.answer("far") == "a"
    fill(tmp_path / "1", {"dup": of("b")})
    eventually(lambda: found.answer("far") == waits)
    shutil.rmtree(tmp_path / "0" / "dup")
    eventually(lambda: found.answer("far") == "b")
    shutil.rmtree(tmp_path / "1" / "dup")
    eventually(lambda: found.answer("far") == waits)
    assert found.answer("dup") == ("NOT_FOUND", "Identifier of model 'dup' is not found in global map")


@rule("5.11.12", "5.11.1")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_server_without_model_control_serves_all_namespaces(spaces: Callable[..., Namespaces]) -> None:
    found = spaces("none", {"dup": of("a"), "a_here": ensemble("dup")}, {"dup": of("b"), "a_there": ensemble("dup")})
    assert [found.answer(name) for name in ("a_here", "a_there")] == ["a", "b"]
    assert states(found.side, "dup") == {"dup": [*READY, *READY]}
    assert found.side.ready()
