"""Layers as classes, and rules of updates as functions that give ordered dicts."""

from collections import OrderedDict

import numpy as np
import theano
import theano.tensor as T

theano.config.floatX = 'float32'


class Layer(object):
    def __init__(self, input, n_in, n_out, rng, W=None, activation=T.tanh):
        if not W:
            W = theano.shared(
                np.asarray(rng.uniform(-.5, .5, (n_in, n_out)), theano.config.floatX),
                name='W', borrow=True)
        self.W = W
        self.b = theano.shared(np.zeros(n_out, theano.config.floatX), name='b')
        self.output = activation(T.dot(input, self.W) + self.b)
        self.params = [self.W, self.b]


class Network(object):
    def __init__(self, x, rng):
        self.hidden = Layer(x, 5, 4, rng)
        self.top = Layer(self.hidden.output, 4, 3, rng, activation=T.nnet.softmax)
        self.params = self.hidden.params + self.top.params
        self.choice = T.argmax(self.top.output, axis=1)

    def cost(self, y):
        return -T.mean(T.log(self.top.output)[T.arange(y.shape[0]), y])

    def errors(self, y):
        if y.ndim != self.choice.ndim:
            raise TypeError('one class per row', y.type, self.choice.type)
        if not y.dtype.startswith('int'):
            raise NotImplementedError()
        return T.mean(T.neq(self.choice, y))


def like(p):
    value = p.get_value(borrow=True)
    return theano.shared(np.zeros(value.shape, value.dtype), broadcastable=p.broadcastable)


def rmsprop(cost, params, rate=.01, rho=.9, epsilon=1e-6):
    updates = OrderedDict()
    for p, g in zip(params, theano.grad(cost, params)):
        seen = like(p)
        updates[seen] = rho * seen + (T.constant(1) - rho) * g ** 2
        updates[p] = p - rate * g / T.sqrt(updates[seen] + epsilon)
    return updates


def adam(cost, params, rate=.01, beta1=.9, beta2=.999, epsilon=1e-8):
    updates, one = OrderedDict(), T.constant(1)
    before = theano.shared(np.asarray(0., dtype=theano.config.floatX))
    t = before + 1
    scaled = rate * T.sqrt(one - beta2 ** t) / (one - beta1 ** t)
    for p, g in zip(params, theano.grad(cost, params)):
        m, v = like(p), like(p)
        updates[m] = beta1 * m + (one - beta1) * g
        updates[v] = beta2 * v + (one - beta2) * g ** 2
        updates[p] = p - scaled * updates[m] / (T.sqrt(updates[v]) + epsilon)
    updates[before] = t
    return updates


rng = np.random.RandomState(2)
raw = rng.randn(60, 5).astype(theano.config.floatX)
classes = (raw[:, 0] > 0).astype('int32') + (raw[:, 1] > 0)
shared_x = theano.shared(raw, borrow=True)
shared_y = T.cast(theano.shared(classes.astype(theano.config.floatX)), 'int32')
index, x, y = T.lscalar('index'), T.matrix('x'), T.ivector('y')
batch = {x: shared_x[20 * index:20 * (index + 1)], y: shared_y[20 * index:20 * (index + 1)]}

runs = {}
for rule in (rmsprop, adam):
    net = Network(x, np.random.RandomState(7))
    assert Layer(x, 5, 4, rng, W=net.hidden.W).W is net.hidden.W
    first = [p.get_value() for p in net.params]
    updates = rule(net.cost(y), net.params)
    assert all(new.dtype == old.dtype == 'float32' for old, new in updates.items())
    train = theano.function([index], net.cost(y), updates=updates, givens=batch)
    test = theano.function([index], net.errors(y), givens=batch)
    costs = [train(i % 3) for i in range(30)]
    runs[rule.__name__] = (first, costs, [p.get_value() for p in net.params],
                           np.mean([test(i) for i in range(3)]), str(net.params[0]))
