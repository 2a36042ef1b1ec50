"""Which of Theano's names there are: a name that comes or goes is a decision."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T
from workbench.errors import TraceError, UsageError

PLACES = importlib.import_module("workbench.compat.theano.namespace")
NAMES = {
    "theano": """
    Apply as_op as_tensor_variable change_flags clone compile config configparser
    Constant dot dprint foldl foldr function gof grad gradient ifelse In install Lop
    map Mode NanGuardMode NotScalarConstantError Op OpFromGraph OrderedUpdates Out
    Param pp pprint printing reduce Rop sandbox scalar scan scan_module shared
    SharedVariable sparse subgraph_grad tensor Type uninstall updates Variable
    """,
    "theano.tensor": """
    abs abs_ add addbroadcast advanced_subtensor advanced_subtensor1 all
    all_dtypes allclose alloc alloc_diag and_ angle any arange arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argtopk as_op as_tensor
    as_tensor_variable Assert bartlett batched_dot batched_tensordot bincount
    bitwise_and bitwise_not bitwise_or bitwise_xor cast ceil ceil_intdiv chi2sf
    choose clip complex complex_dtypes complex_from_polar compress concatenate conj
    constant continuous_dtypes cos cosh cumprod cumsum deg2rad diag diagonal diff
    dimshuffle discrete_dtypes dot e empty empty_like eq erf erfc erfcinv erfcx
    erfinv exp exp2 expm1 extra_ops extract_diag eye fill fill_diagonal
    fill_diagonal_offset flatnonzero flatten float_dtypes floor floor_div gamma
    gammaln ge get_scalar_constant_value grad gt hessian horizontal_stack i0 i1
    identity identity_like imag inc_subtensor inf int_div int_dtypes integer_dtypes
    inv inverse_permutation invert iround isclose isinf isnan iv j0 j1 jacobian join
    jv largest le log log10 log1p log2 Lop lt matrix_dot matrix_inverse max
    max_and_argmax maximum mean mgrid min minimum mod moveaxis mul nan neg negative
    neq nlinalg nnet nonzero nonzero_values norm NotScalarConstantError ogrid ones
    ones_like or_ outer patternbroadcast permute_row_elements pi pow power prod
    Prod ProdWithoutZeros prod_without_zeros psi ptp rad2deg ravel_multi_index real
    rebroadcast repeat
    reshape roll Rop round searchsorted second set_subtensor sgn shape shape_padaxis
    shape_padleft shape_padright shared shared_randomstreams sign signal sin sinh
    slinalg smallest sort specify_shape split sqr sqrt square squeeze stack
    stacklists std sub subtensor sum Sum swapaxes switch take tan tanh tensor
    tensor_copy
    TensorConstant tensordot TensorSharedVariable TensorType TensorVariable tile
    to_one_hot topk topk_and_argtopk trace transpose tri tri_gamma tril triu
    true_div trunc uint_dtypes unbroadcast unique unravel_index var verify_grad
    vertical_stack where xor zeros zeros_like
    Alloc All Any ARange Argmax BartlettOp CAReduce CumOp CumprodOp CumsumOp DiffOp
    DimShuffle Dot Elemwise Eye FillDiagonal FillDiagonalOffset Join MakeVector Max
    MaxAndArgmax Min MulWithoutZeros mul_without_zeros RepeatOp Reshape
    ScalarFromTensor scalar_from_tensor SearchsortedOp Shape_i Split SqueezeOp
    TensorFromScalar tensor_from_scalar Unique
    """,
    "theano.tensor.nnet": """
    abstract_conv batch_normalization batch_normalization_test
    batch_normalization_train binary_crossentropy bn categorical_crossentropy
    confusion_matrix conv conv2d crossentropy_categorical_1hot
    crossentropy_softmax_1hot crossentropy_softmax_1hot_with_bias
    crossentropy_softmax_argmax_1hot_with_bias elu hard_sigmoid logsoftmax nnet relu
    selu sigm sigmoid sigmoid_binary_crossentropy softmax softmax_graph
    softmax_with_bias softplus softsign ultra_fast_sigmoid
    """,
    "theano.tensor.nlinalg": """
    alloc_diag AllocDiag Det det diag Eig eig eigh Eigh extract_diag ExtractDiag
    lstsq matrix_dot matrix_inverse matrix_power MatrixInverse MatrixPinv norm pinv
    qr QRFull SVD svd TensorInv tensorinv tensorsolve TensorSolve trace
    """,
    "theano.tensor.slinalg": """
    Cholesky cholesky eigvalsh Eigvalsh Expm expm kron Solve solve
    solve_lower_triangular solve_symmetric solve_upper_triangular
    """,
    "theano.tensor.extra_ops": """
    bartlett bincount compress cumprod cumsum diff fill_diagonal
    fill_diagonal_offset ravel_multi_index repeat searchsorted squeeze to_one_hot
    unique unravel_index
    """,
    "theano.gradient": """
    consider_constant disconnected_grad disconnected_type DisconnectedInputError
    DisconnectedType format_as grad grad_clip grad_not_implemented grad_scale
    grad_undefined GradientError GradUndefinedError hessian jacobian Lop NullType
    NullTypeGradError numeric_grad Rop subgraph_grad verify_grad zero_grad
    grad_sources_inputs io_connection_pattern
    """,
    "theano.compile": """
    as_op DebugMode FAST_COMPILE FAST_RUN Function function get_default_mode
    get_mode In Mode MonitorMode NanGuardMode OpFromGraph Out Param shared
    SharedVariable SymbolicInput SymbolicOutput UnusedInputError ViewOp
    """,
    "theano.gof": """
    ancestors Apply Constant get_test_value inputs io_toposort list_of_nodes
    MissingInputError NullType Op ops orphans PureOp Type Variable variables
    """,
    "theano.scan_module": """
    foldl foldr map reduce scan until
    """,
    "theano.printing": """
    debugprint pp pprint Print pydotprint
    """,
}
KINDS = "scalar vector row col matrix tensor3 tensor4 tensor5 tensor6 tensor7".split()
PREFIXES = ["", *"bwilfdcz"]
SYMBOLS = {
    name
    for p in PREFIXES
    for kind in KINDS
    for name in (p + kind, p + ("matrices" if kind == "matrix" else f"{kind}s"))
}


def module(name: str) -> ModuleType:
    """A module by Theano's name for it."""
    found = import_module("workbench.compat." + name.split(".")[0])
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_these_names(name: str) -> None:
    found = module(name)
    listed = set(found.__all__)
    ours = {"theano": {"methods", "types"}, "theano.tensor": SYMBOLS}
    assert listed - ours.get(name, set()) == set(NAMES[name].split())
    for one in listed:
        assert getattr(found, one) is not None
    assert SYMBOLS <= set(T.__all__)


def test_every_function_explains_itself() -> None:
    assert [name for name, value in T.TABLE.items() if not value.__doc__] == []


def test_installed_and_gone_again() -> None:
    ours = theano.install()
    try:
        assert theano.install() is ours  # a second time changes nothing
        for place in [*PLACES.PLACES, *PLACES.ELSEWHERE]:
            assert import_module(f"theano.{place}") is sys.modules[f"theano.{place}"]
        x, y = T.dscalars("x", "y")
        assert [x, y].index(y) == 1
        assert y not in [x]
        assert bool(x != y)
        streams = import_module("theano.tensor.shared_randomstreams")
        assert streams is T.shared_randomstreams
    finally:
        theano.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "theano"]
    with pytest.raises(TraceError):
        bool(x == y)


def test_a_module_that_is_not_known_is_an_import_error() -> None:
    theano.install()
    try:
        for name in ("theano.sandbox.cuda", "theano.tensor.nnet.neighbours"):
            with pytest.raises(ModuleNotFoundError, match=f"{name} is not known"):
                import_module(name)
        # Files of ours under other names are not found a second time.
        with pytest.raises(ModuleNotFoundError, match="not known"):
            import_module("theano.methods")
        var = import_module("theano.tensor").var
        assert isinstance(T.dvector(), var.TensorVariable)
    finally:
        theano.uninstall()


def test_theano_itself_is_not_pushed_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModuleType("theano")
    monkeypatch.setitem(sys.modules, "theano", real)
    with pytest.raises(UsageError, match="has been imported"):
        theano.install()
    theano.uninstall()
    assert sys.modules["theano"] is real


def test_workbench_does_not_load_it() -> None:
    code = (
        "import sys, workbench; print('workbench.compat' in sys.modules);"
        "import workbench.compat; print('workbench.compat.theano' in sys.modules);"
        "print(workbench.compat.theano.install().__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "workbench.compat.theano"]


def test_flags_from_the_environment() -> None:
    code = (
        "from workbench.compat import theano; import workbench.compat.theano.tensor as"
        " T; print(T.matrix().dtype, theano.config.device)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={"THEANO_FLAGS": "floatX=float32,device=cuda0,lib.cnmem=1"},
    )  # fmt: skip
    assert done.stdout.strip() == "float32 cuda0", done.stderr
