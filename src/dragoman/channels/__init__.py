"""Notification adapters, one module per channel."""
