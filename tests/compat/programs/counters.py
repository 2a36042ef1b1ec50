"""State that functions share; defaults; conditions; outputs by name."""

import numpy as np
import theano
import theano.tensor as T
from theano import In
from theano.ifelse import ifelse

state = theano.shared(0)
inc = T.iscalar('inc')
accumulator = theano.function([inc], state, updates=[(state, state + inc)])
decrementor = theano.function([inc], state, updates=[(state, state - inc)])
seen = [int(accumulator(1)), int(accumulator(300)), int(decrementor(2))]
state.set_value(-1)
seen += [int(accumulator(3)), int(state.get_value())]

foo = T.scalar(dtype=state.dtype)
skip_shared = theano.function([inc, foo], state * 2 + inc, givens=[(state, foo)])
skipped = int(skip_shared(1, 3)), int(state.get_value())

x, y, w = T.dscalars('x', 'y', 'w')
with_defaults = theano.function(
    [x, In(y, value=1), In(w, value=2, name='w_by_name')], (x + y) * w)
defaults = [float(with_defaults(33)), float(with_defaults(33, 0, 1)),
            float(with_defaults(33, w_by_name=1)), float(with_defaults(33, y=0))]

a, b = T.scalars('a', 'b')
lazy = ifelse(T.lt(a, b), T.exp(a), T.log(b))
chosen = theano.function([a, b], [lazy, T.grad(lazy, a)])

named = theano.function([x, y], {'sum': x + y, 'product': x * y})(2., 3.)

running = T.dscalar('running')
keeps = theano.function([x, In(running, value=0., update=running + x)], running + x)
kept = [float(keeps(1.)), float(keeps(2.)), float(keeps(3.))]
