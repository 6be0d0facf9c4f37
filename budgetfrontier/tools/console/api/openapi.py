"""The OpenAPI document, made from the table of resources and their structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from budgetfrontier import __version__
from budgetfrontier.tools.console.api import PREFIX, ApiResource

_JSON = "application/json"
PROBLEM = "application/problem+json"
_REF = "#/components/schemas/{name}"
_DESCRIPTION = (
    "Look at crawls and steer them: all that the console shows. Within this version fields are only added: ignore "
    "those that you do not know. Times are in seconds since 1970-01-01 UTC."
)
_STATUSES = {
    "400": "a parameter, or a field of the body, cannot be meant",
    "401": "a token is needed, or this one is wrong",
    "403": "the host is not known here, or the role of the token is not enough",
    "404": "there is no such job or thing",
    "503": "the job cannot be read, or too much is asked for at once: try again after `Retry-After` seconds",
}
_OF_COMMANDS = {
    "409": "the command was refused, and nothing was changed",
    "413": "the body is too large",
    "415": "the body is not JSON",
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
        schema = parameters if resource.method == "POST" else _found(parameters, components)
        operation = _operation(resource, schema, result)
        paths.setdefault(PREFIX + resource.path, {})[resource.method.lower()] = operation
    asked = {_name(resource.parameters) for resource in resources if resource.method != "POST"}
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


def described_calls(resources: Sequence[ApiResource]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the resources for people: those that show something, and the commands, each with its parameters."""
    shapes, components = msgspec.json.schema_components([one.parameters for one in resources], ref_template=_REF)
    parts: dict[str, list[dict[str, Any]]] = {"GET": [], "POST": []}
    for resource, shape in zip(resources, shapes, strict=True):
        schema = _found(shape, components)
        required = schema.get("required", ())
        parameters = [
            {"name": name, "required": name in required, "description": one.get("description", "")}
            for name, one in schema["properties"].items()
        ]
        role = "" if resource.method == "GET" else resource.role.name.lower()
        parts["GET" if resource.method == "GET" else "POST"].append(
            {"method": resource.method, "path": PREFIX + resource.path, "summary": resource.summary, "role": role,
             "parameters": parameters}
        )  # fmt: skip
    return [("What it shows", parts["GET"]), ("Commands", parts["POST"])]


def _name(struct: Any) -> str:
    return str(struct.__name__)


def _found(shape: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference stands for."""
    schema: dict[str, Any] = components[shape["$ref"].rpartition("/")[2]]
    return schema


def _operation(resource: ApiResource, parameters: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    of_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", resource.path)
    ]
    found: dict[str, Any] = {
        "operationId": f"{resource.method.lower()}_{resource.name.replace('-', '_')}",
        "summary": resource.summary,
        "parameters": of_path,
        "responses": {"200": {"description": "the answer", "content": {_JSON: {"schema": result}}}},
    }
    statuses = _STATUSES
    if resource.method != "GET":
        found["description"] = f"Needs a token with the role {resource.role.name.lower()}."
        statuses = statuses | _OF_COMMANDS
    if resource.method == "POST":
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": parameters}}}
        found["responses"]["202"] = found["responses"]["200"] | {
            "description": "the command has not ended; `Location` is where its result will be",
            "headers": {"Location": {"schema": {"type": "string"}}},
        }
    else:
        required = parameters.get("required", ())
        found["parameters"] = of_path + [
            _parameter(name, schema, required=name in required) for name, schema in parameters["properties"].items()
        ]
    problem = {PROBLEM: {"schema": {"$ref": _REF.format(name="ApiProblem")}}}
    found["responses"] |= {status: {"description": text, "content": problem} for status, text in statuses.items()}
    return found


def _parameter(name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """Return a parameter of a query; one that may be null is left out instead."""
    schema = dict(schema)
    description = schema.pop("description", "")
    if "anyOf" in schema:
        (schema,) = (one for one in schema["anyOf"] if one != {"type": "null"})
        description = schema.pop("description", description)
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}
