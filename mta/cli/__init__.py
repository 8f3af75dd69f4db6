"""The command ``mta`` as far as it needs no Spark; ``spark_integration.cli`` adds the rest."""
