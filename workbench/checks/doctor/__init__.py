"""The doctor: which node is to blame for a gradient that is NaN, zero or exploding.

`diagnose.py` asks for one cause after the other: values and slopes that are not finite
(`values.py`, inside nodes `steps.py`), zeros (`zeros.py`), what vanishes or explodes
(`vanishing.py`), matrices and their vectors (`matrices.py`, `vectors.py`), lost digits
(`digits.py`). All look at one `Case` and return `Finding`s. What to write instead comes
from `words.py`, `singular.py` and `forms.py`, in the user's own words (`spelling.py`),
and is tried before it is said (`equivalence.py`).
"""
