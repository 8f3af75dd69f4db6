"""Window slide policies: which of the oldest events leave."""
