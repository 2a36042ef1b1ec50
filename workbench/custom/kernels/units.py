"""The text that a compiler sees: the author's source behind a declaration of ours.

The declaration says which arguments the kernel will get. A source that takes others
does not compile, instead of reading memory that is not its own.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.core import sites
from workbench.core import source as lines
from workbench.custom.kernels.signature import Signature

#: How the author's source is called in a compiler's messages.
SOURCE = "kernel source"

#: And what stands around it.
OURS = "workbench"


@dataclass(frozen=True)
class Language:
    """C, C++ or CUDA: the language's words for the needs of a kernel."""

    #: What the class attribute is called that holds the source.
    name: str
    title: str
    suffix: str
    prelude: str
    #: What complex numbers need; it is slow to compile.
    complex: str
    #: What stands before the declaration of a kernel, ours and its author's.
    linkage: str
    before: str
    complex64: str
    complex128: str

    def type_of(self, dtype: np.dtype[Any]) -> str:
        """Return the language's name of a dtype."""
        name = str(dtype)
        spelled = {
            "float32": "float",
            "float64": "double",
            "complex64": self.complex64,
            "complex128": self.complex128,
        }
        return spelled.get(name) or (name if name == "bool" else f"{name}_t")


C = Language(
    "c",
    "C",
    ".c",
    "#include <math.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
    "#include <stdint.h>\n",
    "",
    "",
    "",
    "float _Complex",
    "double _Complex",
)
CPP = Language(
    "cpp",
    "C++",
    ".cpp",
    "#include <cmath>\n#include <cstddef>\n#include <cstdint>\n",
    "#include <complex>\n",
    'extern "C" ',
    "",
    "std::complex<float>",
    "std::complex<double>",
)
#: NVRTC lacks the system's headers, so their declarations stand here.
CUDA = Language(
    "cuda",
    "CUDA",
    ".cu",
    "#ifdef __CUDACC_RTC__\n"
    "typedef signed char int8_t; typedef unsigned char uint8_t;\n"
    "typedef short int16_t; typedef unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned int uint32_t;\n"
    "typedef long long int64_t; typedef unsigned long long uint64_t;\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fffffff)\n"
    "#define M_PI 3.14159265358979323846\n"
    "#else\n#include <math.h>\n#include <stdint.h>\n#endif\n",
    "",
    'extern "C" ',
    "__global__ ",
    "float2",
    "double2",
)
LANGUAGES = {language.name: language for language in (C, CPP, CUDA)}

COMPLEX = ("complex64", "complex128")

#: The C type of a setting, by its Python type.
SETTINGS = {bool: "bool", int: "int64_t", float: "double"}


#: What a C++ kernel returns that has thrown; the text is in its last argument.
THROWN = -(2**31)
#: How many bytes of that text are kept.
MOST_SAID = 400

#: What is called in the place of a C++ kernel: no exception leaves it, for a program
#: that C calls would end there.
GUARD = """
#line 1 "{ours}"
#include <exception>
extern "C" int {name}_guarded({parameters}) noexcept {{
    try {{ {call} }}
    catch (const std::exception &thrown) {{
        const char *text = thrown.what();
        for (int i = 0; i < {most} && text[i]; i++) said[i] = text[i];
    }}
    catch (...) {{}}
    return {thrown};
}}
"""


def write_declaration(
    signature: Signature,
    settings: Mapping[str, type],
    language: Language,
    returns: str = "void",
    names: bool = True,
) -> str:
    """Return the kernel's declaration: ``void f(const double *x, int64_t n)``.

    ``settings`` holds the type of each setting; without ``names`` the parameters are
    types alone.
    """
    pairs = _list_parameters(signature, settings, language)
    inside = [_declare(kind, name) if names else kind for kind, name in pairs]
    return f"{language.before}{returns} {signature.op}({', '.join(inside) or 'void'})"


def _declare(kind: str, name: str) -> str:
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"


def _list_parameters(
    signature: Signature, settings: Mapping[str, type], language: Language
) -> list[tuple[str, str]]:
    """Return the type and name of each argument of a kernel."""
    found: list[tuple[str, str]] = []

    def add(kind: str, name: str) -> None:
        found.append((kind, name))

    for pattern in signature.inputs:
        add(
            f"const {_write_element(signature, pattern.dtype, language)} *",
            pattern.name,
        )
    for pattern in signature.outputs:
        add(f"{_write_element(signature, pattern.dtype, language)} *", pattern.name)
    for letter in signature.letters:
        add("int64_t", "size" if letter == "..." else letter)
    for name, kind in settings.items():
        add(SETTINGS[kind], name)
    return found


def _write_guard(
    signature: Signature, settings: Mapping[str, type], language: Language, returns: str
) -> str:
    """Return the function that catches exceptions of a C++ kernel."""
    kinds = [kind for kind, _ in _list_parameters(signature, settings, language)]
    names = [f"p{i}" for i in range(len(kinds))]
    parameters = [_declare(*pair) for pair in zip(kinds, names, strict=True)]
    call = f"{signature.op}({', '.join(names)});"
    return GUARD.format(
        ours=OURS,
        name=signature.op,
        parameters=", ".join([*parameters, "char *said"]),
        call=f"return {call}" if returns == "int" else f"{call} return 0;",
        most=MOST_SAID,
        # The number itself does not fit where its sign is an operator.
        thrown=f"{THROWN + 1} - 1",
    )


def _write_element(signature: Signature, name: str, language: Language) -> str:
    return name if name in signature.types else language.type_of(np.dtype(name))


def write_unit(
    source: str,
    signature: Signature,
    chosen: Mapping[str, np.dtype[Any]],
    settings: Mapping[str, type],
    language: Language,
    returns: str = "void",
) -> str:
    """Return the text to compile: types, declaration, source.

    ``chosen`` is the dtype of each letter. The lines of the source keep their numbers
    in the compiler's messages.
    """
    typedefs = "".join(
        f"typedef {language.type_of(dtype)} {letter};\n"
        for letter, dtype in chosen.items()
    )
    declared = write_declaration(signature, settings, language, returns, names=False)
    kinds = (*signature.inputs, *signature.outputs)
    made = {str(chosen.get(p.dtype, p.dtype)) for p in kinds}
    headers = language.prelude + language.complex * bool(made & set(COMPLEX))
    guard = (
        _write_guard(signature, settings, language, returns) if language is CPP else ""
    )
    return (
        f'#line 1 "{OURS}"\n{headers}{typedefs}'
        f"{language.linkage}{declared};\n"
        f'#line 1 "{SOURCE}"\n{source}\n{guard}'
    )


# Where the source of a kernel stands in the user's file or cell.
#
# Looked for only when a compiler complains: the text of the file is parsed and the
# literal found that holds the source.


class Home(NamedTuple):
    """The file or cell of a class, and the line of its statement."""

    filename: str
    line: int

    @classmethod
    def of_caller(cls) -> Home:
        """Return the user's line that runs now."""
        site = sites.decode(*lines.caller(2))
        return cls("", 0) if site is None else cls(site.filename, site.line)


class Text(NamedTuple):
    """The source of a kernel, and its origin.

    ``file`` is set where it was read from one.
    """

    text: str
    home: Home
    file: Path | None = None

    def place(self, line: int) -> str:
        """Return a line of the source, in an error's notation."""
        if self.file is not None:
            return f"{self.file.name}:{line}"
        first = self._first()
        if first is None:
            return f"line {line} of the source"
        return f"{sites.display_name(self.home.filename)}:{first + line - 1}"

    def where(self) -> str:
        """Return the place of the source, quoted for errors; empty if unknown."""
        place = self.place(1)
        return "" if place.startswith("line") else f" (at {place})"

    def _first(self) -> int | None:
        """Return the line of the user's file on which the source begins."""
        whole = "".join(linecache.getlines(self.home.filename))
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError):
            return None
        found = [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value == self.text
        ]
        # The nearest, should two kernels have the same text.
        return min(found, key=lambda n: abs(n - self.home.line), default=None)
