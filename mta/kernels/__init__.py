"""Number work without a monoid, by whole columns."""
