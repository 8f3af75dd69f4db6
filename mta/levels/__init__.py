"""The MTA paper: level queues, Log MTA and Amortized MTA, in pages."""
