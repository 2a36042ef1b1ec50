"""ATen's ops one by one: every one of the core set is known, value and slope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb

torch = pytest.importorskip("torch", reason="pip install autodiff-workbench[torch]")
pytestmark = pytest.mark.long

from workbench.models.torch import call_overload, is_float  # noqa: E402
from workbench.models.torch_rules import RULES  # noqa: E402

aten = torch.ops.aten


def list_core() -> Iterator[Any]:
    """Every overload that PyTorch tags as one of the core set."""
    # `dir(aten)` has those alone that somebody has asked for.
    schemas = torch._C._jit_get_all_schemas()
    names = {s.name.removeprefix("aten::") for s in schemas if s.name[:6] == "aten::"}
    for name in sorted(names):
        packet = getattr(aten, name, None)
        for overload in getattr(packet, "overloads", list)():
            target = getattr(packet, overload)
            if torch.Tag.core in target.tags:
                yield target


def name_of(target: Any) -> str:
    return target._schema.name.split("::")[1]


def has_row(target: Any) -> bool:
    name = name_of(target)
    return name in RULES or f"{name}.{target._overloadname}" in RULES


#: Of these only PyTorch knows: nothing of floats comes in, or no slope goes out.
MAKERS = (
    "arange empty empty_strided full rand randn randperm scalar_tensor nonzero"
    " _local_scalar_dense sym_storage_offset sym_stride sym_is_contiguous resize_"
).split()
#: One node each, with PyTorch's derivatives.
FOREIGN = (
    "_embedding_bag _pdist_forward as_strided col2im grid_sampler_2d masked_scatter"
    " embedding_dense_backward convolution_backward avg_pool2d_backward"
    " _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward"
    " native_group_norm_backward native_layer_norm_backward"
).split()


def test_every_core_overload_has_a_row_or_is_foreign() -> None:
    core = [*list_core()]
    assert len(core) > 150
    unknown = {name_of(t) for t in core if not has_row(t)}
    assert unknown == {*MAKERS, *FOREIGN}
    for target in core:
        if name_of(target) in FOREIGN:  # it can be: nothing is written to
            assert not target._schema.is_mutable, target
            assert target._schema.returns, target


def test_rows_name_ops_of_torch() -> None:
    strange = [n for n in RULES if not hasattr(aten, n.split(".")[0])]
    assert strange == []


@pytest.mark.parametrize(
    ("name", "args", "settings"),
    [
        ("scatter.reduce", [np.ones(3), 0, np.array([0, 0]), np.ones(2)],
         {"reduce": "add"}),
        ("scatter.value_reduce", [np.ones(3), 0, np.array([0, 2]), 3.0],
         {"reduce": "multiply"}),
        ("where.default", [np.array([0.0, 2.0, 1.0])], {}),
    ],
)  # fmt: skip
def test_an_overload_that_its_row_does_not_know_is_torchs(
    name: str, args: list[Any], settings: dict[str, Any]
) -> None:
    target = find_target(name)
    (wanted,) = list_outputs(target(*to_torch(args), **settings))
    graph = wb.trace(
        lambda x: list_outputs(call_overload(target, [x, *args[1:]], settings, {}))[0]
    )(args[0])
    np.testing.assert_array_equal(graph.run([args[0]])[0], wanted.numpy())


rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4)) + 0.1
Y = rng.normal(size=(3, 4))
POSITIVE = np.abs(X) + 0.5
INSIDE = np.tanh(X) * 0.9
SQUARE = X @ X.T + 3 * np.eye(3)
C = X + 1j * Y
IMAGE = rng.normal(size=(2, 4, 6, 7))
INDEX = np.array([[0, 2, 1, 0], [1, 1, 2, 0], [2, 0, 0, 1]])
MASK = X > 0
EDGE = np.array([[0.0, 1.0, -1.0, 2.0], [6.0, 0.0, -2.0, 1.0]])
HOLES = np.array([[1.0, np.nan, 2.0, -3.0], [-2.0, 4.0, 0.5, np.nan]])
TIES = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 2.0, 2.0, 0.0], [0.0, 2.0, 1.0, 1.0]])
BYTES = np.array([[3, 0, 250, 7]], np.uint8)
FAR = np.array([[[[1.0, 2.0, 3.0, 5.0, np.inf, 7.0, -1.0]] * 2]])

#: Op, what it gets, which settings by name. All arrays of floats vary.
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, [X], {}) for name in (
        "abs atan asinh ceil cos cosh erf erfc exp exp2 expm1 floor neg sigmoid sign"
        " sin sinh tan tanh trunc round square silu gelu relu leaky_relu elu hardtanh"
        " reciprocal isnan isinf alias clone t logical_not"
    ).split()),
    *((name, [EDGE], {}) for name in "relu leaky_relu elu abs hardtanh gelu".split()),
    *((name, [POSITIVE], {}) for name in
      "log log10 log1p log2 sqrt rsqrt lgamma digamma".split()),
    *((name, [INSIDE], {}) for name in "acos asin atanh erfinv".split()),
    ("acosh", [POSITIVE + 1], {}), ("gelu", [X], {"approximate": "tanh"}),
    ("elu", [X, 1.3, 1.1, 0.7], {}), ("hardtanh", [EDGE, 0.0, 6.0], {}),
    ("clamp", [EDGE, -1.0, 1.0], {}), ("clamp", [X, None, 0.3], {}),
    ("clamp.Tensor", [X, Y - 1, Y + 1], {}), ("logit", [np.abs(INSIDE)], {}),
    *((f"{name}.Tensor", [X, Y], {}) for name in
      "add sub mul div fmod remainder eq ne lt le gt ge rsub".split()),
    *((f"{name}.Scalar", [X, 0.7], {}) for name in
      "add sub mul div fmod remainder eq ne lt le gt ge rsub".split()),
    ("add.Tensor", [X, Y], {"alpha": 2}), ("sub.Tensor", [X, Y], {"alpha": -1.5}),
    ("add.Tensor", [X, Y[:1]], {}), ("mul.Tensor", [X, INDEX], {}),
    ("div.Tensor_mode", [X, Y], {"rounding_mode": "floor"}),
    ("div.Tensor_mode", [X, Y], {"rounding_mode": "trunc"}),
    *((name, [X, Y], {}) for name in "atan2 maximum minimum fmax fmin hypot".split()),
    ("maximum", [EDGE, np.zeros((2, 4))], {}),
    ("pow.Tensor_Tensor", [POSITIVE, Y], {}), ("pow.Tensor_Scalar", [X, 2], {}),
    ("pow.Tensor_Scalar", [X, 3.0], {}), ("pow.Scalar", [2.0, X], {}),
    ("where.self", [MASK, X, Y], {}), ("masked_fill.Scalar", [X, MASK, 2.0], {}),
    ("xlogy.Tensor", [POSITIVE, POSITIVE], {}), ("logaddexp", [X, Y], {}),
    ("lerp.Scalar", [X, Y, 0.3], {}), ("lerp.Tensor", [X, Y, POSITIVE], {}),
    ("amax", [X, [1]], {}), ("amin", [X], {}), ("max", [X], {}), ("min", [X], {}),
    ("max.dim", [X, 1], {}), ("min.dim", [X, 0, True], {}),
    ("amax", [EDGE * 0, [0]], {}), ("max.dim", [EDGE * 0, 0], {}),
    ("sum", [X], {}), ("sum.dim_IntList", [X, [0], True], {}), ("mean", [X], {}),
    ("mean.dim", [X, [-1], True], {}), ("prod", [X], {}), ("prod.dim_int", [X, 1], {}),
    ("var.dim", [X, [1]], {}), ("var.correction", [X, [1]], {"correction": 0}),
    ("var.correction", [X], {"keepdim": True}), ("argmax", [X, 1], {}),
    ("argmin", [X], {}), ("any.dim", [MASK, 1], {}), ("cumsum", [X, 1], {}),
    ("cumprod", [X, 0], {}), ("sort", [X, 1, True], {}), ("topk", [X, 2, 1], {}),
    ("topk", [X, 2, 0, False], {}), ("view", [X, [4, 3]], {}),
    ("permute", [X, [1, 0]], {}), ("transpose.int", [X, 0, 1], {}),
    ("unsqueeze", [X, 1], {}), ("squeeze.dims", [X[:, None], [1]], {}),
    ("squeeze.dim", [X, 0], {}), ("expand", [X[:, None], [2, 3, -1, 4]], {}),
    ("repeat", [X, [2, 1, 3]], {}), ("cat", [[X, Y], 1], {}),
    ("stack", [[X, Y], 1], {}),
    ("flip", [X, [0, 1]], {}), ("roll", [X, [1, 2], [0, 1]], {}),
    ("roll", [X, [2]], {}),
    ("split_with_sizes", [X, [1, 3], 1], {}), ("diagonal", [X, 1], {}),
    ("_to_copy", [X], {"dtype": torch.float32}), ("select.int", [X, 1, -1], {}),
    ("slice.Tensor", [X, 1, 1, 9, 2], {}), ("slice.Tensor", [X, 0, -2], {}),
    ("index_select", [X, 1, INDEX[0]], {}), ("gather", [X, 0, INDEX], {}),
    ("gather", [X, 1, INDEX[:2, :3]], {}), ("index.Tensor", [X, [None, INDEX[0]]], {}),
    ("index.Tensor", [X, [INDEX[0], INDEX[1]]], {}),
    ("index_put", [X, [INDEX[0][:3]], Y], {}),
    ("index_put", [X, [INDEX[0]], Y[INDEX[0]], True], {}),
    ("slice_scatter", [X, Y[:, :2], 1, 0, 4, 2], {}),
    ("select_scatter", [X, Y[0], 0, 1], {}),
    ("scatter.src", [X, 0, INDEX[:1], Y[:1]], {}),
    ("scatter.value", [X, 1, INDEX[:, :1], 2.0], {}),
    ("scatter_add", [X, 0, INDEX, Y], {}),
    ("scatter_reduce.two", [X, 0, INDEX, Y, "sum"], {}),
    ("scatter_reduce.two", [X, 0, INDEX, Y, "amax"], {}),
    ("index_add", [X, 1, INDEX[0], Y], {}), ("tril", [X, 1], {}), ("triu", [X], {}),
    ("full_like", [X, 2.0], {}), ("fill.Scalar", [X, 2.0], {}),
    ("constant_pad_nd", [X, [1, -2, 0, 2], 3.0], {}),
    ("reflection_pad2d", [IMAGE, [1, 2, 3, 0]], {}),
    ("reflection_pad1d", [X, [1, 2]], {}),
    ("replication_pad2d", [IMAGE, [1, 2, 3, 0]], {}),
    ("addmm", [Y[:3, :3], X, Y.T], {"beta": 0.5, "alpha": 2}), ("mm", [X, Y.T], {}),
    ("bmm", [X[None], Y.T[None]], {}), ("dot", [X[0], Y[0]], {}),
    ("linalg_cholesky_ex", [SQUARE], {}), ("_linalg_slogdet", [SQUARE], {}),
    ("linalg_inv_ex", [SQUARE], {}), ("_linalg_solve_ex", [SQUARE, X], {}),
    ("_linalg_solve_ex", [SQUARE, X[:, 0]], {}), ("_linalg_eigh", [SQUARE], {}),
    ("_fft_r2c", [X, [1], 0, True], {}), ("_fft_r2c", [X, [0, 1], 1, False], {}),
    ("_fft_c2c", [C, [0, 1], 0, True], {}), ("_fft_c2c", [C, [1], 2, False], {}),
    ("_fft_c2r", [C, [1], 2, 6], {}), ("_fft_c2r", [C, [1], 1, 7], {}),
    ("mul.Tensor", [C, C[::-1].copy()], {}), ("exp", [C], {}),
    ("_cdist_forward", [X, Y + 3, 2.0, None], {}),
    ("_cdist_forward", [X, Y, 1.0, None], {}),
    ("_cdist_forward", [X, Y, 3.0, None], {}),
    ("_softmax", [X, 1, False], {}), ("_log_softmax", [X, 0, False], {}),
    ("_safe_softmax", [np.where(MASK, X, -np.inf), 1], {}),
    ("convolution", [IMAGE, rng.normal(size=(6, 2, 3, 2)), Y.ravel()[:6], [2, 1],
                     [1, 0], [1, 2], False, [0, 0], 2], {}),
    ("convolution", [IMAGE, rng.normal(size=(4, 3, 3, 2)), None, [2, 3],
                     [1, 0], [1, 2], True, [1, 0], 2], {}),
    ("max_pool2d_with_indices", [IMAGE, [3, 2], [2, 2], [1, 0], [1, 2], True], {}),
    ("max_pool2d_with_indices", [IMAGE[0], [2, 2]], {}),
    ("avg_pool2d", [IMAGE, [3, 2], [2, 1], [1, 0]], {}),
    ("avg_pool2d", [IMAGE, [3, 2], [2, 1], [1, 0], False, False], {}),
    ("avg_pool2d", [IMAGE, [4, 2], [3, 2], [1, 0], True, False], {}),
    ("avg_pool2d", [IMAGE, [4, 2], [3, 2], [1, 0], True, True], {}),
    ("avg_pool2d", [IMAGE, [2, 2], [1, 1], [0, 0], False, True, 3], {}),
    ("_adaptive_avg_pool2d", [IMAGE, [4, 3]], {}),
    ("upsample_nearest2d.vec", [IMAGE, [9, 5], None], {}),
    ("upsample_nearest2d.vec", [IMAGE, None, [1.5, 2.0]], {}),
    ("upsample_bilinear2d.vec", [IMAGE, [9, 5], False, None], {}),
    ("upsample_bilinear2d.vec", [IMAGE, [9, 5], True, None], {}),
    ("upsample_bilinear2d.vec", [IMAGE, None, False, [1.5, 2.0]], {}),
    ("native_layer_norm", [X, [4], Y[0], Y[1], 1e-5], {}),
    ("native_layer_norm", [X, [3, 4], None, None, 1e-5], {}),
    ("native_group_norm", [IMAGE, Y[0], Y[1], 2, 4, 42, 2, 1e-5], {}),
    ("native_batch_norm", [IMAGE, Y[0], Y[1], None, None, True, 0.1, 1e-5], {}),
    ("embedding", [X, INDEX, 0], {}), ("embedding", [X, INDEX], {}),
    ("scaled_dot_product_attention", [IMAGE, IMAGE + 1, IMAGE * 2], {}),
    ("scaled_dot_product_attention",
     [IMAGE, IMAGE + 1, IMAGE * 2, None, 0.0, True], {"scale": 0.3}),
    ("grid_sampler_2d", [IMAGE, np.tanh(IMAGE[:, :3, :2, :2]), 0, 0, False], {}),
    ("masked_scatter", [X, MASK, Y], {}), ("as_strided", [X, [2, 2], [4, 1], 1], {}),
    ("col2im", [Y[None, :].repeat(2, 2)[:, :, :6].repeat(2, 1)[:, :4], [3, 4], [2, 2],
     [1, 1], [0, 0], [1, 1]], {}),
    ("_pdist_forward", [X], {}), ("polygamma", [2, POSITIVE], {}),
    # NaN stays NaN and comes last; infinity spoils its own neighbours alone.
    *((name, [HOLES], {}) for name in "relu leaky_relu elu silu".split()),
    ("sort", [HOLES, 1, True], {}), ("topk", [HOLES, 2, 1], {}),
    ("topk", [HOLES, 2, 1, False], {}), ("sort", [HOLES, 1], {}),
    ("sort.stable", [TIES], {"stable": True, "dim": 1, "descending": True}),
    ("sort.stable", [MASK], {"stable": True, "dim": 1, "descending": True}),
    ("sort", [BYTES, 1, True], {}), ("topk", [BYTES, 3, 1], {}),
    ("_adaptive_avg_pool2d", [FAR, [1, 3]], {}),
    ("_adaptive_avg_pool2d", [IMAGE, [5, 9]], {}),
    ("upsample_bilinear2d.vec", [FAR, [1, 4], False, None], {}),
    # The first of equal entries has the whole slope.
    ("max_pool2d_with_indices", [TIES[None], [1, 2]], {}),
    ("max_pool2d_with_indices", [TIES[None], [3, 3], [1, 1], [1, 1]], {}),
]  # fmt: skip


def map_floats(f: Callable[[Any], Any], args: list[Any]) -> list[Any]:
    """Return arguments with a function applied to arrays that can vary."""
    return [
        map_floats(f, x)
        if isinstance(x, list)
        else f(x)
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc"
        else x
        for x in args
    ]


def list_outputs(made: Any) -> list[Any]:
    outs = made if isinstance(made, (list, tuple)) else [made]
    return [y for y in outs if y is not None]


#: To how many digits PyTorch itself knows a derivative, where these are few.
TOLERANCES = {"digamma": 1e-8}


def find_target(name: str) -> Any:
    packet, _, overload = name.partition(".")
    made = getattr(aten, packet)
    return getattr(made, overload or "default", None) or getattr(
        made, made.overloads()[0]
    )


def to_torch(x: Any) -> Any:
    if isinstance(x, list):
        return [*map(to_torch, x)]
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("case", CASES, ids=[name for name, _, _ in CASES])
def test_an_op_computes_what_torch_does(case: Any) -> None:
    name, args, settings = case
    target = find_target(name)
    leaves: list[Any] = []

    def keep(x: Any) -> Any:
        leaves.append(torch.from_numpy(x.copy()).requires_grad_())
        return leaves[-1]

    wanted = list_outputs(target(*to_torch(map_floats(keep, args)), **settings))
    starts = [x.detach().numpy() for x in leaves]

    def compute(*xs: Any) -> list[Any]:
        given = iter(xs)
        filled = map_floats(lambda _: next(given), args)
        return list_outputs(call_overload(target, filled, settings, {}))

    graph = wb.trace(lambda *xs: tuple(compute(*xs)))(*starts)
    for own, torch_s in zip(graph.run(starts), wanted, strict=False):
        expected = torch_s.detach().resolve_conj().numpy()
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-12)
        assert own.dtype == expected.dtype
    varied = [i for i, y in enumerate(wanted) if is_float(y) and y.requires_grad]
    if not varied:
        return
    draws = np.random.default_rng(1)
    weights = {i: draws.normal(size=wanted[i].shape) for i in varied}
    total = sum(
        (wanted[i] * torch.from_numpy(w)).sum().real for i, w in weights.items()
    )
    slopes = torch.autograd.grad(total, leaves, allow_unused=True)

    def loss(*xs: Any) -> Any:
        made = compute(*xs)
        return sum(np.real(np.sum(made[i] * w)) for i, w in weights.items())

    found = wb.grad(loss, tuple(range(len(starts))))(*starts)
    limit = TOLERANCES.get(name, 1e-12)
    for own, slope in zip(found, slopes, strict=True):
        # PyTorch's gradient of a complex number is the conjugate.
        expected = (
            np.zeros_like(own) if slope is None else slope.conj().resolve_conj().numpy()
        )
        np.testing.assert_allclose(own, expected, rtol=limit, atol=limit)
