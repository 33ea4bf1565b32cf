"""The app of the fleet that faults happen to, as `fairlead serve` and `fairlead worker` run it."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.fleet_in_chaos import build

app = build(os.environ["CHAOS_STORE"], Path(os.environ["CHAOS_FOLDER"]), os.environ["CHAOS_ROLE"])
