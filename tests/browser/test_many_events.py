"""A timeline with 100,000 events kept, and 1,000 more each second: frames of the browser, CPU time of the kernel.

`pytest -s tests/browser/test_many_events.py` prints what was measured. The bar is 30 frames a second and 5 % of a core
on an idle machine; what is asserted is loose, as others may use the machine meanwhile.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)

FILL = """import json, threading, time
import tritonlab
recording = tritonlab.recording()
record = recording.model("add")
for kind, word in (("instance", "add_0_0"), ("instance", "add_0_1"), ("reason", "full"), ("shapes", ())):
    record.words.number(kind, word)
STEP = 2_000_000
def execute(n, end):
    record.requests.add([n, end - 1_900_000, end - 1_800_000, n, 1, 0])
    record.batches.add([end - 1_500_000, end, n % 2, n, 1, 1, 1, 0, 1000, 1_400_000, 1000, 0, n])
now = time.monotonic_ns()
for n in range(50_000):
    execute(n, now - (50_000 - n) * STEP)
view = tritonlab.view(tritonlab.default_server().model("add"))
stop = threading.Event()
def feed():
    n, begun = 50_000, time.monotonic_ns()
    while not stop.wait(0.02):
        with record.lock:
            while begun + (n - 50_000) * STEP < time.monotonic_ns():
                execute(n, begun + (n - 50_000) * STEP)
                n += 1
threading.Thread(target=feed, daemon=True).start()
view"""
#: CPU time of the kernel with the view open, and with it closed: what feeds goes on in both.
MEASURE = """def used(seconds=4):
    begun, busy = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - busy) / (time.monotonic() - begun)
shares = used()
view.on_message({"do": "close"})
rest = used()
stop.set()
print(json.dumps([shares, rest]))"""
FRAMES = """canvas => new Promise((resolve) => {
  const [frames, begun] = [+canvas.dataset.frames, performance.now()];
  setTimeout(() => resolve(((canvas.dataset.frames - frames) / (performance.now() - begun)) * 1000), 4000);
})"""


def test_a_full_timeline_goes_on_moving(lab: Any, jupyter: Any) -> None:
    jupyter.theme("light")
    lab.jupyter.write("many.ipynb", ["%load_ext tritonlab", FILL, MEASURE])
    lab.open("many.ipynb")
    lab.run(0)
    canvas = lab.run(1).locator(".tl-view canvas")
    lab.until(canvas, "c => +c.dataset.kept >= 100_000")
    lab.page.evaluate("window.everyFrame = true")
    near = canvas.evaluate(FRAMES)
    for _ in range(6):
        canvas.press("-")  # 128 seconds in view: all that is kept
    far = canvas.evaluate(FRAMES)
    lab.page.evaluate("window.everyFrame = false")
    lab.shot("timeline_many", canvas)
    open_, closed = json.loads(lab.run(2).inner_text())
    print(f"\n{near:.0f} frames/s of 2 s in view, {far:.0f} of all; kernel {open_:.1%} of a core, {closed:.1%} without")
    assert near > 5 and far > 2
    assert open_ - closed < 0.5
    assert (lab.foreign, lab.errors) == ([], [])
