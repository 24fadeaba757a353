"""Print a marked block of the README.

A block is a fenced piece of Markdown that follows an HTML comment naming it:

    <!-- test-command -->
    ```bash
    echo hello
    ```

Continuous integration runs, and the tests read, what the README shows, so the two cannot drift.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def read_block(text: str, name: str) -> str:
    """Return what stands in the fenced block marked ``name``.

    Args:
        text: Markdown.
        name: The name in the comment before the block.

    Raises:
        ValueError: If the text does not hold exactly one block of that name.
    """
    pattern = rf"^<!-- {re.escape(name)} -->\n+```\w*\n(?P<body>.*?)^```$"
    bodies = [found["body"] for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)]
    if len(bodies) != 1:
        raise ValueError(f"expected one block marked {name!r}, found {len(bodies)}")
    return bodies[0]


def main() -> None:
    """Print the block named on the command line."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} NAME")
    try:
        print(read_block(README.read_text(encoding="utf-8"), sys.argv[1]), end="")
    except ValueError as error:
        sys.exit(f"{README.name}: {error}")


if __name__ == "__main__":
    main()
