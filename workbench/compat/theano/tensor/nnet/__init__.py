"""`theano.tensor.nnet`: the functions in layers of networks."""

from __future__ import annotations

from workbench.compat.theano.tensor.nnet import abstract_conv, bn, layers
from workbench.compat.theano.tensor.nnet.abstract_conv import conv2d
from workbench.compat.theano.tensor.nnet.bn import (
    batch_normalization,
    batch_normalization_test,
    batch_normalization_train,
)
from workbench.compat.theano.tensor.nnet.layers import (
    binary_crossentropy,
    categorical_crossentropy,
    confusion_matrix,
    crossentropy_categorical_1hot,
    crossentropy_softmax_1hot,
    crossentropy_softmax_1hot_with_bias,
    crossentropy_softmax_argmax_1hot_with_bias,
    elu,
    hard_sigmoid,
    logsoftmax,
    relu,
    selu,
    sigmoid,
    sigmoid_binary_crossentropy,
    softmax,
    softmax_graph,
    softmax_with_bias,
    softplus,
    softsign,
    ultra_fast_sigmoid,
)

# The modules that Theano's names stood in.
nnet = layers
sigm = layers
conv = abstract_conv

__all__ = [
    "abstract_conv",
    "batch_normalization",
    "batch_normalization_test",
    "batch_normalization_train",
    "binary_crossentropy",
    "bn",
    "categorical_crossentropy",
    "confusion_matrix",
    "conv",
    "conv2d",
    "crossentropy_categorical_1hot",
    "crossentropy_softmax_1hot",
    "crossentropy_softmax_1hot_with_bias",
    "crossentropy_softmax_argmax_1hot_with_bias",
    "elu",
    "hard_sigmoid",
    "logsoftmax",
    "nnet",
    "relu",
    "selu",
    "sigm",
    "sigmoid",
    "sigmoid_binary_crossentropy",
    "softmax",
    "softmax_graph",
    "softmax_with_bias",
    "softplus",
    "softsign",
    "ultra_fast_sigmoid",
]
