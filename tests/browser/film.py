"""The pictures of the README and of the documentation, made in a real JupyterLab: `python -m tests.browser.film`.

It writes `extension/media/jupyterlab.png`, and `jupyterlab.webp`: a cell becomes a model, is called, broken and fixed,
called by another process, checked, watched, exported, and proved by a real server; and the same of the dark theme,
`jupyterlab-dark.png` and `jupyterlab-dark.webp`.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM, ROOT, Lab, serving

MEDIA = ROOT / "extension" / "media"
MODEL = """%%triton_model embed --max-batch-size 8 --dynamic-batching 3000 --instances 2 \
--input X:FP32[4] --output Y:FP32[4]
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.004)
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)]) for x in inputs]"""
CALL = 'embed(X=[[1, 2, 3, 4]])["Y"]'
BROKEN = MODEL.replace("pb_utils.Tensor(", "pb_utils.Tensr(")
CLIENT = """%triton serve --http-port 8000 --no-token
!curl -s localhost:8000/v2/models/embed/generate -d '{"X": [1, 2, 3, 4]}'"""
CHECK = "embed.check(seconds=4)"
LOAD = """import random, time
import numpy as np
sent = []
for n in range(700):
    sent.append(embed.infer(inputs={"X": np.full((1, 4), n, "float32")}))
    time.sleep(random.expovariate(250))"""
PROOF = 'import tritonlab\ntritonlab.export(embed, "proved/models", env="dir", verify="2.51").verification'
#: How long a frame is seen, in milliseconds, and how wide it is.
STEP, LOOK, WIDTH = 180, 1600, 960
QUALITY = 85
#: The themes, and what the names of their files end with.
THEMES = {"light": "", "dark": "-dark"}


def frames(lab: Lab) -> Iterator[tuple[int, bytes]]:
    """Play the film, and yield each frame with the time that it is on the screen."""
    page = lab.page
    lab.jupyter.write("embed.ipynb", ["%load_ext tritonlab", MODEL, CALL, CLIENT, CHECK, LOAD, PROOF])
    lab.open("embed.ipynb")
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    lab.run(0)
    yield LOOK, page.screenshot()
    lab.run(1)
    lab.cell(1).locator(".tritonlab-mark[data-mark=ready]").wait_for()
    lab.cell(1).locator(".tl-live .tl-card").wait_for()
    yield LOOK, page.screenshot()
    lab.run(2)
    yield LOOK, page.screenshot()
    for source in (BROKEN, MODEL):
        page.evaluate(
            "text => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.setSource(text)", source
        )
        lab.run(1)
        lab.run(2)
        lab.scroll_to(lab.cell(2).locator(".jp-OutputArea-output").last)
        yield LOOK if source == MODEL else 2 * LOOK, page.screenshot()
    for index in (3, 4):
        lab.run(index)
        lab.scroll_to(lab.cell(index).locator(".jp-OutputArea-output").last)
        yield LOOK, page.screenshot()
    lab.cell(4).locator(".cm-content").click()
    page.locator("[data-jp-item-name='tritonlab-timeline'] jp-button:visible").click()
    lab.cell(5).locator(".tl-view canvas").wait_for()
    yield STEP, page.screenshot()
    lab.cell(6).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    for _ in range(12):
        page.wait_for_timeout(150)
        yield STEP, page.screenshot()
    page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'", timeout=60_000
    )
    yield LOOK, page.screenshot()
    page.locator("[data-jp-item-name='tritonlab-export'] jp-button:visible").first.click()
    dialog = page.locator(".tritonlab-export")
    dialog.locator(".tritonlab-plan").wait_for()
    yield LOOK, page.screenshot()
    dialog.locator(".jp-Dialog-footer .jp-mod-accept").click()
    dialog.locator("[role=status]").wait_for()
    yield LOOK, page.screenshot()
    dialog.locator(".jp-Dialog-footer .jp-mod-reject").click()
    lab.run(7, timeout=120)
    lab.cell(7).locator(".jp-OutputArea-output").first.evaluate("element => element.scrollIntoView()")
    yield 2 * LOOK, page.screenshot()


def write(seen: list[tuple[int, bytes]], end: str) -> None:
    """Write the film, and its most telling frame as a picture."""
    MEDIA.mkdir(exist_ok=True)
    pictures = [Image.open(io.BytesIO(data)).convert("RGB") for _, data in seen]
    small = [each.resize((WIDTH, each.height * WIDTH // each.width), Image.Resampling.LANCZOS) for each in pictures]
    film = MEDIA / f"jupyterlab{end}.webp"
    times = [time for time, _ in seen]
    small[0].save(film, save_all=True, append_images=small[1:], duration=times, loop=0, quality=QUALITY, method=6)
    pictures[-4].save(MEDIA / f"jupyterlab{end}.png", optimize=True)


def main() -> None:
    place = Path(tempfile.gettempdir()) / "film"  # it is seen in the last frames
    with sync_playwright() as api:
        browser: Any = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for theme, end in THEMES.items():
            place.mkdir()
            try:
                with serving(place) as jupyter:
                    jupyter.theme(theme)
                    page = browser.new_page(viewport={"width": 1200, "height": 860})
                    write(list(frames(Lab(jupyter, page))), end)
                    page.close()
            finally:
                shutil.rmtree(place)
        browser.close()
    for path in sorted(MEDIA.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
