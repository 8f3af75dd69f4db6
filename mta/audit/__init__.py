"""What a snapshot refers to: descriptions, verification, garbage collection.

- ``description``: a summary of a snapshot, without reading a page
- ``walk``: every page of a snapshot, verified, or listed as live for garbage collection
- ``keyed``: the same for snapshots of keyed windows
- ``published``: the pages that published snapshots need
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
