"""`python -m dragoman.cli` is the command `dragoman`."""

from dragoman.cli import main

main()
