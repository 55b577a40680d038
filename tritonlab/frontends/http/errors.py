"""The HTTP statuses of error codes, and the body of an error (rule 3.6)."""

from __future__ import annotations

from ...core.status import Code, TritonError
from . import json_writer

STATUS = {
    Code.UNKNOWN: 400,
    Code.INTERNAL: 500,
    Code.NOT_FOUND: 404,
    Code.INVALID_ARG: 400,
    Code.UNAVAILABLE: 503,
    Code.UNSUPPORTED: 501,
    Code.ALREADY_EXISTS: 400,
    Code.CANCELLED: 400,
}


def status(error: TritonError) -> int:
    return STATUS[error.code]


def body(text: str) -> bytes:
    return b'{"error":' + json_writer.text(text) + b"}"
