"""``python -m fastsksd`` is the command ``fastsksd``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
