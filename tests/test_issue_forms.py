"""The forms of issues are what the forge takes: a form with a wrong field is shown to nobody, without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml

FORMS = Path(__file__).resolve().parents[1] / ".github" / "ISSUE_TEMPLATE"
Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Part(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    """A part of a form, after GitHub's documented syntax for issue forms."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]+$")] = ""


class _Required(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    required: bool = False


class _Field(msgspec.Struct, forbid_unknown_fields=True):
    label: Text
    description: str = ""
    placeholder: str = ""
    value: str = ""


class _LongField(_Field, forbid_unknown_fields=True):
    render: str = ""


class _Choice(msgspec.Struct, forbid_unknown_fields=True):
    label: Text
    required: bool = False


class _Choices(msgspec.Struct, forbid_unknown_fields=True):
    label: Text
    options: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    description: str = ""


class _List(msgspec.Struct, forbid_unknown_fields=True):
    label: Text
    options: Annotated[list[Text], msgspec.Meta(min_length=1)]
    description: str = ""
    multiple: bool = False
    default: int = 0


class _Prose(msgspec.Struct, forbid_unknown_fields=True):
    value: Text


class _Input(_Part, forbid_unknown_fields=True, tag="input", kw_only=True):
    attributes: _Field
    validations: _Required = _Required()


class _Textarea(_Part, forbid_unknown_fields=True, tag="textarea", kw_only=True):
    attributes: _LongField
    validations: _Required = _Required()


class _Dropdown(_Part, forbid_unknown_fields=True, tag="dropdown", kw_only=True):
    attributes: _List
    validations: _Required = _Required()


class _Checkboxes(_Part, forbid_unknown_fields=True, tag="checkboxes", kw_only=True):
    attributes: _Choices
    validations: _Required = _Required()


class _Markdown(_Part, forbid_unknown_fields=True, tag="markdown", kw_only=True):
    attributes: _Prose


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    name: Text
    description: Text
    body: list[_Input | _Textarea | _Dropdown | _Checkboxes | _Markdown]
    labels: list[Text] = []
    title: str = ""
    assignees: list[Text] = []
    projects: list[Text] = []


def _form(text: str) -> _Form:
    return msgspec.convert(yaml.safe_load(text), _Form)


FILES = sorted(path for path in FORMS.glob("*.yml") if path.name != "config.yml")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_form_has_the_fields_of_a_form(path: Path) -> None:
    form = _form(path.read_text(encoding="utf-8"))
    ids = [part.id for part in form.body if part.id]
    labels = [
        part.attributes.label for part in form.body if not isinstance(part.attributes, _Prose)
    ]
    assert len(set(ids)) == len(ids) and len(set(labels)) == len(labels)
    assert any(not isinstance(part, _Markdown) for part in form.body)


def test_the_chooser_has_its_fields() -> None:
    given: Any = yaml.safe_load((FORMS / "config.yml").read_text(encoding="utf-8"))
    assert set(given) <= {"blank_issues_enabled", "contact_links"}


@pytest.mark.parametrize(
    "wrong",
    [
        "{type: input, id: a, attributes: {label: One, and another}}",
        "{type: input, id: a, attributes: {description: No label}}",
        "{type: text, id: a, attributes: {label: A}}",
        "{type: checkboxes, id: a, attributes: {label: A}}",
        "{type: textarea, id: a b, attributes: {label: A}}",
    ],
)
def test_a_wrong_part_is_found(wrong: str) -> None:
    head = "name: A\ndescription: B\nbody:\n  - "
    assert _form(f"{head}{{type: input, id: a, attributes: {{label: A}}}}\n").body
    with pytest.raises(msgspec.ValidationError):
        _form(f"{head}{wrong}\n")
