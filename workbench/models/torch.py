"""PyTorch models as functions of NumPy, and NumPy functions in PyTorch.

`torch.export` gives a module as a program of ATen's ops; each is computed by the NumPy
function it means (`torch_rules.py`, `torch_rules_networks.py`), so that Tensors record
and arrays compute. What has no row PyTorch computes, as one node whose derivatives are
its own (`foreign.py`).
"""

from __future__ import annotations

import inspect
import operator
import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import vjp
from workbench.control_flow.cond import cond
from workbench.control_flow.scan import scan
from workbench.control_flow.while_loop import while_loop
from workbench.core import blame, sites, source
from workbench.core.tensor import Tensor
from workbench.errors import ModelError, ShapeError, UsageError, check_packages
from workbench.models import (
    torch_rules_networks,  # noqa: F401 its rows
    torch_steps,
)
from workbench.models.foreign import ForeignStep, has_tensor
from workbench.models.rows import Rule
from workbench.models.torch_rules import RULES, is_number
from workbench.models.torch_steps import (
    AUTHORED,
    TORCH,
    call_authored,
    describe_dtype,
    is_float,
    keep_authored,
    note_hooks,
    to_numpy,
    to_torch,
)
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient

# The user's line and his module behind a step

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def find_line(trace: str | None) -> tuple[Any, int] | None:
    """Return the innermost line of the user's in PyTorch's account of a stack."""
    for filename, line in reversed(_FRAME.findall(trace or "")):
        if not source.is_installed(filename) and not filename.startswith("<"):
            return source.code_at_line(filename, int(line))
    return None


def find_scope(stack: Mapping[str, tuple[str, Any]] | None) -> str:
    """Return the path of the module that a step belongs to, with slashes."""
    paths = [path for path, _ in (stack or {}).values()]
    path = re.sub(r"^L\['self'\]\.?|^self\.?", "", paths[-1]) if paths else ""
    return re.sub(r"[^\w]+", "/", path).strip("/")


def check_dtypes(exported: Any) -> None:
    """Raise an error if a step of a program has a dtype that NumPy does not have."""
    import torch

    known: dict[Any, bool] = {}
    for module in exported.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            for x in torch.utils._pytree.tree_leaves(node.meta.get("val")):
                dtype = getattr(x, "dtype", None)
                if not isinstance(dtype, torch.dtype):
                    continue
                if dtype not in known:
                    try:
                        known[dtype] = torch.empty(0, dtype=dtype).numpy() is not None
                    except TypeError:
                        known[dtype] = False
                if not known[dtype]:
                    found = find_line(node.meta.get("stack_trace"))
                    place = blame.quote_site(sites.decode(*found)) if found else ""
                    raise ModelError(describe_dtype(dtype, place))


# The program


class TorchProgram:
    """An exported program, which runs on arrays and on Tensors."""

    def __init__(self, exported: Any) -> None:
        self.exported = exported
        self.foreign: dict[tuple[Any, tuple[int, ...]], ForeignStep] = {}
        signature = exported.graph_signature
        #: What each input of the program is: kind, and name or number.
        self.inputs = [(s.kind.name, s.target) for s in signature.input_specs]
        self.is_output = [s.kind.name == "USER_OUTPUT" for s in signature.output_specs]
        nodes = [n for n in exported.graph.nodes if n.op == "placeholder"]
        self.specs = [
            n.meta.get("val")
            for n, (kind, _) in zip(nodes, self.inputs, strict=True)
            if kind == "USER_INPUT"
        ]

    def run(
        self, parameters: Mapping[str, Any], held: Mapping[str, Any], args: Any
    ) -> list[Any]:
        """Return the outputs for the arrays of a call, in the order of the program."""
        given = iter(args)
        leaves = []
        for kind, name in self.inputs:
            if kind == "USER_INPUT":
                leaves.append(next(given))
            elif name in parameters:
                leaves.append(parameters[name])
            else:
                leaves.append(None if name is None else held[name])
        made = self.interpret(self.exported.graph_module, leaves)
        return [y for y, kept in zip(made, self.is_output, strict=True) if kept]

    def interpret(self, module: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the outputs of a graph of PyTorch's."""
        import torch

        found: dict[Any, Any] = {}
        given = iter(leaves)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                found[node] = next(given)
            elif node.op == "get_attr":
                found[node] = to_numpy(operator.attrgetter(node.target)(module))
            elif node.op == "output":
                outs = torch.fx.map_arg(node.args[0], found.__getitem__)
                return list(outs) if isinstance(outs, (tuple, list)) else [outs]
            else:
                args = torch.fx.map_arg(node.args, found.__getitem__)
                kwargs = torch.fx.map_arg(node.kwargs, found.__getitem__)
                place = find_line(node.meta.get("stack_trace"))
                scope = find_scope(node.meta.get("nn_module_stack"))
                with source.at_site(place, scope):
                    found[node] = self.compute(node, args, kwargs)
        raise AssertionError("a graph without outputs")

    def compute(self, node: Any, args: Any, kwargs: Any) -> Any:
        """Return what one step gives."""
        import torch

        target = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self.compute_higher_order(target.name(), args)
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)  # of Python: lengths, items of a tuple
        return call_overload(target, args, kwargs, self.foreign, node)

    def compute_higher_order(self, name: str, args: Any) -> Any:
        """Return what a loop, a choice or a block gives."""

        def function(graph: Any) -> Callable[..., tuple[Any, ...]]:
            return lambda *leaves: tuple(self.interpret(graph, leaves))

        if name == "with_effects":
            return [None, None]  # the order of assertions
        if name == "wrap_with_set_grad_enabled":
            on, graph, *leaves = args
            made = self.interpret(graph, leaves)
            return made if on else [stop_gradient(y) for y in made]
        if name == "wrap_with_autocast":
            return self.interpret(args[4], args[5:])
        if name == "cond":
            condition, yes, no, leaves = args
            return cond(condition, function(yes), function(no), *leaves)
        if name == "while_loop":
            goes_on, step, state, fixed = args
            return while_loop(
                lambda s: self.interpret(goes_on, (*s, *fixed))[0],
                lambda s: tuple(self.interpret(step, (*s, *fixed))),
                tuple(state),
            )
        if name == "scan":
            step, first, sequences, fixed = args
            return self.compute_scan(step, first, sequences, fixed)
        raise ModelError(
            f"models.from_torch: the model runs {name}, which has no counterpart here."
            " Write that part with plain operations, or with torch.cond, while_loop"
            " or scan."
        )

    def compute_scan(self, step: Any, first: Any, sequences: Any, fixed: Any) -> Any:
        """Return the last states and the stacks of a loop along sequences."""
        count, length = len(first), len(sequences)

        def call(*args: Any) -> list[Any]:
            entries, state = args[:length], args[length : length + count]
            return self.interpret(step, (*state, *entries, *args[length + count :]))

        extra = len(self.output_node(step)) - count
        made = scan(
            call, list(sequences), initial=[*first, *[None] * extra],
            non_sequences=list(fixed),
        )  # fmt: skip
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        return [*(y[-1] for y in made[:count]), *made[count:]]

    def output_node(self, graph: Any) -> Sequence[Any]:
        """Return the outputs of a graph, as its nodes."""
        (node,) = [n for n in graph.graph.nodes if n.op == "output"]
        return list(node.args[0])


def call_overload(
    target: Any, args: Any, kwargs: Any, steps: dict[Any, ForeignStep], key: Any = None
) -> Any:
    """Return what an op of PyTorch gives: by PyTorch, by its row, or as one node."""
    import torch

    flat, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    if not has_tensor(flat):
        with torch.no_grad():
            a, k = torch.utils._pytree.tree_unflatten(map(to_torch, flat), tree)
            return torch.utils._pytree.tree_map(to_numpy, target(*a, **k))
    if target._schema.name.startswith("workbench::"):
        return call_foreign(target, flat, tree, steps, key)
    if not target._schema.returns:
        return None  # an assertion
    rule = find_rule(target)
    if rule is not None and not asks_for_places(target, key):
        made = rule(*args, **kwargs)
        if made is not NotImplemented:
            return made
    return call_foreign(target, flat, tree, steps, key)


@cache
def find_rule(target: Any) -> Rule | None:
    """Return the row of an overload: its own, or its op's if that takes as much."""
    name = target._schema.name.split("::")[1]
    own = RULES.get(f"{name}.{target._overloadname}")
    rule = own or RULES.get(name)
    if own is not None or rule is None:
        return own
    places = [x for x in target._schema.arguments if not x.kwarg_only]
    named = [x.name for x in target._schema.arguments if x.kwarg_only]
    if isinstance(rule, np.ufunc):
        return rule if len(places) == rule.nin and not named else None
    try:
        inspect.signature(rule).bind(*places, **dict.fromkeys(named))
    except TypeError:
        return None
    return rule


def asks_for_places(target: Any, node: Any) -> bool:
    """Return whether the places of the largest entries of windows are read."""
    return (
        target._schema.name.startswith("aten::max_pool")
        and node is not None
        and any(user.args[1] == 1 for user in node.users)
    )


def call_foreign(
    target: Any, flat: Sequence[Any], tree: Any, steps: dict[Any, ForeignStep], key: Any
) -> Any:
    """Return what PyTorch gives, as the outputs of one node."""
    import torch

    at = tuple(
        i for i, x in enumerate(flat) if isinstance(x, (Tensor, np.ndarray, np.generic))
    )
    step = steps.get((key, at))
    if step is None:
        rest = [None if i in at else x for i, x in enumerate(flat)]

        def compute(*arrays: Any) -> tuple[Any, ...]:
            full = list(rest)
            for i, x in zip(at, arrays, strict=True):
                full[i] = x
            a, k = torch.utils._pytree.tree_unflatten(full, tree)
            made = call_authored(*a) if own else target(*a, **k)
            return tuple(made) if isinstance(made, (tuple, list)) else (made,)

        own = target._schema.name.startswith("workbench::")
        name = target._schema.name.split("::")[1].strip("_")
        if own:
            name = AUTHORED[flat[-1]][0].__name__
        step = steps[key, at] = ForeignStep(TORCH, name, compute)
    made = step(*[flat[i] for i in at])
    returns = target._schema.returns
    several = len(returns) > 1 or isinstance(returns[0].type, torch.ListType)
    return list(made) if several else made[0]


# The export


def decompose(exported: Any) -> Any:
    """Return an exported program in ATen's core ops, with what it cuts off kept so."""
    import torch

    detach = torch.ops.aten.detach.default
    for module in exported.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        graph = module.graph
        for node in list(graph.nodes):
            # A block of torch.no_grad, whose steps become steps like all others.
            if "wrap_with_set_grad_enabled" in str(node.target) and not node.args[0]:
                for output in list(node.users):
                    with graph.inserting_after(output):
                        cut = graph.call_function(detach, (output,))
                    cut.meta = dict(output.meta)
                    output.replace_all_uses_with(
                        cut, delete_user_cb=lambda user, cut=cut: user is not cut
                    )
                module.recompile()
    table = torch.export.default_decompositions()
    table.pop(detach, None)
    return exported.run_decompositions(table)


# What users call


def describe_refusal(error: BaseException) -> str:
    """Return the user's line where export failed, and PyTorch's reason."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not source.is_installed(frame.filename)
        and not frame.filename.startswith("<")
        and frame.filename not in (__file__, torch_steps.__file__)
    ]
    reason = str(error).strip().split("\n\n")[0].strip() or type(error).__name__
    line = ""
    if frames and frames[-1].line is not None:
        at, number = sites.display_name(frames[-1].filename), frames[-1].lineno
        line = f" at {at}:{number}  {frames[-1].line}"
    return f"{line}: {type(error).__name__}: {reason}"


def copy_example(x: Any) -> Any:
    """Return an array of its own: export takes one given twice for one input."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    return to_torch(x)


def from_torch(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a PyTorch module as a function of NumPy, and its parameters.

    Everything of Workbench works on the function: derivatives, the doctor, checks,
    overrides, the picture, whose scopes are the module's own and whose lines are those
    of its code. Rules of a `torch.autograd.Function` are kept, and can be checked.

    Parameters
    ----------
    module
        A ``torch.nn.Module``, in training or in evaluation mode; it stays as it is.
        In training mode a mask of dropout is drawn once for each trace, by PyTorch's
        generator, and running statistics are read but never written.
    args, kwargs
        Examples of what the module takes: PyTorch's arrays or NumPy's, nested as it
        takes them. The program is of their shapes and dtypes.
    dynamic_shapes
        Lengths that may change, as ``torch.export.export`` takes them.

    Returns
    -------
    f
        ``f(parameters, *args, **kwargs)`` computes what the module does; its results
        nest as the module's.
    parameters
        The module's parameters by their dotted names, as NumPy arrays in the module's
        own memory: what is written to one is seen by the other.

    Warns
    -----
    UserWarning
        If a module or a parameter has hooks of the backward pass, which are dropped.

    Raises
    ------
    MissingPackageError
        If PyTorch is not installed; it says how to install it.
    ModelError
        If ``torch.export`` refuses the module, with PyTorch's reason and the line.
    UsageError, ShapeError
        By ``f``, if its arguments are not those of the example: other names, another
        nest or shape, or another number, flag or text, which are part of the program.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench import models
    >>> import torch  # doctest: +SKIP
    >>> net = torch.nn.Linear(3, 1)  # doctest: +SKIP
    >>> f, parameters = models.from_torch(net, (torch.ones(2, 3),))  # doctest: +SKIP
    >>> loss = lambda p, x: np.sum(f(p, x) ** 2)  # doctest: +SKIP
    >>> wb.grad(loss)(parameters, np.ones((2, 3), np.float32))  # doctest: +SKIP
    """
    check_packages("models.from_torch", "torch", "torch")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"models.from_torch: {module!r} is no torch.nn.Module. Put a function into"
            " the forward of one."
        )
    tree_map = torch.utils._pytree.tree_map
    given = tree_map(copy_example, tuple(args))
    named = tree_map(copy_example, dict(kwargs or {}))
    try:
        with keep_authored(), note_hooks() as hooks, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about PyTorch's own code
            exported = torch.export.export(
                module, given, named, dynamic_shapes=dynamic_shapes, strict=False
            )
            exported = decompose(exported)
            check_dtypes(exported)
            program = TorchProgram(exported)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            "models.from_torch: torch.export cannot export this"
            f" {type(module).__name__}{describe_refusal(error)} Change that line so"
            " that it works on arrays alone, or open the part of the model that can be."
        ) from error
    hooked = find_hooks(module) + hooks
    if hooked:
        warnings.warn(
            "models.from_torch: torch.export drops hooks of the backward pass, so"
            f" derivatives here are without those of {', '.join(hooked)}. Write what"
            " they do as an override: wb.override(op, rule).",
            UserWarning,
            stacklevel=2,
        )
    # Parameters that layers share have one name, the first.
    earliest = {id(p): name for name, p in reversed([*module.named_parameters()])}
    alias = {
        name: earliest[id(p)]
        for name, p in module.named_parameters(remove_duplicate=False)
    }
    program.inputs = [
        (kind, alias[name] if kind == "PARAMETER" else name)
        for kind, name in program.inputs
    ]
    own = dict(module.named_parameters())
    used = {name for kind, name in program.inputs if kind == "PARAMETER"}
    parameters = {name: to_numpy(p) for name, p in own.items() if name in used}
    held = {name: to_numpy(x) for name, x in program.exported.constants.items()}
    held |= {
        name: to_numpy(x) for name, x in module.named_buffers(remove_duplicate=False)
    }

    def call(parameters: Mapping[str, Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return what the module computes."""
        missing = sorted(used - parameters.keys())
        if missing:
            raise UsageError(
                f"{name}{describe_missing(missing)}. Its first argument is the dict of"
                " parameters that models.from_torch returned."
            )
        leaves = [to_numpy(x) for x in inputs.read(args, kwargs)]
        made = program.run(parameters, held, leaves)
        return torch.utils._pytree.tree_unflatten(
            made, program.exported.call_spec.out_spec
        )

    name = call.__name__ = type(module).__name__
    call.__qualname__ = name
    with suppress(ValueError, TypeError):  # the names of the inputs
        first, *_ = inspect.signature(call).parameters.values()
        others = inspect.signature(module.forward).parameters.values()
        signature = inspect.Signature([first, *others])
        call.__signature__ = signature  # type: ignore[attr-defined]
    inputs = Inputs(name, module.forward, given, named, program.specs)
    return call, parameters


def find_hooks(module: Any) -> list[str]:
    """Return the names of what has hooks that change gradients."""
    found = [
        name or type(part).__name__
        for name, part in module.named_modules()
        if part._backward_hooks or part._backward_pre_hooks
    ]
    return found + [name for name, p in module.named_parameters() if p._backward_hooks]


def describe_missing(names: Sequence[str]) -> str:
    """Return which parameters lack."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f" lacks the parameters {', '.join(map(repr, names[:3]))}{more}"


class Inputs:
    """What a module takes: by its own signature, in the nest and shapes of the example.

    Numbers, flags and text are part of the program; those of a call must be the same.
    """

    def __init__(
        self, name: str, forward: Any, args: Any, kwargs: Any, specs: Sequence[Any]
    ) -> None:
        import torch

        self.name = name
        self.signature = inspect.signature(forward)
        tree = torch.utils._pytree
        self.example = self._name(args, kwargs)
        # In the order of the program's inputs.
        ordered = {key: self.example[key] for key in self._order(args, kwargs)}
        pairs, self.nest = tree.tree_flatten_with_path(ordered)
        self.labels = [str(key[0].key) + tree.keystr(key[1:]) for key, _ in pairs]
        self.leaves = [leaf for _, leaf in pairs]
        self.specs = specs

    def read(self, args: Any, kwargs: Any) -> list[Any]:
        """Return the leaves of a call in the order of the program."""
        try:
            given = self._name(args, kwargs)
        except TypeError as error:
            raise UsageError(
                f"{self.name}: {error}. After the parameters it takes what the module"
                f" does: {self.signature}."
            ) from None
        for key in self.example.keys() - given.keys():
            default = self._default(key)
            if default is inspect.Parameter.empty:
                raise UsageError(self._tell(f"{key} is missing"))
            given[key] = default
        for key in given.keys() - self.example.keys():
            if given[key] is not self._default(key):
                raise UsageError(self._tell(f"{key} was not in the example"))
            del given[key]
        try:
            leaves = self.nest.flatten_up_to(given)
        except ValueError as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise UsageError(self._tell(f"another nest: {reason}")) from None
        for each in zip(self.labels, leaves, self.leaves, self.specs, strict=True):
            self._check(*each)
        return list(leaves)

    def _name(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """Return arguments by name: ``x``, and ``args[0]`` of those that have none."""
        found: dict[str, Any] = {}
        for key, x in self.signature.bind(*args, **kwargs).arguments.items():
            kind = self.signature.parameters[key].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                found.update((f"{key}[{i}]", y) for i, y in enumerate(x))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                found.update(x)
            else:
                found[key] = x
        return found

    def _order(self, args: Any, kwargs: Any) -> list[str]:
        """Return the names of an example as it was given."""
        return [*(k for k in self.example if k not in kwargs), *kwargs]

    def _default(self, key: str) -> Any:
        known = self.signature.parameters.get(key)
        return inspect.Parameter.empty if known is None else known.default

    def _tell(self, what: str) -> str:
        return (
            f"{self.name}: {what}. Give what the example had that models.from_torch was"
            " given, or import the module once more with another example."
        )

    def _check(self, label: str, x: Any, example: Any, spec: Any) -> None:
        """Raise an error if a leaf does not fit the program of the example."""
        import torch

        if isinstance(spec, torch.types.py_sym_types):
            return  # an integer that may change
        wanted = getattr(spec, "shape", None)
        if wanted is None:
            if isinstance(x, (Tensor, np.ndarray)) or x != example:
                raise UsageError(
                    f"{self.name}: {label} is {example!r} in the program, not {x!r}:"
                    " torch.export keeps numbers, flags and text of the example. Import"
                    " the module once more with that, or make it an array."
                )
            return
        if not hasattr(x, "shape") and not is_number(x):
            raise UsageError(
                f"{self.name}: {label} is a {type(x).__name__}, not an array. Give"
                " np.asarray of it, in the dtype of the example."
            )
        have = shape_of(x)
        if len(have) != len(wanted) or any(
            isinstance(n, int) and isinstance(m, int) and n != m
            for n, m in zip(have, wanted, strict=True)
        ):
            raise ShapeError(
                f"{self.name}: {label} has shape {tuple(have)}; the program that"
                f" torch.export made is of {tuple(wanted)}. Give models.from_torch an"
                " example of that shape, or dynamic_shapes= for lengths that change."
            )


# The way back


def as_torch_function(
    f: Callable[..., Any], overrides: Sequence[Any] = ()
) -> Callable[..., Any]:
    """Return a NumPy function as one of PyTorch, whose derivatives are Workbench's.

    Parameters
    ----------
    f
        A function of arrays that returns an array or a tuple of them: NumPy code, or
        what `from_torch` returned, with its parameters bound or not.
    overrides
        Overrides that hold in its derivatives, as for :func:`workbench.grad`.

    Returns
    -------
    A function of PyTorch's arrays, nested as ``f`` takes them, on the CPU. It can be
    differentiated twice and more; `torch.compile` calls it without looking inside.

    Raises
    ------
    MissingPackageError
        If PyTorch is not installed; it says how to install it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench import models
    >>> clipped = wb.override("tanh", "clip(d, -0.1, 0.1)")
    >>> g = models.as_torch_function(np.tanh, [clipped])  # doctest: +SKIP
    >>> g(torch.ones(3, requires_grad=True)).sum().backward()  # doctest: +SKIP
    """
    check_packages("models.as_torch_function", "torch", "torch")
    import torch

    held = list(overrides)

    def call(*args: Any) -> Any:
        """Return what the NumPy function computes, as PyTorch's arrays."""
        leaves, nest = torch.utils._pytree.tree_flatten(args)
        at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        out: list[Any] = []

        def flat(*xs: Any) -> tuple[Any, ...]:
            full = list(leaves)
            for i, x in zip(at, xs, strict=True):
                full[i] = x
            made = f(*torch.utils._pytree.tree_unflatten(full, nest))
            ys, tree = torch.utils._pytree.tree_flatten(made)
            out[:] = [tree]
            return tuple(ys)

        outs = apply_numpy(flat, held)(*[leaves[i] for i in at])
        return torch.utils._pytree.tree_unflatten(list(outs), out[0])

    call.__name__ = getattr(f, "__name__", "call")
    return torch.compiler.disable(call)


def apply_numpy(
    f: Callable[..., tuple[Any, ...]], overrides: list[Any]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function of arrays to a tuple of them as an op of PyTorch's graphs."""
    import torch

    class Apply(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return tuple(torch.from_numpy(np.array(y)) for y in f(*map(to_numpy, xs)))

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            xs = ctx.saved_tensors
            floats = [i for i, x in enumerate(xs) if is_float(x)]

            # A function again, so that this derivative has derivatives.
            def pull(*arrays: Any) -> tuple[Any, ...]:
                inputs, given = arrays[: len(xs)], arrays[len(xs) :]

                def vary(*varied: Any) -> tuple[Any, ...]:
                    full = list(inputs)
                    for i, x in zip(floats, varied, strict=True):
                        full[i] = x
                    return tuple(y for y in f(*full) if dtype_of(y).kind in "fc")

                varied = [inputs[i] for i in floats]
                back = vjp(vary, *varied, overrides=overrides)[1]
                # PyTorch's gradient of a complex number is the conjugate of ours.
                kept = [np.conjugate(g) for g in given]
                made = back(tuple(kept))
                return tuple(np.conjugate(g) for g in made)

            made = iter(apply_numpy(pull, [])(*xs, *[g for g in gs if is_float(g)]))
            return tuple(next(made) if is_float(x) else None for x in xs)

    def call(*xs: Any) -> tuple[Any, ...]:
        made: tuple[Any, ...] = Apply.apply(*xs)
        return made

    return call
