"""``%%autodiff``: the magic itself, its options under Tab, its display."""

from __future__ import annotations

from typing import Any

from IPython.core import error, magic

from workbench.core.tensor import MaskedTensor, Tensor
from workbench.errors import DtypeError, UsageError
from workbench.jupyter.cell import RUNTIME, Cell, complete_line, name_cells, parse_line
from workbench.session import Session


@magic.magics_class
class AutodiffMagics(magic.Magics):
    """The magics of Workbench."""

    raw: str | None = None

    @magic.no_var_expand
    @magic.output_can_be_silenced
    @magic.cell_magic
    def autodiff(self, line: str, cell: str) -> Any:
        """Run the cell, and keep its program with its gradient.

        Usage::

            %%autodiff [OUTPUT] [--wrt NAME ...] [--name NAME]
                       [--show PART ...] [--seed NAME] [--backend NAME]

        OUTPUT
            The variable to differentiate; left out: the cell's last expression.
        --wrt NAME ...
            What to differentiate by: variables of the notebook, or values that the
            cell computes. Left out: all float variables that reach the output.
        --name NAME
            The session's name in the notebook, by default ad.
        --show PART ...
            graph (by default), jacobian, hessian, check; or none.
        --seed NAME
            For an output of many numbers: the variable with its cotangent.
        --backend NAME
            What computes ad.run(...): numpy (by default), compiled, or auto.

        Float arrays and numbers that the cell reads become the inputs of a graph;
        afterwards the notebook holds what the cell would have left without the
        magic, and the session: ad.grads["W"], ad.value, ad["h"],
        ad.override("h", "clip(d, -1, 1)"), ad.undo(), ad.run(W=...),
        ad.jacobian(of, wrt), ad.hessian(wrt), ad.check(), ad.show().

        Example::

            %%autodiff loss --wrt W b --name model --show graph check
            h = np.tanh(X @ W + b)
            loss = np.mean((h - t) ** 2)
        """
        try:
            chosen = parse_line(line)
            shell: Any = self.shell
            old = shell.user_ns.get(chosen.name)
            run = Cell(shell, chosen, line, cell, self.raw)
            session, value = self._run(run)
        except (UsageError, DtypeError) as problem:
            if "_render_traceback_" in vars(problem):  # it has frames of the cell
                raise
            raise error.UsageError(str(problem)) from None
        from workbench.jupyter import display

        if isinstance(old, Session):
            display.close_picture(old)
        run.run_after(lambda: display.show_parts(session, chosen.show))
        return value

    def _run(self, run: Cell) -> tuple[Session, Any]:
        """Run a cell; on failure, show its program so far beneath the error."""
        try:
            return run.run()
        except Exception:
            if run.failure is not None and "graph" in run.options.show:
                from workbench.jupyter import display

                display.show_failure(run.failure, run.options.name)
            raise


def load(shell: Any) -> None:
    """Register the magic, its completions and the names of cells."""
    magics = AutodiffMagics(shell)
    shell.register_magics(magics)

    def completer(_: Any, event: Any) -> list[str]:
        return complete_line(event.text_until_cursor, shell.user_ns)

    def remember(info: Any) -> None:
        magics.raw = info.raw_cell

    def print_value(x: Tensor, printer: Any, cycle: bool) -> None:
        # In a cell display(h) shows what it shows without the magic.
        inside = RUNTIME.take_import is not None and x.value is not None
        printer.pretty(x.value) if inside else printer.text(repr(x))

    text = shell.display_formatter.formatters["text/plain"]
    text.for_type(Tensor, print_value)
    text.for_type(MaskedTensor, print_value)
    shell.set_hook("complete_command", completer, str_key="%%autodiff")
    shell.events.register("pre_run_cell", remember)
    name_cells(shell)
