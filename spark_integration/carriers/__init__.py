"""How Spark calls the step, and where its pages are."""
