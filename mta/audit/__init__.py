"""What a snapshot reaches: described, verified, swept.

- ``description``: what a snapshot tells without reading a page
- ``walk``: every page that it reaches, verified, or named for a sweep
- ``keyed``: the same of many keys, out of their snapshot
- ``published``: what published snapshots need
"""

from mta.audit.description import SnapshotSummary, SubWindow, describe_snapshot
from mta.audit.walk import Audit, Damage, audit, is_garbage, live_keys

__all__ = [
    "Audit",
    "Damage",
    "SnapshotSummary",
    "SubWindow",
    "audit",
    "describe_snapshot",
    "is_garbage",
    "live_keys",
]
