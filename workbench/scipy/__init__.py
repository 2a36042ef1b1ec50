"""SciPy's names that NumPy cannot dispatch: `workbench.scipy.signal.convolve`.

SciPy's ufuncs take Tensors as they are (`scipy.special.erf(x)`); its plain
functions do not ask NumPy's protocols, so they stand here under the same names, one
module for each of SciPy's, for Tensors and arrays. Each is loaded when imported.
"""
