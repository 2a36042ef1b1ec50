"""Jacobians row by row in a loop, Hessians, and products with them."""

import numpy as np
import theano
import theano.tensor as T

x = T.dvector('x')
y = x ** 2 * T.sin(x[::-1])
J, updates = theano.scan(lambda i, y, x: T.grad(y[i], x),
                         sequences=T.arange(y.shape[0]), non_sequences=[y, x])
jacobian = theano.function([x], J, updates=updates)
direct = theano.function([x], theano.gradient.jacobian(y, x))

cost = y.sum()
gy = T.grad(cost, x)
H, updates = theano.scan(lambda i, gy, x: T.grad(gy[i], x),
                         sequences=T.arange(gy.shape[0]), non_sequences=[gy, x])
hessian = theano.function([x], H, updates=updates)
hessian_direct = theano.function([x], theano.gradient.hessian(cost, x))

v = T.dvector('v')
vH = T.grad(T.sum(gy * v), x)
Hv = T.Rop(gy, x, v)
products = theano.function([x, v], [vH, Hv])

W = T.dmatrix('W')
V = T.dmatrix('V')
u = T.dvector('u')
line = T.dot(u, W)
JV = T.Rop(line, W, V)
JTu = T.Lop(line, W, v)
both = theano.function([W, V, u], JV), theano.function([v, u], JTu)
