"""Pipelines: a language that wires actions, agents and programs through typed channels, checked before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.pipelines.apps import add_pipeline
    from fairlead.pipelines.building import F, Pipeline, call, call_sync, check, run
    from fairlead.pipelines.checking import check_file, check_text
    from fairlead.pipelines.formatting import format_text
    from fairlead.pipelines.host import Host
    from fairlead.pipelines.problems import CheckError, Problem
    from fairlead.pipelines.rendering import render
    from fairlead.pipelines.running import Ended, Run

__all__ = [
    "CheckError",
    "Ended",
    "F",
    "Host",
    "Pipeline",
    "Problem",
    "Run",
    "add_pipeline",
    "call",
    "call_sync",
    "check",
    "check_file",
    "check_text",
    "format_text",
    "render",
    "run",
]

__getattr__ = on_demand(
    __name__,
    {
        "CheckError": "problems",
        "Ended": "running",
        "F": "building",
        "Host": "host",
        "Pipeline": "building",
        "Problem": "problems",
        "Run": "running",
        "add_pipeline": "apps",
        "call": "building",
        "call_sync": "building",
        "check": "building",
        "check_file": "checking",
        "check_text": "checking",
        "format_text": "formatting",
        "render": "rendering",
        "run": "building",
    },
)
