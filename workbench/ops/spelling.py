"""The text of a rule in the picture: mathematics, not code.

It is only read by people. What is computed is the expression itself.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

SUB, SUPER = "₀₁₂₃₄₅₆₇₈₉", str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

#: How tightly a text holds together: what stands beside it may need brackets.
SUM, PRODUCT, POWER, ATOM = range(4)

Text = tuple[str, int]

#: Numbers that have a better name.
CONSTANTS: dict[float, Text] = {
    0.5: ("½", ATOM),
    0.25: ("¼", ATOM),
    1.5: ("3/2", PRODUCT),
    math.pi: ("π", ATOM),
    math.log(2): ("log 2", PRODUCT),
    math.log(10): ("log 10", PRODUCT),
    math.pi / 180: ("π/180", PRODUCT),
    180 / math.pi: ("180/π", PRODUCT),
    math.pi / 10800: ("π/10800", PRODUCT),
    math.pi / 648000: ("π/648000", PRODUCT),
    2 / math.sqrt(math.pi): ("2/√π", PRODUCT),
    math.sqrt(math.pi) / 2: ("√π/2", PRODUCT),
    math.sqrt(math.pi): ("√π", ATOM),
    math.sqrt(2 * math.pi): ("√(2π)", ATOM),
    1 / math.sqrt(2 * math.pi): ("1/√(2π)", PRODUCT),
    0.5 / math.sqrt(2 * math.pi): ("1/(2√(2π))", PRODUCT),
    math.sqrt(math.pi / 2): ("√(π/2)", ATOM),
    math.sqrt(2 / math.pi): ("√(2/π)", ATOM),
    1 / math.sqrt(2): ("1/√2", PRODUCT),
    0.5 / math.pi: ("1/(2π)", PRODUCT),
}

#: The letters that books write for functions; others keep their names.
LETTERS = dict(
    pair.split("=")
    for pair in """
bessel_i0=I₀ digamma=ψ eval_chebyc=C eval_chebys=S eval_chebyt=T eval_chebyu=U
eval_gegenbauer=C eval_genlaguerre=L eval_hermite=H eval_hermitenorm=He
eval_jacobi=P eval_laguerre=L eval_legendre=P eval_sh_jacobi=G expit=σ gamma=Γ
hankel1=H⁽¹⁾ hankel2=H⁽²⁾ i0=I₀ i1=I₁ j0=J₀ j1=J₁ k0=K₀ k1=K₁ ndtr=Φ ndtri=Φ⁻¹ psi=ψ
rint=round spherical_in=i spherical_in_d=i′ spherical_jn=j spherical_jn_d=j′
spherical_kn=k spherical_kn_d=k′ spherical_yn=y spherical_yn_d=y′ wright_bessel=W
y0=Y₀ y1=Y₁ zeta=ζ
""".split()
)

#: Bessel functions: a whole order is written below the line.
ORDERED = {"iv": "I", "jv": "J", "kv": "K", "yv": "Y"}

#: What is written around an argument.
AROUND = {
    "abs": ("|", "|"),
    "absolute": ("|", "|"),
    "floor": ("⌊", "⌋"),
}

BINARY = {
    ast.Eq: "=",
    ast.NotEq: "≠",
    ast.Lt: "<",
    ast.LtE: "≤",
    ast.Gt: ">",
    ast.GtE: "≥",
}


def format_rule(rule: str) -> str:
    """Return a rule's text in plain mathematics.

    >>> format_rule("g * (1 - y * y)"), format_rule("x**3")
    ('g · (1 − y²)', 'x³')
    >>> format_rule("g * (-sin(x))")
    '−g · sin(x)'
    >>> format_rule("g * (0.5 * (jv(x0 - 1, x1) - jv(x0 + 1, x1)))")
    '½ · g · (J(x₀ − 1, x₁) − J(x₀ + 1, x₁))'
    """
    return format_expression(ast.parse(rule, mode="eval").body)[0]


def format_expression(tree: ast.expr) -> Text:
    """Return an expression as text, with the binding strength of its outer operator."""
    if isinstance(tree, ast.Constant):
        return format_constant(tree.value)
    if isinstance(tree, ast.Name):
        return format_name(tree.id), ATOM
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
        sign = "−" if isinstance(tree.op, ast.USub) else ""
        return sign + format_part(tree.operand, PRODUCT), SUM if sign else PRODUCT
    if isinstance(tree, ast.BinOp):
        written = BINARIES.get(type(tree.op))
        if written is not None:
            return written(tree)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return format_call(tree.func.id, tree.args)
    if isinstance(tree, ast.Compare) and type(tree.ops[0]) in BINARY:
        sides = format_part(tree.left, SUM), format_part(tree.comparators[0], SUM)
        return f"[{sides[0]} {BINARY[type(tree.ops[0])]} {sides[1]}]", ATOM
    return ast.unparse(tree), SUM


def format_part(tree: ast.expr, least: int) -> str:
    """Return a part of an expression, in brackets where precedence requires them."""
    text, tight = format_expression(tree)
    return text if tight >= least else f"({text})"


def format_constant(value: object) -> Text:
    """Return a number as text, by name for known constants."""
    if value is None:  # the rule passes nothing on
        return "0", ATOM
    if isinstance(value, complex) and value.real == 0:
        text, tight = format_constant(value.imag)
        return ("i", ATOM) if value.imag == 1 else (f"{text} i", min(tight, PRODUCT))
    if isinstance(value, float):
        for known, written in CONSTANTS.items():
            if math.isclose(value, known, rel_tol=1e-14):
                return written
        if value.is_integer():
            return str(int(value)), ATOM
    return str(value), ATOM


def format_name(text: str) -> str:
    """Return a name, with its number below the line."""
    if len(text) == 2 and text[0] in "xgt" and text[1].isdigit():
        return text[0] + SUB[int(text[1])]
    return text.replace("_", " ")


def unsigned(tree: ast.expr) -> tuple[bool, ast.expr]:
    """Return whether a part is negative, and the part without its sign."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        negative, part = unsigned(tree.operand)
        return not negative, part
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)):
        return tree.value < 0, ast.Constant(abs(tree.value))
    if isinstance(tree, ast.BinOp) and is_product(tree):
        negative, left = unsigned(tree.left)
        return negative, ast.BinOp(left, tree.op, tree.right)
    return False, tree


def format_product(tree: ast.BinOp) -> Text:
    """Write factors side by side: one sign, then the numbers, then the others."""
    factors: list[ast.expr] = []
    negative = False
    stack: list[ast.expr] = [tree]
    while stack:
        minus, part = unsigned(stack.pop())
        negative ^= minus
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            stack += [part.right, part.left]
        elif not (isinstance(part, ast.Constant) and part.value == 1):
            factors.append(part)
    factors.sort(key=lambda x: not isinstance(x, ast.Constant))
    texts: list[Text] = []
    for k, factor in enumerate(factors):
        if k and ast.dump(factor) == ast.dump(factors[k - 1]):
            texts[-1] = format_part(factor, ATOM) + "²", POWER
        else:
            texts.append((format_part(factor, PRODUCT), format_expression(factor)[1]))
    tight = texts[0][1] if len(texts) == 1 else PRODUCT
    text = " · ".join(text for text, _ in texts)
    return (f"−{text}", SUM) if negative else (text, tight)


def format_quotient(tree: ast.BinOp) -> Text:
    """Return a fraction on one line, with its sign in front."""
    negative, part = unsigned(tree.left)
    above = format_part(part, PRODUCT)
    if above.startswith("(−") and isinstance(part, ast.BinOp) and is_product(part):
        negative, above = not negative, above[2:-1]
    text = f"{above} / {format_part(tree.right, POWER)}"
    return (f"−{text}", SUM) if negative else (text, PRODUCT)


def is_product(tree: ast.BinOp) -> bool:
    """Return whether a sign in front applies to the whole product."""
    return isinstance(tree.op, (ast.Mult, ast.Div))


def format_sum(tree: ast.BinOp) -> Text:
    """Return a sum as text; write a negative term as a subtraction."""
    left, right = format_part(tree.left, SUM), format_part(tree.right, SUM)
    if right.startswith("−"):
        return f"{left} − {right[1:]}", SUM
    return f"{left} + {right}", SUM


def format_difference(tree: ast.BinOp) -> Text:
    """Return a difference."""
    return f"{format_part(tree.left, SUM)} − {format_part(tree.right, PRODUCT)}", SUM


def format_power(tree: ast.BinOp) -> Text:
    """Return a power, with whole exponents above the line."""
    base = format_part(tree.left, ATOM)
    exponent = format_expression(tree.right)[0].replace("−", "-")
    if exponent.lstrip("-").isdigit():
        return base + exponent.translate(SUPER), POWER
    return f"{base}^{format_part(tree.right, ATOM)}", POWER


BINARIES: dict[type[ast.operator], Callable[[ast.BinOp], Text]] = {
    ast.Add: format_sum,
    ast.Sub: format_difference,
    ast.Mult: format_product,
    ast.Div: format_quotient,
    ast.Pow: format_power,
}


def format_call(function: str, args: list[ast.expr]) -> Text:
    """Return a function and its arguments."""
    first = args[0]
    if function == "sqrt":
        return "√" + format_part(first, ATOM), ATOM
    if function == "square":
        return format_part(first, ATOM) + "²", POWER
    if function in AROUND:
        return format_expression(first)[0].join(AROUND[function]), ATOM
    if function in ("exp2", "exp10"):
        return f"{function[3:]}^{format_part(first, ATOM)}", POWER
    if function == "float_power":
        return f"{format_part(first, ATOM)}^{format_part(args[1], ATOM)}", POWER
    if function in ("div0", "by_x", "ratio"):  # and 0 where the divisor is 0
        return format_quotient(ast.BinOp(first, ast.Div(), args[1]))
    if function == "mul0":
        return format_product(ast.BinOp(first, ast.Mult(), args[1]))
    if function == "floor_divide":
        return f"⌊{format_part(first, PRODUCT)} / {format_part(args[1], POWER)}⌋", ATOM
    if function == "below":  # a degree less, and not below zero
        return f"{format_part(first, SUM)} − 1", SUM
    if function in ("of_real", "masked"):  # what it guards changes nothing
        return format_expression(first)
    if function == "refuse_derivative":
        return "not known", SUM
    if function == "where" and is_guard(args):
        return format_expression(args[2])
    if function == "where":
        kept = format_expression(args[1])[0], format_expression(args[2])[0]
        return (
            f"{kept[0]} if {format_expression(args[0])[0].strip('[]')} else {kept[1]}",
            SUM,
        )
    if function in ("maximum", "minimum"):
        function = function[:3]
    letter = LETTERS.get(function)
    if function in ORDERED:
        letter = ORDERED[function]
        order = first.value if isinstance(first, ast.Constant) else None
        if isinstance(order, int) and 0 <= order < len(SUB):
            letter += SUB[order]
            args = args[1:]
    listed = ", ".join(format_expression(x)[0] for x in args)
    if function.endswith("_slope"):
        letter = f"{function.removesuffix('_slope')}′"
    elif "_by_" in function:
        letter = "∂{}/∂{}".format(*function.split("_by_", 1))
    return f"{letter or function}({listed})".replace("_", " "), ATOM


def is_guard(args: list[ast.expr]) -> bool:
    """Return whether a `where` only avoids 0, as in where(y == 0, 1, y)."""
    condition, instead, kept = args
    return (
        isinstance(condition, ast.Compare)
        and isinstance(instead, ast.Constant)
        and instead.value == 1
        and isinstance(condition.ops[0], ast.Eq)
        and (ast.dump(condition.left) == ast.dump(kept) or isinstance(kept, ast.BinOp))
    )
