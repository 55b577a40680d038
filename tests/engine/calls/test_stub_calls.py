"""Calls of real stubs to the server: metrics, the end of metrics, and traces."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.serving import SCRIPTED, SCRIPTED_CONFIG, Lab, Script, eventually
from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.core.status import ModelLoadError

MAKE = "self.kept['f'] = pb_utils.MetricFamily({!r}, 'd', pb_utils.MetricFamily.COUNTER)\n"
COUNT = "self.kept['m'] = self.kept['f'].Metric({'a': 'b'})\nself.kept['m'].increment(1)\nreturn [answer()]"


def made(lab: Lab, name: str, family: str) -> Script:
    script = Script(lab.load(name, SCRIPTED, SCRIPTED_CONFIG))
    script(MAKE.format(family) + COUNT)
    assert f'{family}{{a="b"}} 1' in lab.server.metrics()
    return script


def test_the_metrics_of_a_stub_end_with_it(lab: Lab) -> None:  # Triton's vanish with the last family object
    dead = made(lab, "dead", "of_dead")
    os.kill(dead.pid, signal.SIGKILL)
    eventually(lambda: "of_dead" not in lab.server.metrics())
    eventually(dead.model.ready)
    dead(MAKE.format("of_dead").replace("COUNTER", "GAUGE") + COUNT)  # the name is free again
    assert "# TYPE of_dead gauge" in lab.server.metrics()


@pytest.mark.rule("1.14.7")
def test_the_metrics_of_a_model_end_with_it(lab: Lab) -> None:
    made(lab, "unloaded", "of_unloaded")
    lab.server.unload("unloaded")
    assert "of_unloaded" not in lab.server.metrics()


def test_metrics_that_others_hold_too_stay(lab: Lab) -> None:
    made(lab, "first", "of_both")
    second = Script(lab.load("second", SCRIPTED, SCRIPTED_CONFIG))
    second(MAKE.format("of_both") + COUNT)
    assert 'of_both{a="b"} 2' in lab.server.metrics()
    lab.server.unload("first")
    assert 'of_both{a="b"} 2' in lab.server.metrics()
    second("self.kept.clear()\nreturn [answer()]")
    eventually(lambda: "of_both" not in lab.server.metrics())


def test_the_metrics_of_a_failed_load_end_with_it(lab: Lab) -> None:
    source = SCRIPTED.replace(
        "        self.kept = {}\n", "        self.kept = {}\n        " + MAKE.format("of_failed") + "        1 / 0\n"
    )
    with pytest.raises(ModelLoadError, match="ZeroDivisionError"):
        lab.load("failed", source, SCRIPTED_CONFIG)
    assert "of_failed" not in lab.server.metrics()


HISTOGRAM = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("of_hist", "d", pb_utils.MetricFamily.HISTOGRAM)
        self.metric = self.family.Metric({"a": "b"}, buckets=BUCKETS)

    def execute(self, requests):
        pass
"""


@pytest.mark.rule("1.14.6")
def test_a_reload_cannot_change_buckets_and_says_so(lab: Lab) -> None:
    model = lab.load("hist", HISTOGRAM.replace("BUCKETS", "[1, 2]"))
    lab.load("hist", HISTOGRAM.replace("BUCKETS", "[1.0, 2.0]") + "# changed")
    assert [record for record in model.logs() if record.level == "WARNING"] == []
    lab.load("hist", HISTOGRAM.replace("BUCKETS", "[1, 5]"))
    (record,) = [record for record in model.logs() if record.level == "WARNING"]
    assert record.text.startswith("the histogram with the labels {'a': 'b'} keeps its buckets [1.0, 2.0] and does not")
    assert 'of_hist_bucket{a="b",le="2"}' in lab.server.metrics()
    lab.server.unload("hist")


@pytest.mark.rule("1.11.1")
def test_a_trace_reaches_the_model_and_those_it_calls(lab: Lab) -> None:
    script = lab.script()
    lab.script("traced")
    inner = "return [answer(TEXT=np.array([str(request.trace().get_context())], dtype=object))]"
    code = f"""
    inputs = [pb_utils.Tensor("CODE", np.array([{inner.encode()!r}], dtype=object))]
    texts = [request.trace().get_context()]
    for more in ({{"trace": request.trace()}}, {{}}):
        call = pb_utils.InferenceRequest(model_name="traced", requested_output_names=["TEXT"], inputs=inputs, **more)
        texts.append(call.exec().output_tensors()[0].as_numpy()[0].decode())
    return [answer(TEXT=np.array([str(t) for t in texts], dtype=object))]
    """
    settings = lab.server.core.trace_settings
    settings.start(TraceSetting(("TIMESTAMPS",), 1, mode="opentelemetry"))
    (response,) = script.model.infer(inputs={"CODE": [_dedented(code)]})
    own, called, untraced = [text.decode() for text in response.outputs["TEXT"].numpy()]
    (_, trace_id, span, flags), (_, called_id, called_span, _) = (
        json.loads(context)["traceparent"].split("-") for context in (own, called)
    )
    assert (len(trace_id), len(span), flags, untraced) == (32, 16, "01", "None")
    assert called_id == trace_id
    assert called_span != span
    settings.stop()
    assert script.text("request.trace().get_context()") == "None"


def _dedented(code: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in code.strip("\n").splitlines())
