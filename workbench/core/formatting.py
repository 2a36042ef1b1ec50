"""Numbers as people read them: few digits, units, shares.

The page has the same words for units (`extension/src/ui/numbers.ts`).
"""

from __future__ import annotations

import math
import re


def format_number(x: complex, digits: int = 10) -> str:
    """Return a number in so many digits; a complex one that is real as a real one.

    Examples
    --------
    >>> format_number(1 / 3, 3), format_number(2 + 0j), format_number(1j)
    ('0.333', '2', '0+1j')
    """
    x = complex(x)
    return f"{x.real:.{digits}g}" if x.imag == 0 else f"{x:.{digits}g}"


def spell_number(x: float) -> str:
    """Return a number without loss: no needless zeros, a real minus sign.

    Examples
    --------
    >>> spell_number(1.0), spell_number(-1e-07)
    ('1', '−1e−7')
    """
    text = re.sub(r"e([+-])0*", r"e\1", repr(x).removesuffix(".0"))
    return text.replace("e+", "e").replace("-", "−")


def format_bytes(size: float) -> str:
    """Return a size in words, of three digits; 1 kB is 1000 bytes.

    Examples
    --------
    >>> format_bytes(24), format_bytes(3.2e6), format_bytes(999_999)
    ('24 bytes', '3.2 MB', '1 MB')
    """
    return _scale(size, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)), "bytes")


def format_seconds(time: float) -> str:
    """Return a time in words, of three digits.

    Examples
    --------
    >>> format_seconds(90), format_seconds(0.0123), format_seconds(2e-6)
    ('90 s', '12.3 ms', '2 µs')
    """
    return _scale(time / 1e-6, (("s", 1e6), ("ms", 1e3)), "µs")


def _scale(x: float, units: tuple[tuple[str, float], ...], least: str) -> str:
    """Return a size as text, in the largest unit that the size reaches."""
    for unit, factor in units:
        if x >= factor * (1 - 5e-4):  # rounded to three digits it is one
            return f"{x / factor:.3g} {unit}"
    return f"{x:.3g} {least}"


def format_percent(ratio: float, digits: int = 2) -> str:
    """Return a ratio in percent, of so many digits and all before the point.

    Examples
    --------
    >>> format_percent(0.1234), format_percent(12.345), format_percent(0.1234, 3)
    ('12 %', '1234 %', '12.3 %')
    """
    percent = 100 * ratio
    if not math.isfinite(percent):
        return f"{percent} %"
    if percent >= 10**digits:
        return f"{percent:.0f} %"
    return f"{percent:.{digits}g} %"


def format_share(part: float) -> str:
    """Return a share in percent, with 100 % only for all and 0 % only for none.

    Examples
    --------
    >>> format_share(1.0), format_share(0.9999), format_share(1e-9)
    ('100%', 'over 99%', 'under 1%')
    """
    text = f"{part:.0%}"
    if part < 1 and text == "100%":
        return "over 99%"
    return "under 1%" if part > 0 and text == "0%" else text
