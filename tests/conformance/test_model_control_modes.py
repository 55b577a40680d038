"""Servers that load by themselves, at the start and by polling, and what a server says of all it has (5.11, 5.12)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.server.in_process import Server

from .clients import Client, Failure, Files
from .lab_client import LabClient
from .models import CPU, model
from .real_client import RealClient
from .rules import rule
from .scripts import eventually
from .test_load import TELLING_CONFIG
from .test_model_control import GONE, READY, answers, ensemble, settled, states, traceless, who, write

# -- statistics and metadata


@rule("5.12.1", "5.12.2", "6.1.2")
def test_statistics_of_versions(side: Client) -> None:
    policy = TELLING_CONFIG + "version_policy { all { } }"
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
    assert side.placed("strict", model(who(""), TELLING_CONFIG)) is None
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
    fresh.place("good", model(who(""), TELLING_CONFIG))
    fresh.place("bad", model("1 / 0", TELLING_CONFIG))
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


#: Of the peer, which takes whole ones only.
POLL_SECONDS = 1


@pytest.fixture
def start(request: pytest.FixtureRequest, which: str) -> Iterator[Callable[..., Client]]:
    """Starts a server on repositories that are there already, and ends it."""
    ended: list[Callable[[], None]] = []

    def start(mode: str, *repositories: Path, strict_model_config: bool = False) -> Client:
        if which == "lab":
            lab = LabClient(repositories[0])
            lab.close()
            lab.server = Server(
                repositories,
                model_control_mode=mode,
                exit_on_error=False,
                repository_poll_secs=POLL_SECONDS / 10,
                strict_model_config=strict_model_config,
            )
            ended.append(lab.close)
            return lab
        arguments = [f"--model-control-mode={mode}", f"--repository-poll-secs={POLL_SECONDS}"]
        arguments += [f"--model-repository={repository}" for repository in repositories[1:]]
        arguments += ["--disable-auto-complete-config"] * strict_model_config
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


@rule("5.11.1", "5.11.7")
@pytest.mark.parametrize("which", ["real", "lab"])
def test_a_polling_server_follows_its_repository(start: Callable[..., Client], tmp_path: Path) -> None:
    """One change at a time: 2.51 stops polling for ever if there are several (rule 5.11.1)."""
    models = {name: traceless(model(who("1"), TELLING_CONFIG)) for name in ("good", "leaves")}
    fill(tmp_path, {**models, "unreadable": model(who(""), "nonsense: 1")})
    side = start("poll", tmp_path)
    assert states(side, "good", "leaves", "unreadable") == {"good": READY, "leaves": READY, "unreadable": [()]}
    assert refused(side, "good")

    def now(name: str) -> Any:
        return answers(side, name)[-1]

    fill(tmp_path, {"good": {"1/model.py": who("2")}})
    eventually(lambda: now("good") == "2")
    fill(tmp_path, {"new": traceless(model(who("new"), TELLING_CONFIG))})
    eventually(lambda: now("new") == "new")
    shutil.rmtree(tmp_path / "leaves")
    eventually(lambda: now("leaves") == "Request for unknown model: 'leaves' has no available versions")
    assert states(side, "leaves") == {}
    fill(tmp_path, {"good": {"1/model.py": "1 / 0"}})
    eventually(lambda: "failed to load 'good' version 1" in side.log())
    assert now("good") == "2"
    assert states(side, "good") == {"good": READY}


@rule("5.11.1", "5.11.9", "5.11.10", "5.1.5")
@pytest.mark.parametrize("which", ["real", "lab"])
def test_a_server_without_model_control_loads_all_it_can(start: Callable[..., Client], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    whole = {path: str(text) for path, text in ensemble("z_part").items()}
    fill(first, {"a_whole": whole, "unreadable": model(who(""), "nonsense: 1")})
    never = "\n    @staticmethod\n    def auto_complete_config(config):\n        raise ValueError('not asked')\n"
    plain = TELLING_CONFIG.replace(CPU, "")
    fill(second, {"z_part": model(who("p") + never, plain), "unreadable": model(who(""), TELLING_CONFIG)})
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
