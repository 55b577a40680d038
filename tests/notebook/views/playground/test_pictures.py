"""Pictures that become inputs, and outputs that are shown as pictures."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.notebook.views.playground.input_files import InputFile, files_value, value_file
from tritonlab.notebook.views.playground.input_values import InputSpec, ValueProblem
from tritonlab.notebook.views.playground.pictures import Layout, pictures_html


def png(width: int, height: int, colour: tuple[int, int, int] = (255, 0, 0)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "png")
    return file.getvalue()


def value(datatype: str, dims: tuple[int, ...], *files: tuple[str, bytes], batch: int = 0) -> Any:
    spec = InputSpec("X", DataType[datatype], dims, batch)
    return files_value(spec, [InputFile(*file) for file in files], spec.shape(1, [1] * dims.count(-1)))


@pytest.mark.parametrize(
    ("dims", "layout"),
    [
        ((224, 224, 3), Layout(224, 224, 3)),
        ((3, -1, -1), Layout(-1, -1, 3, channels_first=True)),
        ((1, 1, 28, 28), Layout(28, 28, 1, channels_first=True)),
        ((-1, -1, -1), Layout(-1, -1, 3)),
        ((28, 28), Layout(28, 28, 1, flat=True)),
        ((7, 7, 7), None),
        ((4,), None),
    ],
)
def test_dims_say_where_a_picture_has_its_sides(dims: tuple[int, ...], layout: Layout | None) -> None:
    assert Layout.from_dims(dims) == layout


def test_a_picture_is_brought_to_the_inputs_size_and_range() -> None:
    pixels = value("UINT8", (4, 6, 3), ("a.png", png(8, 8)))
    assert pixels.shape == (4, 6, 3) and pixels.dtype == np.uint8 and pixels[0, 0].tolist() == [255, 0, 0]
    floats = value("FP32", (3, -1, -1), ("a.png", png(8, 4)), batch=8)
    assert floats.shape == (1, 3, 4, 8) and floats.dtype == np.float32 and floats[0, :, 0, 0].tolist() == [1, 0, 0]
    halves = value("BF16", (1, 2, 2), ("a.png", png(8, 8, (255, 255, 255))))
    assert halves.dtype == np.uint16 and halves.ravel().tolist() == [0x3F80] * 4


def test_files_are_rows_of_a_batch() -> None:
    two = [("a.png", png(4, 4)), ("b.png", png(4, 4, (0, 0, 255)))]
    assert value("UINT8", (2, 2, 3), *two, batch=8)[:, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255]]
    encoded = value("BYTES", (1,), *two, batch=8)
    assert encoded.tolist() == [[two[0][1]], [two[1][1]]]
    with pytest.raises(ValueProblem, match="X: the model does not batch: choose one file, not 2"):
        value("UINT8", (2, 2, 3), *two)
    with pytest.raises(ValueProblem, match="X: the files do not fit together"):
        value("UINT8", (-1, 2, 3), ("a.png", png(2, 2)), ("b.png", png(2, 3)), batch=8)


def test_a_picture_goes_to_plain_bytes_as_it_is() -> None:
    data = png(4, 4)
    assert value("UINT8", (-1,), ("a.png", data)).tobytes() == data
    assert value("UINT8", (-1,), ("a.jpg", b"\xff\xd8"), batch=8).tolist() == [[255, 216]]


def test_arrays_and_text_are_read_too() -> None:
    file = io.BytesIO()
    np.save(file, np.ones((2, 3)))
    kept = value("FP32", (3,), ("a.npy", file.getvalue()), batch=8)
    assert kept.dtype == np.float64 and kept.shape == (2, 3)  # the server says what is wrong with it
    assert value("FP32", (3,), ("a.csv", b"1,2,3\n4,5,6\n"), batch=8).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert value("INT32", (-1,), ("a.json", b"[1, 2]")).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("dims", "name", "content", "problem"),
    [
        ((2, 2), "a.bin", b"abc", r"X: a\.bin: not a picture \(cannot identify image file\); \.wav, \.npy,"),
        ((7,), "a.png", png(2, 2), r"X: a\.png: dims \[7\] are not height, width and channels"),
        ((2, 2), "a.npy", b"abc", r"X: a\.npy: "),
        ((2, 2), "a.txt", b"abc", r"X: 'abc' is not a number"),
    ],
)
def test_what_cannot_be_read_is_reported(dims: tuple[int, ...], name: str, content: bytes, problem: str) -> None:
    with pytest.raises(ValueProblem, match=problem):
        value("FP32", dims, (name, content))
    with pytest.raises(ValueProblem, match="choose a file"):
        value("FP32", dims)
    with pytest.raises(ValueProblem, match=r"X: a\.png: pixels are 0 to 255, which INT8 cannot have"):
        value("INT8", (2, 2), ("a.png", png(2, 2)))


def test_a_picture_that_would_take_all_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ValueProblem, match=r"X: a\.png: not a picture \(Image size \(4096 pixels\) exceeds limit"):
        value("FP32", (2, 2), ("a.png", png(64, 64)))


def previews(array: Any) -> list[Any]:
    found = re.findall(r"src='data:image/\w+;base64,([^']*)'", pictures_html(Tensor.from_numpy(array), "OUT"))
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


def test_tensors_of_pictures_are_displayed() -> None:
    (one,) = previews(np.full((20, 30, 3), (255, 0, 0), np.uint8))
    assert one.size == (30, 20) and one.getpixel((0, 0)) == (255, 0, 0)
    two = previews(np.zeros((2, 3, 20, 30), np.float32))
    assert [image.size for image in two] == [(30, 20)] * 2
    (gray,) = previews(np.full((1, 20, 30, 1), 0.5, np.float16))
    assert gray.getpixel((0, 0)) == 127
    assert len(previews(np.zeros((9, 20, 20, 3), np.uint8))) == 4
    (large,) = previews(np.zeros((4000, 2000, 3), np.uint8))
    assert max(large.size) <= 256
    (encoded,) = previews(np.array([[png(5, 6)]], dtype=object))
    assert encoded.size == (5, 6)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((8, 1000), np.float32),  # rows of scores
        np.full((20, 20, 3), -1, np.float32),  # outside of what pictures are made of
        np.full((20, 20, 3), np.nan, np.float32),
        np.zeros((3, 3, 3), np.float32),
        np.zeros((20, 20, 3), np.bool_),
        np.array([b"text"], dtype=object),
    ],
)
def test_other_tensors_are_no_pictures(array: Any) -> None:
    assert pictures_html(Tensor.from_numpy(array), "OUT") == ""


def test_a_picture_of_the_notebook_is_taken_as_a_file() -> None:
    picture = Image.linear_gradient("L").resize((4, 3))
    spec = InputSpec("X", DataType.UINT8, (3, 4))
    held = value_file(spec, picture)
    assert held is not None and held.name == "the Image"
    np.testing.assert_array_equal(files_value(spec, [held], (3, 4)), np.asarray(picture))
