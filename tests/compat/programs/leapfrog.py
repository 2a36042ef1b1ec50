"""Samples of a correlated normal law by Hamiltonian dynamics, with a step that adapts."""

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.shared_randomstreams import RandomStreams

streams = RandomStreams(seed=5)
centre = np.array([2., -1.])
covariance = np.array([[1., .6], [.6, 2.]])
precision = theano.shared(np.linalg.inv(covariance), name='precision')
place = theano.shared(np.random.RandomState(1).randn(200, 2), name='place')
step = theano.shared(np.asarray(.1), name='step')
accepted = theano.shared(np.asarray(.9), name='accepted')


def energy(at):
    off = at - centre
    return .5 * (T.dot(off, precision) * off).sum(axis=1)


def force(at):
    return -T.grad(energy(at).sum(), at)


def move(at, speed, h):
    speed = speed + h * force(at)
    return [at + h * speed, speed], {}


speed = streams.normal(size=place.shape)
half = speed + .5 * step * force(place)
(places, speeds), more = theano.scan(
    move, outputs_info=[dict(initial=place + step * half), dict(initial=half)],
    non_sequences=[step], n_steps=12)
assert not more
end = places[-1]
last = speeds[-1] + .5 * step * force(end)
gain = (energy(place) + .5 * (speed ** 2).sum(axis=1)
        - energy(end) - .5 * (last ** 2).sum(axis=1))
taken = T.exp(gain) >= streams.uniform(size=gain.shape)
rate = .9 * accepted + .1 * taken.mean(dtype=theano.scalar.upcast(taken.dtype, accepted.dtype))
sample = theano.function([], [], updates=[
    (place, T.switch(taken.dimshuffle(0, 'x'), end, place)),
    (step, T.clip(T.switch(accepted > .9, 1.02 * step, .98 * step), .001, .25)),
    (accepted, rate)])

seen = []
for turn in range(120):
    sample()
    if turn >= 40:
        seen.append(place.get_value())
