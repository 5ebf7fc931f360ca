"""``python -m fastsksd`` is the command ``fastsksd``."""

from .cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
