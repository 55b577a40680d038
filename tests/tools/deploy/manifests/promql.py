"""A reader of the part of Prometheus' language that the deploy files use, on two texts of /metrics.

Between the texts lie `seconds`; every window is taken to begin with the first and end with the second. Arithmetic pairs
series of equal labels, and NaN is what Prometheus makes of it: a mean has it if one value has it, a maximum if all are.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_:][\w:]*|\d+(?:\.\d+)?[smhd]?|=~|!=|>=|<=|==|[{}()\[\],=<>+*/-])')
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
}


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {">": operator.gt, "<": operator.lt, "==": operator.eq}
_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "count": len,
    "avg": lambda values: sum(values) / len(values),
    "max": lambda values: max((v for v in values if not math.isnan(v)), default=math.nan),
}


def read_metrics(text: str, **more: str) -> dict[str, Vector]:
    """Return the samples by name and labels; `more`: labels that the scraper adds."""
    found: dict[str, Vector] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match, line
            written = dict(_LABEL.findall(match[2] or ""))
            labels = {**{name: re.sub(r"\\(.)", r"\1", value) for name, value in written.items()}, **more}
            found.setdefault(match[1], {})[frozenset(labels.items())] = float(match[3])
    return found


@dataclass
class Prometheus:
    """Two scrapes, and the expressions evaluated on them. `metrics`: the names of all that were selected."""

    before: Mapping[str, Vector]
    after: Mapping[str, Vector]
    seconds: float = 60
    metrics: set[str] = field(default_factory=set)

    def evaluate(self, expression: str) -> Value:
        reader = _Reader(self, expression)
        value = reader.logical()
        assert not reader.tokens, f"unread: {reader.tokens}"
        return value


class _Reader:
    def __init__(self, data: Prometheus, expression: str) -> None:
        self.data = data
        self.tokens: list[str] = []
        place = 0
        while place < len(expression.rstrip()):
            match = _TOKEN.match(expression, place)
            assert match, f"not understood: {expression[place:]}"
            self.tokens.append(match[1])
            place = match.end()

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, *wanted: str) -> str:
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, f"{token} in the place of {wanted}"
        return token

    def logical(self) -> Value:
        left = self.intersected()
        while self.peek() == "or":
            self.take()
            right = self.intersected()
            assert isinstance(left, dict) and isinstance(right, dict)
            left = {**right, **left}
        return left

    def intersected(self) -> Value:
        left = self.compared()
        while self.peek() in ("and", "unless"):
            wanted = self.take() == "and"
            labels = self.names() if self.peek() == "on" and self.take() else None
            right = self.compared()
            assert isinstance(left, dict) and isinstance(right, dict)
            there = {_only(series, labels) for series in right}
            left = {series: value for series, value in left.items() if (_only(series, labels) in there) is wanted}
        return left

    def compared(self) -> Value:
        left = self.added()
        while self.peek() in _COMPARISONS:
            compare = _COMPARISONS[self.take()]
            as_number = self.peek() == "bool" and bool(self.take())
            right = self.added()
            assert isinstance(left, dict) and not isinstance(right, dict)
            kept = {labels: value for labels, value in left.items() if compare(value, right)}
            left = {labels: float(labels in kept) for labels in left} if as_number else kept
        return left

    def added(self) -> Value:
        left = self.multiplied()
        while self.peek() in ("+", "-"):
            left = _paired(_ARITHMETIC[self.take()], left, self.multiplied())
        return left

    def multiplied(self) -> Value:
        left = self.single()
        while self.peek() in ("*", "/"):
            left = _paired(_ARITHMETIC[self.take()], left, self.single())
        return left

    def single(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.logical()
            self.take(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token in _AGGREGATES:
            by = self.names() if self.peek() == "by" and self.take() else []
            return _grouped(_AGGREGATES[token], self.arguments()[0], by)
        if self.peek() == "(":
            return self.called(token)
        return self.selected(token, self.data.after)

    def names(self) -> list[str]:
        self.take("(")
        found = []
        while (token := self.take()) != ")":
            found += [token] if token != "," else []
        return found

    def arguments(self) -> list[Value]:
        self.take("(")
        found = [self.logical()]
        while self.take(",", ")") == ",":
            found.append(self.logical())
        return found

    def called(self, function: str) -> Value:
        if function in ("rate", "increase"):
            self.take("(")
            name, place = self.take(), list(self.tokens)
            before = self.selected(name, self.data.before)
            self.tokens = place
            after = self.selected(name, self.data.after)
            self.take("["), self.take(), self.take("]"), self.take(")")
            seconds = self.data.seconds if function == "rate" else 1
            return {labels: (value - before[labels]) / seconds for labels, value in after.items() if labels in before}
        if function == "min_over_time":
            self.take("(")
            name, place = self.take(), list(self.tokens)
            before = self.selected(name, self.data.before)
            self.tokens = place
            after = self.selected(name, self.data.after)
            self.take("["), self.take(), self.take("]"), self.take(")")
            return {labels: min(value, before.get(labels, value)) for labels, value in after.items()}
        first, *others = self.arguments()
        if function == "absent":
            return {} if first else {frozenset(): 1.0}
        if function == "clamp_min":
            (least,) = others
            assert isinstance(first, dict) and isinstance(least, float)
            return {labels: max(value, least) for labels, value in first.items()}
        assert function == "histogram_quantile", f"{function} is not a function"
        (buckets,) = others
        assert isinstance(buckets, dict)  # what it estimates is Prometheus' business; here: from buckets
        assert all("le" in dict(labels) for labels in buckets)
        return {frozenset(): 0.0} if buckets else {}

    def selected(self, name: str, samples: Mapping[str, Vector]) -> Vector:
        """Return the series that are selected; with an offset, those of the scrape before."""
        self.data.metrics.add(name)
        wanted: list[tuple[str, str, str]] = []
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                label, how, pattern = self.take(), self.take(*_MATCHES), self.take()
                wanted.append((label, how, re.sub(r"\\(.)", r"\1", pattern[1:-1])))
                if self.peek() == ",":
                    self.take()
            self.take("}")
        if self.peek() == "offset":
            self.take(), self.take()
            samples = self.data.before
        series = samples.get(name, {})
        for label, how, pattern in wanted:
            series = {k: v for k, v in series.items() if _MATCHES[how](dict(k).get(label, ""), pattern)}
        return dict(series)


def _only(series: Labels, names: list[str] | None) -> Labels:
    """Return the labels of these names, all without any."""
    return series if names is None else frozenset(item for item in series if item[0] in names)


def _paired(function: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, dict) and isinstance(right, dict):
        return {labels: function(value, right[labels]) for labels, value in left.items() if labels in right}
    if isinstance(left, dict):
        assert not isinstance(right, dict)
        return {labels: function(value, right) for labels, value in left.items()}
    if isinstance(right, dict):
        return {labels: function(left, value) for labels, value in right.items()}
    return function(left, right)


def _grouped(function: Callable[[list[float]], float], value: Value, by: list[str]) -> Vector:
    assert isinstance(value, dict)
    groups: dict[Labels, list[float]] = {}
    for labels, number in value.items():
        groups.setdefault(frozenset(item for item in labels if item[0] in by), []).append(number)
    return {labels: function(numbers) for labels, numbers in groups.items()}
