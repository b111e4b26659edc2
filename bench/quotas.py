"""Quotas that are on, but out of reach: one key creates all the load of a bench."""

from typing import Final, TypedDict


class Quotas(TypedDict):
    """The settings that limit one principal."""

    max_open_cases: int
    max_stored_bytes: int
    max_cases_per_minute: int
    max_case_bytes_per_minute: int
    max_streams: int


OUT_OF_REACH: Final[Quotas] = {
    "max_open_cases": 10_000_000,
    "max_stored_bytes": 1024**4,
    "max_cases_per_minute": 10_000_000,
    "max_case_bytes_per_minute": 1024**4,
    "max_streams": 1_000_000,
}
