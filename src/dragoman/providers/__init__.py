"""LLM adapters, one module per adapter_kind: pure encode and decode around a thin transport."""
