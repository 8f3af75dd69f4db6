"""The laws that windows rely on, checked on examples.

    def test_my_monoid():
        check_monoid(MyMonoid(), examples=[1.0, 2.5, -3.0, 0.0])

or, for one test per law,

    @pytest.mark.parametrize("law", monoid_laws(MyMonoid(), [1.0, 2.5, -3.0, 0.0]), ids=str)
    def test_my_monoid(law):
        law()

A broken law raises ``LawBroken``, an AssertionError that names the law, the example and both sides.
A law must hold for all values, but only examples are checked: choose ties, zeros, negative and
large numbers, empty texts. Ten are enough; folds of several examples serve as larger partials.

Floating-point numbers are compared up to rounding, and sketches by their estimates
(``AbstractMonoid.same``).

- ``monoid``, ``frame``: the functions to call, and the laws, one method each
"""

from mta.errors import LawBroken
from mta.testing.frame import check_frame, frame_laws
from mta.testing.monoid import Law, check_monoid, monoid_laws

__all__ = ["Law", "LawBroken", "check_frame", "check_monoid", "frame_laws", "monoid_laws"]
