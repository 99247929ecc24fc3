"""The rewrite pipeline: a complaint becomes a calm message in its recipient's language."""
