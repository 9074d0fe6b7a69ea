"""Validates a manifest: ``manifest.py SCHEMA FILE``. Each document of the file must be what the schema says, unknown fields refused.

SCHEMA is ``kubernetes`` (the package kubernetes-validate has its schemas), a JSON schema, or the definition of a custom resource.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml


def strict(schema: Any) -> Any:
    """A schema of a custom resource that refuses fields it does not name, as the API server does with strict validation."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(part) for name, part in schema.items()}
    if found.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    open_ended = found.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(found.get("properties"), dict) and not open_ended:
        found.setdefault("additionalProperties", False)
    return found


def of_resource(definition: Any, version: str) -> Any:
    """The schema of one version of a custom resource; its metadata is Kubernetes' own."""
    (found,) = (one for one in definition["spec"]["versions"] if one["name"] == version)
    schema = strict(found["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def main(kind: str, file: str) -> None:
    for document in yaml.safe_load_all(Path(file).read_text()):
        if kind == "kubernetes":
            import kubernetes_validate

            kubernetes_validate.validate(
                document, kubernetes_validate.latest_version(), strict=True
            )
            continue
        import jsonschema

        text = Path(kind).read_text()
        if kind.endswith(".json"):
            schema = json.loads(text)
        else:
            schema = of_resource(yaml.safe_load(text), document["apiVersion"].partition("/")[2])
        jsonschema.validate(document, schema)
    print("valid")


main(*sys.argv[1:])
