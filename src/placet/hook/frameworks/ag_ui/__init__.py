"""Interrupts of the AG-UI protocol: clients show what waits for a reviewer, and their answers come back."""

from placet.hook.frameworks.ag_ui.interrupts import (
    build_interrupts,
    build_run_error,
    build_run_finished,
    read_resume,
)

__all__ = ["build_interrupts", "build_run_error", "build_run_finished", "read_resume"]
