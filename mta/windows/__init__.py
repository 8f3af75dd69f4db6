"""Windows: a monoid, a policy, a structure and a store behind one interface."""
