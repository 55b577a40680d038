from __future__ import annotations

from pathlib import Path

from tritonlab.core.status import Frame, RemoteException
from tritonlab.notebook.authoring.source_map import Segment, SourceMap, located, whole


def test_a_line_is_found_in_the_piece_it_came_from(tmp_path: Path) -> None:
    path = str(tmp_path / "m" / "1" / "model.py")
    sources = SourceMap()
    sources.replace(str(tmp_path / "m"), {path: (Segment(3, 5, "<a>", 10), Segment(8, 9, "<b>", -7))})
    assert sources.locate(path, 3) == ("<a>", 13)
    assert sources.locate(path, 9) == ("<b>", 2)
    assert sources.locate(path, 6) == (path, 6)


def test_a_path_through_a_link_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    sources = SourceMap()
    sources.replace(str(tmp_path / "real"), {str(tmp_path / "real" / "model.py"): whole("x\n", "<cell>", 1)})
    assert sources.locate(str(tmp_path / "link" / "model.py"), 1) == ("<cell>", 2)


def test_replace_forgets_what_was_below_and_can_be_undone(tmp_path: Path) -> None:
    first, other = str(tmp_path / "m" / "model.py"), str(tmp_path / "mm" / "model.py")
    sources = SourceMap()
    sources.replace(str(tmp_path / "m"), {first: whole("", "<old>", 0)})
    sources.replace(str(tmp_path / "mm"), {other: whole("", "<other>", 0)})
    before = sources.replace(str(tmp_path / "m"), {})
    assert sources.locate(first, 1) == (first, 1)
    assert sources.locate(other, 1) == ("<other>", 1)
    sources.replace(str(tmp_path / "m"), before)
    assert sources.locate(first, 1) == ("<old>", 1)


def test_an_exception_is_located_with_its_causes_and_its_syntax_error() -> None:
    cause = RemoteException(
        "SyntaxError", "bad", detail={"filename": "/r/m/1/helper.py", "lineno": 2, "end_lineno": 3, "offset": 1}
    )
    remote = RemoteException("ValueError", "x", frames=(Frame("/r/m/1/model.py", 4, "execute"),), cause=cause)

    def locate(file: str, line: int) -> tuple[str, int]:
        return (f"<{file.rsplit('/', 1)[1]}>", line + 1) if file.startswith("/r") else (file, line)

    found = located(remote, locate)
    assert found.frames == (Frame("<model.py>", 5, "execute"),)
    assert found.cause is not None
    assert found.cause.detail == {"filename": "<helper.py>", "lineno": 3, "end_lineno": 4, "offset": 1}
    assert located(found, locate) == found


def test_a_line_that_the_message_of_a_syntax_error_names_is_located_too() -> None:
    message = "expected an indented block after function definition on line 3"
    detail = {"filename": "/r/m/1/model.py", "lineno": 4, "offset": 1, "msg": message}
    remote = RemoteException("IndentationError", f"{message} (model.py, line 4)", detail=detail)
    found = located(remote, lambda file, line: ("<cell>", line + 1) if file.startswith("/r") else (file, line))
    assert found.detail["msg"] == message.replace("3", "4")
    assert found.text == f"{message.replace('3', '4')} (model.py, line 4)"
    assert located(found, lambda file, line: (file, line)) == found
