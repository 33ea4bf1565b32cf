"""What a user gets from installing the core: how many packages, how many megabytes."""

from environments import CORE
from report import Section
from rounds import Failures, Pace

WHAT = """\
Fairlead without extras, installed in an empty environment.
The size is that of the files which the packages bring to `site-packages`; neither pip nor setuptools is there.
Python adds compiled files as a cache: all of them at once when pip installs, or each when it is first imported."""


def measure(pace: Pace, failures: Failures) -> Section:
    CORE.ensure()
    section = Section("install", "Install", WHAT, ("package", "version"))
    packages = CORE.versions()
    section.rows = [
        (name, version) for name, version in sorted(packages.items(), key=lambda item: item[0].lower())
    ]
    files = [file for file in CORE.site_packages.rglob("*") if file.is_file()]
    compiled = sum(file.stat().st_size for file in files if file.suffix == ".pyc") / 1e6
    megabytes = sum(file.stat().st_size for file in files) / 1e6 - compiled
    section.numbers = {"packages": len(packages), "megabytes": megabytes, "compiled": compiled}
    section.require("at most 8 packages", str(len(packages)), len(packages) <= 8)
    section.require("at most 15 MB", f"{megabytes:.1f} MB", megabytes <= 15)
    section.notes.append(f"compiled files of all modules are {compiled:.1f} MB more")
    return section
