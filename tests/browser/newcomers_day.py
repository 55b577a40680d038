"""A newcomer's day as a notebook: the six models that most people write first, and everything a cell can show of them.

Written from the README alone. `CELLS` are the cells by a word of their own, `OUTPUT_PATTERNS` what the output of
each must say to the reader of the stored notebook.
"""

from __future__ import annotations

import nbformat

CELLS = {
    "load": "%load_ext tritonlab",
    "torch": """%%triton_model scores --max-batch-size 8 --dynamic-batching --input X:FP32[4] --output SCORES:FP32[3]
import torch
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        kind = pb_utils.MetricFamily.COUNTER
        self.family = pb_utils.MetricFamily(name="rows_total", description="rows", kind=kind)
        self.rows = self.family.Metric(labels={"model": "scores"})
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1)).eval()

    def execute(self, requests):
        responses = []
        for request in requests:
            self.rows.increment(1)
            x = torch.from_numpy(pb_utils.get_input_tensor_by_name(request, "X").as_numpy())
            with torch.no_grad():
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", self.net(x).numpy())]))
        return responses
""",
    "torch call": "scores(X=[[1.0, 2.0, 3.0, 4.0]])['SCORES'].sum().round(3)",
    "text": """%%triton_model shout --input TEXT:STRING[1] --output LOUD:STRING[1]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            loud = np.array([one.decode().upper().encode() for one in text.ravel()], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("LOUD", loud)]))
        return responses
""",
    "text call": "shout(TEXT=['guten Tag'])['LOUD']",
    "scale": """%%triton_model scale --input PICTURE:UINT8[-1,-1,3] --output PIXELS:FP32[-1,-1,3]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            picture = pb_utils.get_input_tensor_by_name(request, "PICTURE").as_numpy()
            pixels = pb_utils.Tensor("PIXELS", picture.astype(np.float32) / 255)
            responses.append(pb_utils.InferenceResponse([pixels]))
        return responses
""",
    "brightness": """%%triton_model brightness --input PIXELS:FP32[-1,-1,3] --output BRIGHTNESS:FP32[1]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            pixels = pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy()
            mean = pb_utils.Tensor("BRIGHTNESS", np.array([pixels.mean()], np.float32))
            responses.append(pb_utils.InferenceResponse([mean]))
        return responses
""",
    "ensemble": """%%triton_config how_bright
platform: "ensemble"
input [ { name: "PICTURE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] } ]
output [ { name: "BRIGHTNESS" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "scale" model_version: -1
      input_map { key: "PICTURE" value: "PICTURE" } output_map { key: "PIXELS" value: "pixels" }
    },
    {
      model_name: "brightness" model_version: -1
      input_map { key: "PIXELS" value: "pixels" } output_map { key: "BRIGHTNESS" value: "BRIGHTNESS" }
    }
  ]
}
""",
    "ensemble call": "import numpy as np\nhow_bright(PICTURE=np.full((8, 8, 3), 51, np.uint8))['BRIGHTNESS']",
    "decoupled": """%%triton_model count --decoupled --input N:INT32[1] --output I:INT32[1]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("I", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
""",
    "decoupled call": "[int(answer['I'][0]) for answer in count.infer(inputs={'N': np.array([3], np.int32)})]",
    "bls": """%%triton_model both --input X:FP32[4] --output TWICE:FP32[3]
import asyncio
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            row = pb_utils.Tensor("X", x.reshape(1, 4))
            asked = [
                pb_utils.InferenceRequest(model_name="scores", requested_output_names=["SCORES"], inputs=[row])
                for _ in range(2)
            ]
            first, second = await asyncio.gather(*(one.async_exec() for one in asked))
            a, b = (pb_utils.get_output_tensor_by_name(one, "SCORES").as_numpy()[0] for one in (first, second))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TWICE", a + b)]))
        return responses
""",
    "bls call": "both(X=[1.0, 2.0, 3.0, 4.0])['TWICE'].sum().round(3)",
    "sequence config": """%%triton_config total
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input [ {
    name: "START"
    control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ]
  } ]
}
""",
    "sequence": """%%triton_model total --max-batch-size 4 --input X:FP32[1] --output TOTAL:FP32[1]
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.total = 0.0

    def execute(self, requests):
        responses = []
        for request in requests:
            if pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0][0]:
                self.total = 0.0
            self.total += float(pb_utils.get_input_tensor_by_name(request, "X").as_numpy()[0][0])
            total = pb_utils.Tensor("TOTAL", np.array([[self.total]], np.float32))
            responses.append(pb_utils.InferenceResponse([total]))
        return responses
""",
    "sequence call": """def add(x, flags=0):
    (answer,) = total.infer(inputs={"X": np.array([[x]], np.float32)}, correlation_id=7, flags=flags)
    return float(answer["TOTAL"][0][0])

[add(1, flags=1), add(2), add(4, flags=2)]
""",
    "playground": """import tritonlab
form = tritonlab.playground(shout)
form.inputs["TEXT"].mode.value = "Typed"
form.inputs["TEXT"].text.value = "hello"
form.send()
form
""",
    "timeline": "%triton view scores",
    "streams": "%triton view count streams",
    "metrics": "%triton view scores metrics",
    "memory": "%triton view scores memory",
    "graph": "%triton view how_bright graph",
    "calls": "%triton view both graph",
    "load test": "%triton load_test scores --concurrency 1,2 --seconds 0.3",
    "what if": "scores.what_if(max_queue_delay_microseconds=500)",
    "tune": "scores.tune(concurrency=2, seconds=3)",
    "failure": "shout(TEXT=np.array([b'\\xff'], dtype=object))",
    "failed load": """%%triton_model broken --input X:FP32[1] --output Y:FP32[1]
import time

class TritonPythonModel:
    def initialize(self, args):
        time.sleep(0.5)
        args["nope"]
""",
    "fixed": """%%triton_model broken --input X:FP32[1] --output Y:FP32[1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
""",
    "status": "%triton status",
    "end": "print('the end')",
}
#: The cells that fail.
FAILING = ("failure", "failed load")
#: What the text of each output says, stored or seen, wherever it is read.
OUTPUT_PATTERNS = {
    "torch": r"scores.*READY.*batch ≤ 8, 4",
    "torch call": r"np\.float32\(1\.0\)",
    "text": r"shout.*READY.*BYTES",
    "text call": r"array\(\[b'GUTEN TAG'\], dtype=object\)",
    "scale": r"scale.*READY.*any, any, 3",
    "brightness": r"brightness.*READY.*any, any, 3",
    "ensemble": r"how_bright.*READY.*pixels → BRIGHTNESS",
    "ensemble call": r"array\(\[0\.2\d*\], dtype=float32\)",
    "decoupled": r"count.*READY.*decoupled",
    "decoupled call": r"\[0, 1, 2\]",
    "bls": r"both.*READY.*TWICE",
    "bls call": r"np\.float32\(2\.0\)",
    "sequence config": r"The config is kept for total",
    "sequence": r"total.*READY.*sequence batching",
    "sequence call": r"\[1\.0, 3\.0, 7\.0\]",
    "playground": r"Playground of shout.*Typed: hello.*HELLO",
    "status": r"both.*brightness.*count.*how_bright.*scale.*scores.*shout.*total.*memory: ",
    "timeline": r"Timeline of scores: [\d,]+ requests in [\d,]+ batches",
    "streams": r"Streams of count: 1 ended; 3 responses",
    "metrics": r"Custom metrics: 1 label set",
    "memory": r"Memory of scores: the same on Triton takes about --shm-size",
    "graph": r"Graph of how_bright: request \d+ took .* and made 2 calls",
    "calls": r"Graph of both: request \d+ took .* and made 2 calls",
    "load test": r"Load test of scores, in this kernel",
    "what if": r"What if scores had 1 instance, batches up to 8, delay 500 µs",
    "tune": r"Tuning scores: \d+ settings",
    "failure": r"UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff.*in execute",
    "failed load": r"broken.*FAILED.*KeyError",
    "fixed": r"broken.*READY",
}
#: The outputs that are pictures besides.
PICTURES = ("timeline", "streams", "metrics", "memory", "graph", "calls", "load test", "what if")


def new_notebook() -> nbformat.NotebookNode:
    """Return the notebook, not executed. Each cell has its word as its id."""
    notebook = nbformat.v4.new_notebook()
    for word, source in CELLS.items():
        cell = nbformat.v4.new_code_cell(source.rstrip("\n"), id=cell_id(word))
        if word in FAILING:
            cell.metadata["tags"] = ["raises-exception"]
        notebook.cells.append(cell)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def cell_id(word: str) -> str:
    return word.replace(" ", "-")


#: What a view's canvas counts of what it has drawn, and the same in words that are read wherever it is stored.
DRAWN_COUNTS = {"timeline": ("batches", " in {:,} batches"), "streams": ("streams", "{:,} ended")}
