"""The console: pages drawn from the database for people who may see everything but text."""
