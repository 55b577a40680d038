"""Ensembles whose models failed: which of Triton's texts a load gives, at first and again (rules 5.7.3, 5.7.4)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.ensembles import model_text, step

from .clients import Client, Files
from .lab_client import LabClient
from .rules import rule
from .test_ensemble import SUM, ensemble, only, python
from .test_model_control import READY, states, write

GOOD = python(SUM, model_text())
FAILS = python("raise ValueError('x')\n", model_text())
UNREADABLE = python(SUM, "nonsense: 1")
TEMPLATE = python(SUM, model_text().replace("max_batch_size: 0", "max_batch_size: ${batch}"))
OTHER_NAME = python(SUM, 'name: "other"\n' + model_text())
NO_BACKEND = python(SUM, model_text().replace('"python"', '"nope"'))
ON_GPU = python(SUM, model_text(more="instance_group { kind: KIND_GPU }"))


class Case(NamedTuple):
    """Models and the loads that follow. `models`: what is placed. `loads`: (model, text of its failure), in order;
    None for one that succeeds. The names of all models begin with that of the case, which stands for `{}`."""

    models: dict[str, Files]
    loads: Sequence[tuple[str, str | None]]


def chain(name: str, reads: str = "IN=X", writes: str = "OUT=Y") -> Files:
    """Return an ensemble of m1 and m2."""
    return ensemble(step(f"{name}_m1", reads, "OUT=Z"), step(f"{name}_m2", "IN=Z", writes))


MISSING = "load failed for model '{}_e': ensemble {}_e contains models that are not available or ambiguous: {}_m1\n"
UNPOLLED = "failed to load '{}_%s', failed to poll from model repository"
FAILED = (
    "load failed for model '{}_e': ensemble '{}_e' depends on '{}_%s' which has no loaded version. Model '{}_%s' "
    "loading failed with error: version 1 is at UNAVAILABLE state: Internal: ValueError: x"
)
NO_INPUT = (
    "load failed for model '{}_e': in ensemble {}_e, ensemble tensor X is mapping to non-existing input %s in model "
    "{}_m1\n"
)
ALONE = "load failed for model '{}_%s': version 1 is at UNAVAILABLE state: Internal: ValueError: x"
NOT_VALID = (
    "load failed for model '{}_o': ensemble '{}_o' depends on '{}_e' which is not valid. Model '{}_e' failed with "
    "error: ensemble {}_e contains models that are not available or ambiguous: {}_m1\n"
)


def failed(step: str) -> str:
    return FAILED % (step, step)


def unread(files: Files) -> Case:
    loads = [("m1", UNPOLLED % "m1"), ("m2", None), ("e", MISSING), ("e", UNPOLLED % "e"), ("e", UNPOLLED % "e")]
    return Case({"m1": files, "m2": GOOD, "e": {}}, loads)


CASES: dict[str, Case] = {
    "fs_failed": Case({"m1": FAILS, "m2": GOOD, "e": {}}, [("e", failed("m1")), ("e", failed("m1"))]),
    "fs_unreadable": unread(UNREADABLE),
    "fs_template": unread(TEMPLATE),
    "fs_named": unread(OTHER_NAME),
    "fs_missing": Case({"m2": GOOD, "e": {}}, [("m2", None), ("e", MISSING), ("e", UNPOLLED % "e")]),
    # several at once: what is missing comes first, once; then what failed, as it is tried again with each load
    "fs_missing_failed": Case(
        {"m2": FAILS, "e": {}}, [("m2", ALONE % "m2"), ("e", MISSING), ("e", failed("m2")), ("e", failed("m2"))]
    ),
    "fs_unreadable_failed": Case({"m1": UNREADABLE, "m2": FAILS, "e": {}}, [("e", MISSING), ("e", failed("m2"))]),
    "fs_missing_unreadable": Case({"m2": UNREADABLE, "e": {}}, [("e", MISSING), ("e", UNPOLLED % "e")]),
    "fs_missing_mapped": Case({"m2": GOOD, "e": chain("fs_missing_mapped", writes="NO=Y")}, [("e", MISSING)]),
    "fs_failed_mapped": Case({"m1": FAILS, "m2": GOOD, "e": chain("fs_failed_mapped", "NO=X")}, [("e", failed("m1"))]),
    "fs_mapped": Case({"m1": GOOD, "m2": GOOD, "e": chain("fs_mapped", "NO=X")}, [("e", NO_INPUT % "NO")]),
    "fs_no_backend": Case(
        {"m1": NO_BACKEND, "m2": GOOD, "e": {}},
        [("e", failed("m1").partition("Internal")[0] + "Invalid argument: unable to find backend library")],
    ),
    "fs_gpu": Case(
        {"m1": ON_GPU, "m2": GOOD, "e": {}},
        [("e", failed("m1").partition("Internal")[0] + "Invalid argument: instance group {}_m1_0 of model {}_m1")],
    ),
    # an ensemble keeps what the last check of it found
    "fs_nested": Case(
        {"m2": GOOD, "e": {}, "o": only("fs_nested_e", "X=X", "Y=Y")},
        [("m2", None), ("e", MISSING), ("o", NOT_VALID), ("o", UNPOLLED % "o")],
    ),
    "fs_nested_unreadable": Case(
        {"m1": UNREADABLE, "m2": GOOD, "e": {}, "o": only("fs_nested_unreadable_e", "X=X", "Y=Y")},
        [("m2", None), ("e", MISSING), ("e", UNPOLLED % "e"), ("o", NOT_VALID), ("o", UNPOLLED % "o")],
    ),
}


def place(client: Client, name: str, models: dict[str, Files]) -> None:
    for part, files in models.items():
        client.place(f"{name}_{part}", files or chain(name))


def check_load(client: Client, name: str, part: str, text: str | None) -> None:
    failure = client.load(f"{name}_{part}")
    if text is None:
        assert failure is None
        return
    assert failure is not None
    assert failure.text.startswith(text.replace("{}", name))
    assert failure.code == ("INTERNAL" if text.startswith("failed to load") else "INVALID_ARG")


@pytest.fixture
def unloads(client: Client, request: pytest.FixtureRequest) -> Any:
    yield
    for part in ("o", "e", "m1", "m2"):
        client.unload(f"{request.node.callspec.params.get('name')}_{part}")


MODELS: dict[str, Files] = {}  # each test places its own


@contextmanager
def moved(client: Client, path: str) -> Iterator[None]:
    """Move a file or directory out of the repository, and put it back after what is inside."""
    there = client.repository / path
    away = client.repository.parent / f"{client.side}_{path.replace('/', '_')}"
    there.rename(away)
    yield
    time.sleep(0.02)  # the times of files are coarse
    away.rename(there)


@rule("5.7.3")
@pytest.mark.parametrize(
    "change", ["comment", "beside", "in the version", "rewritten", "moved", "gone", "unconfigured", "outer"]
)
def test_a_change_of_the_files_brings_the_reason_back(client: Client, change: str) -> None:
    name = f"fs_back_{change.partition(' ')[0]}"
    client.place(f"{name}_e", chain(name))
    for text in (MISSING, UNPOLLED % "e"):
        check_load(client, name, "e", text)
    directory = client.repository / f"{name}_e"
    text = (directory / "config.pbtxt").read_text()
    if change in ("moved", "outer"):
        with moved(client, f"{name}_e"):
            pass
    elif change in ("gone", "unconfigured"):
        with moved(client, f"{name}_e" + "/config.pbtxt" * (change == "unconfigured")):
            check_load(client, name, "e", UNPOLLED % "e")
            assert states(client, f"{name}_e") == ({f"{name}_e": [()]} if change == "unconfigured" else {})
    else:
        path, content = {
            "comment": ("config.pbtxt", f"{text}# a comment\n"),
            "beside": ("beside.txt", ""),
            "in the version": ("1/more.txt", ""),
            "rewritten": ("config.pbtxt", text),
        }[change]
        time.sleep(0.02)
        (directory / path).write_text(content)
    if change == "outer":  # what an outer ensemble says of it comes back, too
        client.place(f"{name}_o", only(f"{name}_e", "X=X", "Y=Y"))
        check_load(client, name, "o", NOT_VALID)
        check_load(client, name, "o", UNPOLLED % "o")
        with moved(client, f"{name}_e"):
            check_load(client, name, "o", UNPOLLED % "o")
        check_load(client, name, "o", NOT_VALID)
        return
    for text in (MISSING, UNPOLLED % "e"):
        check_load(client, name, "e", text)
    if isinstance(client, LabClient):  # Triton does not say it a second time
        failure = client.load(f"{name}_e")
        assert failure is not None
        assert failure.reason.startswith(f"ensemble {name}_e contains models that are not available or ambiguous: ")


FAILED_NOW = [("1", "UNAVAILABLE", "Internal: ValueError: x")]


@rule("5.7.3", "5.7.4")
@pytest.mark.usefixtures("unloads")
@pytest.mark.parametrize("name", ["fs_row_m1", "fs_row_m2"])
def test_the_reason_of_an_ensemble_whose_model_fails_stays_while_files_go_and_come(client: Client, name: str) -> None:
    bad = name[-2:]
    place(client, name, {"m1": GOOD, "m2": GOOD, bad: FAILS, "e": {}})
    ensemble, model = f"{name}_e", f"{name}_{bad}"
    for away in (ensemble, model):
        check_load(client, name, "e", failed(bad))
        assert states(client, ensemble, model) == {ensemble: [()], model: FAILED_NOW}
        with moved(client, away):
            check_load(client, name, "e", UNPOLLED % "e")
            assert states(client, ensemble, model) == {
                each: known for each, known in ((ensemble, [()]), (model, FAILED_NOW)) if each != away
            }
    check_load(client, name, "e", failed(bad))
    write(client, ensemble, "config.pbtxt", (client.repository / ensemble / "config.pbtxt").read_text() + "# more\n")
    check_load(client, name, "e", failed(bad))
    write(client, model, "1/model.py", str(GOOD["1/model.py"]))
    check_load(client, name, "e", None)
    assert states(client, ensemble, model) == {ensemble: READY, model: READY}


@rule("5.7.3", "5.7.4")
@pytest.mark.usefixtures("unloads")
@pytest.mark.parametrize("name", ["fs_row_mapped"])
def test_an_ensemble_is_not_checked_again_while_the_files_of_a_model_are_away(client: Client, name: str) -> None:
    place(client, name, {"m1": GOOD, "m2": GOOD, "e": chain(name, "NO=X")})
    for _ in range(2):  # the second finds what a load has left in the directories
        check_load(client, name, "e", NO_INPUT % "NO")
    with moved(client, f"{name}_m1"):
        check_load(client, name, "e", UNPOLLED % "e")
        assert states(client, f"{name}_e", f"{name}_m1") == {f"{name}_e": [()]}
        if isinstance(client, LabClient):
            failure = client.load(f"{name}_e")
            assert failure is not None
            assert failure.reason.startswith(f"in ensemble {name}_e, ensemble tensor X is mapping to non-existing")
            assert f"failed to poll model '{name}_m1'" in failure.reason
        write(client, f"{name}_e", "config.pbtxt", str(chain(name, "NO2=X")["config.pbtxt"]))
        check_load(client, name, "e", NO_INPUT % "NO2")
    check_load(client, name, "e", NO_INPUT % "NO2")
    write(client, f"{name}_e", "config.pbtxt", str(chain(name)["config.pbtxt"]))
    check_load(client, name, "e", None)


@rule("5.7.3", "5.7.4", "2.5.3")
@pytest.mark.usefixtures("unloads")
@pytest.mark.parametrize("name", CASES)
def test_what_a_load_says_of_failed_steps(client: Client, name: str) -> None:
    place(client, name, CASES[name].models)
    for part, text in CASES[name].loads:
        check_load(client, name, part, text)


@rule("5.7.3", "5.7.4")
@pytest.mark.usefixtures("unloads")
@pytest.mark.parametrize("name", ["fs_changed"])
def test_what_is_missing_passes_for_a_model_without_tensors_once_another_step_changes(
    client: Client, name: str
) -> None:
    place(client, name, {"m2": GOOD, "e": {}})
    check_load(client, name, "m2", None)
    check_load(client, name, "e", MISSING)
    client.place(f"{name}_m2", python(SUM + "\n# changed\n", model_text()))
    check_load(client, name, "e", NO_INPUT % "IN")
    client.place(f"{name}_e", chain(name, writes="OUT2=Y"))  # another ensemble: the reason is reported again
    check_load(client, name, "e", MISSING)
    client.place(f"{name}_m1", GOOD)
    check_load(client, name, "e", "load failed for model '{}_e': in ensemble {}_e, ensemble tensor Y is mapped from")


@rule("5.7.3")
@pytest.mark.usefixtures("unloads")
@pytest.mark.parametrize("name", ["fs_logged"])
def test_the_log_says_why_an_ensemble_was_refused(client: Client, name: str) -> None:
    place(client, name, {"m2": GOOD, "e": {}, "m1": {"config.pbtxt": model_text()}})
    check_load(client, name, "m1", "load failed for model '{}_m1': at least one version must be available")
    depends = "load failed for model '{}_e': ensemble '{}_e' depends on '{}_m1' which has no loaded"
    check_load(client, name, "e", depends)
    log = client.log()
    version = f"at least one version must be available under the version policy of model '{name}_m1'"
    assert re.search(rf"failed to load model '{name}_m1': {version}", log)
    assert re.search(rf"Invalid argument: ensemble '{name}_e' depends on '{name}_m1' .* {version}", log)
