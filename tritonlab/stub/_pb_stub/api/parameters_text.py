"""Parameters of requests and responses that the author builds, as text: a flat dict becomes JSON text
(rules 1.7.2, 1.7.5)."""

from __future__ import annotations

import json
from typing import Any

from .argument_check import INT64_MAX
from .errors import TritonModelException


def encode_parameters(parameters: Any) -> str:
    """Return the JSON text of `parameters`; empty for none.

    Raises TritonModelException for anything but str keys and bool, int or str values, UnicodeEncodeError for text that
    no protocol can carry.
    """
    if parameters is None:
        return ""
    if not isinstance(parameters, dict):
        # the compiler's name of the type, which Triton really shows
        raise TritonModelException("Expect N8pybind114dictE, got %s" % type(parameters))
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException("Expect parameters keys to have type str, found type %s" % type(key))
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                "Expect parameters values to have type bool/int/str, found type %s" % type(value)
            )
        for text in (key, value):
            if isinstance(text, str):
                text.encode("utf-8")
    return json.dumps(parameters) if parameters else ""


def fits_the_server(parameters_json: str) -> bool:
    """Return whether all integers fit 64 bits, as the server requires (rule 4.2.1)."""
    if not parameters_json:
        return True
    values = json.loads(parameters_json).values()
    return all(-INT64_MAX - 1 <= value <= INT64_MAX for value in values if isinstance(value, int))
