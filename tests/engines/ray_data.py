"""`tritonlab.ray.map_batches` on Ray Data itself, run by Ray's own Python: `python -m tests.engines.ray_data
REPOSITORY`, which has the models of `write_plain`. Prints one line of JSON: what was seen and what was expected, by
name."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

from tritonlab.ray import map_batches

Pair = tuple[Any, Any]
#: Of 1000 rows, those that the model fails for: two whole requests of eight, and single rows in others.
FAIL = [3, 77, *range(104, 120), 999]


def main(repository: str) -> None:
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    proofs: dict[str, Callable[[str], Pair]] = {
        "1000 rows of 7 blocks, some of which fail": numbers,
        "a block of which every row fails": all_of_a_block,
        "vectors of 64 bits for an input of 32": vectors,
        "texts, and numbers beside them": texts,
        "lists of texts, of several lengths": lists,
        "rows for a model without a batch dimension": plain,
        "no rows": nothing,
        "what Ray makes of the result": further,
        "a model that sends any number of responses": refused,
        "a column that is missing": missing,
    }
    found = {}
    for name, prove in proofs.items():
        try:
            found[name] = prove(repository)
        except Exception as error:
            found[name] = (f"{type(error).__name__}: {str(error)[-1500:]}", "no error")
    print("FOUND " + json.dumps(found), flush=True)
    ray.shutdown()


def _numbers(bad: list[int], rows: int = 1000, blocks: int = 7) -> Any:
    items = [{"IN": -1 - n if n in bad else n, "n": n} for n in range(rows)]  # int64, and the model has 32 bits
    return ray.data.from_items(items, override_num_blocks=blocks)


def numbers(repository: str) -> Pair:
    mapped = map_batches(_numbers(FAIL), f"{repository}/double", batch_size=50, num_cpus=0.1, concurrency=3)
    rows = mapped.take_all()
    right = [row["n"] for row in rows if not row["error"] and row["OUT"] == 2 * row["n"] == 2 * row["IN"]]
    failed = [row["n"] for row in rows if row["error"] == "negative" and np.isnan(row["OUT"]).all()]
    order = [row["n"] for row in rows] == list(range(1000))
    return (order, failed, len(right)), (True, FAIL, 1000 - len(FAIL))


def all_of_a_block(repository: str) -> Pair:
    dataset = _numbers(list(range(10)), rows=30, blocks=3)
    table = map_batches(dataset, f"{repository}/double", batch_size=10, num_cpus=0.1).to_pandas()
    arrays = [each.tolist() for each in table["OUT"]]
    plain = map_batches(dataset, f"{repository}/one", batch_size=10, num_cpus=0.1).sort("n").to_pandas()["OUT"]
    missing = np.isnan(plain.to_numpy(np.float32))
    seen = arrays[8:12], np.flatnonzero(missing).tolist(), plain[10:12].tolist()
    return seen, ([[], [], [20], [22]], list(range(10)), [20, 22])


def vectors(repository: str) -> Pair:
    values = np.arange(60, dtype=np.float64).reshape(20, 3)
    dataset = ray.data.from_items([{"x": row, "n": n} for n, row in enumerate(values)], override_num_blocks=3)
    mapped = map_batches(dataset, f"{repository}/double", columns={"IN": "x"}, batch_size=6, num_cpus=0.1)
    rows = mapped.take_all()
    seen = np.stack([row["OUT"] for row in rows])
    return (seen.tolist(), str(seen.dtype), str(rows[0]["x"].dtype)), ((values * 2).tolist(), "float32", "float64")


def texts(repository: str) -> Pair:
    words = ["", "añb", "\U0001f600", "x" * 300] * 5
    dataset = ray.data.from_items([{"TEXT": word, "k": n} for n, word in enumerate(words)], override_num_blocks=3)
    rows = map_batches(dataset, f"{repository}/words", batch_size=4, num_cpus=0.1).take_all()
    seen = [(bytes(row["UPPER"]).decode(), int(row["LENGTH"]), row["k"], row["error"]) for row in rows]
    return seen, [(word.upper(), len(word.encode()), n, "") for n, word in enumerate(words)]


def lists(repository: str) -> Pair:
    items = [{"TEXT": [f"a{n}"] * (n % 3 + 1), "k": n} for n in range(12)]
    dataset = ray.data.from_items(items, override_num_blocks=4)
    rows = map_batches(dataset, f"{repository}/lists", batch_size=3, num_cpus=0.1).sort("k").take_all()
    seen = [
        ([bytes(each).decode() for each in row["UPPER"]], list(map(int, row["LENGTH"])), row["error"]) for row in rows
    ]
    return seen, [([f"A{n}"] * (n % 3 + 1), [len(f"A{n}")] * (n % 3 + 1), "") for n in range(12)]


def plain(repository: str) -> Pair:
    dataset = ray.data.from_items([{"IN": [float(n), 1.0]} for n in range(12)], override_num_blocks=2)
    rows = map_batches(dataset, f"{repository}/sleeper", batch_size=5, num_cpus=0.1).take_all()
    return [row["OUT"].tolist() for row in rows], [[2 * n, 2] for n in range(12)]


def nothing(repository: str) -> Pair:
    dataset = _numbers([], rows=20, blocks=2).filter(lambda row: row["n"] < 0)
    mapped = map_batches(dataset, f"{repository}/double", num_cpus=0.1)
    return len(mapped.take_all()), 0


def further(repository: str) -> Pair:
    mapped = map_batches(_numbers(FAIL), f"{repository}/double", batch_size=50, num_cpus=0.1, concurrency=2)
    with tempfile.TemporaryDirectory() as scratch:
        mapped.write_parquet(scratch)
        stored = ray.data.read_parquet(scratch)
        last = stored.filter(lambda row: row["error"] == "").sort("n", descending=True).take(2)
        return [row["OUT"].tolist() for row in last] + [stored.count()], [[2 * 998], [2 * 997], 1000]


def refused(repository: str) -> Pair:
    return _error(map_batches(_numbers([]), f"{repository}/stream", num_cpus=0.1), "'stream' sends any number")


def missing(repository: str) -> Pair:
    dataset = ray.data.from_items([{"x": 1.0}])
    return _error(map_batches(dataset, f"{repository}/double", num_cpus=0.1), "no column 'IN' for the input 'IN'")


def _error(mapped: Any, text: str) -> Pair:
    try:
        mapped.take_all()
    except Exception as error:
        return text if text in str(error) else str(error)[-800:], text
    return "no error", text


if __name__ == "__main__":
    main(sys.argv[1])
