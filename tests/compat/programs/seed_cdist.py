"""The distance of each pair of rows as an op, with its gradient in three forms."""

import numpy as np
import theano
import theano.tensor as T
from scipy.spatial import distance
from theano import gof


class Cdist(theano.Op):

    __props__ = ()

    def __init__(self):
        #self.fn = scipy_cdist2
        super(Cdist, self).__init__()

    def make_node(self, x, w):
        return gof.Apply(self, [x, w], [x.type()])

    def perform(self, node, inputs, output_storage):
        x, w = inputs[0], inputs[1]
        z = output_storage[0]
        z[0] = distance.cdist(x, w, 'euclidean')


class CdistByInputs(Cdist):

    def grad(self, inputs, out_grads):
        x, y = inputs   # matrices of shape [mA, n] and [mB, n]]
        g, = out_grads   # matrix of shape [mA, mB]
        diff = x.dimshuffle(0, 'x', 1) - y.dimshuffle('x', 0, 1)   # [mA, mB, n] tensor
        z = T.sqrt(T.sum(T.sqr(diff), axis=2, keepdims=True))
        diff = g.dimshuffle(0, 1, 'x') * diff / z
        return [T.sum(diff, axis=1), -T.sum(diff, axis=0)]


class CdistByOutputs(Cdist):

    def L_op(self, inputs, outputs, out_grads):
        x, y = inputs   # matrices of shape [mA, n] and [mB, n]]
        z, = outputs   # matrix of shape [mA, mB]
        g, = out_grads   # idem
        diff = x.dimshuffle(0, 'x', 1) - y.dimshuffle('x', 0, 1)   # [mA, mB, n] tensor
        diff = g.dimshuffle(0, 1, 'x') * diff / z.dimshuffle(0, 1, 'x')
        return [T.sum(diff, axis=1), -T.sum(diff, axis=0)]


class CDistGrad(theano.Op):
    __props__ = ()

    def make_node(self, x, y, g):
        x, y, g = map(T.as_tensor_variable, (x, y, g))
        return gof.Apply(self, [x, y, g], [x.type(), y.type()])

    def perform(self, node, inputs, output_storage):
        x, y, g = inputs
        diff = x[:, None] - y
        weighted = (g / distance.cdist(x, y))[:, :, None] * diff
        output_storage[0][0] = weighted.sum(axis=1)
        output_storage[1][0] = -weighted.sum(axis=0)

    def infer_shape(self, node, shapes):
        return shapes[:2]


class CdistByOp(Cdist):
    def grad(self, inputs, output_grads):
        return CDistGrad()(*inputs, *output_grads)


x, w = T.dmatrices('x', 'w')
weights = T.dmatrix('weights')
functions = {}
for kind in (CdistByInputs, CdistByOutputs, CdistByOp):
    cost = T.sum(weights * kind()(x, w))
    functions[kind.__name__] = theano.function(
        [x, w, weights], [kind()(x, w)] + theano.grad(cost, [x, w]))
