"""Run every check of the project: lint, format, import layers, types and tests.

Each tool comes from the environment this file was started with. All of them run, even after one
has failed, and the exit code is 1 if any failed. Name some of them to run only those:

    .venv/bin/python tools/check.py ruff-check pytest
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sysconfig.get_path("scripts"))

CHECKS: dict[str, list[str]] = {
    "ruff-check": [sys.executable, "-m", "ruff", "check"],
    "ruff-format": [sys.executable, "-m", "ruff", "format", "--check"],
    "lint-imports": [str(SCRIPTS / "lint-imports"), "--no-cache"],
    "pyright": [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
    "pytest": [sys.executable, "-m", "pytest"],
}


def run_all(checks: Mapping[str, Sequence[str]]) -> int:
    """Run commands in the root of the project, print a line for each, and return the exit code."""
    summary: list[str] = []
    failures = 0
    for name, command in checks.items():
        print(f"\n$ {shlex.join(command)}", flush=True)
        started = time.perf_counter()
        passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        seconds = time.perf_counter() - started
        failures += not passed
        summary.append(f"{'passed' if passed else 'FAILED'}  {name} ({seconds:.1f} s)")
    print("", *summary, sep="\n")
    return 1 if failures else 0


def main() -> int:
    """Run the checks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Run the checks of the project.")
    parser.add_argument("names", nargs="*", metavar="CHECK", help=f"any of: {', '.join(CHECKS)}")
    names: list[str] = parser.parse_args().names or list(CHECKS)
    if unknown := [name for name in names if name not in CHECKS]:
        parser.error(f"no such check: {', '.join(unknown)}; choose from {', '.join(CHECKS)}")
    return run_all({name: CHECKS[name] for name in names})


if __name__ == "__main__":
    sys.exit(main())
