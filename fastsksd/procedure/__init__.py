"""How a test proceeds: plan, split, search, evaluate, combine, decide."""
