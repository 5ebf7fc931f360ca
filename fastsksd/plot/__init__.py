"""Pictures of a test and of what it saw (matplotlib, extra "plot").

Every function draws into `ax`, or into a new pyplot figure when there is none, and returns the
axes. Colours are those of Okabe and Ito, which colour-blind readers can tell apart; nothing is told
by colour alone. No setting of matplotlib is changed.
"""

from .differences import differences
from .eigenvalues import spectrum
from .explained import samples, slices, witness
from .forest import effects
from .outcome import members, null
from .page import report
from .rates import power

__all__ = [
    "differences",
    "effects",
    "members",
    "null",
    "power",
    "report",
    "samples",
    "slices",
    "spectrum",
    "witness",
]
