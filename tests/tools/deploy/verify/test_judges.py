from __future__ import annotations

from pathlib import Path

from tritonlab.tools.deploy.environment.lock import Pin, lock_text
from tritonlab.tools.deploy.environment.python_prefix import own_python
from tritonlab.tools.deploy.verify.judges import DockerJudge, pinned


def test_the_models_of_a_container_are_at_the_path_that_its_errors_have(tmp_path: Path) -> None:
    judge = DockerJudge("2.52", "docker", "image")
    hiding = judge.hiding()
    assert hiding.place("models", tmp_path) == "/models"
    assert str(hiding) == "hidden: everything outside the container"


def test_a_lock_is_read_with_the_packages_that_no_index_has() -> None:
    wheel = "https://example.org/two-1.0-py3-none-any.whl#sha256=00"
    written = [Pin("one", "1.2", "import one"), Pin("two", "1.0", "import two", url=wheel)]
    read = pinned(lock_text([*written, Pin("here", "3", url="file:///x/here-3.whl")], "2.51", own_python()))
    assert [pin.requirement for pin in read] == ["one==1.2", f"two @ {wheel}"]
