"""Dragoman: LLM work done once, said privately, and accounted for."""

__version__ = "0.1.0"
