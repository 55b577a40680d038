"""The record of what the server copies between host and (simulated) GPU for a request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models import executes
from tests.serving import Lab, config
from tritonlab.record.record_facts import DeviceCopies, device_copies
from tritonlab.record.recorder import Recorder
from tritonlab.record.recording import Recording
from tritonlab.stub._pb_stub.api.simulated_array import SimulatedArray

SIMULATED = "from _pb_stub.api.simulated_array import SimulatedArray"
#: Answers with its input where that is, or with new numbers on the device if the first number is negative.
MODEL = executes(
    """\
responses = []
for request in requests:
    out = request.inputs()[0]
    if out.is_cpu() and out.as_numpy()[0] < 0:
        out = SimulatedArray(np.ones(2, np.float32))
    responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", out)]))
return responses""",
    imports=SIMULATED,
)
#: Has the model `device` answer, and its output brought where it prefers.
CALLER = executes("""\
responses = []
for request in requests:
    memory = pb_utils.PreferredMemory(pb_utils.%s)
    call = pb_utils.InferenceRequest(
        model_name="device", inputs=request.inputs(), requested_output_names=["OUT"], preferred_memory=memory
    )
    responses.append(pb_utils.InferenceResponse(call.exec().output_tensors()))
return responses""")
ON_DEVICE = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'
NUMBERS = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"), simulated_gpus=1)
    lab.load("host", MODEL, config("IN FP32 -1", "OUT FP32 -1"))
    lab.load("device", MODEL, config("IN FP32 -1", "OUT FP32 -1", ON_DEVICE))
    lab.load("stream", STREAM, config("IN FP32 -1", "OUT FP32 -1", "model_transaction_policy { decoupled: true }"))
    yield lab
    lab.server.stop()


@pytest.fixture
def recording(gpus: Lab) -> Recording:
    recording = Recorder.for_instruments(gpus.server.instruments).recording
    recording.clear()
    return recording


#: Sends two responses on the device.
STREAM = executes(
    """\
for request in requests:
    sender = request.get_response_sender()
    for _ in range(2):
        out = pb_utils.Tensor.from_dlpack("OUT", SimulatedArray(np.ones(2, np.float32)))
        sender.send(pb_utils.InferenceResponse([out]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)""",
    imports=SIMULATED,
)


def test_an_input_that_is_forced_to_the_host(gpus: Lab, recording: Recording) -> None:
    assert gpus.server.model("host")(IN=SimulatedArray(NUMBERS))["OUT"].tolist() == NUMBERS.tolist()
    assert device_copies(recording.model("host")) == DeviceCopies(1, 0, 16, simulated=True)


def test_nothing_is_copied_where_all_stay_where_they_are(gpus: Lab, recording: Recording) -> None:
    list(gpus.server.model("device").infer(inputs={"IN": SimulatedArray(NUMBERS)}))
    list(gpus.server.model("device").infer(inputs={"IN": NUMBERS}))
    assert device_copies(recording.model("device")) is None


def test_an_output_that_is_brought_to_a_client_on_the_host(gpus: Lab, recording: Recording) -> None:
    assert gpus.server.model("device")(IN=-NUMBERS - 1)["OUT"].tolist() == [1, 1]
    assert device_copies(recording.model("device")) == DeviceCopies(1, 0, 8, simulated=True)


@pytest.mark.parametrize(
    ("preferred", "of", "copied"),
    [
        ("TRITONSERVER_MEMORY_CPU", -NUMBERS - 1, DeviceCopies(1, 0, 8, simulated=True)),
        ("TRITONSERVER_MEMORY_GPU, 0", NUMBERS, DeviceCopies(1, 16, 0, simulated=True)),
    ],
)
def test_outputs_of_a_models_own_call_that_go_where_it_prefers(
    gpus: Lab, recording: Recording, preferred: str, of: NDArray[np.float32], copied: DeviceCopies
) -> None:
    name = f"caller_{of.size}_{int(of[-1]) + 10}"
    caller = gpus.load(name, CALLER % preferred, config("IN FP32 -1", "OUT FP32 -1"))
    assert caller(IN=of)["OUT"].size == (2 if of[0] < 0 else 4)
    assert device_copies(recording.model("device")) == copied


def test_each_response_of_a_stream_counts(gpus: Lab, recording: Recording) -> None:
    assert len(list(gpus.server.model("stream").infer(inputs={"IN": NUMBERS}))) == 2
    assert device_copies(recording.model("stream")) == DeviceCopies(1, 0, 16, simulated=True)
