"""The bill of materials: what an app is made of, in the CycloneDX form. The same environment gives the same bytes."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from fairlead.project.identity import Product, requirement_extras, requirement_name, slug_of


def bill_of_materials(product: Product) -> dict[str, Any]:
    """The app, and every package it brings along, with versions as they are installed here."""
    found = _Materials()
    direct = found.add_all(["fairlead", *product.package.get("requires", ())])
    name, version = product.package["name"], product.package["version"]
    own = {"type": "application", "bom-ref": name, "name": name, "version": version}
    packages = sorted(found.packages.items())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(package) for _, package in packages],
        "dependencies": [
            {"ref": name, "dependsOn": sorted(direct)},
            *({"ref": _purl(package), "dependsOn": sorted(found.needs[key])} for key, package in packages),
        ],
    }


class _Materials:
    """Packages by their names, and what each needs. Those that are not installed here are left out."""

    def __init__(self) -> None:
        self.packages: dict[str, Distribution] = {}
        self.needs: dict[str, set[str]] = {}
        self._seen: set[tuple[str, str]] = set()

    def add_all(self, requirements: list[str]) -> set[str]:
        """Add what the requirements name; gives the references of those that are here."""
        return {_purl(package) for each in requirements if (package := self._add(each)) is not None}

    def _add(self, requirement: str) -> Distribution | None:
        name = requirement_name(requirement)
        key = slug_of(name)
        try:
            package = self.packages.setdefault(key, distribution(name))
        except (PackageNotFoundError, ValueError):
            return None
        needs = self.needs.setdefault(key, set())
        # An extra may be asked for later than the package, and brings only what it adds.
        for extra in ("", *sorted(requirement_extras(requirement))):
            if (key, extra) not in self._seen:
                self._seen.add((key, extra))
                needs |= self.add_all(_needed(package, extra)) - {_purl(package)}
        return package


def _needed(package: Distribution, extra: str) -> list[str]:
    """What a package always needs, or what one extra of it adds."""
    told = []
    for requirement in package.requires or ():
        head, _, marker = requirement.partition(";")
        asked = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker)
        if (slug_of(asked[1]) if asked else "") == (slug_of(extra) if extra else ""):
            told.append(head)
    return told


def _component(package: Distribution) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "library", "bom-ref": _purl(package), "name": package.metadata["Name"]}
    told |= {"version": package.version, "purl": _purl(package)}
    if "License-Expression" in package.metadata:
        told["licenses"] = [{"expression": package.metadata["License-Expression"]}]
    return told


def _purl(package: Distribution) -> str:
    return f"pkg:pypi/{slug_of(package.metadata['Name'])}@{package.version}"
