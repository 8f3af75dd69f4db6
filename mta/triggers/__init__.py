"""Results now and then: triggers, and windows that give results when they are due."""
