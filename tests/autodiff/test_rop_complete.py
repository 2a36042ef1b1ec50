"""C7: every op of the seed's two lists has its test."""

from __future__ import annotations

from tests.autodiff import test_rop_missing, test_rop_supported

#: The ops of the seed, each with the test that shows it.
SEED = """
SpecifyShape MaxAndArgmax Subtensor IncSubtensor SetSubtensor Alloc Dot Elemwise Sum
Softmax Shape Join Rebroadcast Reshape Flatten DimShuffle Scan Split ARange
ScalarFromTensor AdvancedSubtensor1 AdvancedIncSubtensor1 AdvancedIncSubtensor
PermuteRowElements Tile AdvancedSubtensor TensorDot Outer Prod MulWithoutZeros
ProdWithoutZeros CAReduce
""".split()


def test_C7_every_op_of_the_lists_has_its_test() -> None:
    shown = {**vars(test_rop_supported), **vars(test_rop_missing)}
    for name in SEED:
        assert f"test_C7_{name}" in shown
