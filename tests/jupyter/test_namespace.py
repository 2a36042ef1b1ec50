"""After a cell the notebook is as without the magic: names, types, sharing."""

from __future__ import annotations

import re
import types
from collections import deque
from typing import Any

import numpy as np
import pytest

from workbench.core.tensor import Tensor
from workbench.session import Session

from .conftest import Notebook

SETUP = """
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
X = np.arange(12.0).reshape(4, 3) / 7
w = np.array([0.5, -1.0, 2.0])
f32 = np.array([1.0, 2.0, 3.0], np.float32)
s = 0.25
z = 1.0 + 2.0j
n = 3
labels = np.array([0, 1, 0, 1])
kept = []
table = {"old": w}
Point = namedtuple("Point", "x y")
def scaled(v):
    return s * v
def square(v):
    return v ** 2
def remember(v):
    kept.append(v)
    return v
class Box:
    pass
class Slotted:
    __slots__ = ("value",)
class Hidden:
    __slots__ = ("__value",)
    def __init__(self, value):
        self.__value = value
    def get(self):
        return self.__value
class Parts(list):
    pass
box = Box()
"""

#: Cells whose last line is the output.
CELLS = {
    "plain": "h = np.tanh(X @ w)\nloss = np.mean(h)\nloss",
    "scalars stay Python's": "a = s * 2\nb = -a\nc = a + 1\nnp.sum(w) * c",
    "NumPy scalars": "m = w.max()\nk = w.argmax()\nd = w.dtype\nm * 2",
    "complex": "q = z * z\nr = abs(q)\nr + 0.0",
    "float32": "y = f32 * 2.0\nu = f32.sum()\nu",
    "integers beside": "i = n + 1\ncounts = labels * 2\npick = X[labels]\npick.sum()",
    "booleans": "mask = w > 0\nany_ = mask.any()\nflag = bool(s > 0)\nw[mask].sum()",
    "alias of an input": "v = w\nu = v\nnp.sum(u)",
    "inputs reassigned": "w = w * 2\ns = s + 1\nnp.sum(w) * s",
    "names removed": "tmp = w * 2\nloss = tmp.sum()\ndel tmp\nloss",
    "views": "row = X[1]\nT = X.T\ny = X * 1.0\nyr = y[2:]\nflat = y.ravel()\ny.sum()",
    "one object, two names": "a = w * 2\nb = a\nc = a.copy()\nnp.sum(b)",
    "if and for": (
        "total = 0.0\nfor k in range(3):\n    if w[k] > 0:\n"
        "        total = total + w[k]\n    else:\n        total -= w[k]\ntotal"
    ),
    "while": "v = np.sum(w)\nwhile v < 100:\n    v = v * 2\nv",
    "for over an array": "acc = 0.0\nfor row in X:\n    acc = acc + row @ w\nacc",
    "comprehension": "parts = [square(v) for v in w]\nsum(parts)",
    "dictionary comprehension": "d = {i: v * 2 for i, v in enumerate(w)}\nd[0] * 1.0",
    "try": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    caught = str(error)\n"
        "finally:\n    y = w * 2\ny.sum()"
    ),
    "with": ("with np.errstate(all='ignore'):\n    y = np.log(w + 3)\ny.sum()"),
    "helper": "loss = scaled(w).sum()\nloss",
    "helper that keeps": "loss = remember(w * 2).sum()\nloss",
    "helper's global": (
        "def put():\n    global found\n    found = w * 3\nput()\nfound.sum()"
    ),
    "unpacking": "a, b, c = w\n(p, *rest), q = (w[0], w[1], w[2]), s * 1\na * b + c",
    "walrus": "(y := w * 2)\nif (k := y[0]) > 0:\n    e = k\ny.sum()",
    "list": "parts = [w * 2, [s * 3, 'text'], X[0]]\nparts[0].sum()",
    "list that was there": "kept.append(w * 2)\nkept.append(s)\nkept[0].sum()",
    "dict": "d = {'a': w * 2, 'b': {'c': s * 2.0}}\nd['a'].sum()",
    "dict that was there": "table['new'] = w * 2\ntable['new'].sum()",
    "keys": "d = {s * 2: 'half', 'k': 1}\nnp.sum(w) + s",
    "tuple": "t = (w * 2, (s * 2, 1))\nt[0].sum()",
    "named tuple": "p = Point(w * 2, s)\np.x.sum()",
    "set": "found = {s * 2, 1, 'a'}\nnp.sum(w * s)",
    "ordered": "o = OrderedDict(b=w * 2, a=s * 2)\no['b'].sum()",
    "default": "g = defaultdict(list)\ng['x'].append(w * 2)\ng['x'][0].sum()",
    "deque": "q = deque([w * 2], maxlen=2)\nq.append(s * 2)\nq[0].sum()",
    "set of tuples": "found = {(s * 2, 1), (2, 3), (s, (s * 3,))}\nnp.sum(w * s)",
    "frozen set": "found = {frozenset([s * 2, 1]), 'a'}\nnp.sum(w * s)",
    "tuples as keys": "d = {(s * 2, 1): w * 2, (1, 2): 3}\nnp.sum(w * s)",
    "counter": "c = Counter({s * 2: 3, (s * 3, 1): 2, 1: 4})\nnp.sum(w * s)",
    "shared tuple": (
        "t = (w * 2, 1)\nplain = (1.0, 2)\n"
        "held = [t, plain, {'a': t, 'b': plain}, (t, plain), [t]]\nt[0].sum()"
    ),
    "shared list": (
        "a = [w * 2]\nb = [a] * 3\nc = {'b': b, 'bs': [b, b], 'a': (a, 1)}\na[0].sum()"
    ),
    "circle of many": (
        "a = []\nt = (a, w * 2)\nd = {'t': t, 'a': a}\na += [d, t, {'a': a}]\n"
        "t[1].sum()"
    ),
    "one in many lists": (
        "rows = [[k, 1.0] for k in range(500)]\nrows[250][1] = w * 2\n"
        "more = [{'row': row} for row in rows]\nrows[250][1].sum()"
    ),
    "one in many tuples": (
        "rows = [(k, 1.0) for k in range(500)]\nrows[250] = (1, w * 2)\n"
        "more = [[row, row] for row in rows]\nrows[250][1].sum()"
    ),
    "one in many dicts": (
        "rows = [{k: 1.0} for k in range(500)]\nrows[250][s * 2] = w * 2\n"
        "more = [(row, 'a') for row in rows]\nnp.sum(w * s)"
    ),
    "one in many objects": (
        "rows = [SimpleNamespace(a=k) for k in range(500)]\n"
        "rows[250].a = [w * 2]\nrows[250].a[0].sum()"
    ),
    "subclass with attributes": (
        "x = Parts([w * 2, 1])\nx.more = (s * 2, [s * 3])\nx[0].sum()"
    ),
    "private slot": "x = Hidden(w * 2)\ngot = [x.get()]\ngot[0].sum()",
    "circle": "ring = [w * 2]\nring.append(ring)\nring[0].sum()",
    "object": "box.value = w * 2\nbox.inner = [s * 2]\nbox.value.sum()",
    "slots": "x = Slotted()\nx.value = w * 2\nx.value.sum()",
    "simple namespace": "ns = SimpleNamespace(a=w * 2)\nns.a.sum()",
    "dataclass": (
        "@dataclass(frozen=True)\nclass Layer:\n    weight: object\n    bias: float\n"
        "layer = Layer(w * 2, s * 1)\nlayer.weight.sum()"
    ),
    "class attribute": (
        "class Model:\n    weight = w * 2\n    def __init__(self):\n"
        "        self.bias = s * 2\nmodel_ = Model()\nmodel_.weight.sum()"
    ),
    "closure": (
        "def outer(v):\n    y = v * 2\n    def inner(x):\n        return x @ y\n"
        "    return inner\nf = outer(w)\nf(w)"
    ),
    "default argument": "def f(x, y=w * 2, *, k=s * 2):\n    return x @ y * k\nf(w)",
    "lambda": "g = lambda x, y=w * 2: x @ y\ng(w)",
    "function's attribute": "def f(): pass\nf.last = w * 2\nf.last.sum()",
    "object array": "o = np.empty(2, object)\no[0] = 'a'\no[1] = w * 2\no[1].sum()",
    "array of values": "v = np.array([w[0], s, 1.0])\nv.sum()",
    "array of rows": "v = np.array([[w[0], 1.0], [s, w[1]]])\nv.sum()",
    "array of arrays": "v = np.array([w, X[0], [1.0, 2.0, s]])\nv.sum()",
    "array with a dtype": "v = np.array([w[0], s], dtype=np.float32)\nv.sum()",
    "array of an array": (
        "v = np.array(w)\nu = np.asarray(w)\nv[0] = 5.0\nv.sum() + u[0]"
    ),
    "integers from floats": "v = np.array([w[0] * 2, s], dtype=int)\nw.sum() + v[0]",
    "full": (
        "v = np.full((2, 3), s)\nu = np.full(2, w[0], np.float32)\nv.sum() + u.sum()"
    ),
    "full_like": "v = np.full_like(X, s)\nv.sum()",
    "zeros_like": "v = np.zeros_like(w)\nu = np.ones_like(w * 2)\n(w + v + u).sum()",
    "item": "out = np.zeros(3)\nout[0] = w[1]\nout[1:] = w[:2]\nout.sum()",
    "item in a loop": (
        "out = np.zeros(4)\nfor i in range(4):\n    out[i] = X[i] @ w\nout.sum()"
    ),
    "item from before": (
        "out = np.zeros(4)\nfor i in range(1, 4):\n"
        "    out[i] = 0.5 * out[i - 1] + X[i] @ w\nout.sum()"
    ),
    "item by mask": "y = X * 2\ny[y > 2.1] = 0.0\ny.sum()",
    "item by array": "y = np.zeros(4)\ny[np.array([0, 2])] = w[:2]\ny.sum()",
    "item of an item": "A = np.zeros((2, 3))\nA[0][1] = s\nA[1] = w\nA.sum()",
    "item of a computed array": "y = w * 2\ny[0] = 1.0\ny[1] = s\ny.sum()",
    "item in float32": "y = np.zeros(2, np.float32)\ny[0] = s\ny[1] = w[0]\ny.sum()",
    "item in a list": (
        "hs = [np.zeros(2) for _ in range(3)]\nfor k in range(3):\n"
        "    hs[k][0] = w[k]\nsum(h.sum() for h in hs)"
    ),
    "item through the list's loop": (
        "hs = [np.zeros(2), np.zeros(2)]\nfor h, v in zip(hs, w):\n    h[0] = v\n"
        "    h[1] += v * v\nhs[0].sum() + hs[1].sum()"
    ),
    "item of an attribute": (
        "box.buf = np.zeros(2)\nbox.buf[0] = w[0]\nbox.buf[1] += s\nbox.buf.sum()"
    ),
    "item in a function": (
        "def fill(buf, v):\n    same = buf\n    buf[0] = v\n    same[1] = v * v\n"
        "    return buf\nout = np.zeros(2)\nback = fill(out, w[0])\nout.sum()"
    ),
    "item in a function of a function": (
        "def fill(buf):\n    buf[0] = w[0]\ndef make():\n    out = np.zeros(2)\n"
        "    fill(out)\n    fill(out)\n    return out\nmade = make()\nmade.sum()"
    ),
    "item in a closure": (
        "acc = np.zeros(2)\ndef total():\n    return acc.sum()\n"
        "acc[0] = w[0]\nacc[1] = s\ntotal()"
    ),
    "item in an enclosed function": (
        "def run():\n    acc = np.zeros(2)\n    def add(i, v):\n        acc[i] = v\n"
        "    add(0, w[0])\n    add(1, s)\n    return acc\nacc = run()\nacc.sum()"
    ),
    "item in a class body": (
        "class C:\n    buf = np.zeros(2)\n    buf[0] = w[0]\nC.buf.sum()"
    ),
    "item with two names": (
        "out = np.zeros(2)\nother = out\nout[0] = w[0]\nother[1] = s\nout.sum()"
    ),
    "item of a plain constant": (
        "c = np.ones(3)\ny = w * c\nc[0] = 7.0\n(y * c).sum()"
    ),
    "a view that follows": (
        "y = np.zeros((2, 3))\ny[0] = w\nrow = y[0]\ny[1, 1] = s\nrow.sum()"
    ),
    "a row taken and put back": (
        "A = X * 1.0\nfor i in range(2):\n    row = A[i]\n    A[i] = row * 2\nA.sum()"
    ),
    "integers in place": "k = np.zeros(3, int)\nk[1] = 5\nk += 2\n(w * k).sum()",
    "augmented scalar": "v = s\nv += 1\nv *= w[0]\nv",
    "augmented array": "y = w * 2\nb = y\ny += 1\ny *= w\nb.sum()",
    "augmented plain": "acc = np.zeros(3)\nacc += w\nacc -= X[0]\nacc.sum()",
    "augmented item": (
        "y = np.zeros(3)\ny[0] += w[0]\ny[1:] -= w[1:]\ny[0] *= 3\ny.sum()"
    ),
    "augmented rows": "A = X * 1.0\nA[1] += w\nA[:, 0] *= 2\nA.sum()",
    "augmented list": "kept += [w * 2]\nkept[-1].sum()",
    "augmented attribute": "box.y = w * 2\nbox.y += 1\nbox.y.sum()",
    "augmented item of a list": "ys = [w * 2]\nys[0] += 1\nys[0] *= s\nys[0].sum()",
    "augmented in float32": "y = f32 * 1\ny += w\ny.sum()",
    "augmented matrices": "M = X[:3] * 1.0\nM @= X[:3]\nM.sum()",
    "a finite-difference solver": (
        "u = np.zeros((4, 6))\nu[0, 1:4] = w\nfor t in range(3):\n"
        "    u[t + 1, 1:-1] = u[t, 1:-1] + 0.1 * s * (\n"
        "        u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2]\n    )\n"
        "    u[t + 1, 0] = u[t + 1, 1]\nnp.sum(u[-1] ** 2)"
    ),
    "a table of dynamic programming": (
        "D = np.full((4, 5), np.inf)\nD[0, 0] = 0.0\nfor i in range(1, 4):\n"
        "    for j in range(1, 5):\n        cost = (w[i - 1] - X[j - 1, 0]) ** 2\n"
        "        D[i, j] = cost + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])\n"
        "D[-1, -1] * s"
    ),
    "a filter": (
        "x = X.ravel()\ny = np.zeros(len(x))\nfor i in range(len(x)):\n"
        "    y[i] = s * x[i]\n    if i > 1:\n"
        "        y[i] += 0.5 * y[i - 1] - s * y[i - 2]\nnp.sum(y * y)"
    ),
    "a trajectory": (
        "path = np.empty((6, 3))\npath[0] = w\nfor k in range(5):\n"
        "    path[k + 1] = path[k] + s * np.sin(path[k])\nnp.sum(path[-1] * path[2])"
    ),
    "Cholesky by entries": (
        "A = X.T @ X + np.diag(w**2)\nL = np.zeros_like(A)\nfor i in range(3):\n"
        "    for j in range(i + 1):\n        total = A[i, j]\n"
        "        for k in range(j):\n            total -= L[i, k] * L[j, k]\n"
        "        L[i, j] = np.sqrt(total) if i == j else total / L[j, j]\nL.sum()"
    ),
    "views that are written to": (
        "y = X * 1.0\nv = y[1:, :2]\nv += w[:2]\nv *= s\ny.T[0] -= 1\n"
        "flat = y.reshape(-1)\nflat[::5] *= 3\n(y * y).sum()"
    ),
    "masks": (
        "y = np.zeros(3)\ny[w > 0] = w[w > 0] * s\nz = X * 1.0\nz[z > 1.1] = 0.0\n"
        "z[z < 0.5] *= s\nnp.putmask(y, w < 0, w * w)\nz.sum() + y.sum()"
    ),
    "out=": (
        "y = np.empty(3)\nnp.multiply(w, s, out=y)\nz = np.add(y, 1, out=y)\n"
        "t = np.zeros(3)\nnp.cumsum(y * z, out=t)\nt[-1] * t[0]"
    ),
    "functions that write": (
        "A = X[:3] * 1.0\nnp.fill_diagonal(A, w)\nnp.add.at(A, [0, 0], s)\n"
        "b = np.empty(3)\nb.fill(s)\nc = w * 2\nc.sort()\n"
        "np.copyto(b, c, where=c > 0)\n"
        "A.sum() + (b * c).sum()"
    ),
    "a table of numbers beside": (
        "t = np.zeros((3, 3))\nfor i in range(3):\n    for j in range(3):\n"
        "        t[i, j] = i - 0.5 * j\nt[0] += 1\nhalf = t[1:] / 2\n(t @ w).sum()"
    ),
    "numbers first": (
        "t = np.ones(4)\nt[1:] *= 2.0\nhead, tail = t[:2], t[2:]\na = t * s\n"
        "t[0] = w[0]\ntail += w[1]\nb = t * t\n(a + b).sum() + head.sum()"
    ),
    "NumPy by another name": (
        "import numpy as xp\nfrom numpy import zeros, empty as room\n"
        "a = xp.zeros(2)\nb, c = zeros(2), room(2)\nmake = xp.zeros\nd = make(2)\n"
        "for y in (a, b, c, d):\n    y[0] = w[0]\n    y[1] = s * w[1]\n"
        "other = xp\nheld = [xp, zeros]\n(a * b + c * d).sum()"
    ),
    "NumPy of a function": (
        "def fill(v):\n    import numpy as xp\n    from numpy import ones\n"
        "    y, z = xp.zeros(2), ones(2)\n    y[0] = v\n    z[1] = v * v\n"
        "    return y * z + z\nfill(s).sum()"
    ),
    "integers that are filled again": (
        "k = np.zeros(3, int)\nm = np.zeros(3, bool)\nt = 0.0\nfor i in range(3):\n"
        "    k[i:] = i\n    m[i] = True\n    t = t + np.sum(w[k] * k) + w[m].sum()\n"
        "    head = k[:2]\nt"
    ),
    "floats from integers": (
        "k = np.arange(3)\na, b, c = k.astype(float), k / 2, -k * 1.0\n"
        "d = (a > 1) * 1\nfor y in (a, b, c):\n    y[0] = s\n    y[1:] *= w[1:]\n"
        "d[d > 0] = 5\nm = np.argsort(c.copy())\nm[0] = 2\n"
        "(a + b * c + w[m] * d).sum()"
    ),
    "it is an array": (
        "y = w * 2\nis_array = isinstance(y, np.ndarray)\nis_number = isinstance(s, "
        "np.ndarray)\nif is_array:\n    y[0] = 0.0\ny.sum()"
    ),
    "annotated": "y: object = w * 2\nk: float = s * 2\ny.sum() * k",
    "print": "print(w.sum())\nprint(f'{s:.2f} {w[0]:.1f}')\nw.sum()",
    "decorated": (
        "def twice(f):\n    def g(*a):\n        return 2 * f(*a)\n    return g\n"
        "@twice\ndef h(v):\n    return v.sum()\nh(w)"
    ),
    "comment only after": "y = w.sum()\ny  # the end",
    "line magics": "%precision 3\nfiles = !echo hello\ny = w.sum()\n%precision\ny",
    "imports": "import math\nfrom math import tau\ny = w.sum() * tau\ny",
    "global statement": (
        "def f():\n    global g\n    g = s * 2\n    return g\nf() * 1.0"
    ),
    "multi-line": "y = (\n    w\n    * 2\n)\ny.sum()",
    "match": (
        "match n:\n    case 3:\n        y = w * 2\n    case _:\n        y = w\ny.sum()"
    ),
    "in a string": "text = str(s) + repr(n)\ny = w.sum()\ny",
}


def fresh(notebook: Notebook, setup: str = SETUP) -> dict[str, Any]:
    notebook.reset()
    notebook.run(setup)
    return dict(notebook.names)


def visible(notebook: Notebook) -> dict[str, Any]:
    hidden = {*notebook.shell.user_ns_hidden, "Out", "In"}
    return {
        name: value
        for name, value in notebook.names.items()
        if name not in hidden and not name.startswith("_")
    }


class Same:
    """Compares two values deeply, and which of their parts are one object."""

    def __init__(self) -> None:
        self.twins: dict[int, int] = {}
        self.keep: list[Any] = []
        self.arrays: list[tuple[str, np.ndarray, np.ndarray]] = []

    def __call__(self, a: Any, b: Any, where: str) -> None:
        assert not isinstance(b, Tensor), f"{where} is a Tensor"
        assert type(a).__name__ == type(b).__name__, f"{where}: {a!r} {b!r}"
        if isinstance(a, (types.ModuleType, types.BuiltinFunctionType)):
            assert a is b, where
        if isinstance(a, (types.ModuleType, str, bytes, range, type(None))):
            return
        if id(a) in self.twins:
            assert self.twins[id(a)] == id(b), f"{where} is another object"
            return
        self.keep += [a, b]
        if not isinstance(a, (int, float, complex, np.generic)):
            self.twins[id(a)] = id(b)
        if isinstance(a, np.ndarray):
            self.array(a, b, where)
        elif isinstance(a, (int, float, complex, np.generic)):
            assert a == b or a != a, f"{where}: {a!r} {b!r}"
        elif isinstance(a, dict):
            assert [*map(repr, a)] == [*map(repr, b)], where
            for key, other in zip(a, b, strict=True):
                self(key, other, f"key of {where}")
                self(a[key], b[other], f"{where}[{key!r}]")
        elif isinstance(a, (list, tuple, deque)):
            assert len(a) == len(b), where
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self(x, y, f"{where}[{i}]")
        elif isinstance(a, (set, frozenset)):
            assert a == b, where
        elif isinstance(a, types.FunctionType):
            self(a.__defaults__, b.__defaults__, f"defaults of {where}")
            self(a.__kwdefaults__, b.__kwdefaults__, f"kwdefaults of {where}")
            cells = [c.cell_contents for c in a.__closure__ or ()]
            others = [c.cell_contents for c in b.__closure__ or ()]
            self(cells, others, f"closure of {where}")
            self(vars(a), vars(b), f"attributes of {where}")
        elif isinstance(a, type):
            if a.__module__ == "__main__":
                own = {k: v for k, v in vars(a).items() if not k.startswith("__")}
                self(own, {k: vars(b)[k] for k in own}, where)
        else:
            if hasattr(a, "get"):
                self(a.get(), b.get(), f"slot of {where}")
                return
            for part in (*getattr(a, "__dict__", ()), *getattr(a, "__slots__", ())):
                self(getattr(a, part), getattr(b, part), f"{where}.{part}")

    def array(self, a: np.ndarray, b: np.ndarray, where: str) -> None:
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        assert a.flags.writeable == b.flags.writeable, f"{where} is locked"
        if a.dtype == object:
            self(a.ravel().tolist(), b.ravel().tolist(), where)
        else:
            np.testing.assert_array_equal(a, b, where)
            for name, x, y in self.arrays:
                shared = np.may_share_memory(a, x)
                assert np.may_share_memory(b, y) == shared, f"{where} shares {name}"
            self.arrays.append((where, a, b))


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_the_notebook_is_as_without_the_magic(notebook: Notebook, cell: str) -> None:
    fresh(notebook)
    plain = notebook.run(cell)
    without = visible(notebook)
    fresh(notebook)
    ran = notebook.run("%%autodiff --show none\n" + cell)
    with_magic = visible(notebook)
    assert isinstance(with_magic.pop("ad"), Session)
    same = Same()
    assert list(with_magic) == list(without)
    for name, value in without.items():
        same(value, with_magic[name], name)
    same(plain.result, ran.result, "the result")
    number = re.compile(r"Out\[\d+\]")
    assert number.sub("", ran.stdout) == number.sub("", plain.stdout)
    assert ran.stderr == plain.stderr


#: Rounded, or in single precision: differences do not tell the derivative.
ROUGH = {
    "array with a dtype",
    "augmented in float32",
    "float32",
    "full",
    "integers from floats",
    "item in float32",
}


@pytest.mark.parametrize("name", [name for name in CELLS if name not in ROUGH])
def test_the_gradient_is_that_of_the_cell(
    notebook: Notebook, name: str, rng: np.random.Generator
) -> None:
    """Against differences of the cell's own results, run without the magic."""
    names = fresh(notebook)
    notebook.run("%%autodiff --show none\n" + CELLS[name])
    grads = {**notebook.names["ad"].grads}
    assert grads
    moves: dict[str, Any] = {}
    for key, g in grads.items():
        moves[key] = rng.normal(size=np.shape(g))
        if np.iscomplexobj(g):
            moves[key] = moves[key] + 1j * rng.normal(size=np.shape(g))
    results = []
    for step in (1e-5, -1e-5):
        fresh(notebook)
        for key, move in moves.items():
            kind = type(names[key])
            moved = names[key] + step * move
            notebook.names[key] = moved if kind is np.ndarray else kind(moved)
        results.append(notebook.run(CELLS[name]).result)
    expected = (results[0] - results[1]) / 2e-5
    found = sum(np.sum(g * moves[key]).real for key, g in grads.items())
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


#: Where a Tensor stays: what is kept, and what a later cell does with it.
ELSEWHERE = {
    "a partial": ("kept = partial(np.multiply, w * 2)", "kept(w).sum()"),
    "a generator": (
        "def rows():\n    y = w * 2\n    yield y * 1\n    yield y\n"
        "kept = rows()\nnext(kept)",
        "next(kept).sum() + w[0]",
    ),
    "a deep container": ("kept = [[[[w * 2]]]]", "(kept[0][0][0][0] + w).max()"),
    "a foreign object in a list": (
        "import argparse\nkept = [argparse.Namespace()]\nkept[0].y = w * 2",
        "np.sum(kept[0].y[1:] * w[1:])",
    ),
    "a key": ("kept = {frozenset([(w[0],)]): 1}\nkept = [*kept][0]", "len(kept) + 1.0"),
}


@pytest.mark.parametrize(("cell", "later"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_elsewhere_a_tensor_stays_and_behaves_as_its_array(
    notebook: Notebook, cell: str, later: str
) -> None:
    fresh(notebook)
    notebook.run(cell)
    expected = notebook.run(later).result
    fresh(notebook)
    notebook.run(f"%%autodiff --show none\n{cell}\nnp.sum(w)")
    notebook.run(f"result = {later}\nas_array = np.asarray(result)")
    assert float(notebook.names["result"]) == expected
    assert type(notebook.names["as_array"]) is np.ndarray
    # A later cell differentiates by what it reads itself.
    fresh(notebook)
    notebook.run(f"%%autodiff --show none\n{cell}\nnp.sum(w)")
    notebook.run(f"%%autodiff --show none\nnp.sum(w) + {later}")
    assert float(notebook.names["ad"].value) == expected + np.sum([0.5, -1, 2])


def test_inputs_are_the_very_same_objects(notebook: Notebook) -> None:
    before = fresh(notebook)
    notebook.run("%%autodiff --show none\nnp.sum(X @ w) * s + f32.sum()")
    for name in ("X", "w", "s", "f32", "labels", "kept", "table", "box"):
        assert notebook.names[name] is before[name]
    assert before["X"].flags.writeable


def test_a_failing_cell_leaves_what_it_would_have_left(notebook: Notebook) -> None:
    cell = "y = w * 2\nkept.append(y)\nbox.value = s * 2\nw = w + 1\n1 / 0\nw = 0"
    fresh(notebook)
    notebook.run(cell, ok=False)
    without = visible(notebook)
    fresh(notebook)
    notebook.run("%%autodiff y\n" + cell, ok=False)
    same = Same()
    assert list(visible(notebook)) == list(without)
    for name, value in without.items():
        same(value, visible(notebook)[name], name)


def test_functions_of_a_cell_work_in_later_cells(notebook: Notebook) -> None:
    fresh(notebook)
    notebook.run(
        "%%autodiff --show none\ndef f(v):\n    out = np.zeros(2)\n    out[0] = v\n"
        "    out[1] += v\n    return np.array([out[0], v]).sum() + out.sum()\nf(s)"
    )
    assert notebook.run("f(2.0)").result == 8.0
    assert notebook.run("%%autodiff --show none\nf(s) * f(s)").result == 1.0
    assert notebook.names["ad"].grads["s"] == pytest.approx(8.0)


def test_what_a_cell_hands_out_is_not_the_sessions(notebook: Notebook) -> None:
    fresh(notebook)
    notebook.run("%%autodiff --show none\nh = np.tanh(w)\nnp.sum(h * h)")
    before = notebook.names["ad"].grads["w"]
    notebook.run("h *= 0\nw *= 0")
    notebook.names["ad"].override("tanh", "d")
    notebook.names["ad"].undo()
    np.testing.assert_array_equal(notebook.names["ad"].grads["w"], before)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_what_changes_in_place_later_does_not_reach_the_session(
    notebook: Notebook, cell: str
) -> None:
    fresh(notebook)
    ran = notebook.run("%%autodiff --show none\n" + cell)
    session = notebook.names["ad"]
    nodes = session.graph.nodes
    values = [np.array(x._value) for x in nodes if not isinstance(x._value, tuple)]
    grads = {**session.grads}
    held = Same()
    for name, value in {**visible(notebook), "the result": ran.result}.items():
        if name != "ad":
            held(value, value, name)
    for _, array, _ in held.arrays:
        if array.flags.writeable:
            array[...] = 77
    shown = [x._value for x in nodes if not isinstance(x._value, tuple)]
    for before, now in zip(values, shown, strict=True):
        np.testing.assert_array_equal(now, before)
    session.override(lambda node: bool(node.inputs), "2 * d")
    session.undo()
    for name, g in grads.items():
        np.testing.assert_array_equal(session.grads[name], g)


def test_a_cell_runs_its_program_once(notebook: Notebook) -> None:
    fresh(notebook)
    notebook.run("""
class Counted(wb.Op):
    runs = []
    def infer(self, x):
        return x
    def compute(self, x):
        self.runs.append(x)
        return x * x
    def vjp(self, node, g):
        return 2 * g * node.inputs[0]
square = Counted()
""")
    notebook.run("%%autodiff\nh = square(w)\nnp.sum(square(h))")
    assert len(notebook.names["Counted"].runs) == 2


def test_attributes_of_a_librarys_object_that_a_name_holds(notebook: Notebook) -> None:
    fresh(notebook)
    notebook.run("import argparse\nmodel = argparse.Namespace()")
    cell = "model.h = w * 2\nmodel.parts = [s * 2]\nnp.sum(model.h)"
    notebook.run(f"%%autodiff --show none\n{cell}")
    notebook.run("%%autodiff --show none\nmodel.sum = np.sum(model.h * w)\nmodel.sum")
    model = notebook.names["model"]
    assert type(model.h) is np.ndarray
    assert np.array_equal(model.h, [1.0, -2.0, 4.0])
    assert type(model.parts[0]) is float
    assert type(model.sum) is np.float64
    # The session's own stay: they are its program.
    assert isinstance(notebook.names["ad"].graph.outputs[0], Tensor)


#: Objects that fail, or refuse, where the walk reads and writes; what is checked.
ODD = {
    "a tuple with its own __new__": (
        "class P(tuple):\n    def __new__(cls, a, b):\n"
        "        return tuple.__new__(cls, (a, b))",
        "odd = P(w * 2, 1)\nodd.label = 'kept'",
        "type(odd) is P and type(odd[0]) is np.ndarray and odd.label == 'kept'",
    ),
    "a Tensor as a key": (
        "",
        "odd = {w * 2: 1, s * 2: 2, 'a': w * 3}",
        "[*odd.values()][:2] == [1, 2] and odd[0.5] == 2"
        " and type(odd['a']) is np.ndarray",
    ),
    "a Tensor in a set": ("", "odd = {w * 2, s * 2}", "len(odd) == 2 and 0.5 in odd"),
    "a dict that refuses items": (
        "class D(dict):\n    def __setitem__(self, k, v):\n        raise TypeError",
        "odd = D(a=w * 2)",
        "type(odd['a']) is np.ndarray",
    ),
    "a list that refuses items": (
        "class L(list):\n    def __setitem__(self, k, v):\n        raise TypeError",
        "odd = L([w * 2])",
        "type(odd[0]) is np.ndarray",
    ),
    "a list that cannot be iterated": (
        "class L(list):\n    def __iter__(self):\n        raise RuntimeError",
        "odd = L([1.0])",
        "odd[0] == 1.0",
    ),
    "an Enum": (
        "import enum",
        "class M(enum.Enum):\n    A = w * 2",
        "type(M.A.value) is np.ndarray",
    ),
    "a metaclass that refuses": (
        "class Meta(type):\n    def __setattr__(cls, n, v):\n"
        "        raise AttributeError",
        "class K(metaclass=Meta):\n    a = w * 2",
        "type(K.a) is np.ndarray",
    ),
    "an object that answers nothing": (
        "class Proxy:\n    __slots__ = ('a',)\n    def __getattr__(self, name):\n"
        "        raise RuntimeError('not connected')\nproxy = Proxy()",
        "odd = Proxy()\nodd.a = w * 2",
        "type(odd.a) is np.ndarray",
    ),
}


@pytest.mark.parametrize(("before", "cell", "holds"), ODD.values(), ids=ODD)
def test_an_odd_object_does_not_keep_the_others_from_being_plain(
    notebook: Notebook, before: str, cell: str, holds: str
) -> None:
    fresh(notebook)
    notebook.run(before)
    notebook.run(f"%%autodiff --show none\n{cell}\nother = np.cos(w)\nnp.sum(other)")
    assert type(notebook.names["other"]) is np.ndarray
    assert eval(holds, notebook.names)
