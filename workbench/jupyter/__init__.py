"""Floor 7: the cell, the widget and the plots."""
