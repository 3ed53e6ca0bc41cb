#!/usr/bin/env bash
# Installs recap with exact pins into a virtual environment: requirements/install.sh PYTHON FOLDER
# With uv, which is ten times faster than pip; without it, with pip.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
venv=$2
# In a locale that the machine does not have, setuptools cannot write a .pth file for every path, nor Python read it.
export LC_ALL=C.UTF-8

if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))'; then
    echo "recap needs Python 3.11 or newer, and $python is older: say where one is with make PYTHON=/path/to/python3.11" >&2
    exit 2
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

# uv does not read pip's settings; a folder of local wheels (a CPU build of torch, say) is worth passing on.
links=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$("$venv/bin/python" -m pip config get global.find-links 2>/dev/null || true)}}
if ! { "$venv/bin/python" -m pip install --quiet uv &&
    UV_FIND_LINKS=$(echo "$links" | xargs | tr ' ' ',') \
        "$venv/bin/uv" pip install --python "$venv/bin/python" --constraint requirements/lock.txt --editable ".[dev]"; }; then
    echo "uv could not install recap: trying pip, which takes minutes" >&2
    "$venv/bin/python" -m pip install --constraint requirements/lock.txt --editable ".[dev]"
fi
"$python" requirements/relative_pth.py "$venv"
