"""What runs: workers, submitter, collector, relay, sweeper. acts.py is the one way out."""
