from __future__ import annotations

import pytest

from tests.stub.fake_bridge import FakeBridge, refusal
from tritonlab.stub._pb_stub.api.bridge import call_server
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.wire.message_bodies import LoadModel, MetricOp


def test_the_answer_is_the_servers(fake_bridge: FakeBridge) -> None:
    fake_bridge.answers["METRIC_OP"] = 4.0
    assert call_server("Metric.value", "no: ", MetricOp(1, "value", 0.0)) == 4.0
    assert fake_bridge.calls == [("METRIC_OP", [1, "value", 0.0])]


def test_a_refusal_gets_the_callers_prefix(fake_bridge: FakeBridge) -> None:
    fake_bridge.answers["METRIC_OP"] = refusal("Failed to process the request for model 'm_0_0', message: no")
    with pytest.raises(TritonModelException) as error:
        call_server("Metric.set", "Failed to set metric value: ", MetricOp(1, "set", 0.0))
    assert str(error.value) == (
        "Failed to set metric value: Failed to process the request for model 'm_0_0', message: no"
    )
    assert error.value.__suppress_context__  # an author has no use for our own traceback


@pytest.mark.rule("1.18.2")
@pytest.mark.parametrize("phase", ["import", "auto_complete"])
def test_where_triton_waits_for_ever_the_call_is_refused(fake_bridge: FakeBridge, phase: str) -> None:
    fake_bridge.phase = phase
    with pytest.raises(TritonModelException, match="load_model is not available during"):
        call_server("load_model", "", LoadModel("m", "", {}))
    assert fake_bridge.calls == []
