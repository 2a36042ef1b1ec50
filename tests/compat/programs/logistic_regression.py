"""Two classes of points, told apart by a line that is fitted step by step."""

import numpy
import theano
import theano.tensor as T

rng = numpy.random.RandomState(3)
points, features, steps = 120, 4, 50
data = rng.randn(points, features)
labels = (data @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.randn(points) > 0).astype('float64')
first = 0.1 * rng.randn(features)

x = T.dmatrix("x")
y = T.dvector("y")
w = theano.shared(first, name="w")
b = theano.shared(0., name="b")

p = 1 / (1 + T.exp(-T.dot(x, w) - b))
prediction = p > 0.5
xent = -y * T.log(p) - (1 - y) * T.log(1 - p)
cost = xent.mean() + 0.01 * (w ** 2).sum()
gw, gb = T.grad(cost, [w, b])

train = theano.function(
    inputs=[x, y], outputs=[prediction, xent],
    updates=((w, w - 0.1 * gw), (b, b - 0.1 * gb)))
predict = theano.function(inputs=[x], outputs=prediction)

for step in range(steps):
    pred, err = train(data, labels)
right = (predict(data) == labels).mean()
weights, bias = w.get_value(), b.get_value()
