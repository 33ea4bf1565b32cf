"""The bill of materials: what an app is made of, in the CycloneDX form. The same environment gives the same bytes."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, NamedTuple

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
            *({"ref": package.purl, "dependsOn": sorted(found.needs[key])} for key, package in packages),
        ],
    }


class _Package(NamedTuple):
    """What an installed package says of itself, read once: that takes most of the time of a bill."""

    name: str
    version: str
    licence: str | None
    requires: list[str]

    @classmethod
    def installed(cls, name: str) -> _Package:
        found = distribution(name)
        told = found.metadata
        licences = told.get_all("License-Expression") or [None]
        return cls(told["Name"], told["Version"], licences[0], found.requires or [])

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{slug_of(self.name)}@{self.version}"


class _Materials:
    """Packages by their names, and what each needs. Those that are not installed here are left out."""

    def __init__(self) -> None:
        self.packages: dict[str, _Package] = {}
        self.needs: dict[str, set[str]] = {}
        self._seen: set[tuple[str, str]] = set()

    def add_all(self, requirements: list[str]) -> set[str]:
        """Add what the requirements name; gives the references of those that are here."""
        return {package.purl for each in requirements if (package := self._add(each)) is not None}

    def _add(self, requirement: str) -> _Package | None:
        name = requirement_name(requirement)
        key = slug_of(name)
        try:
            package = self.packages.get(key) or _Package.installed(name)
        except (PackageNotFoundError, ValueError):
            return None
        self.packages[key] = package
        needs = self.needs.setdefault(key, set())
        # An extra may be asked for later than the package, and brings only what it adds.
        for extra in ("", *sorted(requirement_extras(requirement))):
            if (key, extra) not in self._seen:
                self._seen.add((key, extra))
                needs |= self.add_all(_needed(package, extra)) - {package.purl}
        return package


def _needed(package: _Package, extra: str) -> list[str]:
    """What a package always needs, or what one extra of it adds."""
    told = []
    for requirement in package.requires:
        head, _, marker = requirement.partition(";")
        asked = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker)
        if (slug_of(asked[1]) if asked else "") == (slug_of(extra) if extra else ""):
            told.append(head)
    return told


def _component(package: _Package) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "library", "bom-ref": package.purl, "name": package.name}
    told |= {"version": package.version, "purl": package.purl}
    if package.licence is not None:
        told["licenses"] = [{"expression": package.licence}]
    return told
