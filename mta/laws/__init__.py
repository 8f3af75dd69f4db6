"""The laws that windows rely on, checked on examples: for monoids and policies of one's own.

- ``check``: what users call
- ``monoid``, ``policy``: the laws, one method each
"""

from mta.errors import LawBroken
from mta.laws.check import Law, check_monoid, check_policy, monoid_laws, policy_laws

__all__ = ["Law", "LawBroken", "check_monoid", "check_policy", "monoid_laws", "policy_laws"]
