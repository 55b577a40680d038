from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models import SILENT, executes
from tests.serving import eventually
from tritonlab import Server
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell.comm_calls import overview
from tritonlab.notebook.views.card.card import card_body, card_text
from tritonlab.notebook.views.card.device_text import copies_text, gpus_text, place_text, places_text
from tritonlab.notebook.views.card.model_facts import model_facts
from tritonlab.notebook.views.card.status_table import status_table
from tritonlab.record.record_facts import DeviceCopies
from tritonlab.record.recorder import Recorder


def put(kind: str, device: int = 0, simulated: bool = False) -> dict[str, Any]:
    return {"kind": kind, "device_id": device, "simulated": simulated, "gpu_memory": {}}


def test_the_words_for_places() -> None:
    assert [place_text(each) for each in (put("CPU"), put("MODEL"), put("GPU", 1), put("GPU", 0, True))] == [
        "CPU",
        "MODEL",
        "GPU 1",
        "simulated GPU 0",
    ]
    assert places_text([put("GPU", 1), put("CPU"), put("GPU", 0), put("GPU", 1)]) == "GPUs 0, 1, CPU"
    assert places_text([put("GPU", number) for number in range(8)]) == "GPUs 0 to 7"
    assert places_text([put("GPU", 2, True)]) == "simulated GPU 2"


def test_the_words_for_gpus() -> None:
    real = {"ordinal": 0, "name": "NVIDIA H200", "total_bytes": 139 << 30, "simulated": False}
    assert gpus_text([]) == ""
    assert gpus_text([real]) == "GPUs: 0 NVIDIA H200 (139 GiB)"


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Workspace]:
    with Server(tmp_path, model_control_mode="explicit", simulated_gpus=2) as server:
        workspace = Workspace(server, tmp_path)
        yield workspace
        workspace.close()


def test_card_status_and_panel_say_that_gpus_are_simulated(simulated: Workspace) -> None:
    everywhere = simulated.load("everywhere", SILENT)
    uneven = {"instance_group": [{"kind": "KIND_GPU", "count": 2, "gpus": [1]}, {"kind": "KIND_CPU"}]}
    simulated.load("mixed", SILENT, config=uneven)
    one = simulated.load("one", SILENT, options=ConfigOptions(gpus=(1,), instances=2))
    assert model_facts(simulated, everywhere).instances == "1 instance on each of simulated GPUs 0, 1"
    assert model_facts(simulated, one).instances == "2 instances on simulated GPU 1"
    mixed = model_facts(simulated, simulated.server.model("mixed"))
    assert "2 instances on simulated GPU 1, 1 instance on CPU" in card_text(mixed)
    table = status_table(simulated)
    assert [row.places for row in table.rows] == ["simulated GPUs 0, 1", "simulated GPU 1, CPU", "simulated GPU 1"]
    assert "2 on simulated GPUs 0, 1" in repr(table) and "GPUs: 0, 1, simulated" in table.html()
    facts = overview(simulated)
    assert facts["gpus"].startswith("GPUs: 0, 1, simulated")
    assert [each["place"] for each in facts["models"][2]["instances"]] == ["simulated GPU 1", "simulated GPU 1"]


#: Takes memory of GPU 0, whatever its config says.
ASTRAY = executes(
    """
    self.weights = SIMULATED.allocate(0, 4 << 20)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, np.float32))]) for _ in requests]
    """,
    imports="from _pb_stub.devices.gpus import SIMULATED",
)


def test_a_model_on_another_gpu_than_its_own_is_warned_of(simulated: Workspace) -> None:
    model = simulated.load("astray", ASTRAY, options=ConfigOptions(gpus=(1,), outputs=("OUT:FP32[1]",)))
    assert model_facts(simulated, model).warnings[1:] == ()
    list(model.infer(inputs={}))
    expected = (
        "Triton checks no placement: 'astray_0_0' was placed on GPU 1 and holds 4 MiB of simulated GPU 0; "
        'choose the device by args["model_instance_device_id"].'
    )
    eventually(lambda: expected in model_facts(simulated, model).warnings)
    assert expected in [record.text for record in model.logs()]
    (instance,) = overview(simulated)["models"][0]["instances"]
    assert (instance["place"], instance["holds"]) == ("simulated GPU 1", "4 MiB of simulated GPU 0")
    view = model.view("memory")
    assert repr(view).endswith(" MiB; 4 MiB of simulated GPU 0")
    message, _ = view.news()
    assert message is not None and message["families"]["gpu"] == ("bytes", "simulated memory of GPUs")


def test_without_gpus_no_text_names_them(workspace: Workspace) -> None:
    if workspace.server.gpus():
        pytest.skip("this machine has a GPU")
    workspace.load("m", SILENT)
    assert "GPU" not in repr(status_table(workspace)) and overview(workspace)["gpus"] == ""


def test_the_words_for_copies() -> None:
    assert copies_text(None) == ""
    assert copies_text(DeviceCopies(1, 0, 7, simulated=False)) == "7 bytes from the GPU"
    assert copies_text(DeviceCopies(2, 3_000, 0, simulated=True)) == "3 kB to the simulated GPU for 2 requests"
    assert copies_text(DeviceCopies(1, 3_000, 7, simulated=False)) == "3 kB to the GPU, 7 bytes back"


def test_the_card_tells_what_a_request_copies(workspace: Workspace) -> None:
    model = workspace.load("m", SILENT)
    assert model_facts(workspace, model).copies == ""
    recorder = Recorder.for_instruments(workspace.server.instruments)
    assert model_facts(workspace, model).copies == ""
    recorder.bytes_copied("m", 1, 0, 4_000_000, 2_000, True, 0)
    recorder.bytes_copied("m", 2, 0, 2_000_000, 0, True, 0)
    facts = model_facts(workspace, model)
    assert facts.copies == "copied per request: 3 MB to the simulated GPU, 1 kB back"
    assert f"\n  {facts.copies}" in card_text(facts) and f">{facts.copies}<" in card_body(facts)
    assert facts.to_dict()["copies"] == facts.copies
