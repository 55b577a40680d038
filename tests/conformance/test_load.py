"""Loading, reloading and unloading: what fails, with which texts, and what goes on serving."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from .clients import Client, Failure, Files
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, config, model
from .rules import rule

PLAIN = config("IN INT32 1", "OUT INT32 1")

#: Answers with what the body of `initialize` left in `self.answer`.
ANSWERING = """
import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        {}

    def execute(self, requests):
        answer = pb_utils.Tensor("OUT", np.array([json.dumps(self.answer)], dtype=object))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""
ANSWERING_CONFIG = config("IN INT32 1", "OUT STRING 1")


def raising(where: str, statement: str) -> str:
    """Return a model that runs `statement` in the method `where`, on line 8."""
    return f"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    {"@staticmethod" if where == "auto_complete_config" else ""}
    def {where}({dict(auto_complete_config="config", initialize="self, args", __init__="self")[where]}):
        {statement}

    def execute(self, requests):
        pass
"""


def answer_of(client: Client, name: str) -> Any:
    answer = client.infer(name, {"IN": np.zeros(1, dtype=np.int32)})
    assert answer.error == ""
    return json.loads(answer.outputs["OUT"][0])


AT = "\n\nAt:\n  <repository>/m/1/"

#: model directory, what stands after `version 1 is at UNAVAILABLE state: `; `...` stands for frames of the interpreter
MODEL_ERRORS: dict[str, tuple[Files, str]] = {
    "import error": (
        model("import notthere\n", PLAIN),
        "Internal: ModuleNotFoundError: No module named 'notthere'" + AT + "model.py(1): <module>\n...",
    ),
    "syntax error": (
        model("def f(:\n    pass\n", PLAIN),
        "Internal: SyntaxError: invalid syntax (model.py, line 1)...",
    ),
    "exception at import": (
        model("x = 1\nraise ValueError('at import')\n", PLAIN),
        "Internal: ValueError: at import" + AT + "model.py(2): <module>\n...",
    ),
    "class missing": (
        model("class Other:\n    pass\n", PLAIN),
        "Internal: AttributeError: module '1.model' has no attribute 'TritonPythonModel'",
    ),
    "another thing in the module's place": (
        model("import sys\nclass Other:\n    pass\nsys.modules[__name__] = Other\n", PLAIN),
        "Internal: AttributeError: type object 'Other' has no attribute 'TritonPythonModel'",
    ),
    "constructor wants an argument": (
        model("class TritonPythonModel:\n    def __init__(self, x):\n        pass\n", PLAIN),
        "Internal: TypeError: TritonPythonModel.__init__() missing 1 required positional argument: 'x'",
    ),
    "constructor raises": (
        model(raising("__init__", "raise ValueError('in init')"), PLAIN),
        "Internal: ValueError: in init" + AT + "model.py(8): __init__\n",
    ),
    "initialize raises": (
        model(raising("initialize", "raise ValueError('init boom')"), PLAIN),
        "Internal: ValueError: init boom" + AT + "model.py(8): initialize\n",
    ),
    "initialize raises TritonModelException": (
        model(raising("initialize", "raise pb_utils.TritonModelException('init tme')"), PLAIN),
        "Internal: TritonModelException: init tme" + AT + "model.py(8): initialize\n",
    ),
    "initialize exits": (
        model(raising("initialize", "raise SystemExit(3)"), PLAIN),
        "Internal: SystemExit: 3" + AT + "model.py(8): initialize\n",
    ),
    "initialize ends the process": (
        model(raising("initialize", "import os; os._exit(1)"), PLAIN),
        "Internal: Stub process 'm_0_0' is not healthy.",
    ),
    "auto_complete_config raises": (
        model(raising("auto_complete_config", "raise ValueError('acc')"), PLAIN),
        "Internal: ValueError: acc" + AT + "model.py(8): auto_complete_config\n",
    ),
    "auto_complete_config returns nothing": (
        model(raising("auto_complete_config", "pass"), PLAIN),
        "Internal: auto_complete_config function in model 'm' must return a valid pb.ModelConfig object.",
    ),
    "auto_complete_config returns the dict": (
        model(raising("auto_complete_config", "return config.as_dict()"), PLAIN),
        "Internal: auto_complete_config function in model 'm' must return a valid pb.ModelConfig object.",
    ),
    "auto_complete_config conflicts": (
        model(
            raising(
                "auto_complete_config",
                "config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [1]})",
            ),
            PLAIN,
        ),
        "Internal: ValueError: unable to load model 'm', configuration expects datatype TYPE_INT32 for input 'IN',"
        " model provides TYPE_FP32\n\nAt:\n  ...",
    ),
    "a C++ name at import": (
        model("import triton_python_backend_utils as pb_utils\n\nx = pb_utils.InferenceResponse\n", PLAIN),
        "Internal: AttributeError: module 'triton_python_backend_utils' has no attribute 'InferenceResponse'\n\nAt:\n"
        "  <repository>/m/1/model.py(3): <module>\n...",
    ),
    "dims of zero": (
        model(ADD_SUB, config("IN INT32 0", "OUT INT32 1")),
        "Invalid argument: model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
        " for m",
    ),
    "a GPU where there is none": (
        model(ADD_SUB, config("IN INT32 1", "OUT INT32 1", "instance_group { kind: KIND_GPU }")),
        "Invalid argument: instance group m_0 of model m has kind KIND_GPU but ...",
    ),
    "no such backend": (
        {"1/model.py": ADD_SUB, "config.pbtxt": PLAIN.replace('"python"', '"nope"')},
        "Invalid argument: unable to find backend library for backend 'nope', try specifying runtime on the model"
        " configuration.",
    ),
}


@pytest.fixture(scope="module")
def model_failures(side: Client) -> dict[str, Failure | None]:
    """Return the failures of MODEL_ERRORS, each with `m` for the model's name. Several are loaded at a time, as a
    load of Triton mostly sleeps."""
    names = {case: f"failing_{number}_" for number, case in enumerate(MODEL_ERRORS)}
    found = side.load_all({names[case]: files for case, (files, _) in MODEL_ERRORS.items()})
    for name in names.values():
        side.unload(name)
    return {
        case: failure and replace(failure, text=failure.text.replace(name, "m"))
        for case, (name, failure) in zip(MODEL_ERRORS, found.items(), strict=True)
    }


@rule("2.5.1", "2.5.2", "2.5.5", "2.5.7", "2.1.3", "1.1.2", "2.4.1", "2.4.2", "2.4.4", "5.3.2", "1.17.2", "2.8.4")
@pytest.mark.parametrize("case", MODEL_ERRORS)
def test_a_model_that_fails_to_load_says_why(model_failures: dict[str, Failure | None], case: str) -> None:
    failure = model_failures[case]
    assert failure is not None
    expected = f"load failed for model 'm': version 1 is at UNAVAILABLE state: {MODEL_ERRORS[case][1]};\n"
    pattern = re.escape(expected).replace(re.escape("..."), "(?s:.*)")
    assert failure.code == "INVALID_ARG"
    assert re.fullmatch(pattern, failure.text), failure.text


@rule("2.5.1")
def test_all_versions_that_fail_to_load_say_why_in_one_line(side: Client) -> None:
    text = "max_batch_size: 4 version_policy { all {} }"
    files = {"1/model.py": ADD_SUB, "2/model.py": ADD_SUB, "config.pbtxt": config("IN INT32 0", "OUT INT32 1", text)}
    failure = side.placed("two", files)
    side.unload("two")
    assert failure is not None
    found = re.fullmatch(r"load failed for model 'two': version (.) (.*;)version (.) (.*;)\n", failure.text)
    why = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension for two;"
    text = f"is at UNAVAILABLE state: Invalid argument: model input 'IN' {why}"
    assert found is not None
    # 2.51 says them in the order in which they failed
    assert sorted(zip(found.groups()[::2], found.groups()[1::2], strict=True)) == [("1", text), ("2", text)]


#: model directory, the hidden reason
POLL_ERRORS: dict[str, tuple[Files, str]] = {
    "unknown field": (
        model(ADD_SUB, ADD_SUB_CONFIG + "nonsense: 1\n"),
        "failed to read text proto from <repository>/m/config.pbtxt",
    ),
    "unknown type": (
        model(ADD_SUB, config("IN FOO 1", "OUT INT32 1")),
        "failed to read text proto from <repository>/m/config.pbtxt",
    ),
    "syntax": (model(ADD_SUB, "backend: {"), "failed to read text proto from <repository>/m/config.pbtxt"),
    "another name": (
        model(ADD_SUB, ADD_SUB_CONFIG + 'name: "other"\n'),
        "unexpected directory name 'm' for model 'other', directory name must equal model name",
    ),
    "negative batch size": (
        model(ADD_SUB, config("IN INT32 1", "OUT INT32 1", "max_batch_size: -1", CPU)),
        "'max_batch_size' must be non-negative value for m",
    ),
    "preferred size too large": (
        model(
            ADD_SUB,
            config("IN INT32 1", "OUT INT32 1", "max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }", CPU),
        ),
        "dynamic batching preferred size must be <= max batch size for m",
    ),
}


@rule("2.5.3", "2.5.4", "5.3.1")
@pytest.mark.parametrize("case", POLL_ERRORS)
def test_a_config_that_is_refused_hides_its_reason_from_the_client(side: Client, case: str) -> None:
    files, reason = POLL_ERRORS[case]
    failure = side.placed("m", files)
    side.unload("m")
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", "failed to load 'm', failed to poll from model repository")
    # Where the text cannot be parsed, ours goes on to say where and why.
    assert failure.reason.startswith(reason)


@rule("2.5.4", "5.11.5")
def test_an_unknown_model_cannot_be_loaded_and_may_be_unloaded(side: Client) -> None:
    failure = side.load("nobody")
    assert failure is not None
    assert (failure.code, failure.text) == (
        "INTERNAL",
        "failed to load 'nobody', failed to poll from model repository",
    )
    assert side.unload("nobody") is None


@rule("2.1.1")
def test_a_model_without_a_version_cannot_be_loaded(side: Client) -> None:
    failure = side.placed("m", {"config.pbtxt": PLAIN, "abc/model.py": ADD_SUB, "01/model.py": ADD_SUB})
    assert failure is not None
    assert (failure.code, failure.text) == (
        "INVALID_ARG",
        "load failed for model 'm': at least one version must be available under the version policy of model 'm'\n",
    )
    side.unload("m")


@rule("5.11.6")
@pytest.mark.parametrize(
    ("policy", "versions"),
    [
        ("", ["3"]),
        ("version_policy { }", ["1", "2", "3"]),
        ("version_policy { all { } }", ["1", "2", "3"]),
        ("version_policy { latest { num_versions: 2 } }", ["2", "3"]),
        ("version_policy { specific { versions: [ 1, 3, 9 ] } }", ["1", "3"]),
    ],
)
def test_the_policy_selects_the_versions(side: Client, policy: str, versions: list[str]) -> None:
    files = {"config.pbtxt": ADD_SUB_CONFIG + policy, **{f"{n}/model.py": ADD_SUB for n in (1, 2, 3)}}
    assert side.placed("chosen", files) is None
    found = side.metadata("chosen")
    assert not isinstance(found, Failure)
    assert found["versions"] == versions
    side.unload("chosen")


@rule("2.5.8", "5.11.2", "2.8.1")
def test_a_failed_reload_keeps_the_last_good_version_serving(side: Client) -> None:
    answering = ANSWERING.format('self.answer = "{}"')
    assert side.placed("swap", model(answering.replace("{}", "first"), ANSWERING_CONFIG)) is None
    assert answer_of(side, "swap") == "first"
    failure = side.placed("swap", model("import notthere\n", ANSWERING_CONFIG))
    assert failure is not None
    assert "ModuleNotFoundError" in failure.text
    assert answer_of(side, "swap") == "first"
    assert [(e["state"], e.get("reason", "")) for e in side.index() if e["name"] == "swap"] == [("READY", "")]
    assert side.placed("swap", model(answering.replace("{}", "second"), ANSWERING_CONFIG)) is None
    assert answer_of(side, "swap") == "second"
    side.unload("swap")


@rule("2.3.1", "2.3.2", "2.1.4", "2.1.5", "1.1.5")
def test_the_model_finds_itself_as_in_triton(side: Client) -> None:
    source = ANSWERING.format(
        "args = dict(args, model_config=sorted(json.loads(args['model_config'])))\n"
        "        added = [p for p in sys.path if p.startswith(args['model_repository'])]\n"
        "        self.answer = [args, __name__, __file__, sys.argv, added, pb_utils.get_model_dir()]"
    )
    assert side.placed("self", model(source, ANSWERING_CONFIG)) is None
    args, name, file, argv, added, directory = answer_of(side, "self")
    keys = args.pop("model_config")
    assert {"name", "input", "output", "instance_group", "optimization", "version_policy"} <= set(keys)
    assert {k: side.plain(v) for k, v in args.items()} == {
        "model_instance_kind": "CPU",
        "model_instance_name": "self_0_0",
        "model_instance_device_id": "0",
        "model_repository": "<repository>/self",
        "model_version": "1",
        "model_name": "self",
    }
    assert (name, side.plain(file), argv) == ("1.model", "<repository>/self/1/model.py", [""])
    assert [side.plain(p) for p in added] == ["<repository>/self/1", "<repository>/self"]
    assert side.plain(directory) == "<repository>/self/1"
    side.unload("self")


@rule("2.3.2", "5.1.4", "2.1.6")
def test_instances_are_named_by_group_and_each_has_its_own_process(side: Client) -> None:
    source = ANSWERING.format("self.answer = [args['model_instance_name'], os.getpid()]")
    groups = 'instance_group [ { kind: KIND_CPU count: 2 }, { name: "mine" kind: KIND_CPU } ]'
    assert side.placed("many", model(source, config("IN INT32 1", "OUT STRING 1", groups))) is None
    # One request at a time goes to any free instance: send until each has answered, each with one process.
    instances: set[tuple[str, int]] = set()
    for _ in range(200):
        pending = [side.submit("many", {"IN": np.zeros(1, dtype=np.int32)}) for _ in range(6)]
        instances |= {tuple(json.loads(p.answer.result(30).outputs["OUT"][0])) for p in pending}
        if len(instances) == 3:
            break
    assert {name for name, _ in instances} == {"many_0_0", "many_0_1", "mine_0"}
    assert len({pid for _, pid in instances}) == 3
    side.unload("many")


@rule("2.3.2", "5.1.4")
def test_without_an_instance_group_the_instance_is_named_after_the_model(side: Client) -> None:
    source = ANSWERING.format("self.answer = args['model_instance_name']")
    text = ANSWERING_CONFIG.replace(CPU, "")
    assert side.placed("bare", model(source, text)) is None
    assert answer_of(side, "bare") == "bare_0"
    side.unload("bare")


STEPS = """
import json, os, time
import triton_python_backend_utils as pb_utils

FILE = %r


def step(what):
    with open(FILE, "a") as file:
        file.write(json.dumps([os.getpid(), what]) + "\\n")


step("import")


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        step("auto_complete_config")
        return config

    def __init__(self):
        step("construct")

    def initialize(self, args):
        step("initialize")
        end = time.monotonic() + 8
        while open(FILE).read().count("initialize") < 2:
            assert time.monotonic() < end, "the other instance waits for this one"
            time.sleep(0.005)

    def execute(self, requests):
        step("warm up")
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""
WARMUP = """
model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_INT32 dims: 1 zero_data: true } } }
"""


@rule("2.2", "2.2.1", "5.8.1")
def test_the_steps_of_a_load(side: Client) -> None:
    """In a process of its own the configuration is completed; then all instances start at once, and are warmed up."""
    file = side.repository.parent / f"{side.repository.name}.steps"
    group = "instance_group { kind: KIND_CPU count: 2 }"
    assert side.placed("steps", model(STEPS % str(file), config("IN INT32 1", "OUT INT32 1", group, WARMUP))) is None
    steps: dict[int, list[str]] = {}
    for line in file.read_text().splitlines():
        pid, what = json.loads(line)
        steps.setdefault(pid, []).append(what)
    completed = ["import", "auto_complete_config"]
    instance = ["import", "construct", "initialize", "warm up"]
    assert sorted(steps.values()) == sorted([completed, instance, instance])
    side.unload("steps")


@rule("2.4.3", "2.4.5", "2.4.1", "1.17.1", "1.17.2", "2.2.1")
def test_a_model_may_bring_its_whole_config(side: Client) -> None:
    source = (
        ANSWERING.format("self.answer = 1")
        + """
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(0)
        config.as_dict()["instance_group"] = [{"count": 3}]
        config.as_dict()["parameters"] = {"lost": {"string_value": "x"}}
        return config
"""
    )
    assert side.placed("auto", {"1/model.py": source}) is None
    assert answer_of(side, "auto") == 1
    found = side.config("auto")
    assert not isinstance(found, Failure)
    assert (found["backend"], found["parameters"], found["instance_group"][0]["count"]) == ("python", {}, 1)
    side.unload("auto")


@rule("2.1.5")
def test_helper_files_may_stand_beside_the_model_or_above_it(side: Client) -> None:
    source = "import above\nimport beside\n" + ANSWERING.format("self.answer = [above.WHERE, beside.WHERE]")
    files = model(source, ANSWERING_CONFIG, **{"above.py": "WHERE = 1\n", "1/beside.py": "WHERE = 2\n"})
    assert side.placed("helped", files) is None
    assert answer_of(side, "helped") == [1, 2]
    side.unload("helped")


@rule("5.11.7", "5.11.5")
def test_the_index_tells_the_state_of_every_version(side: Client) -> None:
    def entries(name: str) -> list[dict[str, object]]:
        return [e for e in side.index() if e["name"] == name]

    side.place("seen", model(ADD_SUB, ADD_SUB_CONFIG))
    assert entries("seen") == [{"name": "seen"}]
    assert side.load("seen") is None
    assert entries("seen") == [{"name": "seen", "version": "1", "state": "READY"}]
    side.placed("unseen", model("import notthere\n", PLAIN))
    (entry,) = entries("unseen")
    assert (entry["version"], entry["state"]) == ("1", "UNAVAILABLE")
    assert str(entry["reason"]).startswith("Internal: ModuleNotFoundError: No module named 'notthere'")
    side.unload("seen")
    side.unload("unseen")


@rule("2.8.1", "2.8.2")
def test_finalize_runs_at_unload_and_may_raise(side: Client) -> None:
    source = (
        ANSWERING.format("self.answer = 1; self.path = args['model_repository']")
        + """
    def finalize(self):
        open(self.path + "/finalized", "w").close()
        raise ValueError("ignored")
"""
    )
    assert side.placed("ends", model(source, ANSWERING_CONFIG)) is None
    assert side.unload("ends") is None
    marker = side.repository / "ends" / "finalized"
    for _ in range(100):
        if marker.exists():
            return
        time.sleep(0.1)  # unloading is asynchronous and offers nothing to wait on (rule 5.11.5)
    raise AssertionError("finalize did not run")


@rule("5.11.3")
def test_a_config_sent_with_the_load_replaces_the_file(side: Client) -> None:
    side.place("over", model(ADD_SUB, ADD_SUB_CONFIG))
    config_text = '{"backend": "python", "max_batch_size": 8, "instance_group": [{"kind": "KIND_CPU"}]}'
    assert side.load("over", config_text) is None
    found = side.config("over")
    assert not isinstance(found, Failure)
    assert (found["max_batch_size"], found["input"]) == (8, [])
    side.unload("over")


#: What a model does in `initialize` that Triton's stub for Python 3.11 lets it do.
PRINTS = {
    "stdout": "print('gr\u00fc\u00dfe')",
    "reconfigured": "import sys; sys.stdout.reconfigure(encoding='utf-8'); print('gr\u00fc\u00dfe')",
    "stderr": "import sys; print('gr\u00fc\u00dfe', file=sys.stderr)",
    "logger": "pb_utils.Logger.log_info('gr\u00fc\u00dfe')",
}


@rule("2.9.2")
def test_names_that_both_servers_load(side: Client) -> None:
    """Of others 2.51 executes a part as a command, waits for ever, or finds no module (rule 2.9.2)."""
    name = "-a+b,c=d:e@f%20^_.9"
    assert side.placed(name, model(ANSWERING, ANSWERING_CONFIG)) is None
    assert {"name": name, "version": "1", "state": "READY"} in side.index()
    side.unload(name)
    failure = side.placed("\u00e9", model(ANSWERING, ANSWERING_CONFIG))
    if side.side == "real":
        assert failure is not None and "'ascii' codec can't encode character" in failure.text
    else:
        assert failure is None
    side.unload("\u00e9")


@rule("2.1.8")
@pytest.mark.parametrize("how", PRINTS)
def test_what_is_not_ascii_is_not_printed_by_triton(side: Client, how: str) -> None:
    failure = side.placed("prints", model(raising("initialize", PRINTS[how]), PLAIN))
    side.unload("prints")
    if side.side == "lab" or how != "stdout":
        assert failure is None
        return
    assert failure is not None
    refused = "UnicodeEncodeError: 'ascii' codec can't encode characters in position 2-3: ordinal not in range(128)"
    assert f"Internal: {refused}\n\nAt:\n" in failure.text
