"""``python -m tensorplan``: the command line."""

from tensorplan.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
