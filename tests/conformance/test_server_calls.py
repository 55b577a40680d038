"""The calls of a model to its server: log records (rule 1.13), the text of its metrics (1.14) and model control
(1.15)."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .clients import LOADING, Client, Failure
from .lab_client import LabClient
from .models import CPU, SCRIPTED, config, model
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule
from .scripts import TENSORS, eventually, run, script

#: Logs on line 7, in the process that is thrown away.
COMPLETES = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        pb_utils.Logger.log_warn("logged while completing")
        return config

    def execute(self, requests):
        pass
"""

#: Logs on line 5, when it is initialized.
LOGS = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        pb_utils.Logger.log_info("from the file")

    def execute(self, requests):
        pass
"""

#: Loads slowly and ends slowly; tells how far it is in files.
STEPS = """
import os, time

class TritonPythonModel:
    def initialize(self, args):
        self.path = args["model_repository"]
        time.sleep(0.05)
        open(self.path + "/initialized", "w").close()

    def execute(self, requests):
        pass

    def finalize(self):
        while not os.path.exists(self.path + "/go"):
            time.sleep(0.002)
        open(self.path + "/finalized", "w").close()
"""

MODELS = {
    "calls": model(SCRIPTED, config(*TENSORS)),
    "logs": model(LOGS, config(*TENSORS)),
    "completes": model(COMPLETES, config(*TENSORS)),
    "tagged": model(SCRIPTED, config(*TENSORS, 'metric_tags { key: "team" value: "a b" }', CPU)),
}


# the logger

LEVELS = {"info": "I", "warn": "W", "error": "E", "verbose": "I", "default": "I", "with a level": "E"}


@rule("1.13.2", "1.13.3")
def test_a_record_has_the_callers_file_and_line_and_every_level_is_forwarded(client: Client) -> None:
    body = (
        "L = pb_utils.Logger\n"
        "L.log_info('level info')\n"
        "L.log_warn('level warn'); L.log_error('level error'); L.log_verbose('level verbose')\n"
        "L.log('level default'); L.log('level with a level', L.ERROR)\n"
        "return reply(1)"
    )
    client.log_verbosely(True)
    run(client, "calls", body)
    found = {word: eventually(partial(client.logged, f"level {word}")) for word in LEVELS}
    client.log_verbosely(False)
    line = found["info"][0].line
    offsets = {"info": 0, "warn": 1, "error": 1, "verbose": 1, "default": 2, "with a level": 2}
    assert found == {word: [(letter, "<string>", line + offsets[word])] for word, letter in LEVELS.items()}


@rule("1.13.2")
def test_a_record_of_the_model_file_names_it(client: Client) -> None:
    assert eventually(lambda: client.logged("from the file")) == [("I", "model.py", 5)]


@rule("1.13.4", "1.18")
def test_while_completing_it_logs_to_stderr(client: Client) -> None:
    text = eventually(lambda: re.search(r"^.*logged while completing.*$", client.log(), re.MULTILINE))[0]
    assert re.fullmatch(r"W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ model\.py:7\]  logged while completing", text), text


# the text of metrics


def lines_of(client: Client, name: str) -> list[str]:
    """Return the lines with `name` in them; Triton prints the samples of a family in no particular order."""
    lines = [line for line in client.metrics().splitlines() if name in line]
    head = [line for line in lines if line[0] == "#"]
    samples = [line for line in lines if line[0] != "#"]
    return [*head, *(samples if any("_bucket" in line for line in samples) else sorted(samples))]


#: what the script does with `F`, the MetricFamily, and what is printed then of names with `mt_`
METRICS = {
    "counter": (
        "f = F('mt_a', 'a counter, with words', F.COUNTER)\n"
        "f.Metric({'b': '1', 'a': '2'}).increment(3)\nf.Metric({'b': '2'}).increment(0.5)",
        [
            "# HELP mt_a a counter, with words",
            "# TYPE mt_a counter",
            'mt_a{a="2",b="1"} 3',
            'mt_a{b="2"} 0.5',
        ],
    ),
    "no labels": (
        "f = F('mt_b', 'd', F.GAUGE)\nf.Metric().set(-2)",
        ["# HELP mt_b d", "# TYPE mt_b gauge", "mt_b -2"],
    ),
    "escapes": (
        "f = F('mt_c', 'd', F.GAUGE)\nf.Metric({'a': 'q\"b\\\\s\\nn é'}).set(1)",
        ["# HELP mt_c d", "# TYPE mt_c gauge", 'mt_c{a="q\\"b\\\\s\\nn é"} 1'],
    ),
    "numbers": (
        "f = F('mt_d', 'd', F.GAUGE)\n"
        "numbers = (0.1, 1 / 3, 1e20, 123456789012345678, 1e-7, float('inf'), float('-inf'), float('nan'))\n"
        "for n, x in enumerate(numbers): f.Metric({'n': str(n)}).set(x)",
        [
            "# HELP mt_d d",
            "# TYPE mt_d gauge",
            *(
                f'mt_d{{n="{n}"}} {text}'
                for n, text in enumerate(
                    ["0.1", "0.3333333333333333", "1e+20", "1.234567890123457e+17", "1e-07", "+Inf", "-Inf", "Nan"]
                )
            ),
        ],
    ),
    "histogram": (
        "f = F('mt_e', 'd', F.HISTOGRAM)\nm = f.Metric({'a': 'b'}, [0.1, 1, 10])\n"
        "for x in (0.1, 0.5, 2, 100): m.observe(x)",
        [
            "# HELP mt_e d",
            "# TYPE mt_e histogram",
            'mt_e_count{a="b"} 4',
            'mt_e_sum{a="b"} 102.6',
            'mt_e_bucket{a="b",le="0.1"} 1',
            'mt_e_bucket{a="b",le="1"} 2',
            'mt_e_bucket{a="b",le="10"} 3',
            'mt_e_bucket{a="b",le="+Inf"} 4',
        ],
    ),
    "no metric": ("f = F('mt_f', 'd', F.COUNTER)", []),
    "empty description": (
        "f = F('mt_g', '', F.COUNTER)\nf.Metric()",
        ["# TYPE mt_g counter", "mt_g 0"],
    ),
}


@rule("1.14.8", "1.14.7")
@pytest.mark.parametrize("case", METRICS)
def test_metrics_are_printed_while_their_family_lives(client: Client, case: str) -> None:
    body, printed = METRICS[case]
    run(client, "calls", f"F = pb_utils.MetricFamily\n{body}\nself.family = f\nreturn reply(1)")
    assert lines_of(client, "mt_") == printed
    run(client, "calls", "self.family = None\ngc.collect()\nreturn reply(1)")
    eventually(lambda: "mt_" not in client.metrics())


@rule("1.14.8", "1.14.6")
def test_metrics_of_two_models_are_one_family(client: Client) -> None:
    body = (
        "self.family = pb_utils.MetricFamily('mt_both', 'd', pb_utils.MetricFamily.COUNTER)\n"
        "self.family.Metric().increment(1)\n"
        "self.family.Metric({'of': self.args['model_name']}).increment(1)\n"
        "return reply(1)"
    )
    for name in ("calls", "tagged"):
        run(client, name, body)
    samples = ["mt_both 2", 'mt_both{of="calls"} 1', 'mt_both{of="tagged"} 1']
    assert lines_of(client, "mt_both") == ["# HELP mt_both d", "# TYPE mt_both counter", *samples]
    for name in ("calls", "tagged"):
        run(client, name, "self.family = None\ngc.collect()\nreturn reply(1)")


@rule("1.14.8")
def test_metric_tags_become_labels_with_an_underscore(client: Client) -> None:
    run(client, "tagged", "return reply(1)")
    text = client.metrics()
    assert re.search(
        r'^nv_inference_request_success\{_team="a b",model="tagged",version="1"\} \d+$', text, re.MULTILINE
    )


@rule("1.14.7")
def test_lines_of_a_model_that_never_dropped_its_family_end_with_it_here(side: Client) -> None:
    """Better than Triton, where they stay for ever."""
    source = (
        "import triton_python_backend_utils as pb_utils\n\nclass TritonPythonModel:\n"
        "    def initialize(self, args):\n"
        "        self.family = pb_utils.MetricFamily('mt_left', 'd', pb_utils.MetricFamily.GAUGE)\n"
        "        self.metric = self.family.Metric()\n"
        "    def execute(self, requests):\n        pass\n"
        "    def finalize(self):\n        open('FILE', 'w').close()\n"
    )
    ended = side.repository / "measured"
    assert side.placed("measures", model(source.replace("FILE", str(ended)), config(*TENSORS))) is None
    assert lines_of(side, "mt_left")[2:] == ["mt_left 0"]
    side.unload("measures")
    eventually(ended.exists)
    eventually(lambda: [e["state"] for e in side.index() if e["name"] == "measures"] == ["UNAVAILABLE"])
    assert lines_of(side, "mt_left")[2:] == (["mt_left 0"] if side.side == "real" else [])


MEASURES = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("mt_reloaded", DESCRIPTION, pb_utils.MetricFamily.HISTOGRAM)
        self.metric = self.family.Metric(buckets=BUCKETS)
        self.metric.observe(4)
    def execute(self, requests):
        pass
"""


@rule("1.14.6")
def test_a_reload_changes_neither_description_nor_buckets(side: Client) -> None:
    """The version before it still has the family."""
    for description, buckets in (("'first'", "[1.0, 5.0]"), ("'second'", "[2.0]")):
        source = MEASURES.replace("DESCRIPTION", description).replace("BUCKETS", buckets)
        assert side.placed("reloads", model(source, config(*TENSORS))) is None
    lines = lines_of(side, "mt_reloaded")
    assert lines[0] == "# HELP mt_reloaded first"
    assert [line for line in lines if "le=" in line] == [
        'mt_reloaded_bucket{le="1"} 0',
        'mt_reloaded_bucket{le="5"} 2',
        'mt_reloaded_bucket{le="+Inf"} 2',
    ]
    side.unload("reloads")


@rule("1.14.9")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_refusals_of_the_server_hurt_nobody(client: Client) -> None:
    """Triton crashes at random where it refuses."""
    body = (
        "F = pb_utils.MetricFamily\n"
        "f = F('mr_a', 'd', F.COUNTER)\n"
        "m = f.Metric()\n"
        "def refused(call, *args):\n"
        "    try: call(*args)\n"
        "    except pb_utils.TritonModelException: return 1\n"
        "    return 0\n"
        "count = 0\n"
        "for _ in range(50):\n"
        "    count += refused(m.increment, -1) + refused(m.set, 1) + refused(f.Metric, {'bad-name': 'x'})\n"
        "    count += refused(F, 'bad name', 'd', F.GAUGE) + refused(F, 'mr_a', 'd', F.GAUGE)\n"
        "    count += refused(pb_utils.load_model, 'no_such_model')\n"
        "m.increment(1)\n"
        "return reply([count, m.value(), os.getpid()])"
    )
    count, value, pid = run(client, "calls", body)
    assert (count, value) == (300, 1.0)
    assert run(client, "calls", "return reply(os.getpid())") == pid


# model control


@rule("1.15.8", "1.15.1", "1.15.7")
def test_load_waits_for_the_load_and_unload_does_not_wait(client: Client) -> None:
    client.place("steps", model(STEPS, config(*TENSORS)))
    directory = client.repository / "steps"
    body = (
        "exists = lambda name: os.path.exists(path + '/' + name)\n"
        "ready = lambda version='': pb_utils.is_model_ready('steps', version)\n"
        "seen = [pb_utils.load_model('steps'), exists('initialized'), ready(), ready('1')]\n"
        "seen += [pb_utils.unload_model('steps'), ready(), exists('finalized')]\n"
        "mark(path + '/go')\n"
        "until(lambda: exists('finalized'))\n"
        "return reply(seen)"
    )
    unloading = run(client, "calls", body, LOADING, path=str(directory))
    assert unloading == [None, True, True, True, None, False, False]


def loading_from_memory(client: Client, source: str, files: str) -> Any:
    """Return what a model answers that another has loaded from `files`, an expression of its source."""
    tensors = '"input":[{"name":"CODE","data_type":"TYPE_STRING","dims":[1]}],'
    tensors += '"output":[{"name":"TEXT","data_type":"TYPE_STRING","dims":[1]}]'
    config = f'{{"backend":"python",{tensors},"instance_group":[{{"kind":"KIND_CPU"}}]}}'
    body = (
        f"pb_utils.load_model('from_memory', config, {files})\n"
        "answer = got(request_to('from_memory', code).exec())\n"
        "pb_utils.unload_model('from_memory')\n"
        "return reply(answer)"
    )
    return run(client, "calls", body, LOADING, source=source, config=config, code=ANSWERS_HERE)


ANSWERS_HERE = "return [pb_utils.InferenceResponse([pb_utils.Tensor('TEXT', np.array([b'here']))])]"


@rule("1.15.1", "1.15.2", "1.15.4")
def test_a_model_may_load_another_from_memory(client: Client) -> None:
    files = "{'ignored': b'x', 'file:1/model.py': source.encode()}"
    assert loading_from_memory(client, SCRIPTED, files) == {"TEXT": [b"here"]}


@rule("1.15.2")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_files_from_memory_may_be_several(client: Client) -> None:
    """Triton garbles all contents but the last (measured on 2.51)."""
    files = "{'file:1/model.py': ('import beside\\n' + source).encode(), 'file:1/beside.py': b'x = 1'}"
    assert loading_from_memory(client, SCRIPTED, files) == {"TEXT": [b"here"]}


@rule("1.15.5")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_models_are_loaded_in_the_explicit_mode_only(
    request: pytest.FixtureRequest, tmp_path: Path, program: str
) -> None:
    repository = tmp_path / "repository"
    for path, text in MODELS["calls"].items():
        (repository / "calls" / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / "calls" / path).write_text(str(text))
    if program == "lab":
        lab = LabClient(repository, model_control_mode="none")
        refused(lab)
        lab.close()
        return
    request.getfixturevalue("real")  # skips where there is none
    with ReferenceServer(repository, tmp_path, ["--model-control-mode=none"]) as server:
        real = RealClient(server)
        eventually(lambda: real.ready("calls"))
        refused(real)
        real.close()


def refused(client: Client) -> None:
    text = "explicit model load / unload is not allowed if polling is enabled"
    assert client.load("calls") == client.unload("calls") == Failure("UNAVAILABLE", text, text)
    answer = client.infer("calls", script("pb_utils.load_model('calls')"))
    if client.side == "real" and (answer.code == "UNAVAILABLE" or "is not healthy" in answer.error):
        return  # its stub, or all of it, crashes at random where it refuses (rule 1.14.9)
    message = f"Failed to load model: Failed to process the request for model 'calls_0_0', message: {text}"
    assert f"TritonModelException: {message}\n" in answer.error
