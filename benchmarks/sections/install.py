"""What a user gets from installing the core: how many packages, how many megabytes."""

from environments import CORE
from report import Section
from rounds import Failures, Pace

WHAT = """\
Fairlead without extras, installed in an empty environment.
The size is that of `site-packages` with the compiled `.pyc` files; neither pip nor setuptools is there."""


def measure(pace: Pace, failures: Failures) -> Section:
    CORE.ensure()
    section = Section("install", "Install", WHAT, ("package", "version"))
    packages = CORE.versions()
    section.rows = [
        (name, version) for name, version in sorted(packages.items(), key=lambda item: item[0].lower())
    ]
    files = [file for file in CORE.site_packages.rglob("*") if file.is_file()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    compiled = sum(file.stat().st_size for file in files if file.suffix == ".pyc") / 1e6
    section.numbers = {"packages": len(packages), "megabytes": megabytes}
    section.require("at most 8 packages", str(len(packages)), len(packages) <= 8)
    section.require("at most 15 MB", f"{megabytes:.1f} MB", megabytes <= 15)
    section.notes.append(f"compiled files are {compiled:.1f} MB of it, which some installers leave to Python")
    return section
