"""A network of two layers, trained in float32 on batches by index, with momentum."""

import numpy as np
import theano
import theano.tensor as T

floatX = theano.config.floatX = 'float32'
rng = np.random.RandomState(5)
raw_x = rng.randn(60, 6).astype(floatX)
raw_y = (raw_x[:, 0] * raw_x[:, 1] > 0).astype('int32') + (raw_x[:, 2] > 1)


class Layer(object):
    def __init__(self, rng, input, n_in, n_out, activation=None):
        self.W = theano.shared(
            np.asarray(rng.uniform(-0.5, 0.5, (n_in, n_out)), dtype=floatX),
            name='W', borrow=True)
        self.b = theano.shared(np.zeros((n_out,), dtype=floatX), name='b', borrow=True)
        line = T.dot(input, self.W) + self.b
        self.output = line if activation is None else activation(line)
        self.params = [self.W, self.b]


def shared_dataset(data, labels):
    shared_x = theano.shared(np.asarray(data, dtype=floatX), borrow=True)
    shared_y = theano.shared(np.asarray(labels, dtype=floatX), borrow=True)
    return shared_x, T.cast(shared_y, 'int32')


train_x, train_y = shared_dataset(raw_x, raw_y)
index = T.lscalar()
x = T.matrix('x')
y = T.ivector('y')
batch_size = 20

hidden = Layer(rng, x, 6, 8, T.tanh)
top = Layer(rng, hidden.output, 8, 3)
params = hidden.params + top.params
p_y = T.nnet.softmax(top.output)
nll = -T.mean(T.log(p_y)[T.arange(y.shape[0]), y])
cost = nll + 0.001 * (abs(hidden.W).sum() + (top.W ** 2).sum())
errors = T.mean(T.neq(T.argmax(p_y, axis=1), y))
start = [p.get_value() for p in params]

updates = []
for param, grad in zip(params, T.grad(cost, params)):
    speed = theano.shared(param.get_value() * np.float32(0.))
    new = 0.9 * speed - 0.05 * grad
    updates.append((speed, new))
    updates.append((param, param + new))

train_model = theano.function(
    inputs=[index],
    outputs=cost,
    updates=updates,
    givens={
        x: train_x[index * batch_size: (index + 1) * batch_size],
        y: train_y[index * batch_size: (index + 1) * batch_size]
    }
)
test_model = theano.function([], errors, givens={x: train_x, y: train_y})

costs = []
for epoch in range(20):
    for i in range(3):
        costs.append(train_model(i))
wrong = test_model()
end = [p.get_value() for p in params]
