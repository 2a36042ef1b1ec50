"""Loops of every kind: powers, sums, stops, counters, maps, folds, in both modes."""

import numpy as np
import theano
import theano.tensor as T

k = T.iscalar("k")
A = T.vector("A")
result, updates = theano.scan(fn=lambda prior, A: prior * A,
                              outputs_info=T.ones_like(A),
                              non_sequences=A,
                              n_steps=k)
power = theano.function(inputs=[A, k], outputs=result[-1], updates=updates)
power_slope = theano.function([A, k], T.grad(result[-1].sum(), A))

coefficients = theano.tensor.vector("coefficients")
x = T.scalar("x")
terms, updates = theano.scan(
    fn=lambda c, i, x: c * (x ** i),
    outputs_info=None,
    sequences=[coefficients, theano.tensor.arange(10000)],
    non_sequences=x)
polynomial = theano.function(inputs=[coefficients, x], outputs=terms.sum())


def double_until(previous, limit):
    return previous * 2, theano.scan_module.until(previous * 2 > limit)


limit = T.scalar("limit")
values, _ = theano.scan(double_until, outputs_info=T.constant(1.),
                        non_sequences=limit, n_steps=1024)
doubled = theano.function([limit], values)

total = theano.shared(0)
n = T.iscalar("n")
_, counted = theano.scan(lambda: {total: total + 2}, n_steps=n)
count = theano.function([n], [], updates=counted)

v = T.vector("v")
squares, _ = theano.map(lambda e: e ** 2, sequences=v)
added, _ = theano.reduce(lambda e, acc: acc + e, sequences=v, outputs_info=T.constant(0.))
left, _ = theano.foldl(lambda e, acc: 2 * acc + e, v, T.constant(0.))
right, _ = theano.foldr(lambda e, acc: 2 * acc + e, v, T.constant(0.))
folds = theano.function([v], [squares, added, left, right])

rows, _ = theano.scan(lambda a: theano.scan(lambda e: e * a, sequences=v)[0], sequences=v)
outer = theano.function([v], rows)

backward, _ = theano.scan(lambda e, acc: acc + e, sequences=v,
                          outputs_info=T.constant(0.), go_backwards=True)
from_the_end = theano.function([v], backward)
