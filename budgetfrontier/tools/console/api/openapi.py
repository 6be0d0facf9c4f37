"""The OpenAPI document, made from the table of resources and their structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from budgetfrontier import __version__
from budgetfrontier.tools.console.api import PREFIX, ApiResource

PROBLEM = "application/problem+json"
_REF = "#/components/schemas/{name}"
_DESCRIPTION = (
    "Look at crawls and steer them: all that the console shows. Within this version fields are only added: ignore "
    "those that you do not know. Times are in seconds since 1970-01-01 UTC."
)
_STATUSES = {
    "400": "the parameters cannot be meant",
    "401": "a token is needed, or this one is wrong",
    "403": "the host is not known here",
    "404": "there is no such job or thing",
    "503": "the job cannot be read, or too much is asked for at once: try again after `Retry-After` seconds",
}


class ApiProblem(msgspec.Struct, kw_only=True):
    """An error, as RFC 9457 describes them: `detail` says what is wrong and what to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def document(resources: Sequence[ApiResource], *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI document of some resources."""
    structs = [ApiProblem, *(one for resource in resources for one in (resource.parameters, resource.result))]
    shapes, components = msgspec.json.schema_components(structs, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for number, resource in enumerate(resources):
        parameters, result = shapes[1 + 2 * number : 3 + 2 * number]
        operation = _operation(resource, _found(parameters, components), result)
        paths.setdefault(PREFIX + resource.path, {})[resource.method.lower()] = operation
    asked = {_name(resource.parameters) for resource in resources if resource.method == "GET"}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "budgetfrontier", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": {name: one for name, one in components.items() if name not in asked}},
    }
    if has_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _name(struct: Any) -> str:
    return str(struct.__name__)


def _found(shape: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference stands for."""
    schema: dict[str, Any] = components[shape["$ref"].rpartition("/")[2]]
    return schema


def _operation(resource: ApiResource, parameters: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    of_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", resource.path)
    ]
    required = parameters.get("required", ())
    of_query = [
        _parameter(name, schema, required=name in required) for name, schema in parameters["properties"].items()
    ]
    problem = {PROBLEM: {"schema": {"$ref": _REF.format(name="ApiProblem")}}}
    return {
        "operationId": f"{resource.method.lower()}_{resource.name.replace('-', '_')}",
        "summary": resource.summary,
        "parameters": of_path + of_query,
        "responses": {
            "200": {"description": "the answer", "content": {"application/json": {"schema": result}}},
            **{status: {"description": text, "content": problem} for status, text in _STATUSES.items()},
        },
    }


def _parameter(name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """Return a parameter of a query; one that may be null is left out instead."""
    schema = dict(schema)
    description = schema.pop("description", "")
    if "anyOf" in schema:
        (schema,) = (one for one in schema["anyOf"] if one != {"type": "null"})
        description = schema.pop("description", description)
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}
