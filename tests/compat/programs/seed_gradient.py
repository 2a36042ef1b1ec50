"""The toolbox of gradients, as its documentation shows it."""

import numpy as np
import numpy
import theano

rng = np.random.RandomState(7)
xrange = range  # Python 2's

x, t = theano.tensor.fvector('x'), theano.tensor.fvector('t')
w1 = theano.shared(rng.randn(3,4))
w2 = theano.shared(rng.randn(4,2))
a1 = theano.tensor.tanh(theano.tensor.dot(x,w1))
a2 = theano.tensor.tanh(theano.tensor.dot(a1,w2))
cost2 = theano.tensor.sqr(a2 - t).sum()
cost2 += theano.tensor.sqr(w2.sum())
cost1 = theano.tensor.sqr(w1.sum())

params = [[w2],[w1]]
costs = [cost2,cost1]
grad_ends = [[a1], [x]]

next_grad = None
param_grads = []
for i in xrange(2):
    param_grad, next_grad = theano.subgraph_grad(
        wrt=params[i], end=grad_ends[i],
        start=next_grad, cost=costs[i]
    )
    next_grad = dict(zip(grad_ends[i], next_grad))
    param_grads.extend(param_grad)

layered = theano.function([x, t], param_grads)
cost = theano.function([x, t], cost1 + cost2)

# A gradient that is clipped on its way back.
from theano.gradient import grad_clip
x = theano.tensor.scalar()

z = theano.tensor.grad(grad_clip(x, -1, 1)**2, x)
z2 = theano.tensor.grad(x**2, x)

f = theano.function([x], outputs = [z, z2])

clipped = f(2.0)

# A gradient that is checked.
from theano.gradient import verify_grad
verify_grad(theano.tensor.tanh,
            (numpy.asarray([[2,3,4], [-1, 3.3, 9.9]]),),
            rng=numpy.random)
