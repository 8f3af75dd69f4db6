"""The laws that windows rely on, checked on examples.

    def test_my_monoid():
        check_monoid(MyMonoid(), examples=[1.0, 2.5, -3.0, 0.0])

or, for a test of each law by itself,

    @pytest.mark.parametrize("law", monoid_laws(MyMonoid(), [1.0, 2.5, -3.0, 0.0]), ids=str)
    def test_my_monoid(law):
        law()

A broken law is a ``LawBroken``, which is an AssertionError: it names the law, the example and both
sides. The laws hold for all values or for none, so choose examples with care: ties, zeros, negative
and large numbers, empty texts. Ten will do; runs of them stand for larger partials.

Floating-point numbers are compared up to the rounding of what they were made of,
sketches by what they answer (``AbstractMonoid.same``).

- ``monoid``, ``policy``: what users call, and the laws, one method each
"""

from mta.errors import LawBroken
from mta.laws.monoid import Law, check_monoid, monoid_laws
from mta.laws.policy import check_policy, policy_laws

__all__ = ["Law", "LawBroken", "check_monoid", "check_policy", "monoid_laws", "policy_laws"]
