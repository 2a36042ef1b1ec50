"""The doctor: which node is to blame for a gradient that is NaN, zero or exploding."""
