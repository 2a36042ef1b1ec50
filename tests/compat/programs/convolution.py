"""A layer of filters and pooling, and its gradient."""

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.nnet import conv2d
from theano.tensor.signal.pool import pool_2d

rng = np.random.RandomState(2)
images = T.tensor4('images')
W = theano.shared(rng.randn(2, 3, 3, 2), name='W')
b = theano.shared(rng.randn(2), name='b')
line = conv2d(images, W)
pooled = pool_2d(line, (2, 2), ignore_border=True)
out = T.tanh(pooled + b.dimshuffle('x', 0, 'x', 'x'))
cost = (out ** 2).sum()
layer = theano.function([images], [line, pooled, out, cost] + T.grad(cost, [W, b]))
half = theano.function([images], conv2d(images, W, border_mode='half', subsample=(2, 1)))
full = theano.function([images], conv2d(images, W, border_mode='full', filter_flip=False))
partial = theano.function([images], pool_2d(images, (2, 2), ignore_border=False))
average = theano.function(
    [images], pool_2d(images, (3, 2), ignore_border=True, stride=(1, 2),
                      mode='average_exc_pad', pad=(1, 1)))
