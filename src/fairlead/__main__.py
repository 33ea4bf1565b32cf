"""`python -m fairlead` is `fairlead`."""

from fairlead.surfaces.cli import main

main()
