"""Sounds go in by .wav file or as a variable of the notebook, and come out with a player."""

from __future__ import annotations

import base64
import io
import re
import wave
from typing import Any

import numpy as np
import pytest
from IPython.display import Audio
from numpy.typing import NDArray

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.notebook.views.playground.input_files import InputFile, files_value, value_file
from tritonlab.notebook.views.playground.input_values import InputSpec, ValueProblem
from tritonlab.notebook.views.playground.result_view import outcomes_html
from tritonlab.notebook.views.playground.sounds import MOST_BYTES, rate_of, sound_value, sounds_html


def wav(frames: bytes, width: int = 2, channels: int = 1, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(channels)
        target.setsampwidth(width)
        target.setframerate(rate)
        target.writeframes(frames)
    return file.getvalue()


def played(html: str) -> tuple[int, NDArray[np.int16]]:
    """Return the rate and the samples of the player in a page."""
    found = re.search(r"data:audio/wav;base64,([\w+/=]+)", html)
    assert found is not None
    with wave.open(io.BytesIO(base64.b64decode(found[1]))) as file:
        return file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


SAMPLES = np.array([0, 16384, -32768, 32767], "<i2")


@pytest.mark.parametrize(
    ("data", "datatype", "dims", "expected"),
    [
        (wav(SAMPLES.tobytes()), DataType.INT16, (-1,), [0, 16384, -32768, 32767]),
        (wav(SAMPLES.tobytes()), DataType.FP32, (-1,), [0, 0.5, -1, 32767 / 32768]),
        (wav(SAMPLES.tobytes()), DataType.UINT8, (-1,), [128, 192, 0, 255]),
        (wav(bytes([128, 192, 0]), width=1), DataType.FP64, (-1,), [0, 0.5, -1]),
        (wav(b"\x00\x00\x40\x00\x00\x80", width=3), DataType.FP32, (-1,), [0.5, -1]),
        (wav(SAMPLES.tobytes(), channels=2), DataType.FP32, (-1,), [0.25, -0.5 / 32768]),
        (wav(SAMPLES.tobytes(), channels=2), DataType.INT16, (2, -1), [[0, -32768], [16384, 32767]]),
        (wav(SAMPLES.tobytes(), channels=2), DataType.INT16, (-1, 2), [[0, 16384], [-32768, 32767]]),
        (wav(SAMPLES.tobytes()), DataType.INT16, (-1, 1), [[0], [16384], [-32768], [32767]]),
        (wav(np.array([2**31 - 1], "<i4").tobytes(), width=4), DataType.INT64, (-1,), [2**63 - 2**32]),
    ],
)
def test_a_file_becomes_samples(data: bytes, datatype: DataType, dims: tuple[int, ...], expected: Any) -> None:
    value = sound_value(data, datatype, dims)
    assert value.dtype == datatype.numpy
    np.testing.assert_allclose(value, expected, atol=1e-7)


def test_files_and_variables_fill_an_input() -> None:
    spec = InputSpec("AUDIO", DataType.FP32, (-1,), max_batch_size=4)
    file = InputFile("a.wav", wav(SAMPLES.tobytes()))
    assert files_value(spec, [file, file], (1, 1)).shape == (2, 4)
    audio = value_file(spec, Audio(SAMPLES.astype(float), rate=8000, normalize=True))
    assert audio is not None and files_value(spec, [audio], (1, 1)).shape == (1, 4)
    assert value_file(spec, np.zeros(3)) is None
    text = InputSpec("AUDIO", DataType.BYTES, (1,))
    assert value_file(text, file.content) is None
    assert files_value(text, [file], (1,))[0] == file.content
    with pytest.raises(ValueProblem, match=r"AUDIO: a.wav: not a .wav file of PCM samples"):
        files_value(spec, [InputFile("a.wav", b"RIFF....WAVE")], (1, 1))
    double = bytearray(wav(bytes(16), width=4))
    double[34] = 64  # bits in a sample
    with pytest.raises(ValueProblem, match="64 bits in a sample"):
        files_value(spec, [InputFile("a.wav", bytes(double))], (1, 1))
    with pytest.raises(ValueProblem, match=r"not a .wav file"):
        files_value(spec, [InputFile("a.wav", file.content[:16] + b"\xff" + file.content[17:])], (1, 1))
    with pytest.raises(ValueProblem, match="are not samples"):
        files_value(InputSpec("AUDIO", DataType.FP32, (3, 3, 3)), [file], (3, 3, 3))


def outcome(outputs: dict[str, Any], **inputs: Any) -> Exchange:
    def tensors(arrays: dict[str, Any]) -> dict[str, Tensor]:
        return {name: Tensor.from_numpy(np.asarray(value)) for name, value in arrays.items()}

    response = InferenceResponse(outputs=tensors(outputs))
    return Exchange(InferenceRequest("m", tensors(inputs)), (Arrival(response, 1000),))


def test_an_output_that_is_sound_has_a_player() -> None:
    tone = np.sin(np.arange(800) / 5).astype(np.float32)
    sound = outcome({"SPEECH": tone[None]}, SAMPLE_RATE=np.array([8000], np.int32))
    assert rate_of(sound) == 8000
    html = outcomes_html([sound], finished=True)
    rate, samples = played(html)
    assert rate == 8000 and "0.1 s at 8,000 samples a second" in html
    np.testing.assert_allclose(samples / 32767, tone, atol=1e-4)
    assert "<audio" not in outcomes_html([outcome({"SCORES": tone})], finished=True)


@pytest.mark.parametrize(
    "odd",
    [
        Tensor.from_numpy(np.array([b"x"], object)),
        Tensor.from_numpy(np.array([np.inf], np.float32)),
        Tensor.from_numpy(np.zeros((1, 0), np.int64)),
        Tensor.from_numpy(np.array([8000, 8000], np.int32)),
        Tensor(DataType.BF16, (1,), np.array([0x4600], np.uint16)),
    ],
    ids=repr,
)
def test_another_tensor_with_rate_in_its_name_is_no_rate(odd: Tensor) -> None:
    response = InferenceResponse(outputs={"GENERATED": odd})
    assert rate_of(Exchange(InferenceRequest("m", {}), (Arrival(response, 1000),))) == 16_000


def test_a_wav_file_is_played_as_it_is_and_a_long_sound_is_cut() -> None:
    data = wav(SAMPLES.tobytes())
    html = sounds_html("OUT", Tensor.from_numpy(np.array([data, b"text"], object)), 16_000)
    assert html.count("<audio") == 1 and base64.b64encode(data).decode() in html
    long = Tensor.from_numpy(np.zeros(MOST_BYTES, np.int16))
    html = sounds_html("AUDIO", long, 16_000)
    assert len(html) < 1.4 * MOST_BYTES and "the first 62.5 s" in html
