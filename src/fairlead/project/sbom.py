"""The bill of materials: what an app is made of, in the CycloneDX form. The same environment gives the same bytes."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from fairlead.project.identity import Product


def bill_of_materials(product: Product) -> dict[str, Any]:
    """The app, and every package it brings along, with versions as they are installed here."""
    found: dict[str, Distribution] = {}
    for requirement in ("fairlead", *product.package.get("requires", ())):
        _collect(requirement, found)
    name, version = product.package["name"], product.package["version"]
    own = {"type": "application", "bom-ref": name, "name": name, "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(each) for _, each in sorted(found.items())],
        "dependencies": [{"ref": name, "dependsOn": sorted(_purl(each) for each in found.values())}],
    }


def _collect(requirement: str, found: dict[str, Distribution]) -> None:
    """A requirement's package and its own, without those of extras nobody asked for."""
    head, _, marker = requirement.partition(";")
    if "extra ==" in marker:
        return
    name = re.split(r"[^\w.-]", head.strip(), maxsplit=1)[0]
    key = re.sub(r"[-_.]+", "-", name).lower()
    if not name or key in found:
        return
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return
    for needed in found[key].requires or ():
        _collect(needed, found)


def _component(package: Distribution) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "library", "bom-ref": _purl(package), "name": package.metadata["Name"]}
    told |= {"version": package.version, "purl": _purl(package)}
    if "License-Expression" in package.metadata:
        told["licenses"] = [{"expression": package.metadata["License-Expression"]}]
    return told


def _purl(package: Distribution) -> str:
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    return f"pkg:pypi/{name}@{package.version}"
