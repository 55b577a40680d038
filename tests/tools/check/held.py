"""More models with one bug each, of kinds that a first corpus had missed, and right ones that look like them: the exam
of `all_planted` takes them with those of `planted`.
"""

from __future__ import annotations

from tests.tools.check.planted import ANY_SIZE, STREAM, TEXT, VECTOR, Planted, answers, executes

ONE_BY_ONE = VECTOR.replace("dynamic_batching {}\n", "")

BUGS = [
    Planted(
        "stale_after_exception",
        VECTOR,
        executes(
            """
            for request in requests:
                x = get(request, "X")
                self.rows.append(answer(Y=x * 2))
                if np.isnan(x).any():
                    raise ValueError("X has NaN")
            made, self.rows = self.rows[: len(requests)], self.rows[len(requests) :]
            return made
            """,
            "self.rows = []",
        ),
        "neighbours",
        "leaves something behind|fails with a bad one",
    ),
    Planted(
        "imputed_with_batch",
        VECTOR,
        executes("""
            rows = [get(request, "X") for request in requests]
            whole = np.concatenate(rows)
            known = ~np.isnan(whole)
            mean = np.where(known, whole, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            filled = np.where(known, whole, mean).astype(np.float32)
            return [answer(Y=part) for part in np.split(filled, np.cumsum([len(row) for row in rows])[:-1])]
        """),
        "company|edges",
        "batch|row",
    ),
    Planted(
        "print_options",
        VECTOR.replace('"Y" data_type: TYPE_FP32 dims: [4]', '"Y" data_type: TYPE_STRING dims: [1]'),
        answers("""
            x = get(request, "X")
            if (np.abs(x) > 500).any():
                np.set_printoptions(precision=2)
            return answer(Y=np.array([[str(row / 3).encode()] for row in x], object))
        """),
        "company|edges",
        "after",
    ),
    Planted(
        "shared_deadline",
        VECTOR,
        executes(
            """
            until = time.monotonic() + 0.05
            made = []
            for request in requests:
                time.sleep(0.02)
                if time.monotonic() > until:
                    made.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("out of time")))
                else:
                    made.append(answer(Y=get(request, "X") * 2))
            return made
            """,
            imports="import time",
        ),
        "company|resources",
        "batch|under way",  # two requests at once are a batch on a busy machine
    ),
    Planted(
        "fixed_scratch_file",
        VECTOR,
        answers(
            """
            path = os.path.join(tempfile.gettempdir(), "scratch.npy")
            np.save(path, get(request, "X") * 2)
            return answer(Y=np.load(path))
            """,
            imports="import os\nimport tempfile",
        ),
        "company|life",
        "instance",
    ),
    Planted(
        "cut_in_batches",
        ANY_SIZE,
        executes("""
            if len(requests) == 1:
                return [answer(Y=get(requests[0], "X") * 2)]
            return [answer(Y=get(request, "X")[:, :32] * 2) for request in requests]
        """),
        "company",
        "batch",
    ),
    Planted(
        "lost_handle",
        TEXT,
        answers(
            """
            file = os.open("/dev/null", os.O_RDONLY)
            try:
                texts = [text.decode().upper().encode() for text in get(request, "TEXT").ravel()]
            except UnicodeDecodeError as error:
                return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
            os.close(file)
            return answer(OUT=np.array(texts, object).reshape(-1, 1))
            """,
            imports="import os",
        ),
        "resources",
        "descriptor",
    ),
    Planted(
        "file_per_request",
        VECTOR,
        answers(
            """
            with tempfile.NamedTemporaryFile(prefix="tritonlab-test-", delete=False) as file:
                file.write(get(request, "X").tobytes())
            return answer(Y=get(request, "X") * 2)
            """,
            imports="import tempfile",
        ),
        "resources",
        "1 file behind",
    ),
    Planted(
        "file_by_name_per_request",
        VECTOR,
        answers(
            """
            with open(f"{self.folder}/tritonlab-test-{uuid.uuid4()}", "wb") as file:
                file.write(get(request, "X").tobytes())
            return answer(Y=get(request, "X") * 2)
            """,
            "self.folder = '/tmp'",
            imports="import uuid",
        ),
        "resources",
        "1 file behind",
    ),
    Planted(
        "keyed_by_sum",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            key = (x.shape, float(x.sum()))
            if key not in self.known:
                if len(self.known) > 100:
                    self.known.clear()
                self.known[key] = x * 2
            return answer(Y=self.known[key])
            """,
            "self.known = {}",
        ),
        "company",
        "after another request",
    ),
    Planted(
        "keyed_by_begin",
        TEXT,
        answers(
            """
            texts = []
            for text in get(request, "TEXT").ravel():
                if len(self.known) > 100:
                    self.known.clear()
                texts.append(self.known.setdefault(text[:16], text[::-1]))
            return answer(OUT=np.array(texts, object).reshape(-1, 1))
            """,
            "self.known = {}",
        ),
        "company",
        "after another request",
    ),
    Planted(
        "leak_per_execution",
        ONE_BY_ONE,
        executes(
            """
            self.kept.append(np.ones(20000))
            return [answer(Y=get(request, "X") * 2) for request in requests]
            """,
            "self.kept = []",
        ),
        "resources",
        "leaves 1[56]0 kB of memory",
        "self.kept.append",
    ),
    Planted(
        "counter",
        VECTOR,
        answers(
            """
            self.count += 1
            return answer(Y=np.full(get(request, "X").shape, self.count, np.float32))
            """,
            "self.count = 0",
        ),
        "company",
        "keeps something between requests",
    ),
    Planted(
        "long_deaf_stream",
        STREAM,
        executes(
            """
            for request in requests:
                threading.Thread(target=self.send, args=(request.get_response_sender(),), daemon=True).start()
            """,
            more="""
            def send(self, sender):
                for number in range(2000):
                    sender.send(answer(OUT=np.array([number], np.int32)))
                    time.sleep(0.05)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            """,
            imports="import threading\nimport time",
        ),
        "streams",
        "goes on after a stream is cancelled",
    ),
    Planted(
        "lock_over_await",
        STREAM,
        """import asyncio
import threading


class TritonPythonModel:
    def initialize(self, args):
        self.lock = threading.Lock()

    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            with self.lock:
                for number in range(max(min(int(get(request, "N").ravel()[0]), 20), 1)):
                    if sender.is_cancelled():
                        break
                    await asyncio.sleep(0.002)
                    sender.send(answer(OUT=np.array([number], np.int32)))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
        "company|streams",
        "no answer in time",
    ),
    Planted(
        "late_binding",
        f"{VECTOR} model_transaction_policy {{ decoupled: true }}",
        executes(
            """
            threads = []
            for request in requests:
                sender, x = request.get_response_sender(), get(request, "X").copy()
                threads.append(threading.Timer(0.002, lambda: self.send(sender, x * 2)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            """,
            more="""
            def send(self, sender, y):
                try:
                    sender.send(answer(Y=y), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                except Exception:
                    pass
            """,
            imports="import threading",
        ),
        "answers",
        "In a batch of 2, the response sender is dropped without the final flag",
    ),
    Planted(
        "overflow_raises_later",
        VECTOR,
        answers("""
            x = get(request, "X")
            if (x > 9).any():
                np.seterr(over="raise")
            return answer(Y=1 / (1 + np.exp(-x)))
        """),
        "company",
        "fails after another request",
    ),
    Planted(
        "keyed_by_two_digits",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            key = ",".join(f"{value:.2f}" for value in x.ravel()) + str(x.shape)
            if len(self.known) > 100:
                self.known.clear()
            return answer(Y=self.known.setdefault(key, x * 2))
            """,
            "self.known = {}",
        ),
        "company",
        "after another request",
    ),
    Planted(
        "labels_of_a_set",
        TEXT,
        answers(
            """
            labels = [self.labels[len(text) % 6].encode() for text in get(request, "TEXT").ravel()]
            return answer(OUT=np.array(labels, object).reshape(-1, 1))
            """,
            "self.labels = list({'cat', 'dog', 'bird', 'fish', 'horse', 'cow'})",
        ),
        "life",
        "The order of a set",
    ),
]

CORRECT = [
    Planted(
        "uptime_in_seconds",
        VECTOR.replace("output [", 'output [{ name: "UPTIME" data_type: TYPE_INT64 dims: [1] }, '),
        answers(
            """
            x = get(request, "X")
            seconds = np.full((len(x), 1), int(time.monotonic() - self.began), np.int64)
            return answer(Y=x * 2, UPTIME=seconds)
            """,
            "self.began = time.monotonic()",
            imports="import time",
        ),
    ),
    Planted(
        "large_cache",
        TEXT,
        answers(
            """
            texts = [self.embed(text) for text in get(request, "TEXT").ravel()]
            return answer(OUT=np.array(texts, object).reshape(-1, 1))
            """,
            "self.embed = functools.lru_cache(maxsize=4096)(lambda text: text.upper() * 60)",
            imports="import functools",
        ),
    ),
    Planted(
        "imputed_with_row",
        VECTOR,
        answers("""
            x = get(request, "X")
            return answer(Y=np.where(np.isnan(x), np.float32(0), x))
        """),
    ),
    Planted(
        "keyed_by_bytes",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            if len(self.known) > 50:
                self.known.clear()
            return answer(Y=self.known.setdefault((x.shape, x.tobytes()), x * 2))
            """,
            "self.known = {}",
        ),
    ),
    Planted(
        "own_scratch_file",
        VECTOR,
        answers(
            """
            with tempfile.TemporaryFile() as file:
                np.save(file, get(request, "X") * 2)
                file.seek(0)
                return answer(Y=np.load(file))
            """,
            imports="import tempfile",
        ),
    ),
    Planted(
        "plain_decode",
        TEXT,
        answers("""
            texts = [text.decode().upper().encode() for text in get(request, "TEXT").ravel()]
            return answer(OUT=np.array(texts, object).reshape(-1, 1))
        """),
    ),
    Planted(
        "largest",
        ANY_SIZE.replace('"Y" data_type: TYPE_FP32 dims: [-1]', '"Y" data_type: TYPE_FP32 dims: [1]'),
        answers("""
            x = get(request, "X")
            return answer(Y=np.array([[row[np.argmax(row)]] for row in x], np.float32).reshape(-1, 1))
        """),
    ),
]
