"""Which modules have their doctests run."""

from importlib.util import find_spec

#: Clients that some platforms have no wheel of; their tests are skipped there too.
collect_ignore_glob = [
    f"stores/{module}*.py"
    for module, library in {"couchbase": "couchbase", "object_store": "obstore"}.items()
    if not find_spec(library)
]
