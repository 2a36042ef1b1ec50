"""Random variables: masks, streams that are seeded, kept and used again."""

import numpy as np
import theano
import theano.tensor as T
from theano.sandbox.rng_mrg import MRG_RandomStreams
from theano.tensor.shared_randomstreams import RandomStreams

srng = RandomStreams(seed=234)
rv_u = srng.uniform((2, 2))
rv_n = srng.normal((2, 2))
f = theano.function([], rv_u)
g = theano.function([], rv_n, no_default_updates=True)    # Not updating rv_n.rng
nearly_zeros = theano.function([], rv_u + rv_u - 2 * rv_u)

x = T.matrix('x')
W = theano.shared(np.ones((5, 3)), 'W')
mrg = MRG_RandomStreams(seed=1)
keep = 0.8
mask = mrg.binomial(x.shape, p=keep, n=1, dtype=theano.config.floatX)
dropped = x * mask / keep
cost = T.dot(dropped, W).sum()
train = theano.function([x], [mask, cost, T.grad(cost, W)])

normal = theano.function([], srng.normal((20000,), avg=3.0, std=0.5))
whole = theano.function([], srng.random_integers((2000,), low=1, high=6))
picked = theano.function([], mrg.multinomial(pvals=np.array([[0.2, 0.8, 0.0]] * 500)))
order = theano.function([], srng.permutation(n=6))
chosen = theano.function([], srng.choice((100,), a=3))
