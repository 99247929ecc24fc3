"""The HTTP door: the API, and the console beside it, on one port."""

from dragoman.api.app import build_app
from dragoman.api.server import serve

__all__ = ["build_app", "serve"]
