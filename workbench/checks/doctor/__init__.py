"""The doctor: finds the node to blame for a gradient that is NaN, zero or exploding.

`diagnose.py` has the table of doctors: values and slopes that are not finite
(`values.py`), zeros (`zeros.py`), gradients that vanish
or explode (`vanishing.py`), matrices and their vectors (`matrices.py`),
lost digits (`digits.py`). All examine one `Case` and return `Finding`s. Explanations
and fixes come from `explanation.py`, `singular.py` and `forms.py`, in the user's own
source text (`spelling.py`), and are proved before they are shown (`equivalence.py`).

To add a finding: a function ``find(case)`` that yields findings, in the file of its
subject; its row in ``DOCTORS`` (`diagnose.py`); a fault in ``planted.py`` of
``tests/checks/doctor``, whose ``healthy.py`` holds no alarm. Then
``python -m tests.checks.doctor.listing --write`` writes its page of the guide.
"""
