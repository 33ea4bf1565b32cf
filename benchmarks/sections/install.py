"""What a user gets from installing the core: how many packages, how many megabytes."""

from environments import CORE
from report import Section
from rounds import Failures, Pace

WHAT = """\
Fairlead without extras, installed in an empty environment.
The size is that of the files in `site-packages`; neither pip nor setuptools is there.
pip compiles all that it installs; others, such as uv, leave that to Python, which compiles what is imported."""


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
    section.numbers = {"packages": len(packages), "megabytes": megabytes}
    section.require("at most 8 packages", str(len(packages)), len(packages) <= 8)
    for form, size in {"not compiled": megabytes, "all of it compiled": megabytes + compiled}.items():
        section.require(f"at most 15 MB, {form}", f"{size:.1f} MB", size <= 15)
    return section
