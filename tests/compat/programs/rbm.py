"""A machine of visible and hidden units: a chain of draws in a loop, and a step."""

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.shared_randomstreams import RandomStreams

rng = np.random.RandomState(4)
streams = RandomStreams(8)
v = T.matrix('v')
W = theano.shared(rng.randn(6, 4) * 0.1, name='W')
vbias = theano.shared(np.zeros(6), name='vbias')
hbias = theano.shared(np.zeros(4), name='hbias')
params = [W, vbias, hbias]


def draw(mean):
    return streams.binomial(size=mean.shape, n=1, p=mean, dtype=theano.config.floatX)


def hidden(visible):
    return T.nnet.sigmoid(T.dot(visible, W) + hbias)


def around(h):
    mean = T.nnet.sigmoid(T.dot(h, W.T) + vbias)
    visible = draw(mean)
    return [mean, visible, draw(hidden(visible))]


def free_energy(visible):
    inner = T.sum(T.nnet.softplus(T.dot(visible, W) + hbias), axis=1)
    return -inner - T.dot(visible, vbias)


(means, visibles, hiddens), updates = theano.scan(
    around, outputs_info=[None, None, draw(hidden(v))], n_steps=3)
end = visibles[-1]
cost = T.mean(free_energy(v)) - T.mean(free_energy(end))
for param, grad in zip(params, T.grad(cost, params, consider_constant=[end])):
    updates[param] = param - T.cast(0.2, theano.config.floatX) * grad
monitor = T.mean((means[-1] - v) ** 2)
train = theano.function([v], [cost, monitor, end], updates=updates)

patterns = np.array([[1., 1., 1., 0., 0., 0.], [0., 0., 0., 1., 1., 1.]] * 10)
before = W.get_value()
history = [train(patterns) for epoch in range(150)]
