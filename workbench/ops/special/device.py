"""Functions of `scipy.special` that CuPy lacks, as kernels for its device.

CuPy ships xsf, the header-only library behind SciPy's own functions, written for host
and device. A row of the table below names the function of a header that computes a
ufunc of SciPy's; where xsf has none, the header is one of our own, in ``include``.
The loops and types are SciPy's; a kernel computes in double precision, as SciPy does
in most of its single precision loops too, and is compiled at its first call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.core.types import Array, is_device_array
from workbench.errors import DeviceMemoryError

HEADERS = Path(__file__).with_name("include")

#: Header, then the functions of it: SciPy's name, and the header's where it differs.
#: Those behind a star ask the device's heap for work space; those behind a ^ have
#: functions that call themselves, in the PTX of one of their loops at least.
TABLE = """
xsf/agm.h: ^agm
xsf/airy.h: airy airye itairy
xsf/bessel.h: besselpoly hankel1=cyl_hankel_1 hankel1e=cyl_hankel_1e
    hankel2=cyl_hankel_2 hankel2e=cyl_hankel_2e iv=cyl_bessel_i ive=cyl_bessel_ie
    ^jn=cyl_bessel_j ^jv=cyl_bessel_j jve=cyl_bessel_je kn=cyl_bessel_k<double>
    kv=cyl_bessel_k kve=cyl_bessel_ke ^yv=cyl_bessel_y yve=cyl_bessel_ye itj0y0=it1j0y0
    iti0k0=it1i0k0 it2j0y0 it2i0k0
xsf/cdflib.h: ^gdtria ^gdtrib ^gdtrix
xsf/ellip.h: ^ellipe
xsf/erf.h: dawsn ^erf ^erfc erfcx erfi voigt_profile wofz
xsf/expint.h: exp1 expi
xsf/fresnel.h: fresnel modfresnelm=modified_fresnel_minus
    modfresnelp=modified_fresnel_plus
xsf/hyp2f1.h: ^hyp2f1
xsf/hyperu.h: hyp1f1 ^hyperu
xsf/kelvin.h: bei beip ber berp kei keip kelvin ker kerp
xsf/mathieu.h: ^mathieu_a=cem_cva ^mathieu_b=sem_cva *^mathieu_cem=cem *^mathieu_sem=sem
    *mathieu_modcem1=mcm1 *mathieu_modcem2=mcm2 *mathieu_modsem1=msm1
    *mathieu_modsem2=msm2
xsf/ndtri_exp.h: ndtri_exp
xsf/par_cyl.h: *^pbdv *^pbvv pbwa
xsf/spence.h: spence
xsf/sphd_wave.h: *obl_ang1=oblate_aswfa_nocv *obl_ang1_cv=oblate_aswfa
    *obl_cv=oblate_segv *obl_rad1=oblate_radial1_nocv *obl_rad1_cv=oblate_radial1
    *obl_rad2=oblate_radial2_nocv *obl_rad2_cv=oblate_radial2
    *pro_ang1=prolate_aswfa_nocv *pro_ang1_cv=prolate_aswfa *pro_cv=prolate_segv
    *pro_rad1=prolate_radial1_nocv *pro_rad1_cv=prolate_radial1
    *pro_rad2=prolate_radial2_nocv *pro_rad2_cv=prolate_radial2
xsf/stats.h: ^log_ndtr ^ndtr nrdtrimn nrdtrisd ^owens_t tklmbda=tukeylambdacdf
xsf/wright_bessel.h: ^log_wright_bessel
carlson.h: ^elliprc elliprd elliprf elliprg ^elliprj
distributions.h: ^bdtrik ^bdtrin ^betaincc ^betainccinv ^btdtria ^btdtrib ^chdtriv
    ^chndtr ^chndtridf ^chndtrinc ^chndtrix ^fdtridfd ^nbdtrik ^nbdtrin ^ncfdtr ^ncfdtri
    ^ncfdtridfd ^ncfdtridfn ^ncfdtrinc ^nctdtr ^nctdtridf ^nctdtrinc ^nctdtrit ^pdtrik
    ^stdtr ^stdtridf ^stdtrit
exponentials.h: ^hyp0f1 powm1 wrightomega
kolmogorov.h: kolmogi kolmogorov ^smirnov ^smirnovi
polynomials.h: ^eval_chebyc ^eval_chebys ^eval_chebyt ^eval_chebyu ^eval_gegenbauer
    ^eval_genlaguerre eval_hermite eval_hermitenorm ^eval_jacobi ^eval_laguerre
    ^eval_legendre ^eval_sh_chebyt ^eval_sh_chebyu ^eval_sh_jacobi ^eval_sh_legendre
spherical_bessel.h: ^spherical_jn=sph_bessel_j ^spherical_jn_d=sph_bessel_j_jac
    ^spherical_yn=sph_bessel_y ^spherical_yn_d=sph_bessel_y_jac
    ^spherical_in=sph_bessel_i ^spherical_in_d=sph_bessel_i_jac
    spherical_kn=sph_bessel_k spherical_kn_d=sph_bessel_k_jac
struve.h: it2struve0 itmodstruve0 itstruve0 ^modstruve ^struve
"""

#: The bytes of stack of a thread. The compiler cannot count them where functions call
#: themselves, and then CUDA gives 1024, beyond which a thread overwrites others. CUDA
#: keeps so many for each thread that fits on the device, 2.2 GB on an H100, until the
#: process ends, and waits for the device as it does; so only functions behind a ^ ask.
#: What it takes has been reckoned, and not yet measured on a device.
STACK = 8192

#: A thread of these takes up to 20 KB of the device's heap, which has 8 MB.
THREADS_WITH_HEAP = 256

_RAISED: set[int] = set()

_TYPES = {"l": np.int64, "d": np.float64, "D": np.complex128}


class DeviceLoop(NamedTuple):
    """A loop of a ufunc in double precision: SciPy's type letters, and its C++ code."""

    inputs: str
    outputs: str
    statement: str


class DeviceFunction:
    """A function of `scipy.special` as kernels, to call with arrays of CuPy's.

    ``ufunc`` is SciPy's own, whose loops these are.
    """

    def __init__(self, name: str, ufunc: np.ufunc) -> None:
        self.name, self.ufunc = name, ufunc
        self.header, self.function, self.heap, self.recursive = ROWS[name]
        self._kernels: dict[DeviceLoop, Any] = {}

    @cached_property
    def loops(self) -> dict[str, DeviceLoop]:
        """The loops by their types: ``{"dd->d": DeviceLoop(...)}``."""
        found = {}
        for types in self.ufunc.types:
            inputs, outputs = types.split("->")
            if set(types) <= {*_TYPES, *"->"}:
                found[types] = DeviceLoop(
                    inputs, outputs, self._statement(inputs, outputs)
                )
        return found

    def _statement(self, inputs: str, outputs: str) -> str:
        args = [f"in{i}" for i in range(len(inputs))]
        if len(outputs) == 1:
            return f"out0 = {self.function}({', '.join(args)})"
        args += [f"out{i}" for i in range(len(outputs))]
        return f"{self.function}({', '.join(args)})"

    @property
    def preamble(self) -> str:
        """The text before each kernel: the headers to include."""
        lines = ("xsf_begin.h", self.header, "xsf_end.h")
        return "\n".join(f"#include <{line}>" for line in lines)

    def __call__(self, *args: Any) -> Any:
        """Return one array or a tuple, of SciPy's types."""
        nout = self.ufunc.nout
        weak = (a if type(a) in (int, float, complex) else None for a in args)
        types = self.ufunc.resolve_dtypes(
            tuple(
                type(w) if w is not None else np.result_type(a)
                for w, a in zip(weak, args, strict=True)
            )
            + (None,) * nout
        )
        letters = "".join({"f": "d", "F": "D"}.get(t.char, t.char) for t in types)
        letters = letters.replace("q", "l")
        loop = self.loops[f"{letters[:-nout]}->{letters[-nout:]}"]
        ready = list(starmap(_of_type, zip(args, loop.inputs, strict=True)))
        results = self._launch(self._kernel(loop), ready, loop)
        last = types[-nout:]
        out = [y.astype(t, copy=False) for y, t in zip(results, last, strict=True)]
        return out[0] if nout == 1 else tuple(out)

    def _kernel(self, loop: DeviceLoop) -> Any:
        if loop not in self._kernels:
            self._kernels[loop] = import_module("cupy").ElementwiseKernel(
                _parameters(loop.inputs, "in"),
                _parameters(loop.outputs, "out"),
                loop.statement,
                f"workbench_{self.name}_{loop.inputs}",
                preamble=self.preamble,
                options=list_options(),
            )
        return self._kernels[loop]

    def _launch(
        self, kernel: Any, args: list[Any], loop: DeviceLoop
    ) -> tuple[Array, ...]:
        cupy: Any = import_module("cupy")
        if self.recursive:
            _ensure_stack(cupy.cuda, self.name)
        shape = np.broadcast_shapes(*(np.shape(a) for a in args))
        outs = tuple(cupy.empty(shape, _TYPES[c]) for c in loop.outputs)
        if not self.heap or outs[0].size <= THREADS_WITH_HEAP:
            kernel(*args, *outs)
            return outs
        flat = [cupy.broadcast_to(cupy.asarray(a), shape).ravel() for a in args]
        for start in range(0, outs[0].size, THREADS_WITH_HEAP):
            part = slice(start, start + THREADS_WITH_HEAP)
            kernel(*(a[part] for a in flat), *(y.ravel()[part] for y in outs))
        return outs

    def __repr__(self) -> str:
        return f"<scipy.special.{self.name} on the device>"


@cache
def list_options(headers: Path = HEADERS) -> tuple[str, ...]:
    """Return the options of NVRTC.

    Our headers first, among them what xsf needs of the standard library; optimization
    that ends in seconds for sources of this length; products that are rounded before
    they are added, as on the host, where sums cancel; and a name for what our headers
    say, for CuPy finds a compiled kernel by its source and options, which only include
    them.
    """
    told = hashlib.sha256()
    for path in sorted(headers.iterdir()):
        told.update(path.name.encode() + path.read_bytes())
    named = f"-DWORKBENCH_HEADERS={told.hexdigest()}"
    return (f"-I{headers}", "--Ofast-compile=mid", "--fmad=false", named)


def _ensure_stack(cuda: Any, name: str) -> None:
    """Raise the stack limit of the current device, once, where less than `STACK`.

    Raises
    ------
    DeviceMemoryError
        If the device has no room for it, with the function that asks.
    """
    api = cuda.runtime
    current = int(api.getDevice())
    if current in _RAISED:
        return
    if api.deviceGetLimit(api.cudaLimitStackSize) < STACK:
        try:
            api.deviceSetLimit(api.cudaLimitStackSize, STACK)
        except api.CUDARuntimeError as error:
            has = api.getDeviceProperties(current)
            threads = has["multiProcessorCount"] * has["maxThreadsPerMultiProcessor"]
            raise DeviceMemoryError(
                f"the memory of the GPU does not suffice for scipy.special.{name}: its"
                f" threads need a stack of {STACK} bytes each, which is"
                f" {threads * STACK / 1e9:.1f} GB for all that fit there ({error})."
                " Call it before large arrays are made, or delete some and give their"
                " memory back: cupy.get_default_memory_pool().free_all_blocks()."
            ) from error
    _RAISED.add(current)


def _of_type(x: Any, letter: str) -> Any:
    """Return an array or a NumPy scalar of a loop's type."""
    if is_device_array(x):
        return x.astype(_TYPES[letter], copy=False)
    if np.ndim(x) == 0:
        return _TYPES[letter](x)
    return import_module("cupy").asarray(x, _TYPES[letter])


def _parameters(letters: str, prefix: str) -> str:
    pairs = (f"{_TYPES[c].__name__} {prefix}{i}" for i, c in enumerate(letters))
    return ", ".join(pairs)


def _read(table: str) -> Iterator[tuple[str, tuple[str, str, bool, bool]]]:
    header, space = "", ""
    for word in table.split():
        if word.endswith(":"):
            header = word[:-1]
            space = "xsf" if header.startswith("xsf/") else "workbench"
            if space == "xsf":
                header = f"cupy/{header}"
            continue
        name, _, function = word.lstrip("*^").partition("=")
        function = f"{space}::{function or name}"
        yield name, (header, function, word[0] == "*", "^" in word)


#: SciPy's name, to header, C++ function, and whether it asks for the device's heap, and
#: for a longer stack.
ROWS: dict[str, tuple[str, str, bool, bool]] = dict(_read(TABLE))


@cache
def find_kernels(name: str, ufunc: np.ufunc) -> DeviceFunction | None:
    """Return the kernels of a function; None for a name without a row."""
    return DeviceFunction(name, ufunc) if name in ROWS else None
