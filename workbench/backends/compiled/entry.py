"""`make_entry`: a program as a built-in function of Python, made of IR.

It checks each argument, takes arrays for the results, runs the program and returns, in
some tens of nanoseconds. An argument of another type, shape or memory is handed to the
slow way, which knows them all. A program that runs for longer lets go of Python's lock
meanwhile; a second thread that calls then goes the slow way too.

The code reads arrays as NumPy's binary interface lays them out, and finds all it needs
in a table of addresses, which is the ``self`` of the function.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.memory import Pool, take_block
from workbench.backends.compiled.steps import LONG, Buffer, Plan, count_work
from workbench.core.types import Spec

#: A program keeps Python's lock if it computes at most so many entries of nodes.
MOST_LOCKED = 20_000
#: A program has an entry if its memory, which each entry has its own of, is this small.
MOST_BYTES = 2**20
#: Arrays that each result may use again: one is mostly still held by the caller.
SLOTS = 2

# Where NumPy's array object has what, and the numbers of its functions: parts of its
# binary interface.
_TYPE, _DATA, _RANK, _SHAPE, _DTYPE, _FLAGS, _WEAK = 8, 16, 24, 32, 56, 64, 72
_ITEMS, _USED = 24, 16  # of a tuple or a list; of a mapping or a list
#: One after the other, aligned; and with memory of its own, writeable.
_PLAIN, _OWN = 0x1 | 0x100, 0x1 | 0x100 | 0x4 | 0x400
_NEW, _SCALAR = 93, 60
_FASTCALL_WITH_KEYWORDS = 0x0082

#: The first words of the table.
_WORDS = (
    "array_type float_type vectorcall fallback new scalar get_context context nothing"
    " make_tuple make_list increase decrease save restore raised clear busy"
).split()

#: The content of a slot without an array. Others hold it too, so it is never taken.
_PLACEHOLDER = np.empty(0)


_NAME = b"entry"  # of every built-in function made here


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache
def is_layout_known() -> bool:
    """Return whether this Python and this NumPy lay objects out as the code expects."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return False
    if sys.byteorder != "little":
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    x = np.arange(12.0)[2:9]
    number, scalar, pair, pairs = 3.5, np.float64(4.5), (x, {x.shape: 1}), [x, x, x]

    def read(of: object, offset: int, kind: Any = ctypes.c_void_p) -> Any:
        return kind.from_address(id(of) + offset).value

    count, unknown = read(x, 0, ctypes.c_int32), read(x, _WEAK)
    other, reference = x, weakref.ref(x)
    lengths = ctypes.c_ssize_t.from_address(read(x, _SHAPE)).value
    return bool(
        read(other, 0, ctypes.c_int32) == count + 1
        and read(x, _TYPE) == id(np.ndarray)
        and read(x, _DATA) == x.__array_interface__["data"][0]
        and read(x, _RANK, ctypes.c_int) == 1
        and lengths == 7
        and read(x, _DTYPE) == id(x.dtype)
        and read(x, _FLAGS, ctypes.c_int) & _OWN == _OWN & ~0x4  # a view
        and read(x.base, _FLAGS, ctypes.c_int) & _OWN == _OWN
        and unknown is None
        and read(x, _WEAK) == id(reference)
        and read(pair, _ITEMS) == id(x)
        and ctypes.c_void_p.from_address(read(pairs, _ITEMS)).value == id(x)
        and read(pairs, _USED, ctypes.c_ssize_t) == 3
        and read(pair[1], _USED, ctypes.c_ssize_t) == 1
        and read(number, _DATA, ctypes.c_double) == 3.5
        and read(scalar, _DATA, ctypes.c_double) == 4.5
    )


class Table(np.ndarray[Any, Any]):
    """The addresses that an entry needs; holds the arrays in its slots."""

    #: Where the addresses of the arrays stand that results may use again.
    slots = range(0)
    #: What the other addresses are of.
    owners: dict[str, Any]

    def set_fallback(self, fallback: Callable[..., Any]) -> None:
        """Set the function that handles calls outside the entry's reach."""
        self[_WORDS.index("fallback")] = id(fallback)
        self.owners["fallback"] = fallback

    def release(self) -> None:
        """Let go of the arrays in the slots."""
        for i in self.slots:
            array = int(self[i])
            _increase(ctypes.py_object(_PLACEHOLDER))
            self[i] = id(_PLACEHOLDER)
            _decrease(ctypes.c_void_p(array))

    def __del__(self) -> None:
        # A function may still be called by what goes with it: the slots stay valid.
        if not sys.is_finalizing():
            self.release()


_increase = ctypes.pythonapi["Py_IncRef"]
_decrease = ctypes.pythonapi["Py_DecRef"]


def has_entry(plan: Plan, block: int) -> bool:
    """Return whether a program is native, and its memory small enough to be kept."""
    if not plan.is_native or count_work(plan) > LONG:  # which may be interrupted
        return False
    kept = sum(x.size for x in plan.buffers if x.kind == "output")
    growing = any(x.kind in ("growing", "state") for x in plan.buffers)
    return not growing and block + SLOTS * kept <= MOST_BYTES


def make_entry(
    machine: Machine,
    plan: Plan,
    addresses: Sequence[int],
    block: int,
    form: type | None,
    fallback: Callable[..., Any],
    context: Any = None,
    empty: Sequence[Any] = (),
    numbers: bool = False,
    raises: bool = False,
) -> Callable[..., Any] | None:
    """Return a built-in function that runs a program; None: no entry is possible.

    Parameters
    ----------
    addresses
        The functions that run the program, in order.
    block
        The size of the block of the program's inner buffers.
    form
        What several results come in: `tuple` or `list`; None for one result.
    fallback
        What is called with arguments that the code does not take.
    context
        A context variable, which must hold an empty tuple, or the fallback is called.
    empty
        Mappings and lists, which must be empty, or the fallback is called.
    numbers
        Take Python's floats for inputs that are float64 numbers.
    raises
        What it calls may set an error of Python's; the fallback says it better.
    """
    inputs = [x for x in plan.buffers if x.kind == "input"]
    if not is_layout_known() or not has_entry(plan, block):
        return None
    if any(x.spec.weak and x.spec.dtype != np.float64 for x in inputs):
        return None
    outputs = []
    for y in plan.outputs:
        if not isinstance(y, View) or plan.buffers[y.buffer].kind != "output":
            return None
        outputs.append(y.buffer)
    if len(set(outputs)) < len(outputs) or (form is None and len(outputs) != 1):
        return None
    writer = _EntryWriter(plan, inputs, outputs, form, len(addresses))
    writer.guarded, writer.empty = context is not None, len(empty)
    writer.numbers, writer.raises = numbers, raises
    library = machine.compile(writer.write(), ["entry"], [], quick=False)
    table = _fill_table(writer, addresses, block)
    # In the table itself: a built-in function reads its definition when it goes, which
    # may be after the collector has emptied `owners`.
    definition = _MethodDefinition.from_address(
        table.ctypes.data + 8 * writer.definition
    )
    definition.name, definition.address = _NAME, library.addresses["entry"]
    definition.flags = _FASTCALL_WITH_KEYWORDS
    table.owners |= {"library": library, "plan": plan}
    table.owners |= {"context": context, "empty": empty}
    table[_WORDS.index("context")] = id(context)
    table[writer.marks : writer.marks + len(empty)] = list(map(id, empty))
    table.set_fallback(fallback)
    make = ctypes.pythonapi["PyCFunction_NewEx"]
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    entry: Callable[..., Any] = make(ctypes.addressof(definition), table, None)
    return entry


def _fill_table(writer: _EntryWriter, addresses: Sequence[int], block: int) -> Table:
    """Return the table of an entry, without the fields of its owner."""
    plan, api = writer.plan, ctypes.pythonapi
    table = np.zeros(writer.size, np.uint64).view(Table)
    memory, start = take_block(Pool(), block)

    def locate(name: str) -> int:
        return int(ctypes.cast(api[name], ctypes.c_void_p).value or 0)

    words = {
        "array_type": id(np.ndarray), "float_type": id(float), "nothing": id(()),
        "new": _find_array_function(_NEW), "scalar": _find_array_function(_SCALAR),
        "vectorcall": locate("PyObject_Vectorcall"),
        "get_context": locate("PyContextVar_Get"),
        "make_tuple": locate("PyTuple_New"), "make_list": locate("PyList_New"),
        "increase": locate("Py_IncRef"), "decrease": locate("Py_DecRef"),
        "save": locate("PyEval_SaveThread"), "restore": locate("PyEval_RestoreThread"),
        "raised": locate("PyErr_Occurred"), "clear": locate("PyErr_Clear"),
    }  # fmt: skip
    for word, value in words.items():
        table[_WORDS.index(word)] = value
    for i, address in enumerate(addresses):
        table[writer.functions + i] = address
    for i, buffer in enumerate(plan.buffers):
        if buffer.kind == "constant":
            table[writer.pointers + i] = buffer.value.__array_interface__["data"][0]
        elif buffer.offset >= 0:
            table[writer.pointers + i] = start + buffer.offset
    dtypes = []
    for place, buffer in zip(
        [*writer.taken, *writer.given],
        [*writer.inputs, *(plan.buffers[i] for i in writer.outputs)],
        strict=True,
    ):
        spec: Spec = buffer.spec
        # The one object of each built-in dtype, which all arrays of it share.
        dtypes.append(np.empty(0, spec.dtype).dtype)
        kinds = id(spec.dtype.type), id(dtypes[-1]), spec.dtype.num
        described = [*kinds, len(spec.shape), *spec.shape]
        table[place : place + len(described)] = described
    table.slots = range(writer.slots, writer.slots + SLOTS * len(writer.outputs))
    for i in table.slots:
        _increase(ctypes.py_object(_PLACEHOLDER))
        table[i] = id(_PLACEHOLDER)
    table.owners = {"memory": memory, "dtypes": dtypes}
    return table


@cache
def _find_array_function(place: int) -> int:
    """Return the address of a function of NumPy's C interface."""
    module = import_module("numpy._core._multiarray_umath")
    read = ctypes.pythonapi["PyCapsule_GetPointer"]
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    whole = read(module._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(whole + 8 * place).value or 0)


# An array is described in the table by the type of its entries, its dtype, the number
# of that, its rank, and its lengths.
_DESCRIBED = 4
_FUNCTIONS = f"""
define internal i1 @is_described(ptr %x, ptr %description, i32 %flags) {{
start:
  %dtype_at = getelementptr i8, ptr %x, i64 {_DTYPE}
  %dtype = load ptr, ptr %dtype_at
  %wanted_dtype_at = getelementptr i64, ptr %description, i64 1
  %wanted_dtype = load ptr, ptr %wanted_dtype_at
  %a = icmp eq ptr %dtype, %wanted_dtype
  %flags_at = getelementptr i8, ptr %x, i64 {_FLAGS}
  %have = load i32, ptr %flags_at
  %both = and i32 %have, %flags
  %b = icmp eq i32 %both, %flags
  %rank_at = getelementptr i8, ptr %x, i64 {_RANK}
  %rank = load i32, ptr %rank_at
  %wanted_rank_at = getelementptr i64, ptr %description, i64 3
  %wanted_rank = load i64, ptr %wanted_rank_at
  %wide_rank = sext i32 %rank to i64
  %c = icmp eq i64 %wide_rank, %wanted_rank
  %ab = and i1 %a, %b
  %abc = and i1 %ab, %c
  %shape_at = getelementptr i8, ptr %x, i64 {_SHAPE}
  %shape = load ptr, ptr %shape_at
  %wanted_shape = getelementptr i64, ptr %description, i64 {_DESCRIBED}
  br i1 %abc, label %lengths, label %no
lengths:
  %i = phi i64 [0, %start], [%next, %length]
  %more = icmp slt i64 %i, %wanted_rank
  br i1 %more, label %length, label %yes
length:
  %n_at = getelementptr i64, ptr %shape, i64 %i
  %n = load i64, ptr %n_at
  %wanted_at = getelementptr i64, ptr %wanted_shape, i64 %i
  %wanted = load i64, ptr %wanted_at
  %same = icmp eq i64 %n, %wanted
  %next = add i64 %i, 1
  br i1 %same, label %lengths, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

; An array for a result: one that nobody else holds, watches or has changed, or a new
; one. Null: there is no memory.
define internal ptr @take_array(ptr %words, ptr %description, ptr %slots) {{
start:
  br label %look
look:
  %k = phi i64 [0, %start], [%next, %other]
  %more = icmp ult i64 %k, {SLOTS}
  br i1 %more, label %count, label %make
count:
  %slot = getelementptr ptr, ptr %slots, i64 %k
  %x = load ptr, ptr %slot
  %references = load i32, ptr %x
  %alone = icmp eq i32 %references, 1
  br i1 %alone, label %compare, label %other
compare:
  %weak_at = getelementptr i8, ptr %x, i64 {_WEAK}
  %weak = load ptr, ptr %weak_at
  %unwatched = icmp eq ptr %weak, null
  %same = call i1 @is_described(ptr %x, ptr %description, i32 {_OWN})
  %good = and i1 %unwatched, %same
  br i1 %good, label %found, label %other
other:
  %next = add i64 %k, 1
  br label %look
found:
  store i32 2, ptr %x
  ret ptr %x
make:
  %array_type = load ptr, ptr %words
  %number_at = getelementptr i64, ptr %description, i64 2
  %number = load i32, ptr %number_at
  %rank_at = getelementptr i64, ptr %description, i64 3
  %rank = load i32, ptr %rank_at
  %shape = getelementptr i64, ptr %description, i64 {_DESCRIBED}
  %new_at = getelementptr ptr, ptr %words, i64 {_WORDS.index("new")}
  %new = load ptr, ptr %new_at
  %made = call ptr %new(ptr %array_type, i32 %rank, ptr %shape, i32 %number, ptr null,
    ptr null, i32 0, i32 0, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %keep
keep:
  store i32 2, ptr %made
  %old = load ptr, ptr %slots
  store ptr %made, ptr %slots
  %decrease_at = getelementptr ptr, ptr %words, i64 {_WORDS.index("decrease")}
  %decrease = load ptr, ptr %decrease_at
  call void %decrease(ptr %old)
  ret ptr %made
nothing:
  ret ptr null
}}
"""


class _EntryWriter:
    """The text of an entry, and the places of its values in its table."""

    def __init__(
        self, plan: Plan, inputs: Sequence[Buffer], outputs: Sequence[int],
        form: type | None, functions: int,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.inputs = inputs
        self.outputs = outputs
        self.form = form
        self.count = functions
        self.guarded = self.numbers = self.raises = False
        self.empty = 0
        self.functions = len(_WORDS)
        #: The table of buffers that the program is run with.
        self.pointers = self.functions + functions
        place = self.pointers + len(plan.buffers)
        #: The descriptions of inputs and of outputs.
        self.taken, self.given = [], []
        for buffer in inputs:
            self.taken.append(place)
            place += _DESCRIBED + len(buffer.spec.shape)
        for i in outputs:
            self.given.append(place)
            place += _DESCRIBED + len(plan.buffers[i].spec.shape)
        self.slots = place
        self.marks = place + SLOTS * len(outputs)
        self.lines: list[str] = []
        #: The block of code that is being written.
        self.block = "start"
        self._names = 0

    @property
    def size(self) -> int:
        """The number of words of the table."""
        return self.definition + 4

    @property
    def definition(self) -> int:
        """The place of the function's definition, which has four words."""
        return self.marks + self.empty

    def emit(self, text: str) -> str:
        """Add a line that gives a value."""
        self._names += 1
        self.lines.append(f"  %v{self._names} = {text}")
        return f"%v{self._names}"

    def read(self, pointer: str, offset: int, kind: str = "ptr") -> str:
        """Read a word of an object."""
        place = self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.emit(f"load {kind}, ptr {place}")

    def locate(self, place: int) -> str:
        """Return where a word of the table is."""
        return self.emit(f"getelementptr i64, ptr %words, i64 {place}")

    def word(self, place: int | str) -> str:
        """Read a word of the table."""
        return self.read(
            "%words", 8 * (_WORDS.index(place) if isinstance(place, str) else place)
        )

    def check(self, condition: str, otherwise: str = "slow") -> None:
        """Go on if a condition holds, and the slow way if not."""
        self._names += 1
        label = f"go{self._names}"
        self.lines += [
            f"  br i1 {condition}, label %{label}, label %{otherwise}", f"{label}:",
        ]  # fmt: skip
        self.block = label

    def write(self) -> str:
        """Return the text."""
        outputs = len(self.outputs)
        self.lines = [
            "define ptr @entry(ptr %self, ptr %args, i64 %count, ptr %names) {",
            "start:",
            f"  %results = alloca [{outputs} x ptr]",
            f"  store [{outputs} x ptr] zeroinitializer, ptr %results",
        ]
        numbers = {
            i: self.emit("alloca [2 x i64], align 16")
            for i in self.outputs
            if not self.plan.buffers[i].spec.shape
        }
        if self.guarded:
            self.lines.append("  %context = alloca ptr")
            self.lines.append("  store ptr null, ptr %context")
        words = self.read("%self", _DATA)
        self.lines.append(f"  %words = getelementptr i8, ptr {words}, i64 0")
        self.check(self.emit("icmp eq ptr %names, null"))
        self.check(self.emit(f"icmp eq i64 %count, {len(self.inputs)}"))
        places = self._check_arguments()
        self._check_guards()
        for k, i in enumerate(self.outputs):
            places[i] = numbers[i] if i in numbers else self._take_array(k)
        for i, pointer in places.items():
            place = self.locate(self.pointers + i)
            self.lines.append(f"  store ptr {pointer}, ptr {place}")
        self._run()
        if self.raises:
            raised = self.emit(f"call ptr {self.word('raised')}()")
            self.check(self.emit(f"icmp eq ptr {raised}, null"), "erred")
        if self.plan.flag >= 0:  # the slow way says what is wrong
            flag = self.read(self.word(self.pointers + self.plan.flag), 0, "i64")
            self.check(self.emit(f"icmp eq i64 {flag}, 0"), "retreat")
        for k, i in enumerate(self.outputs):
            if i in numbers:
                dtype = self.word(self.given[k] + 1)
                self._keep_result(
                    k, f"{self.word('scalar')}(ptr {numbers[i]}, ptr {dtype}, ptr null)"
                )
        self._return_results()
        self._let_results_go("failed", "ret ptr null")  # with an error that was set
        if self.raises:
            self.lines.append("erred:")
            self.lines += [f"  call void {self.word('clear')}()", "  br label %retreat"]
        if self.plan.flag >= 0 or self.raises:
            self._let_results_go("retreat", "br label %slow")
        self._call_fallback()
        return _FUNCTIONS + "\n".join([*self.lines, "}"])

    def _check_arguments(self) -> dict[int, str]:
        """Return where the entries of each argument lie, once all are as planned."""
        places = [i for i, b in enumerate(self.plan.buffers) if b.kind == "input"]
        return {
            i: self._check_argument(k, buffer.spec)
            for k, (i, buffer) in enumerate(zip(places, self.inputs, strict=True))
        }

    def _check_argument(self, k: int, spec: Spec) -> str:
        place = self.emit(f"getelementptr ptr, ptr %args, i64 {k}")
        x = self.emit(f"load ptr, ptr {place}")
        own = self.read(x, _TYPE)
        array_type = self.word("array_type")
        is_array = self.emit(f"icmp eq ptr {own}, {array_type}")
        if spec.shape:
            self.check(is_array)
            self._check_array(x, k)
            return self.read(x, _DATA)
        right = self.emit(f"icmp eq ptr {own}, {self.word(self.taken[k])}")
        if spec.weak or (self.numbers and spec.dtype == np.float64):
            plain = self.emit(f"icmp eq ptr {own}, {self.word('float_type')}")
            right = plain if spec.weak else self.emit(f"or i1 {right}, {plain}")
        inside = self.emit(f"getelementptr i8, ptr {x}, i64 {_DATA}")
        if spec.weak:  # an array has a dtype that counts
            self.check(right)
            return inside
        # A number has its value inside, an array without axes points to it.
        own_value, array, found = (f"{word}{k}" for word in ("number", "array", "got"))
        self.lines += [f"  br i1 {right}, label %{own_value}, label %{array}"]
        self.lines += [f"{own_value}:", f"  br label %{found}", f"{array}:"]
        self.check(is_array)
        self._check_array(x, k)
        value = self.read(x, _DATA)
        before = self.block
        self.lines += [f"  br label %{found}", f"{found}:"]
        self.block = found
        return self.emit(f"phi ptr [{inside}, %{own_value}], [{value}, %{before}]")

    def _check_array(self, x: str, k: int) -> None:
        description = self.locate(self.taken[k])
        given = f"ptr {x}, ptr {description}, i32 {_PLAIN}"
        self.check(self.emit(f"call i1 @is_described({given})"))

    def _check_guards(self) -> None:
        """Take the slow path unless all guards are empty and no other call runs."""
        if self.guarded:
            get, variable = self.word("get_context"), self.word("context")
            self.emit(f"call i32 {get}(ptr {variable}, ptr null, ptr %context)")
            value = self.emit("load ptr, ptr %context")
            # It stays alive without this reference: the context has it.
            self.lines.append(f"  call void {self.word('decrease')}(ptr {value})")
            self.check(self.emit(f"icmp eq ptr {value}, {self.word('nothing')}"))
        for k in range(self.empty):
            used = self.read(self.word(self.marks + k), _USED, "i64")
            self.check(self.emit(f"icmp eq i64 {used}, 0"))
        if self.unlocked:
            busy = self.word("busy")
            self.check(self.emit(f"icmp eq ptr {busy}, null"))

    @property
    def unlocked(self) -> bool:
        """True if the program runs without Python's lock."""
        return count_work(self.plan) > MOST_LOCKED

    def _run(self) -> None:
        """Call the functions of the program."""
        if self.unlocked:
            busy = self.locate(_WORDS.index("busy"))
            self.lines.append(f"  store ptr %words, ptr {busy}")
            thread = self.emit(f"call ptr {self.word('save')}()")
        pointers = self.locate(self.pointers)
        for k in range(self.count):
            function = self.word(self.functions + k)
            self.lines.append(f"  call void {function}(ptr {pointers}, i64 0, i64 0)")
        if self.unlocked:
            self.lines.append(f"  call void {self.word('restore')}(ptr {thread})")
            self.lines.append(f"  store ptr null, ptr {busy}")

    def _take_array(self, k: int) -> str:
        """Return where the entries of a new result lie."""
        description = self.locate(self.given[k])
        slots = self.locate(self.slots + k * SLOTS)
        taken = f"@take_array(ptr %words, ptr {description}, ptr {slots})"
        return self.read(self._keep_result(k, taken), _DATA)

    def _keep_result(self, k: int, call: str) -> str:
        """Call a function that gives a new object, and note that object as a result."""
        x = self.emit(f"call ptr {call}")
        self.check(self.emit(f"icmp ne ptr {x}, null"), "failed")
        place = self.emit(f"getelementptr ptr, ptr %results, i64 {k}")
        self.lines.append(f"  store ptr {x}, ptr {place}")
        return x

    def _return_results(self) -> None:
        """Return the result, or all of them in a tuple or a list."""
        if self.form is None:
            self.lines.append(f"  ret ptr {self.emit('load ptr, ptr %results')}")
            return
        make = self.word("make_tuple" if self.form is tuple else "make_list")
        whole = self.emit(f"call ptr {make}(i64 {len(self.outputs)})")
        self.check(self.emit(f"icmp ne ptr {whole}, null"), "failed")
        # A tuple holds its items there, a list points to them.
        items = (
            self.emit(f"getelementptr i8, ptr {whole}, i64 {_ITEMS}")
            if self.form is tuple
            else self.read(whole, _ITEMS)
        )
        for k in range(len(self.outputs)):
            value = self.read("%results", 8 * k)
            place = self.emit(f"getelementptr ptr, ptr {items}, i64 {k}")
            self.lines.append(f"  store ptr {value}, ptr {place}")
        self.lines.append(f"  ret ptr {whole}")

    def _let_results_go(self, label: str, after: str) -> None:
        """Write a block that releases the results, with the code after the block."""
        self.lines.append(f"{label}:")
        decrease = self.word("decrease")
        for k in range(len(self.outputs)):
            value = self.read("%results", 8 * k)
            self.lines.append(f"  call void {decrease}(ptr {value})")
        self.lines.append(f"  {after}")

    def _call_fallback(self) -> None:
        """Hand all arguments on, to a function that may be replaced meanwhile."""
        self.lines.append("slow:")
        fallback, call = self.word("fallback"), self.word("vectorcall")
        self.lines.append(f"  call void {self.word('increase')}(ptr {fallback})")
        given = f"ptr {fallback}, ptr %args, i64 %count, ptr %names"
        value = self.emit(f"call ptr {call}({given})")
        self.lines.append(f"  call void {self.word('decrease')}(ptr {fallback})")
        self.lines.append(f"  ret ptr {value}")
