"""What comes with a PyTorch module: its lines, scopes, memory, rules, and refusals."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors, models

torch = pytest.importorskip("torch", reason="pip install autodiff-workbench[torch]")
pytestmark = pytest.mark.long
nn = torch.nn
THIS = "test_torch.py"


@pytest.fixture(autouse=True)
def _double() -> Any:
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


class WrongCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 * x  # the power is lost


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.scale * g, None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = torch.tanh(layer(x))  # LAYER
        return x


def line_of(mark: str) -> int:
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.endswith(f"# {mark}\n"))


def test_scopes_are_modules_and_lines_the_users_own() -> None:
    f, parameters = models.from_torch(Net(), (torch.ones(2, 3),))
    graph = wb.trace(f)(parameters, np.ones((2, 3)))
    scopes = {node.scope for node in graph.interior}
    assert {"first", "layers/0", "layers/1"} <= scopes
    (tanh, _) = [node for node in graph.interior if node.op.name == "tanh"]
    assert tanh.site.place == f"{THIS}:{line_of('LAYER')}"
    with wb.scope("net"):
        inside = wb.trace(f)(parameters, np.ones((2, 3)))
    assert {"net/first", "net/layers/1"} <= {node.scope for node in inside.interior}


def test_parameters_are_the_models_own_memory() -> None:
    net = Net()
    f, parameters = models.from_torch(net, (torch.ones(2, 3),))
    assert list(parameters) == [name for name, _ in net.named_parameters()]
    x = np.ones((2, 3))
    before = f(parameters, x)
    parameters["first.weight"] *= 2.0
    assert float(net.first.weight.detach()[0, 0]) == parameters["first.weight"][0, 0]
    after = net(torch.ones(2, 3)).detach().numpy()
    np.testing.assert_allclose(f(parameters, x), after, rtol=1e-14)
    assert not np.allclose(before, after)


def test_a_wrong_rule_is_kept_and_found() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return WrongCube.apply(x).sum()  # RULE

    x = np.array([0.5, -1.0, 2.0])
    f, _ = models.from_torch(Model(), (torch.from_numpy(x),))
    np.testing.assert_allclose(wb.grad(f, 1)({}, x), 2 * x)  # as PyTorch has it
    with pytest.raises(errors.GradientError, match="torch_WrongCube") as caught:
        wb.check_grads(lambda x: f({}, x), (x,))
    assert f"{THIS}:{line_of('RULE')}" in str(caught.value)
    right = wb.override("torch_WrongCube", "3 * g * x**2")
    found = wb.grad(f, 1, overrides=[right])({}, x)
    np.testing.assert_allclose(found, 3 * x**2)


def test_a_rule_with_a_setting_is_kept() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return (Reversal.apply(x, 0.5) ** 2).sum()

    x = np.array([0.5, -1.0])
    before = torch.autograd.Function.__dict__["apply"]
    f, _ = models.from_torch(Model(), (torch.from_numpy(x),))
    np.testing.assert_allclose(wb.grad(f, 1)({}, x), -x)
    # PyTorch's own `apply` is back in its place.
    assert torch.autograd.Function.__dict__["apply"] is before


def test_a_nan_of_a_training_is_found_by_its_line() -> None:
    class Model(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            d = x - y
            return torch.sqrt((d * d).sum(-1)).mean()  # NAN

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    f, _ = models.from_torch(Model(), (torch.from_numpy(x), torch.from_numpy(x)))
    (first, *_) = wb.diagnose(lambda x, y: f({}, x, y), x, x)
    assert f"{THIS}:{line_of('NAN')}" in str(first)
    assert "sqrt" in str(first)


def test_torchs_own_op_has_derivatives_of_any_order() -> None:
    class Model(nn.Module):
        def forward(self, x: Any, grid: Any) -> Any:
            return nn.functional.grid_sample(x, grid.tanh(), align_corners=False)

    x, grid = torch.randn(1, 1, 4, 4), torch.randn(1, 2, 2, 2)
    f, _ = models.from_torch(Model(), (x, grid))
    names = [n.op.name for n in wb.trace(f)({}, x.numpy(), grid.numpy()).interior]
    assert "torch_grid_sampler_2d" in names

    def square(x: Any) -> Any:
        return f({}, x, grid.numpy()) ** 2

    wb.check_grads(square, (x.numpy(),), order=2)
    xs = np.stack([x.numpy(), 2 * x.numpy()])
    many = wb.vmap(square)(xs)
    np.testing.assert_allclose(many[1], square(xs[1]), rtol=1e-14)
    compiled = wb.compile(lambda x: np.sum(square(x)))
    np.testing.assert_allclose(compiled(xs[0]), np.sum(square(xs[0])), rtol=1e-13)


def test_pools_give_places_where_they_are_read() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            y, places = nn.functional.max_pool2d(x, 2, return_indices=True)
            return nn.functional.max_unpool2d(y**2, places, 2)

    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    f, _ = models.from_torch(Model(), (x,))
    (wanted,) = torch.autograd.grad((Model()(x) ** 2).sum(), x)
    found = wb.grad(lambda x: np.sum(f({}, x) ** 2))(x.detach().numpy())
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-13)


def test_lengths_may_change() -> None:
    net = nn.Linear(3, 2)
    n = torch.export.Dim("n", min=2)
    f, p = models.from_torch(net, (torch.ones(4, 3),), dynamic_shapes=({0: n},))
    x = np.ones((7, 3))
    np.testing.assert_allclose(f(p, x), net(torch.from_numpy(x)).detach().numpy())
    grads = wb.grad(lambda p: np.sum(f(p, x)))(p)
    np.testing.assert_allclose(grads["bias"], [7.0, 7.0])


def test_loops_and_choices_stay_in_the_program() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            x = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return x.sum()

    x = np.array([0.5, 1.0])
    f, _ = models.from_torch(Model(), (torch.from_numpy(x),))
    np.testing.assert_allclose(wb.grad(f, 1)({}, x), np.cos(x))
    np.testing.assert_allclose(wb.grad(f, 1)({}, -x), np.sin(x))


def test_dropout_draws_as_torch_does() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4)).train()
    x = torch.randn(6, 4)
    f, parameters = models.from_torch(net, (x,))
    torch.manual_seed(3)
    wanted = net(x).detach().numpy()
    torch.manual_seed(3)
    value, _ = wb.value_and_grad(lambda p: np.sum(f(p, x.numpy())))(parameters)
    np.testing.assert_allclose(value, wanted.sum(), rtol=1e-13)


def test_statistics_are_read_and_never_written() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3)).train()
    before = net[0].running_mean.clone()
    f, parameters = models.from_torch(net, (torch.randn(5, 3),))
    wb.grad(lambda p: np.sum(f(p, np.ones((5, 3)))))(parameters)
    assert torch.equal(net[0].running_mean, before)
    assert set(parameters) == {"0.weight", "0.bias"}


def test_nests_stay_nests() -> None:
    class Model(nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return {"sum": x["a"] + x["b"], "all": [x["a"] * scale]}

    args = ({"a": torch.ones(2), "b": torch.ones(2)},)
    f, p = models.from_torch(Model(), args, {"scale": torch.ones(())})
    made = f(p, {"a": np.ones(2), "b": np.ones(2)}, scale=np.array(3.0))
    np.testing.assert_allclose(made["sum"], [2.0, 2.0])
    np.testing.assert_allclose(made["all"][0], [3.0, 3.0])


def test_arguments_go_by_their_names() -> None:
    class Keywords(nn.Module):
        def forward(self, s: Any, *, a: Any, b: Any) -> Any:
            return s["x"] * a - s["y"] * b

    class Places(nn.Module):
        def forward(self, a: Any, b: Any, *more: Any) -> Any:
            return a - b - sum(more)

    two, three, four = np.full(2, 2.0), np.full(2, 3.0), np.full(2, 4.0)
    ones = torch.ones(2)
    f, p = models.from_torch(
        Keywords(), ({"x": ones, "y": ones},), {"b": ones, "a": ones}
    )
    nest = {"y": two, "x": three}
    np.testing.assert_array_equal(f(p, nest, a=four, b=three), 3 * four - 2 * three)
    np.testing.assert_array_equal(f(p, b=three, a=four, s=nest), 3 * four - 2 * three)
    with pytest.raises(errors.UsageError, match="unexpected keyword argument 'foo'"):
        f(p, nest, a=two, b=two, foo=three)
    with pytest.raises(errors.UsageError, match=r"another nest: .*dict"):
        f(p, (two, three), a=two, b=three)
    with pytest.raises(errors.UsageError, match=r"s.* is a list, not an array"):
        f(p, {"x": [2.0, 2.0], "y": two}, a=two, b=three)
    f, p = models.from_torch(Places(), (ones, ones))
    np.testing.assert_array_equal(f(p, b=two, a=three), [1.0, 1.0])
    with pytest.raises(errors.UsageError, match=r"more\[0\] was not in the example"):
        f(p, two, three, three)


def test_constants_of_the_example_are_kept() -> None:
    class Model(nn.Module):
        def forward(self, x: Any, n: int, flag: bool = True, y: Any = None) -> Any:
            return (x * 2 if flag else x * 3) * n

    x = np.ones(2)
    f, p = models.from_torch(Model(), (torch.ones(2), 5), {"flag": False})
    np.testing.assert_array_equal(f(p, x, 5, False), [15.0, 15.0])
    np.testing.assert_array_equal(f(p, x, n=5, flag=False, y=None), [15.0, 15.0])
    with pytest.raises(errors.UsageError, match="n is 5 in the program, not 7"):
        f(p, x, 7, False)
    with pytest.raises(errors.UsageError, match="flag is False in the program, not Tr"):
        f(p, x, 5)
    with pytest.raises(errors.UsageError, match="y was not in the example"):
        f(p, x, 5, False, x)


# The way back


def test_overrides_come_back_with_double_backward() -> None:
    def f(w: Any, x: Any) -> Any:
        return {"y": np.sum(np.tanh(x @ w) ** 2)}

    w, x = torch.randn(4, requires_grad=True), torch.randn(5, 4)
    clip = wb.override("tanh", "clip(d, -0.1, 0.1)")
    models.as_torch_function(f, [clip])(w, x)["y"].backward()
    start = w.detach().numpy()
    by_torch, own = w.grad.numpy(), lambda w: f(w, x.numpy())["y"]
    np.testing.assert_allclose(
        by_torch, wb.grad(own, overrides=[clip])(start), rtol=1e-14
    )
    assert not np.allclose(by_torch, wb.grad(own)(start))
    plain = models.as_torch_function(f)
    assert torch.autograd.gradgradcheck(lambda w: plain(w, x)["y"], (w,))
    twice = torch.autograd.functional.hessian(lambda w: plain(w, x)["y"], w)
    np.testing.assert_allclose(twice.numpy(), wb.hessian(own)(start), rtol=1e-12)


def test_complex_gradients_come_back_conjugate() -> None:
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    g = models.as_torch_function(lambda z: np.sum(np.abs(z * z) ** 2))
    (found,) = torch.autograd.grad(g(z), z)
    (wanted,) = torch.autograd.grad(((z * z).abs() ** 2).sum(), z)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


# Refusals


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0]


def test_what_can_be_derived_once_is_not_derived_twice() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return Once.apply(x).sum()

    x = np.array([1.0, 2.0])
    f, _ = models.from_torch(Model(), (torch.ones(2),))
    slope = wb.grad(lambda x: f({}, x))
    np.testing.assert_array_equal(slope(x), 2 * x)
    with pytest.raises(errors.ModelError, match="once_differentiable"):
        wb.grad(lambda x: np.sum(slope(x) ** 2))(x)
    with pytest.raises(errors.ModelError, match="once_differentiable"):
        wb.jvp(lambda x: f({}, x), (x,), (x,))


def test_hooks_that_are_dropped_are_told() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    net[0].weight.register_hook(lambda g: 2 * g)
    net[1].register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match=r"without those of 1, 0\.weight.*override"):
        models.from_torch(net, (torch.ones(1, 2),))
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].register_forward_hook(lambda _, args, y: 3 * y)  # is part of the program
    f, p = models.from_torch(net, (torch.ones(1, 2),))
    wanted = net(torch.ones(1, 2)).detach().numpy()
    np.testing.assert_allclose(f(p, np.ones((1, 2))), wanted, rtol=1e-14)


def test_hooks_of_values_inside_are_told_with_their_line() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            h = x.sin()
            h.register_hook(lambda g: 2 * g)
            return h.sum()

    line = inspect.getsourcelines(Model.forward)[1] + 2
    method = torch.Tensor.register_hook
    with pytest.warns(UserWarning, match=rf"register_hook at .*test_torch.py:{line}\b"):
        models.from_torch(Model(), (torch.ones(2, requires_grad=True),))
    assert torch.Tensor.register_hook is method


def test_a_check_names_the_model_alone() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x**2

    f, _ = models.from_torch(Model(), (torch.ones(2),))
    told = str(wb.check_grads(f, ({}, np.ones(2))))
    assert "Model" in told
    assert "torch.py" not in told


def test_floats_that_numpy_lacks_are_refused() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x.bfloat16() * 3).float()  # NARROW

    with pytest.raises(errors.ModelError, match=r"bfloat16.*float32") as caught:
        models.from_torch(Model(), (torch.ones(2),))
    assert f"{THIS}:{line_of('NARROW')}" in str(caught.value)
    narrow = torch.ones(1, 2, dtype=torch.bfloat16)
    with pytest.raises(errors.ModelError, match=r"bfloat16.*module\.float\(\)"):
        models.from_torch(nn.Linear(2, 2).bfloat16(), (narrow,))
    with pytest.raises(errors.ModelError, match=r"bfloat16"):
        models.as_torch_function(np.tanh)(narrow)


def test_a_model_that_cannot_be_exported_says_why_and_where() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.sum() > 0:  # BRANCH
                return x
            return -x

    with pytest.raises(errors.ModelError, match="cannot export this") as caught:
        models.from_torch(Model(), (torch.ones(2),))
    told = str(caught.value)
    assert f"{THIS}:{line_of('BRANCH')}" in told
    assert "data-dependent" in told


def test_what_does_not_fit_is_told() -> None:
    f, parameters = models.from_torch(nn.Linear(3, 1), (torch.ones(2, 3),))
    with pytest.raises(errors.ShapeError, match=r"\(2, 3\).*dynamic_shapes="):
        f(parameters, np.ones((4, 3)))
    with pytest.raises(
        errors.UsageError, match=r"missing a required argument.*takes what"
    ):
        f(parameters)
    with pytest.raises(errors.UsageError, match="lacks the parameters 'bias'"):
        f({"weight": parameters["weight"]}, np.ones((2, 3)))
    with pytest.raises(errors.UsageError, match=r"no torch\.nn\.Module"):
        models.from_torch(np.tanh, ())


def test_without_the_library_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from workbench import errors, models\n"
        "try: models.from_torch(None, ())\n"
        "except errors.MissingPackageError as e: print(e)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'autodiff-workbench[torch]'" in made.stdout
