"""The exam for `model.check()`: what is wrong with each model of `wrong/`, and which models of `right/` are right.

`wrong/` and `right/` are model repositories. The planted bugs are from how public models go wrong, and were written
without a look at the checker; `thread` names the thread that reports such a bug. `tests/tools/check/proofs.py` shows
each of them with a few requests, and that the right models answer properly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WRONG_MODELS = HERE / "wrong"
RIGHT_MODELS = HERE / "right"

#: What the blocks of shared memory are named by that one of the models leaves behind.
LEFT_BLOCKS = "corpus_frame_"

RELATIONS = ("company", "neighbours", "answers", "streams", "sequences", "resources", "life", "edges")


@dataclass(frozen=True)
class PlantedBug:
    """A model with one bug, and what a finding about it must say.

    `relation`: the relation that it breaks; `also`: others that it breaks as well. `patterns`: regular expressions that
    the sentence must match, whatever the case. `line`: the text of the defect's line in `model.py`; `lines`: more lines
    of the same defect. `needs_line`: the finding must have the line, because an exception or tracemalloc has it.
    `thread`: the public thread. `example`: inputs that the author would give, where generated values would say little.
    """

    name: str
    relation: str
    patterns: tuple[str, ...]
    line: str
    thread: str
    also: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    needs_line: bool = False
    example: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def relations(self) -> tuple[str, ...]:
        return (self.relation, *self.also)

    @property
    def source(self) -> str:
        return (WRONG_MODELS / self.name / "1" / "model.py").read_text()

    def line_numbers(self) -> set[int]:
        """Return the numbers of the defect's lines. Raises ValueError for a text that is not one line of the model."""
        found = set()
        for text in (self.line, *self.lines):
            numbers = [n for n, line in enumerate(self.source.splitlines(), 1) if line.strip() == text]
            if len(numbers) != 1:
                raise ValueError(f"{text!r} is on {len(numbers)} lines of {self.name}/1/model.py")
            found.update(numbers)
        return found


@dataclass(frozen=True)
class RightModel:
    """A model without a bug. `needs`: models that it calls. `example` and `options` are as of a planted bug."""

    name: str
    example: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


WRONG = (
    # alone = in every company
    PlantedBug(
        "mean_pooling",
        "company",
        patterns=("EMBEDDING",),
        line="pooled = hidden.mean(axis=1)",
        # padding of a batch changes its shorter texts
        thread="triton-inference-server/fastertransformer_backend#53, ELS-RD/transformer-deploy#117",
    ),
    PlantedBug(
        "detector",
        "company",
        patterns=("SCORES",),
        line="mine = scores[index : index + len(image)]",
        # "if I stack the input to process in batch, the response will be wrong"
        thread="triton-inference-server/server#6740",
    ),
    PlantedBug(
        "length_sorted",
        "company",
        patterns=("TOKEN_COUNT|CHECKSUM",),
        line="texts.sort(key=len, reverse=True)",
        # results that belong to the request beside
        thread="triton-inference-server/server#2616",
    ),
    PlantedBug(
        "train_mode_norm",
        "company",
        patterns=("RISK",),
        line="self.training = True",
        lines=("if self.training and len(x) > 1:", "mean, variance = x.mean(axis=0), x.var(axis=0)"),
        # batched results differ from single ones
        thread="triton-inference-server/server#4133",
    ),
    PlantedBug(
        "sampler",
        "company",
        patterns=("TOKENS",),
        line='seed = int(pb_utils.get_input_tensor_by_name(requests[0], "SEED").as_numpy().flat[0])',
        lines=("generator = np.random.default_rng(abs(seed))",),
        # a seed is ignored because of the other requests of the batch
        thread="vllm-project/vllm#51226",
    ),
    PlantedBug(
        "attention_buckets",
        "company",
        patterns=("PEAK",),
        line="buffer[:, : signal.shape[1]] = signal",
        lines=("return self.buffers[size][:rows]",),
        # a larger request before a smaller one leaves its values behind
        thread="triton-inference-server/server#2136, NVIDIA/DeepLearningExamples#760",
    ),
    PlantedBug(
        "sticky_threshold",
        "company",
        patterns=("KEPT",),
        line="self.threshold = threshold.as_numpy().astype(np.float32)[:1]",
        # the same input answers differently, after what others sent
        thread="triton-inference-server/server#7907",
    ),
    PlantedBug(
        "cached_by_prompt",
        "company",
        patterns=("LOGIT",),
        line="if prompt not in self.cache:",
        lines=(
            "self.cache[prompt] = (zlib.crc32(prompt) % 1000) / 1000 / max(abs(float(temperature)), 0.01)",
            "return self.cache[prompt]",
        ),
        # the key of the cache is only a part of the request
        thread="567-labs/instructor#2585",
    ),
    PlantedBug(
        "calibrates_itself",
        "company",
        also=("life",),
        patterns=(r"\bQ\b",),
        line="self.scale = max(float(np.abs(x).max()), 1e-6) / 127",
        lines=("if self.scale is None:",),
        # right for the first call only
        thread="triton-inference-server/server#7053",
    ),
    # one who fails does not touch its neighbours
    PlantedBug(
        "number_parser",
        "neighbours",
        patterns=("could not convert|ValueError|TEXT|VALUE",),
        line='values = [float(text.decode("utf-8").replace(",", "")) for text in texts.reshape(-1)]',
        needs_line=True,
        # "should only fail the request that has an error", in review of a test
        thread="triton-inference-server/server#2764",
        example={"TEXT": [b"12.5"]},
    ),
    PlantedBug(
        "finite_guard",
        "neighbours",
        patterns=("SENSOR",),
        line="if not np.isfinite(readings).all():",
        lines=("return [pb_utils.InferenceResponse(output_tensors=[], error=error) for _ in requests]",),
        # NaN of one row of a batch reaches the others
        thread="triton-inference-server/server#7117, NVIDIA/TensorRT#1550",
    ),
    PlantedBug(
        "skips_the_bad_one",
        "neighbours",
        also=("answers",),
        patterns=("AGE|response",),
        line="continue",
        # a batch fails because of one of its requests
        thread="triton-inference-server/server#2764",
    ),
    PlantedBug(
        "cancels_all",
        "neighbours",
        patterns=("cancel",),
        line="if any(request.is_cancelled() for request in requests):",
        lines=("return [pb_utils.InferenceResponse(output_tensors=[], error=gone) for _ in requests]",),
        # models that answer cancellation by themselves
        thread="triton-inference-server/python_backend#304",
        example={"STEPS": [10]},
    ),
    PlantedBug(
        "shortest_deadline",
        "neighbours",
        patterns=("timeout|deadline",),
        line="if deadlines and min(deadlines) < COST_MICROSECONDS:",
        lines=("return [pb_utils.InferenceResponse(output_tensors=[], error=late) for _ in requests]",),
        # timeouts of some requests disturb others
        thread="triton-inference-server/server#7117",
    ),
    # answers
    PlantedBug(
        "double_precision",
        "answers",
        patterns=("BRIGHTNESS", "FP64|float64"),
        line="brightness = pixels.mean(axis=1, keepdims=True) / 255",
        # the Python backend does not check the type of outputs
        thread="triton-inference-server/server#3219",
    ),
    PlantedBug(
        "squeezed",
        "answers",
        also=("company", "edges"),
        patterns=("PROBABILITIES", "shape|dim|row"),
        line="logits = np.clip(image, -30, 30).squeeze()",
        # the batch dimension is lost in a batch of one
        thread="triton-inference-server/server#5334",
    ),
    PlantedBug(
        "silent_when_empty",
        "answers",
        also=("streams", "edges"),
        patterns=("final|no response|never|ends?\\b",),
        line="for index, word in enumerate(words):",
        lines=("sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0)",),
        # the final flag on some ways only
        thread="triton-inference-server/vllm_backend#28",
        example={"PROMPT": [b"two words"]},
    ),
    PlantedBug(
        "usage_after_final",
        "answers",
        also=("streams",),
        patterns=("final|closed",),
        line="sender.send(number(count))",
        # what a response sender must not be used for
        thread="triton-inference-server/server#7292, triton-inference-server/python_backend#363",
    ),
    PlantedBug(
        "in_place_mean",
        "answers",
        patterns=("IMAGE",),
        line="image -= image.mean(axis=1, keepdims=True)",
        # preprocessing that works on the array of as_numpy()
        thread="triton-inference-server/server#2971",
    ),
    PlantedBug(
        "cut_text",
        "answers",
        also=("edges",),
        patterns=("SHORT", "UTF-?8"),
        line=(
            "short = np.array([title[:ROOM] for title in titles.reshape(-1)], dtype=np.object_).reshape(titles.shape)"
        ),
        # text that is cut as bytes
        thread="triton-inference-server/server#8039",
        example={"TITLE": ["größere Übergänge".encode()]},
    ),
    # streams
    PlantedBug(
        "deaf_generator",
        "streams",
        patterns=("cancel",),
        line="for _ in range(wanted):",
        lines=("sender.send(pb_utils.InferenceResponse([out]))",),
        # a generation goes on though nobody wants it
        thread="triton-inference-server/server#4818, triton-inference-server/server#6403",
        example={"MAX_TOKENS": [40]},
    ),
    PlantedBug(
        "chunks_in_a_pool",
        "streams",
        also=("company",),
        patterns=("AUDIO|order|response",),
        line="wait([self.pool.submit(self.sentence, sender, sentence) for sentence in sentences])",
        lines=('sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("AUDIO", audio)]))',),
        # a pool of threads behind a decoupled model
        thread="triton-inference-server/server#7907",
        example={"TEXT": [b"A first sentence that is long.Short.One of some length.End"]},
    ),
    PlantedBug(
        "one_position_for_all",
        "streams",
        also=("company",),
        patterns=("VALUE",),
        line="self.position = start",
        lines=("self.position += 1",),
        # state of the model where there should be one of each stream
        thread="triton-inference-server/server#7907",
    ),
    PlantedBug(
        "cancelled_and_open",
        "streams",
        also=("answers", "neighbours"),
        patterns=("cancel|final",),
        line="return",
        lines=("if sender.is_cancelled():",),
        # a cancelled stream that nobody closes
        thread="triton-inference-server/python_backend#304, triton-inference-server/tensorrtllm_backend#552",
        example={"MAX_TOKENS": [40]},
    ),
    # sequences
    PlantedBug(
        "state_by_place",
        "sequences",
        also=("company",),
        patterns=("AVERAGE",),
        line="self.sums[slot] += frame[0]",
        lines=("for slot, request in enumerate(requests):",),
        # one state, or one per place, where there are many streams
        thread="triton-inference-server/server#2442",
    ),
    PlantedBug(
        "restart_goes_on",
        "sequences",
        patterns=("BALANCE",),
        line="self.balances.setdefault(account, 0)",
        # "The previous sequence did not end before this sequence start"
        thread="triton-inference-server/server#4064",
    ),
    PlantedBug(
        "state_by_modulo",
        "sequences",
        also=("company",),
        patterns=("TRANSCRIPT",),
        line='slot = control(request, "CORRID") % SLOTS',
        # state that leaks from one sequence into another
        thread="triton-inference-server/server#7117",
    ),
    # resources
    PlantedBug(
        "request_history",
        "resources",
        patterns=("memory|bytes|[kKM]i?B",),
        line="self.drift.append([float(value) for value in features.reshape(-1)])",
        needs_line=True,
        # memory grows until the process is killed
        thread="triton-inference-server/server#6781, triton-inference-server/server#6270",
    ),
    PlantedBug(
        "unbounded_cache",
        "resources",
        patterns=("memory|bytes|[kKM]i?B",),
        line="self.known[text] = np.random.default_rng(zlib.crc32(text)).random(32).astype(np.float32)",
        needs_line=True,
        # growth that only many different requests show
        thread="triton-inference-server/server#6781",
    ),
    PlantedBug(
        "keeps_errors",
        "resources",
        patterns=("request that fails", "memory|objects"),
        line="self.failures.append(error)",
        lines=(
            'raise ValueError(f"RGB has {pixels.shape[1]} values, which is no multiple of 3")',
            'pixels = pb_utils.get_input_tensor_by_name(request, "RGB").as_numpy()',
            "responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))",
        ),
        needs_line=True,
        # memory that only errors leave behind
        thread="triton-inference-server/server#7481",
    ),
    PlantedBug(
        "log_handlers",
        "resources",
        patterns=("descriptor|file",),
        line='self.log.addHandler(logging.FileHandler(os.path.join(self.directory, "audit.log"), delay=False))',
        # "too many open files" after some days
        thread="triton-inference-server/server#4880",
    ),
    PlantedBug(
        "watchdog_after_error",
        "resources",
        also=("neighbours",),
        patterns=("thread",),
        line="inverse = np.linalg.inv(matrix)",
        lines=("watchdog = Watchdog(60)", "self.thread.start()", "watchdog.done.set()"),
        # threads of each call that nobody ends
        thread="mem0ai/mem0#4586",
    ),
    PlantedBug(
        "shared_blocks",
        "resources",
        patterns=("shared memory|/dev/shm",),
        line="block = shared_memory.SharedMemory(name, create=True, size=row.nbytes)",
        lines=("block.close()",),
        # /dev/shm fills up
        thread="triton-inference-server/server#7481",
    ),
    # life
    PlantedBug(
        "metrics_socket",
        "life",
        patterns=("in use|reload|start|kill",),
        line="self.server.bind(self.path)",
        needs_line=True,
        # what is of the machine is taken by the first of two processes
        thread="triton-inference-server/server#4145",
    ),
    PlantedBug(
        "endless_flusher",
        "life",
        patterns=("finalize|unload",),
        line="self.flusher.join()",
        lines=("while True:",),
        # a model that is UNLOADING until the server gives up
        thread="triton-inference-server/server#8755, triton-inference-server/server#4678",
    ),
    PlantedBug(
        "unpacks_twice",
        "life",
        patterns=("start|initiali[sz]|load",),
        line='with open(self.path, "w") as file:',
        lines=(
            "with open(self.path) as file:",
            "os.remove(self.path)",
            'raise RuntimeError(f"the vocabulary has {len(words)} words, not {len(WORDS)}")',
        ),
        # two processes that initialize at the same time
        thread="triton-inference-server/server#5211",
    ),
    # edge values
    PlantedBug(
        "empty_signal",
        "edges",
        patterns=("SIGNAL|zero-size|empty",),
        line="peak = np.array([np.max(signal)], np.float32)",
        needs_line=True,
        # inputs of which nothing is left
        thread="triton-inference-server/server#5972, triton-inference-server/server#6960",
    ),
    PlantedBug(
        "plain_softmax",
        "edges",
        patterns=("PROBABILITIES", "nan"),
        line="weights = np.exp(logits)",
        # NaN where the logits are finite
        thread="triton-inference-server/server#4842",
    ),
    PlantedBug(
        "token_table",
        "edges",
        also=("neighbours",),
        patterns=("TOKEN|IndexError|out of bounds",),
        line="vectors = self.table[tokens]",
        needs_line=True,
        # numbers that the type allows and the model does not
        thread="triton-inference-server/server#3219",
        example={"TOKEN": [1, 17, 256, 31999]},
    ),
    PlantedBug(
        "first_letter",
        "edges",
        also=("neighbours",),
        patterns=("NAME|IndexError|out of range|empty",),
        line="initials.append(text[0].upper().encode())",
        needs_line=True,
        # strings that are empty
        thread="triton-inference-server/server#3524",
    ),
    PlantedBug(
        "eight_rows",
        "edges",
        also=("company", "neighbours"),
        patterns=("rows|batch|ValueError|operands|shape",),
        line="np.multiply(x, np.float32(0.5), out=work)",
        lines=("self.work = np.empty((8, 4), np.float32)", "work = self.work[: len(x)]"),
        needs_line=True,
        # another batch size than the one it was tried with
        thread="NVIDIA/DeepLearningExamples#760",
    ),
)

RIGHT = (
    RightModel("add_sub"),
    RightModel("async_lookup"),
    RightModel("background_writer"),
    RightModel("batched_product"),
    RightModel("bounded_cache"),
    RightModel("by_parameter"),
    RightModel("bytes_reverse"),
    RightModel("calls_add_sub", needs=("add_sub",), options={"side_effects": True}),
    RightModel("channels_first"),
    RightModel("counted"),
    RightModel("cyclic_garbage"),
    RightModel("expiring_cache"),
    RightModel("expiring_states"),
    RightModel("flower_labels"),
    RightModel("grows_to_its_peak"),
    RightModel("half_precision"),
    RightModel("implicit_state"),
    RightModel("in_place_on_a_copy"),
    RightModel("json_orders", example={"ORDER": [b'{"items": [{"price": 2.5, "count": 2}]}']}),
    RightModel("kept_copy"),
    RightModel("lazy_weights"),
    RightModel("masked_pooling"),
    RightModel("masks"),
    RightModel("matrix_power", example={"M": [[1, 1], [1, 0]], "POWER": [5]}),
    RightModel("one_hot", example={"CLASS": [0, 9]}),
    RightModel("optional_scale"),
    RightModel("ordered_chunks", example={"TEXT": [b"A first sentence that is long.Short.One of some length.End"]}),
    RightModel("own_deadline"),
    RightModel("ragged_sums"),
    RightModel("refuses_all_unsupported", example={"LANGUAGE": [b"en"], "TEXT": [b"world"]}),
    RightModel("refuses_negative"),
    RightModel("repeat"),
    RightModel("running_sum"),
    RightModel("scratch_files"),
    RightModel("seeded_sampler"),
    RightModel("sender_in_a_thread"),
    RightModel("sorts_and_unsorts"),
    RightModel("stable_softmax"),
    RightModel("stops_when_cancelled"),
    RightModel("stream_errors", example={"PROMPT": [b"two words"]}),
    RightModel("temperature_sampler"),
    RightModel("threaded_streams", example={"MAX_TOKENS": [10]}),
    RightModel("time_stamped"),
    RightModel("tokenizer"),
    RightModel("top_three"),
    RightModel("trace_ids"),
    RightModel("two_instances"),
)
