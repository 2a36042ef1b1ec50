"""Theano's modules, and where each is found here."""

from __future__ import annotations

from workbench.compat.namespace import ForeignNamespace
from workbench.compat.theano.variables import begin, end

#: Where each module of Theano's is found, from the package on.
PLACES = """
    compile compile.builders compile.debugmode compile.function_module compile.io
    compile.mode compile.monitormode compile.nanguardmode compile.ops compile.pfunc
    compile.sharedvalue config configparser gof gof.fg gof.graph gof.null_type gof.op
    gof.type gof.utils gradient ifelse printing sandbox sandbox.rng_mrg scalar
    scalar.basic scan_module scan_module.scan_utils scan_module.scan_views sparse tensor
    tensor.basic tensor.elemwise tensor.extra_ops tensor.nlinalg tensor.nnet
    tensor.nnet.abstract_conv tensor.nnet.bn tensor.nnet.conv
    tensor.nnet.nnet tensor.nnet.sigm tensor.opt tensor.random tensor.raw_random
    tensor.shared_randomstreams tensor.sharedvar tensor.signal tensor.signal.conv
    tensor.signal.downsample tensor.signal.pool tensor.slinalg tensor.subtensor
    tensor.type updates
""".split()

#: Modules whose name is a function's here: what they held is found there.
ELSEWHERE = {"tensor.var": "tensor"}

NAMESPACE = ForeignNamespace(
    "theano", __name__.rpartition(".")[0], PLACES, ELSEWHERE, begin, end
)
