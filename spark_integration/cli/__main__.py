"""``python -m spark_integration.cli`` runs ``mta``."""

import sys

from spark_integration.cli import main

sys.exit(main())
