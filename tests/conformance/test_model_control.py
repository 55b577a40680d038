"""What both servers load, reload and unload (rules 5.7.4, 5.11 and 5.12)."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from .clients import Client, Failure, Files
from .models import config, model
from .rules import rule
from .scripts import eventually
from .test_load import ANSWERING, ANSWERING_CONFIG, answer_of

INPUT = {"IN": np.zeros(1, dtype=np.int32)}


def who(tag: str) -> str:
    """Return a model that answers with its instance's name, its process and the tag."""
    return ANSWERING.format(f"self.answer = [args['model_instance_name'], os.getpid(), {tag!r}]")


def states(side: Client, *names: str) -> dict[str, list[tuple[str, ...]]]:
    """Return, by model, version and state of each index entry, and its reason up to the first line's end."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for entry in side.index():
        if entry["name"] in names:
            known = [str(entry[key]).partition("\n")[0] for key in ("version", "state", "reason") if key in entry]
            found.setdefault(entry["name"], []).append(tuple(known))
    return found


def settled(side: Client, *names: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the states once none of them is UNLOADING any more."""
    eventually(lambda: "UNLOADING" not in str(states(side, *names)))
    return states(side, *names)


def answers(side: Client, name: str, version: int = -1) -> Any:
    answer = side.infer(name, INPUT, version=version)
    return (answer.code, answer.error) if answer.error else json.loads(answer.outputs["OUT"][0])


def processes(side: Client, name: str) -> dict[str, int]:
    """Return the process of each instance that takes requests."""
    found: dict[str, int] = {}
    for _ in range(15):
        for pending in [side.submit(name, INPUT) for _ in range(6)]:
            instance, pid, _ = json.loads(pending.answer.result(30).outputs["OUT"][0])
            found[instance] = pid
    return found


def traceless(files: Files) -> Files:
    """Return the files with one in the place of each folder of byte-code: Triton's first load leaves such a folder,
    which is a change to it then."""
    versions = {path.partition("/")[0] for path in files if "/" in path}
    return {**files, **{f"{version}/__pycache__": "" for version in versions}}


def write(side: Client, name: str, path: str, text: str) -> None:
    time.sleep(0.02)  # the times of files are coarse: two writes in one tick are no change to Triton
    target = side.repository / name / path
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)


# -- versions


@rule("5.11.2")
def test_a_version_whose_files_changed_is_loaded_again_alone(side: Client) -> None:
    policy = ANSWERING_CONFIG + "version_policy { all { } }"
    files = {"config.pbtxt": policy, "1/model.py": who("one"), "2/model.py": who("two")}
    assert side.placed("vs", traceless(files)) is None
    before = [answers(side, "vs", version) for version in (1, 2)]
    write(side, "vs", "2/model.py", who("changed"))
    assert side.load("vs") is None
    after = [answers(side, "vs", version) for version in (1, 2)]
    assert after[0] == before[0]
    assert (after[1][2], after[1][1] != before[1][1]) == ("changed", True)
    write(side, "vs", "config.pbtxt", policy + "# a comment\n")
    assert side.load("vs") is None
    assert answers(side, "vs", 1) == before[0]
    write(side, "vs", "above.txt", "")
    assert side.load("vs") is None
    assert answers(side, "vs", 1)[1] != before[0][1]
    shutil.rmtree(side.repository / "vs" / "2")
    assert side.load("vs") is None
    assert settled(side, "vs") == {"vs": [("1", "READY"), ("2", "UNAVAILABLE", "unloaded")]}
    side.unload("vs")


@rule("5.11.2", "5.11.6", "5.11.7")
def test_one_version_that_fails_takes_the_others_back(side: Client) -> None:
    policy = ANSWERING_CONFIG + "version_policy { all { } }"
    failure = side.placed("half", {"config.pbtxt": policy, "1/model.py": who(""), "2/model.py": "1 / 0"})
    assert failure is not None
    start = "load failed for model 'half': version 2 is at UNAVAILABLE state: Internal: ZeroDivisionError"
    assert failure.text.startswith(start)
    assert settled(side, "half") == {
        "half": [
            ("1", "UNAVAILABLE", "unloaded"),
            ("2", "UNAVAILABLE", "Internal: ZeroDivisionError: division by zero"),
        ]
    }
    about = "Request for unknown model: 'half'"
    assert answers(side, "half", 1) == ("UNAVAILABLE", f"{about} version 1 is not at ready state")
    assert answers(side, "half", 2) == ("UNAVAILABLE", f"{about} version 2 is not at ready state")
    assert answers(side, "half", 3) == ("NOT_FOUND", f"{about} version 3 is not found")
    assert answers(side, "half") == ("NOT_FOUND", f"{about} has no available versions")
    write(side, "half", "2/model.py", who(""))
    assert side.load("half") is None
    shutil.rmtree(side.repository / "half" / "1")
    shutil.rmtree(side.repository / "half" / "2")
    failure = side.load("half")
    assert failure is not None
    assert "at least one version must be available" in failure.text
    assert states(side, "half") == {"half": [("1", "READY"), ("2", "READY")]}
    side.unload("half")


# -- instances in place


def groups(*texts: str) -> str:
    return config("IN INT32 1", "OUT STRING 1", *(f"instance_group {{ kind: KIND_CPU {text} }}" for text in texts))


@rule("5.11.2")
def test_instances_that_are_wanted_as_before_stay(side: Client) -> None:
    assert side.placed("crew", traceless(model(who(""), groups("count: 1")))) is None
    (first,) = processes(side, "crew").values()
    write(side, "crew", "config.pbtxt", groups("count: 3"))
    assert side.load("crew") is None
    three = processes(side, "crew")
    assert (sorted(three), three["crew_0_0"]) == (["crew_0_0", "crew_0_1", "crew_0_2"], first)
    write(side, "crew", "config.pbtxt", groups("count: 2"))
    assert side.load("crew") is None
    two = processes(side, "crew")
    assert two == {name: three[name] for name in ("crew_0_1", "crew_0_2")}
    write(side, "crew", "config.pbtxt", groups('name: "other" count: 2', "count: 1"))
    assert side.load("crew") is None
    mixed = processes(side, "crew")
    assert mixed.pop("crew_1_0") not in three.values()
    assert mixed == two
    found = side.config("crew")
    assert not isinstance(found, Failure)
    assert [(group["name"], group["count"]) for group in found["instance_group"]] == [("other", 2), ("crew_1", 1)]
    side.unload("crew")


@rule("5.11.2")
def test_instances_that_cannot_start_change_nothing(side: Client, tmp_path: Path) -> None:
    hold = tmp_path / "no more"
    source = ANSWERING.format(
        f"if os.path.exists({str(hold)!r}): raise ValueError('no more')\n"
        "        self.answer = [args['model_instance_name']]"
    )
    assert side.placed("stubborn", traceless(model(source, groups("count: 1")))) is None
    hold.touch()
    write(side, "stubborn", "config.pbtxt", groups("count: 2"))
    failure = side.load("stubborn")
    assert failure is not None
    start = "load failed for model 'stubborn': version 1 is at READY state: Internal: ValueError: no more\n\nAt:\n"
    assert (failure.code, failure.text[: len(start)]) == ("INVALID_ARG", start)
    assert states(side, "stubborn") == {"stubborn": [("1", "READY", "Internal: ValueError: no more")]}
    assert answer_of(side, "stubborn") == ["stubborn_0_0"]
    hold.unlink()
    assert side.load("stubborn") is None
    assert states(side, "stubborn") == {"stubborn": [("1", "READY")]}
    side.unload("stubborn")


# -- overrides


@rule("5.11.3")
def test_a_config_that_a_load_brought_stays_until_a_file_changes(side: Client) -> None:
    assert side.placed("over", traceless(model(who(""), ANSWERING_CONFIG))) is None
    config = side.config("over")
    assert not isinstance(config, Failure)
    marked = json.dumps({**config, "parameters": {"mark": {"string_value": "x"}}})

    def mark() -> bool:
        found = side.config("over")
        assert not isinstance(found, Failure)
        return bool(found["parameters"])

    before = answers(side, "over")
    assert side.load("over", json.dumps(config)) is None
    assert answers(side, "over") == before  # it says what the file says
    assert side.load("over", marked) is None
    after = answers(side, "over")
    assert after[1] != before[1]
    assert side.load("over") is None
    assert (mark(), answers(side, "over")) == (True, after)
    write(side, "over", "config.pbtxt", ANSWERING_CONFIG + "# touched\n")
    assert side.load("over") is None
    assert not mark()
    side.unload("over")


@rule("5.11.3", "5.11.7")
def test_what_exists_through_files_alone_is_not_in_the_repository(side: Client) -> None:
    config_text = (
        '{"backend": "python", "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],'
        ' "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]}]}'
    )
    files = {f"file:{number}/model.py": who(f"v{number}").encode() for number in (2, 5)}
    assert side.load("ghost", config_text, files) is None
    assert answers(side, "ghost")[2] == "v5"
    assert states(side, "ghost") == {}
    failure = side.load("ghost")
    assert failure is not None
    assert failure.text == "failed to load 'ghost', failed to poll from model repository"
    assert answers(side, "ghost")[2] == "v5"
    side.unload("ghost")


# -- ensembles


def ensemble(*models: str, version: int = -1) -> Files:
    """Return an ensemble of models that all read `IN`; the last one's answer is the ensemble's."""
    steps = []
    for number, name in enumerate(models):
        target = "OUT" if number == len(models) - 1 else f"UNUSED{number}"
        maps = f'input_map {{ key: "IN" value: "IN" }} output_map {{ key: "OUT" value: "{target}" }}'
        steps.append(f'step {{ model_name: "{name}" model_version: {version} {maps} }}')
    text = f"""platform: "ensemble"
input {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }}
ensemble_scheduling {{ {" ".join(steps)} }}
"""
    return {"config.pbtxt": text, "1/empty": ""}


READY = [("1", "READY")]
GONE = [("1", "UNAVAILABLE", "unloaded")]


@rule("5.7.4", "5.11.5")
def test_an_ensemble_follows_its_models(side: Client) -> None:
    side.place("part", model(who("a"), ANSWERING_CONFIG))
    side.place("whole", ensemble("part"))
    side.place("outer", ensemble("whole"))
    assert side.load("outer") is None
    names = ("part", "whole", "outer")
    assert states(side, *names) == dict.fromkeys(names, READY)
    assert side.unload("part") is None
    assert settled(side, *names) == dict.fromkeys(names, GONE)
    no_versions = "Request for unknown model: 'outer' has no available versions"
    assert answers(side, "outer") == ("NOT_FOUND", no_versions)
    assert side.load("part") is None
    assert states(side, *names) == dict.fromkeys(names, READY)
    write(side, "part", "1/model.py", who("b"))
    assert side.load("part") is None
    assert answers(side, "outer")[2] == "b"
    write(side, "part", "config.pbtxt", ANSWERING_CONFIG.replace("TYPE_STRING", "TYPE_INT32"))
    assert side.load("part") is None  # it serves, and the ensembles wait for one that fits
    assert settled(side, *names) == {"part": READY, "whole": GONE, "outer": GONE}
    write(side, "part", "config.pbtxt", ANSWERING_CONFIG)
    assert side.load("part") is None
    assert answers(side, "outer")[2] == "b"
    assert side.unload("outer", dependents=True) is None
    assert settled(side, *names) == {"part": READY, "whole": GONE, "outer": GONE}  # part was loaded by its name
    side.unload("part")


@rule("5.7.4")
def test_a_load_of_an_ensemble_loads_what_has_changed_in_it(side: Client) -> None:
    side.place("part", model(who("a"), ANSWERING_CONFIG))
    side.place("whole", ensemble("part"))
    side.place("outer", ensemble("whole"))
    assert side.load("outer") is None
    for name, source in (("whole", "b"), ("outer", "c")):  # itself unchanged, and the model deep inside
        write(side, "part", "1/model.py", who(source))
        assert side.load(name) is None
        assert [answers(side, each)[2] for each in ("part", "whole", "outer")] == [source] * 3
    assert side.unload("outer") is None
    write(side, "part", "1/model.py", who("d"))
    assert side.load("outer") is None
    assert [answers(side, each)[2] for each in ("part", "whole", "outer")] == ["d"] * 3
    write(side, "part", "1/model.py", "1 / 0")
    assert side.load("whole") is None  # what was loaded goes on
    assert answers(side, "outer")[2] == "d"
    write(side, "part", "config.pbtxt", "nonsense: 1")
    failure = side.load("whole")
    assert failure is not None
    text = "failed to load 'whole', failed to poll from model repository"
    assert (failure.code, failure.text) == ("INTERNAL", text)
    assert answers(side, "outer")[2] == "d"
    for name in ("outer", "whole", "part"):
        side.unload(name)


@rule("5.11.5")
def test_unload_dependents_takes_what_no_load_named(side: Client) -> None:
    side.place("part", model(who("a"), ANSWERING_CONFIG))
    side.place("whole", ensemble("part"))
    assert side.load("whole") is None
    assert side.unload("whole") is None
    assert settled(side, "part", "whole") == {"part": READY, "whole": GONE}
    assert side.load("whole") is None
    assert side.load("part") is None  # nothing to do, and it protects nothing
    assert side.unload("whole", dependents=True) is None
    assert settled(side, "part", "whole") == {"part": GONE, "whole": GONE}


@rule("5.7.3", "5.7.4")
def test_an_ensemble_of_a_model_that_fails_waits_for_it(side: Client) -> None:
    side.place("weak", model("1 / 0", ANSWERING_CONFIG))
    side.place("hopes", ensemble("weak"))
    failure = side.load("hopes")
    assert failure is not None
    start = (
        "load failed for model 'hopes': ensemble 'hopes' depends on 'weak' which has no loaded version. Model 'weak' "
        "loading failed with error: version 1 is at UNAVAILABLE state: Internal: ZeroDivisionError: division by zero\n"
    )
    assert (failure.code, failure.text[: len(start)], failure.text[-2:]) == ("INVALID_ARG", start, ";\n")
    assert states(side, "hopes") == {"hopes": [()]}
    write(side, "weak", "config.pbtxt", "nonsense: 1")
    failure = side.load("hopes")
    assert failure is not None
    assert failure.text == "failed to load 'hopes', failed to poll from model repository"
    side.place("weak", model(who("strong"), ANSWERING_CONFIG))
    assert side.load("weak") is None
    assert answers(side, "hopes")[2] == "strong"
    side.place("hopes", ensemble("weak", version=7))
    failure = side.load("hopes")
    assert failure is not None
    assert failure.text == (
        "load failed for model 'hopes': ensemble 'hopes' depends on 'weak' whose required version 7 is not loaded.\n"
    )
    assert settled(side, "hopes") == {"hopes": GONE}  # unlike other models, it does not keep what it was
    side.unload("hopes")
    side.unload("weak")
