"""The text that `model.attach()` prints."""

from __future__ import annotations

from tritonlab.server.api.debugging import EditorAttach


def test_the_file_to_open_is_the_source_that_serves() -> None:
    assert "open /home/me/1/postprocess.py, set a breakpoint" in repr(
        EditorAttach({}, local="/home/me/1", remote="/models/m/1", file="postprocess.py")
    )
