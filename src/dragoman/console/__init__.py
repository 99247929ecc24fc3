"""The console: pages that the server draws from the database, for people who may see everything but text."""
