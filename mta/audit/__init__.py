"""What a handle reaches: described, verified, swept."""

from mta.audit.description import HandleSummary, SubWindow, describe_handle
from mta.audit.walk import Audit, Damage, audit, is_garbage, live_keys

__all__ = [
    "Audit",
    "Damage",
    "HandleSummary",
    "SubWindow",
    "audit",
    "describe_handle",
    "is_garbage",
    "live_keys",
]
