"""The report as JUnit XML, which most CI servers draw: a suite for each file, a case for each finding."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hpushim import showing
from hpushim.model import FileResult, Report
from hpushim.report import words
from hpushim.report.assessment import Item, assess


def render_junit(report: Report) -> str:
    """What `check` fails for is a failure; what is rewritten or a note passes; a file that could not be assessed is an error."""
    made = assess(report)
    root = ET.Element("testsuites", name="hpushim")
    items = iter(made.items)
    suites = [_suite(file, [next(items) for _ in file.findings]) for file in report.files]
    for what in ("tests", "failures", "errors"):
        root.set(what, str(sum(int(suite.get(what, "0")) for suite in suites)))
    root.set("time", "0")
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suite(file: FileResult, items: list[Item]) -> ET.Element:
    path = _text(showing.quoted(file.path))
    cases = [_case(path, item) for item in items]
    if not cases:
        cases = [ET.Element("testcase", classname=path, name="nothing found", time="0")]
    if file.status in ("failed", "skipped"):
        kind = "error" if file.status == "failed" else "skipped"
        for case in cases:
            del case[:]
        for case in cases[:1]:
            ET.SubElement(case, kind, message=_text(file.reason or file.status))
    suite = ET.Element("testsuite", name=path, tests=str(len(cases)))
    for what, child in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(what, str(sum(case.find(child) is not None for case in cases)))
    suite.set("time", "0")
    suite.extend(cases)
    return suite


def _case(path: str, item: Item) -> ET.Element:
    finding = item.finding
    name = f"{finding.code} {finding.name} {finding.line}:{finding.column}"
    case = ET.Element("testcase", classname=path, name=_text(name), time="0")
    message = _text(f"{finding.message} {words.tags(item)}".rstrip())
    if item.handling == "rewritten" or finding.severity == "note":
        ET.SubElement(case, "system-out").text = message
    else:
        failure = ET.SubElement(case, "failure", message=message, type=item.finding.severity)
        failure.text = _text(f"{path}:{finding.line}:{finding.column}: {message}")
    return case


def _text(text: str) -> str:
    """Text that XML can hold: no control characters, no halves of characters."""
    return showing.one_line(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
