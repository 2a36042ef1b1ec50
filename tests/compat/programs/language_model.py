"""Which symbol comes next: an embedding, gates in a loop, RMSprop."""

import numpy as np
import theano
import theano.tensor as T

rng = np.random.RandomState(0)
words, size = 8, 5


def weights(name, *shape):
    return theano.shared(rng.uniform(-0.3, 0.3, shape).astype(theano.config.floatX), name)


E, V = weights('E', size, words), weights('V', words, size)
U, W = weights('U', 3, size, size), weights('W', 3, size, size)
b, c = weights('b', 3, size), weights('c', words)
params = [E, V, U, W, b, c]
x, y = T.ivectors('x', 'y')


def step(word, state):
    e = E[:, word]
    update = T.nnet.hard_sigmoid(U[0].dot(e) + W[0].dot(state) + b[0])
    reset = T.nnet.sigmoid(U[1].dot(e) + W[1].dot(state) + b[1])
    fresh = T.tanh(U[2].dot(e) + W[2].dot(state * reset) + b[2])
    state = (T.ones_like(update) - update) * fresh + update * state
    return [T.nnet.softmax(V.dot(state) + c)[0], state]


[likely, states], _ = theano.scan(
    step, sequences=x, truncate_gradient=-1,
    outputs_info=[None, dict(initial=T.zeros(size))])
prediction = T.argmax(likely, axis=1)
error = T.sum(T.nnet.categorical_crossentropy(likely, y))
grads = T.grad(error, params)

rate, decay = T.scalars('rate', 'decay')
caches = [theano.shared(np.zeros(p.get_value().shape)) for p in params]
fresh_caches = [decay * m + (1 - decay) * g ** 2 for m, g in zip(caches, grads)]
train = theano.function(
    [x, y, rate, theano.In(decay, value=0.9)], [],
    updates=[(p, p - rate * g / T.sqrt(m + 1e-6))
             for p, g, m in zip(params, grads, fresh_caches)]
    + list(zip(caches, fresh_caches)))
loss = theano.function([x, y], error)
slopes = theano.function([x, y], grads)
predict = theano.function([x], prediction)

text = np.arange(7, dtype='int32')
start = [p.get_value() for p in params]
first = slopes(text[:-1], text[1:])
for epoch in range(150):
    train(text[:-1], text[1:], 0.01)
