"""The models that the engines serve in `make engines`."""

from __future__ import annotations

from pathlib import Path

from tests.models import executes
from tests.serving import config, write_model

#: Sleeps 20 ms, and answers with twice its input, its process and what else of the request it saw.
SLEEPER = executes(
    """
    answers = []
    for request in requests:
        time.sleep(0.02)
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        seen = json.dumps({"pid": os.getppid(), "id": request.request_id(), "timeout": request.timeout(),
                           "parameters": json.loads(request.parameters() or "{}"),
                           "outputs": list(request.requested_output_names())})
        answers.append(pb_utils.InferenceResponse([
            pb_utils.Tensor("OUT", x * 2), pb_utils.Tensor("SEEN", np.array([seen.encode()], dtype=object)),
        ], parameters={"rp": "7", "n": 3}))
    return answers
    """,
    imports="import json, os, time",
)
SLEEPER_CONFIG = config("IN FP32 -1", "OUT FP32 -1; SEEN STRING 1")

#: Twice its input, at once; fails for negative numbers.
DOUBLE = executes("""
    answers = []
    for request in requests:
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        if (x < 0).any():
            answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
        else:
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x * 2)]))
    return answers
""")
DOUBLE_CONFIG = config("IN FP32 -1", "OUT FP32 -1", "max_batch_size: 8")

#: A response every 50 ms, as many as its input has it; appends what became of it to the file of its parameter `log`.
STREAM = executes(
    """
    for request in requests:
        sender = request.get_response_sender()
        count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
        sent = 0
        for n in range(count):
            if request.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([n], np.float32))]))
            sent += 1
            time.sleep(0.05)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with open(self.log, "a") as file:
            file.write(f"{sent} of {count}\\n")
    return None
    """,
    initialize="""
    import json
    self.log = json.loads(args["model_config"])["parameters"]["log"]["string_value"]
    """,
    imports="import time",
)

#: Sums what a sequence sends.
TOTAL = executes(
    """
    answers = []
    for request in requests:
        x, start = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "START"))
        key = request.correlation_id()
        if start.reshape(-1)[0]:
            self.total[key] = np.zeros_like(x)
        self.total[key] = self.total[key] + x
        answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.total[key])]))
    return answers
    """,
    initialize="self.total = {}",
)
TOTAL_CONFIG = config(
    "IN FP32 1",
    "OUT FP32 1",
    """sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input [ { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } } ]
}
""",
)


#: A text in capitals, and how many bytes it has.
WORDS = executes("""
    answers = []
    for request in requests:
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        upper = np.array([each.decode().upper().encode() for each in texts.reshape(-1)], dtype=object)
        length = np.array([len(each) for each in texts.reshape(-1)], np.int32)
        answers.append(pb_utils.InferenceResponse([
            pb_utils.Tensor("UPPER", upper.reshape(texts.shape)),
            pb_utils.Tensor("LENGTH", length.reshape(texts.shape)),
        ]))
    return answers
""")
WORDS_CONFIG = config("TEXT STRING 1", "UPPER STRING 1; LENGTH INT32 1", "max_batch_size: 8")


#: Ends its process for a negative number, and cannot be loaded by the same server after that.
MORTAL = """
import json, os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.flag = json.loads(args["model_config"])["parameters"]["flag"]["string_value"]
        if os.path.exists(self.flag) and open(self.flag).read() == str(os.getppid()):
            raise RuntimeError("not here")

    def execute(self, requests):
        x = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()
        if x[0] < 0:
            with open(self.flag, "w") as file:
                file.write(str(os.getppid()))
            os._exit(1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)])]
"""


def write_mortal(repository: Path) -> None:
    """Write `mortal`."""
    flag = f'parameters {{ key: "flag" value {{ string_value: "{repository.with_name("flag")}" }} }}'
    write_model(repository, "mortal", MORTAL, config("IN FP32 1", "OUT FP32 1", flag))


def write_plain(repository: Path) -> Path:
    """Write `sleeper`, `double`, `one`, `words`, `lists` and `stream`; return the file that `stream` writes."""
    log = repository.with_name("stream.log")
    write_model(repository, "words", WORDS, WORDS_CONFIG)
    write_model(repository, "lists", WORDS, WORDS_CONFIG.replace("1 ]", "-1 ]"))
    write_model(repository, "sleeper", SLEEPER, SLEEPER_CONFIG)
    write_model(repository, "double", DOUBLE, DOUBLE_CONFIG)
    write_model(repository, "one", DOUBLE, DOUBLE_CONFIG.replace("-1", "1"))
    write_stream(repository, log)
    return log


def write_stream(repository: Path, log: Path) -> None:
    """Write `stream`, and the file `log` for it."""
    log.write_text("")
    stream = config(
        "IN FP32 1",
        "OUT FP32 1",
        "model_transaction_policy { decoupled: true }",
        f'parameters {{ key: "log" value {{ string_value: "{log}" }} }}',
    )
    write_model(repository, "stream", STREAM, stream)
