"""Old programs, unchanged: libraries whose names lead to this one.

`theano/` holds Theano's. Nothing here computes: every name is a line or three over
NumPy and the library.
"""
