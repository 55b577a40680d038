"""Corrections of some planted bugs, two of each relation: in each model.py, texts and what comes in their place.

With them the exam checks whether the tests that findings are kept as pass once a model is right.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

Changes = tuple[tuple[str, str], ...]

FIXED: Mapping[str, Changes] = {
    "length_sorted": (("        texts.sort(key=len, reverse=True)\n", ""),),
    "train_mode_norm": (("self.training = True", "self.training = False"),),
    "finite_guard": (
        ("        if not np.isfinite(readings).all():\n", ""),
        ("            error = pb_utils", "        error = pb_utils"),
        (
            "            return [pb_utils.InferenceResponse(output_tensors=[], error=error) for _ in requests]\n",
            "",
        ),
        (
            "        for row in rows:\n",
            "        for row in rows:\n"
            "            if not np.isfinite(row).all():\n"
            "                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))\n"
            "                continue\n",
        ),
    ),
    "number_parser": (
        (
            '            values = [float(text.decode("utf-8").replace(",", "")) for text in texts.reshape(-1)]\n',
            "            try:\n"
            '                values = [float(text.decode("utf-8").replace(",", "")) for text in texts.reshape(-1)]\n'
            "            except ValueError as error:\n"
            "                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))\n"
            "                continue\n",
        ),
    ),
    "double_precision": (("keepdims=True) / 255", 'keepdims=True).astype("float32") / 255'),),
    "squeezed": (("np.clip(image, -30, 30).squeeze()", "np.clip(image, -30, 30)[:, 0]"),),
    "one_position_for_all": (
        ("self.position = start", "position = start"),
        ("[self.position]", "[position]"),
        ("self.position += 1", "position += 1"),
    ),
    "deaf_generator": (
        (
            "            time.sleep(0.01)\n",
            "            time.sleep(0.01)\n            if sender.is_cancelled():\n                break\n",
        ),
    ),
    "restart_goes_on": (("self.balances.setdefault(account, 0)", "self.balances[account] = 0"),),
    "state_by_modulo": (
        ('self.table = [b""] * SLOTS', "self.table = {}"),
        ('control(request, "CORRID") % SLOTS', 'control(request, "CORRID")'),
    ),
    "unbounded_cache": (
        (
            "        if text not in self.known:\n",
            "        if text not in self.known:\n            if len(self.known) > 99:\n"
            "                self.known.clear()\n",
        ),
    ),
    "request_history": (
        ("self.drift = []", "self.drift = collections.deque(maxlen=100)"),
        ("import numpy as np\n", "import collections\n\nimport numpy as np\n"),
    ),
    "metrics_socket": (
        (
            """f"count-{args['model_name']}-{zlib.crc32(args['model_repository'].encode()):08x}.sock\"""",
            'f"count-{os.getpid()}.sock"',
        ),
    ),
    "endless_flusher": (
        ("            self.events.get()\n", "            if self.events.get() is None:\n                return\n"),
        ("        self.flusher.join()\n", "        self.events.put(None)\n        self.flusher.join()\n"),
    ),
    "empty_signal": (("np.max(signal)", "np.max(signal, initial=-np.inf)"),),
    "first_letter": (("text[0].upper()", "text[:1].upper()"),),
}


def write_fixed(name: str, wrong: Path, target: Path) -> Path:
    """Copy the model of that name from the repository `wrong` to `target`, fixed, and return its directory. Raises
    ValueError for a text that is not there once."""
    directory = Path(shutil.copytree(wrong / name, target / name))
    file = directory / "1" / "model.py"
    source = file.read_text()
    for old, new in FIXED[name]:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} is {source.count(old)} times in {file}")
        source = source.replace(old, new)
    file.write_text(source)
    return directory
