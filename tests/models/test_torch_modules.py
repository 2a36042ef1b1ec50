"""PyTorch's modules here: value and gradients are PyTorch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import models

torch = pytest.importorskip("torch", reason="pip install autodiff-workbench[torch]")
pytestmark = pytest.mark.long
nn = torch.nn
F = nn.functional

#: Modules as people write them, with examples of what they take.
MODULES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}


def module(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Any:
    MODULES[make.__name__] = make
    return make


class Lambda(nn.Module):
    """Parts by name, and a function of them and of what comes in."""

    def __init__(self, call: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.call = call
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.call(self, *args)


@module
def mlp() -> Any:
    net = nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 5),
        nn.LogSoftmax(-1),
    )  # fmt: skip
    return net, (torch.randn(7, 8),)


class Block(nn.Module):
    """A residual block of ResNet, of two convolutions."""

    def __init__(self, n: int, m: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n, m, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(m)
        self.conv2 = nn.Conv2d(m, m, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(m)
        self.down = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv2d(n, m, 1, stride), nn.BatchNorm2d(m))
        )

    def forward(self, x: Any) -> Any:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


@module
def resnet() -> Any:
    net = nn.Sequential(
        nn.Conv2d(3, 6, 5, 2, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Block(6, 6, 1), Block(6, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 4),
    )  # fmt: skip
    return net.train(), (torch.randn(2, 3, 20, 20),)


@module
def resnet_fixed() -> Any:
    net, args = resnet()
    return net.eval(), args


@module
def groups_and_dilation() -> Any:
    net = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2), nn.SiLU(),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.Conv2d(8, 8, 3, groups=8, padding="same", padding_mode="reflect"),
        nn.Hardtanh(), nn.InstanceNorm2d(8, affine=True), nn.AdaptiveAvgPool2d((3, 2)),
    )  # fmt: skip
    return net, (torch.randn(2, 4, 9, 8),)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(2, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 6, 3, 2, 1)
        self.norm = nn.GroupNorm(2, 6)
        self.up = nn.ConvTranspose2d(6, 4, 4, 2, 1)
        self.leave = nn.Conv2d(10, 2, 1)

    def forward(self, x: Any) -> Any:
        first = F.elu(self.enter(x))
        deep = F.leaky_relu(self.norm(self.down(first)), 0.2)
        smooth = F.interpolate(deep, scale_factor=2, mode="bilinear")[:, :2]
        y = self.leave(torch.cat([first, self.up(deep), smooth], 1))
        return F.interpolate(y, scale_factor=2, mode="nearest")


@module
def unet() -> Any:
    return UNet(), (torch.randn(1, 2, 8, 8),)


class ViT(nn.Module):
    """A vision transformer: patches, a class token, positions, encoder layers."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 5, width))
        layer = nn.TransformerEncoderLayer(
            width, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Any) -> Any:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(len(y), -1, -1), y], 1) + self.positions
        return self.head(self.layers(y)[:, 0])


@module
def vit() -> Any:
    return ViT(), (torch.randn(2, 1, 8, 8),)


class LanguageModel(nn.Module):
    """An LSTM that predicts the next token; weights tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 6, 2, batch_first=True)
        self.out = nn.Linear(6, 11)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        y, _ = self.lstm(self.embed(tokens[:, :-1]))
        logits = self.out(y)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@module
def lstm_language_model() -> Any:
    return LanguageModel(), (torch.randint(0, 11, (3, 6)),)


@module
def gru_both_ways() -> Any:
    gru = nn.GRU(4, 5, bidirectional=True)
    net = Lambda(lambda s, x: s.gru(x)[0][-1].tanh(), gru=gru)
    return net, (torch.randn(4, 2, 4),)


class Attention(nn.Module):
    """Causal attention written by hand, with a mask in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", torch.ones(5, 5).tril())

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.mT / 8**0.5).masked_fill(self.mask == 0, float("-inf"))
        return scores.softmax(-1) @ v


@module
def causal_attention() -> Any:
    return Attention(), (torch.randn(2, 5, 8),)


@module
def attention_of_torch() -> Any:
    def call(s: Any, x: Any, y: Any) -> Any:
        return s.a(x, y, y, need_weights=False)[0]

    net = Lambda(call, a=nn.MultiheadAttention(8, 2, batch_first=True))
    return net, (torch.randn(2, 3, 8), torch.randn(2, 4, 8))


@module
def embedding_bag() -> Any:
    def call(s: Any, t: Any) -> Any:
        return torch.cat([s.norm(s.e(t)).mean(1), s.bag(t)], -1)

    e, bag = nn.Embedding(9, 6), nn.EmbeddingBag(9, 6, mode="mean")
    net = Lambda(call, e=e, bag=bag, norm=nn.LayerNorm(6))
    return net, (torch.randint(0, 9, (4, 5)),)


@module
def autoencoder_1d() -> Any:
    net = nn.Sequential(
        nn.Conv1d(1, 4, 5, 2), nn.Tanh(), nn.MaxPool1d(2), nn.Upsample(scale_factor=2),
        nn.ConvTranspose1d(4, 1, 5, 2, output_padding=1), nn.Sigmoid(),
    )  # fmt: skip
    return net, (torch.randn(2, 1, 19),)


@module
def voxels() -> Any:
    net = nn.Sequential(
        nn.Conv3d(1, 3, 2), nn.Softplus(), nn.AvgPool3d(2), nn.Flatten(), nn.Mish()
    )
    return net, (torch.randn(1, 1, 5, 5, 5),)


@module
def variational() -> Any:
    """An autoencoder's loss, with its noise given."""

    def call(s: Any, x: Any, noise: Any) -> Any:
        mean, log_var = s.inner(x).chunk(2, -1)
        y = s.outer(mean + noise * torch.exp(log_var / 2))
        divergence = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum()
        return F.binary_cross_entropy_with_logits(y, x.sigmoid()) + divergence

    net = Lambda(call, inner=nn.Linear(6, 8), outer=nn.Linear(4, 6))
    return net, (torch.randn(5, 6), torch.randn(5, 4))


@module
def gaussian_process() -> Any:
    def call(s: Any, x: Any, y: Any, h: Any) -> Any:
        d = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = torch.exp(h[0] - 0.5 * d * torch.exp(h[1]))
        k = k + torch.exp(h[2]) * torch.eye(len(x))
        return 0.5 * y @ torch.linalg.solve(k, y) + 0.5 * torch.logdet(k)

    h = torch.tensor([0.1, 0.2, -1.0])
    return Lambda(call), (torch.randn(6, 2), torch.randn(6), h)


@module
def spectral() -> Any:
    """A layer in the frequencies, as Fourier neural operators have it."""

    def call(s: Any, x: Any, w: Any) -> Any:
        modes = torch.fft.rfft(x)[:, :4] * torch.view_as_complex(w)
        return torch.fft.irfft(modes, n=x.shape[-1]) + s.skip(x)

    return Lambda(call, skip=nn.Linear(9, 9)), (torch.randn(3, 9), torch.randn(4, 2))


@module
def sampled_grid() -> Any:
    def call(s: Any, x: Any, g: Any) -> Any:
        return F.grid_sample(x, g.tanh(), align_corners=False)

    return Lambda(call), (torch.randn(1, 2, 4, 4), torch.randn(1, 3, 3, 2))


@module
def message_passing() -> Any:
    """Sums over the neighbours of a graph, by scatter and by index."""

    def call(s: Any, x: Any, edges: Any) -> Any:
        messages = s.message(torch.cat([x[edges[0]], x[edges[1]]], -1)).relu()
        total = torch.zeros_like(x).index_add(0, edges[1], messages)
        most = x.scatter_reduce(
            0, edges[1][:, None].expand_as(messages), messages, "amax"
        )
        return s.update(total + most)

    net = Lambda(call, message=nn.Linear(6, 3), update=nn.Linear(3, 2))
    return net, (torch.randn(5, 3), torch.randint(0, 5, (2, 8)))


@module
def sorts_and_sums() -> Any:
    def call(s: Any, x: Any) -> Any:
        top = x.sort(-1, descending=True)[0][:, :3].sum() + x.topk(2, 1)[0].prod()
        run = torch.cumsum(x, 1).prod(1).sum() + x.max(0)[0].sum() + x.std()
        z = torch.zeros_like(x).scatter_add(1, (x > 0).long(), x)
        far = torch.cdist(x, x + 1).sum() + F.unfold(x[None, None], 2).sum()
        edited = x.clone()
        edited[1:3] *= 2
        edited[:, 0] = x[:, 1] ** 2
        return top + run + (z**2).sum() + far + edited.logsumexp(0).norm()

    return Lambda(call), (torch.randn(5, 4),)


@module
def cut_off() -> Any:
    """Values that pass no gradient, by both spellings."""

    def call(s: Any, x: Any) -> Any:
        y = s.layer(x)
        with torch.no_grad():
            scale = s.layer(x).abs().mean()
        return (y * scale).sum() + (y.detach() * y).sum()

    return Lambda(call, layer=nn.Linear(3, 3)), (torch.randn(2, 3),)


#: Also in float32, to its digits.
SINGLE = ("mlp", "unet", "lstm_language_model")


@pytest.fixture
def dtype(request: Any) -> Iterator[Any]:
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def is_float(x: Any) -> bool:
    return bool(x.is_floating_point())


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        *((name, torch.float64, 1e-12) for name in MODULES),
        *((name, torch.float32, 1e-5) for name in SINGLE),
    ],
    indirect=["dtype"],
)
def test_value_and_gradient_are_those_of_torch(
    name: str, dtype: Any, tolerance: float
) -> None:
    module, args = MODULES[name]()
    f, parameters = models.from_torch(copy.deepcopy(module), args)
    xs = [x.clone().requires_grad_() if is_float(x) else x for x in args]
    y = module(*xs)
    weights = torch.randn_like(y)
    total = float((y * weights).sum().detach())
    leaves = {n: p for n, p in module.named_parameters() if n in parameters}
    floats = [i for i, x in enumerate(xs) if is_float(x)]
    wanted = torch.autograd.grad(
        (y * weights).sum(), [*leaves.values(), *[xs[i] for i in floats]]
    )

    def loss(parameters: Any, varied: Any) -> Any:
        given = [x.numpy() for x in args]
        for i, x in zip(floats, varied, strict=True):
            given[i] = x
        return np.sum(f(parameters, *given) * weights.numpy())

    start = {n: parameters[n] for n in leaves}, [args[i].numpy() for i in floats]
    value, (by_parameters, by_args) = wb.value_and_grad(loss, (0, 1))(*start)
    found = [*(by_parameters[n] for n in leaves), *by_args]

    assert float(loss(*start)) == pytest.approx(total, rel=tolerance, abs=tolerance)
    assert float(value) == pytest.approx(total, rel=tolerance, abs=tolerance)
    for own, torch_s in zip(found, wanted, strict=True):
        scale = max(1.0, float(torch_s.abs().max()))
        np.testing.assert_allclose(own, torch_s.numpy(), rtol=0, atol=tolerance * scale)
        assert own.dtype == torch_s.numpy().dtype
