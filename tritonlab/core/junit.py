"""JUnit's XML, which CI systems read: suites of tests, each passed, failed, broken or skipped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import NamedTuple

from .quoting import xml_document


class JUnitTest(NamedTuple):
    """One test. `failure`: its text if it failed; `error`: why it could not be run; `skipped`: why it was left out."""

    name: str
    seconds: float | None = None
    failure: str = ""
    error: str = ""
    skipped: str = ""
    #: the name of its suite if it is empty
    classname: str = ""
    #: the text in one line; its first line if it is empty
    message: str = ""


def junit_xml(suites: Sequence[tuple[str, Sequence[JUnitTest]]]) -> bytes:
    """Return the XML of suites, by name."""
    root = ElementTree.Element("testsuites")
    for suite_name, tests in suites:
        counts = {
            "tests": len(tests),
            "failures": sum(bool(test.failure) for test in tests),
            "errors": sum(bool(test.error) for test in tests),
            "skipped": sum(bool(test.skipped) for test in tests),
        }
        suite = ElementTree.SubElement(root, "testsuite", {"name": suite_name})
        suite.attrib.update({key: str(value) for key, value in counts.items()})
        suite.set("time", f"{sum(test.seconds or 0.0 for test in tests):.3f}")
        for test in tests:
            case = ElementTree.SubElement(suite, "testcase", classname=test.classname or suite_name, name=test.name)
            if test.seconds is not None:
                case.set("time", f"{test.seconds:.6f}")
            for kind in ("failure", "error", "skipped"):
                if text := getattr(test, kind):
                    ElementTree.SubElement(case, kind, message=test.message or text.partition("\n")[0]).text = text
    return xml_document(root)
