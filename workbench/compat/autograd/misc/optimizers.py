"""`autograd.misc.optimizers`: gradient descent on nests, step by step."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.compat.autograd.misc.flatten import flatten

__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]

Function = Callable[..., Any]


def unflatten_optimizer(optimize: Function) -> Function:
    """Let an optimizer of vectors take nests."""

    @wraps(optimize)
    def minimize(
        grad: Function, x0: Any, callback: Any = None, *args: Any, **settings: Any
    ) -> Any:
        start, unflatten = flatten(x0)

        def gradient(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def report(x: Any, i: int, g: Any) -> None:
            callback(unflatten(x), i, unflatten(g))

        told = report if callback else None
        return unflatten(optimize(gradient, start, told, *args, **settings))

    return minimize


def _descend(
    grad: Function, x: Any, callback: Any, num_iters: int, step: Function
) -> Any:
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        x = x + step(i, g)
    return x


@unflatten_optimizer
def sgd(
    grad: Function,
    x: Any,
    callback: Any = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Minimize by gradient descent with momentum; ``grad(x, i)`` is the gradient."""
    velocity = np.zeros(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * g
        return step_size * velocity

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def rmsprop(
    grad: Function,
    x: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Minimize with steps scaled by the root of the mean square of gradients."""
    square = np.ones(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal square
        square = square * gamma + g**2 * (1 - gamma)
        return -step_size * g / (np.sqrt(square) + eps)

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def adam(
    grad: Function,
    x: Any,
    callback: Any = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Minimize by Adam (Kingma and Ba, 2014, arXiv:1412.6980)."""
    mean, square = np.zeros(len(x)), np.zeros(len(x))

    def step(i: int, g: Any) -> Any:
        nonlocal mean, square
        mean = (1 - b1) * g + b1 * mean
        square = (1 - b2) * (g**2) + b2 * square
        unbiased = mean / (1 - b1 ** (i + 1))
        scale = np.sqrt(square / (1 - b2 ** (i + 1))) + eps
        return -step_size * unbiased / scale

    return _descend(grad, x, callback, num_iters, step)
