"""The quickstart in a real kernel, with this test as its frontend: it presses the buttons by their comm messages."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

nbclient = pytest.importorskip("nbclient")
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "notebooks" / "00_quickstart.ipynb"


class Frontend:
    """A frontend that runs cells one by one and plays the widgets of their outputs."""

    def __init__(self, client: Any, notebook: Any) -> None:
        self.client = client
        self.notebook = notebook

    def run(self, index: int) -> Any:
        return self.client.execute_cell(self.notebook.cells[index], index)

    def execute(self, code: str) -> str:
        """Run code that is not in the notebook; also the moment at which pending messages are handled."""
        cell = nbformat.v4.new_code_cell(code)
        self.notebook.cells.append(cell)
        self.client.execute_cell(cell, len(self.notebook.cells) - 1)
        return "".join(output.get("text", "") for output in cell.outputs)

    def widgets(self) -> dict[str, dict[str, str]]:
        """Return the kernel's widgets by id. nbclient follows only those that a cell made, not those a click made."""
        return dict(json.loads(self.execute(_LIST_WIDGETS)))

    def find(self, description: str) -> str:
        """Return the id of the widget that a person would call so."""
        return next(ident for ident, widget in self.widgets().items() if widget["description"] == description)

    def press(self, button: str) -> None:
        """Press a button of the card, which is the notebook's first widget of its kind."""
        card = next(ident for ident, widget in self.widgets().items() if widget["card"])
        self._send(card, {"method": "custom", "content": {"do": button}})

    def click(self, ident: str) -> None:
        self._send(ident, {"method": "custom", "content": {"event": "click"}})

    def set(self, ident: str, **state: Any) -> None:
        self._send(ident, {"method": "update", "state": state, "buffer_paths": []})

    def _send(self, ident: str, data: dict[str, Any]) -> None:
        message = self.client.kc.session.msg("comm_msg", {"comm_id": ident, "data": data})
        self.client.kc.shell_channel.send(message)

    def wait_for(self, description: str) -> None:
        """Wait until there is a widget that a person would call so."""
        for _ in range(1000):
            if any(widget["description"] == description for widget in self.widgets().values()):
                return
        raise AssertionError(f"there is no {description!r}")

    def wait(self, condition: Callable[[str], bool]) -> None:
        """Wait until what the widgets show satisfies `condition`."""
        text = ""
        for _ in range(1000):
            text = "\n".join(widget["value"] for widget in self.widgets().values())
            if condition(text):
                return
        raise AssertionError(f"it did not come; shown is:\n{text}")


_LIST_WIDGETS = """
import json, time
from ipywidgets.widgets.widget import _instances
time.sleep(0.05)
print(json.dumps({
    ident: {
        "description": str(getattr(widget, "description", "")),
        "value": str(getattr(widget, "value", "")),
        "card": type(widget).__name__ == "LiveView_card",
    }
    for ident, widget in _instances.items()
}))
"""


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Frontend]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    notebook = nbformat.read(QUICKSTART, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, store_widget_state=True)
    with client.setup_kernel(cwd=str(QUICKSTART.parent)):
        yield Frontend(client, notebook)


def code_cell(notebook: Any, start: str) -> int:
    return next(
        i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.startswith(start)
    )


def test_a_newcomer_runs_its_first_cells_and_presses_the_buttons(frontend: Frontend, tmp_path: Path) -> None:
    """`pytest --nbmake` runs all of its cells."""
    model = code_cell(frontend.notebook, "%%triton_model add_sub")
    for index in range(model + 1):
        frontend.run(index)
    outputs = frontend.notebook.cells[model].outputs
    assert "[batch ≤ 8, 4]" in outputs[0]["data"]["text/plain"]
    assert "tl-card" in outputs[0]["data"]["text/html"]

    frontend.press("playground")
    frontend.wait_for("Send")
    frontend.click(frontend.find("Send"))
    frontend.wait(lambda text: "DIFFERENCE" in text and "execute" in text)

    frontend.press("export")
    frontend.wait_for("Repository")
    frontend.set(frontend.find("Repository"), value=str(tmp_path / "models"))
    frontend.click(frontend.find("Write"))
    frontend.wait(lambda text: (tmp_path / "models" / "add_sub" / "1" / "model.py").is_file())


def test_what_is_committed_reads_without_a_kernel() -> None:
    notebook = nbformat.read(QUICKSTART, as_version=4)
    nbformat.validate(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    # a widget of a kernel that is gone shows as an error
    assert not [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]
    assert notebook.cells[0].source.startswith("# How does a cell become a served model?")
