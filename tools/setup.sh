#!/usr/bin/env bash
# Make the virtual environment that the Makefile asks for, from the lock alone.
# usage: tools/setup.sh VENV LOCK
set -euo pipefail
venv=$1 lock=$2

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# ensurepip is what Debian leaves out of python3 and puts into python3-venv.
can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
  local name
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3}; do
    if fits "$name" && { [ "${1:-}" = any ] || can_make_venv "$name"; }; then
      echo "$name"
      return
    fi
  done
  return 1
}

say() { echo "setup: $*" >&2; }

if ! python=$(find_python); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "no Python that can make a virtual environment; installing Debian's python3-venv"
    apt-get update -qq </dev/null >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv </dev/null >&2
  fi
  if ! python=$(find_python); then
    if python=$(find_python any); then
      say "$python cannot make a virtual environment. On Debian or Ubuntu, run this once:"
      say "  sudo apt-get update && sudo apt-get install -y python3-venv"
    else
      say "Dragoman needs Python 3.11 or newer; set PYTHON=/path/to/python to name one."
    fi
    exit 1
  fi
fi

# A half-made or moved environment is made again; a good one is only brought up to date.
# What was moved or copied names its old place in the first lines of its commands.
lies_here() { grep -qF "$(cd "$venv/bin" && pwd)/" "$venv/bin/pip"; }

if ! { "$venv/bin/python" -m pip --version && lies_here; } >/dev/null 2>&1; then
  say "$("$python" --version) makes $venv"
  "$python" -m venv --clear "$venv"
fi
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }
export PIP_ROOT_USER_ACTION=ignore
say "installing $lock into $venv; the first time, this takes a minute or two"
if ! pip install -qq --require-hashes -r "$lock"; then
  say "the packages could not be installed: is there a network, and does pip reach its index?"
  exit 1
fi
pip install -qq --no-deps --no-build-isolation --editable .
