"""The inputs of a form, in pages. A model may have hundreds of inputs, and each row has some thirty widgets, so a row
is made when it is first shown or a program needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np

from ....core.short_number import size_text
from .fields import button, label_looks, side_by_side
from .input_files import InputFile
from .input_row import InputRow
from .input_values import InputSpec, Mode, as_sent, cast, random_value

#: The most rows of a page, and the most inputs of a form without pages.
PAGE = 10
_MOST_WHOLE = 12
#: The most bytes of a dropped file; `formKeys.ts` has the same number.
MOST_DROPPED = 50_000_000


class UnseenInput:
    """The stand-in for a row that was not opened yet: like the row it sends random values, but no optional input."""

    def __init__(self, spec: InputSpec, number: int, seed: int) -> None:
        self.spec = spec
        self.sent = not spec.optional
        self.random = True
        self._number = number
        self._seed = seed

    def value(self, batch: int, namespace: Mapping[str, Any], request: int = 0) -> Any:
        random = np.random.default_rng([self._seed, self._number, request])
        return as_sent(self.spec, cast(self.spec, random_value(self.spec, self.spec.shape(batch, ()), random)))


class InputPages(Mapping[str, InputRow]):
    """The rows of the inputs, by name. `box` shows a page of them, with a search field if they are many. `changed` is
    called after every change of a value.
    """

    def __init__(self, specs: Sequence[InputSpec]) -> None:
        self.changed: Callable[[], object] = lambda: None
        #: the rows that were made so far
        self.made: dict[str, InputRow] = {}
        self._specs = {spec.name: (number, spec) for number, spec in enumerate(specs)}
        self._batch, self._seed, self._first = 1, 0, 0
        self.find = widgets.Text(description="find an input", placeholder="part of its name", **label_looks())
        self.earlier = button("Previous", lambda: self._turn(self._first - PAGE))
        self.later = button("Next", lambda: self._turn(self._first + PAGE))
        self.position = widgets.HTML()
        self.rows_box = widgets.VBox()
        self.bar = side_by_side(self.find, self.earlier, self.later, self.position)
        self.box = widgets.VBox([self.bar, self.rows_box] if len(specs) > _MOST_WHOLE else [self.rows_box])
        self.find.observe(lambda change: self._turn(0), names="value")
        self._show()

    def _turn(self, first: int) -> None:
        self._first = first
        self._show()

    def _show(self) -> None:
        """Show the page, of the inputs that match the search."""
        word = self.find.value.strip().lower()
        found = [name for name in self._specs if word in name.lower()]
        page = found if len(self._specs) <= _MOST_WHOLE else found[self._first : self._first + PAGE]
        self.rows_box.children = tuple(self[name].box for name in page)
        self.earlier.disabled, self.later.disabled = self._first == 0, self._first + PAGE >= len(found)
        where = f"{self._first + 1} to {self._first + len(page)} of {len(found)}" if page else "no input has that name"
        self.position.value = (
            f"<span class='tl-panel tl-dim'>{where}; the inputs that were not opened are random</span>"
        )

    def arrange(self, batch: int, seed: int) -> None:
        """Apply the batch size and the seed of the form to all inputs."""
        self._batch, self._seed = batch, seed
        for row in list(self.made.values()):
            row.arrange(batch, seed)

    def drop(self, number: int, files: Sequence[Mapping[str, Any]], contents: Sequence[bytes]) -> None:
        """Give the files dropped on an input to its row. Of a file that is too large only name and size come."""
        row = self[list(self._specs)[number]]
        large = [file for file in files if file["size"] > MOST_DROPPED]
        if large:
            size, most = size_text(large[0]["size"]), size_text(MOST_DROPPED)
            advice = "read it in the notebook and use Python"
            row.say(f"{large[0]['name']} has {size}, more than the {most} that a browser should carry: {advice}")
            return
        row.drop([InputFile(str(file["name"]), data) for file, data in zip(files, contents, strict=True)])

    def clear_problems(self) -> None:
        """Remove the errors of actions on inputs."""
        for row in list(self.made.values()):
            row.clear_problem()

    def senders(self) -> dict[str, InputRow | UnseenInput]:
        """Return the source of each input's value."""
        return {
            name: self.made.get(name) or UnseenInput(spec, number, self._seed)
            for name, (number, spec) in self._specs.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return each input and the source of its value, as JSON values."""
        return {
            name: self.made[name].to_dict() if name in self.made else spec.to_dict(Mode.RANDOM)
            for name, (_, spec) in self._specs.items()
        }

    def __getitem__(self, name: str) -> InputRow:
        if name not in self.made:
            number, spec = self._specs[name]
            row = self.made[name] = InputRow(spec, number)
            row.arrange(self._batch, self._seed)
            row.changed = lambda: self.changed()
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)
