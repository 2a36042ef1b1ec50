"""A recurrent network that reads its two last states, and three of its inputs."""

import numpy as np
import theano
import theano.tensor as T

rng = np.random.RandomState(11)
n_in, n_hid, steps = 2, 3, 7
W = theano.shared(rng.randn(n_hid, n_hid) * 0.4, name='W')
W_before = theano.shared(rng.randn(n_hid, n_hid) * 0.3, name='W_before')
W_in = theano.shared(rng.randn(3, n_in, n_hid) * 0.5, name='W_in')
W_out = theano.shared(rng.randn(n_hid) * 0.5, name='W_out')

u = T.matrix('u')      # one row per time
h0 = T.matrix('h0')    # the two first states
target = T.vector('target')


def step(u_before, u_now, u_next, h_before, h_last, W, W_before, W_in, W_out):
    h = T.tanh(T.dot(u_before, W_in[0]) + T.dot(u_now, W_in[1]) + T.dot(u_next, W_in[2])
               + T.dot(h_last, W) + T.dot(h_before, W_before))
    return h, T.dot(h, W_out)


(h, y), updates = theano.scan(
    step,
    sequences=dict(input=u, taps=[-1, 0, 1]),
    outputs_info=[dict(initial=h0, taps=[-2, -1]), None],
    non_sequences=[W, W_before, W_in, W_out],
    strict=True)
cost = ((y - target) ** 2).sum()
params = [W, W_before, W_in, W_out]
f = theano.function([u, h0, target], [cost, h] + T.grad(cost, params), updates=updates)
