"""`ProcessBound`, the base of handles, which no other process can use."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class ProcessBound:
    """An object of this process only. `pickle` refuses it with a sentence that ends with `_elsewhere`, the remedy."""

    _elsewhere: ClassVar[str] = (
        "open ports with tritonlab.serve(), and call tritonlab.connect(ADDRESS, headers=…).model(NAME) in the other "
        "process"
    )

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        kind = f"{type(self).__module__.partition('.')[0]}.{type(self).__name__}"
        raise TypeError(f"a {kind} belongs to its process and cannot be copied or pickled: {self._elsewhere}")
