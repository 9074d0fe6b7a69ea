"""Reads each format as its consumer does: well-formed, by its schema, and what it counts."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import jsonschema
from markdown_it import MarkdownIt

from hpushim.report import Assessment
from hpushim.report.json import schema

#: GitLab's code quality report, from the table of fields in its documentation.
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./|/)"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
#: What Jenkins' schema of JUnit (junit-10.xsd) and the pages of GitLab and GitHub let each element have.
JUNIT = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set[str](),
}


def _text(made: Assessment, text: str) -> dict[str, int]:
    if made.report.stage == "migrated":  # what was done, not every finding
        counted = re.search(r"^Findings: ([\d,]+) = ", text, re.M)
        return {"findings": int(counted[1].replace(",", "")) if counted else -1}
    told = [
        int(n.replace(",", ""))
        for n in re.findall(r"^(?!Findings|Legend)\S[^\n]*: ([\d,]+)$", text, re.M)
    ]
    return {"findings": sum(told)}


def _json(made: Assessment, text: str) -> dict[str, int]:
    data = json.loads(text)
    jsonschema.validate(data, schema())
    found = [f for file in data["files"] for f in file["findings"]]
    assert len(
        {(file["path"], f["fingerprint"]) for file in data["files"] for f in file["findings"]}
    ) == len(found)
    handled = Counter(f["handling"] for f in found)
    return {"findings": len(found), "manual": handled["by-hand"], "no_action": handled["note"]}


def _sarif(made: Assessment, text: str) -> dict[str, int]:
    (run,) = json.loads(text)["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        start, end = (
            (region["startLine"], region["startColumn"]),
            (region["endLine"], region["endColumn"]),
        )
        assert (1, 1) <= start <= end
        for fix in result.get("fixes", ()):
            (change,) = fix["artifactChanges"]
            assert (
                change["artifactLocation"]
                == result["locations"][0]["physicalLocation"]["artifactLocation"]
            )
            assert change["replacements"]
    # Each rewrite that waits carries its fix, or says why it has none.
    waiting = sum("fixes" in one or "fix" in one["properties"] for one in run["results"])
    assert waiting == made.summary.pending_safe + made.summary.pending_unsafe
    return {"findings": len(run["results"])}


def _github(made: Assessment, text: str) -> dict[str, int]:
    lines = text.splitlines()
    assert all(re.match(r"::(error|warning|notice) [^\n]*?::", line) for line in lines)
    return {"findings": len(lines) - 1}


def _gitlab(made: Assessment, text: str) -> dict[str, int]:
    data = json.loads(text)
    jsonschema.validate(data, GITLAB)
    assert len({issue["fingerprint"] for issue in data}) == len(data)
    return {"findings": len(data)}


def _junit(made: Assessment, text: str) -> dict[str, int]:
    root = ET.fromstring(text)
    for node in root.iter():
        assert set(node.attrib) <= JUNIT[node.tag], (node.tag, node.attrib)
    for node in (root, *root):
        assert int(node.get("tests", "-1")) == len(list(node.iter("testcase")))
        for what, child in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if node is not root or what in JUNIT["testsuites"]:
                assert int(node.get(what, "-1")) == len(list(node.iter(child)))
    empty = [case for case in root.iter("testcase") if case.get("name") == "nothing found"]
    return {"findings": len(list(root.iter("testcase"))) - len(empty)}


def _csv(made: Assessment, text: str) -> dict[str, int]:
    head, *rows = csv.reader(io.StringIO(text))
    assert all(len(row) == len(head) for row in rows)
    assert not any(cell.startswith(("=", "@", "+")) for row in rows for cell in row)
    return {
        "findings": len(rows),
        "manual": sum(row[head.index("who")] == "by-hand" for row in rows),
    }


class _Page(HTMLParser):
    """Counts list items in groups; holds that each element that was opened is closed."""

    VOID = frozenset({"meta", "input", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.places = 0
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.places += tag == "li" and "details" in self.open
        self.loaded += [
            str(value)
            for name, value in attrs
            if name in ("src", "href") and not str(value).startswith("#")
        ]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def _html(made: Assessment, text: str) -> dict[str, int]:
    page = _Page()
    page.feed(text)
    assert not page.open and not page.loaded and "url(http" not in text and "@import" not in text
    return {"findings": page.places}


def _markdown(made: Assessment, text: str) -> dict[str, int]:
    """Rendered: each table has as many cells in a row as columns, and no markup is left in the text."""
    columns = cells = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            cells = 0
        elif token.type in ("th_open", "td_open"):
            cells += 1
        elif token.type == "thead_close":
            columns = cells
        elif token.type == "tr_close" and columns and cells:
            assert cells <= columns or token.map is None
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert "\n|" not in re.sub(r"<pre>.*?</pre>", "", rendered, flags=re.DOTALL), (
        "a table that is none"
    )
    told = [int(n) for n in re.findall(r"^### [^\n]*: (\d+) by hand$", text, re.M)]
    return {"manual": sum(told)}


def _concise(made: Assessment, text: str) -> dict[str, int]:
    return {"findings": len(text.splitlines()) - 1}


#: Each gives what it counts, under the names of a summary.
READERS: dict[str, Callable[[Assessment, str], dict[str, int]]] = {
    "text": _text, "concise": _concise, "json": _json, "html": _html, "markdown": _markdown, "csv": _csv, "sarif": _sarif,
    "github": _github, "gitlab": _gitlab, "junit": _junit,
}  # fmt: skip
