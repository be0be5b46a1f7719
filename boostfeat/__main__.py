"""``python -m boostfeat`` is ``boostfeat``."""

from .cli import main

main()
