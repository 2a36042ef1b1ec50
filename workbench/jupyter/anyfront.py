"""The live graph in hosts that cannot load the extension, by anywidget.

anywidget keeps the whole text of a widget's code in the state of each widget, and
notebooks save that state. So the code here is a loader alone: it asks the kernel once
a page for the renderer, the script of `session/page.html`, and mounts it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from uuid import uuid4

from anywidget import AnyWidget
from traitlets import Unicode

from workbench.jupyter.widget import LinkedWidget
from workbench.session import Session
from workbench.session.html import read_renderer

VIEW = "application/vnd.jupyter.widget-view+json"
#: What the loader sends to be given the renderer.
REQUEST = "renderer"

#: Asked again after a second: before a comm has its own lane in the kernel, what it
#: says waits for the running cells, and later it does not.
LOADER = """\
const KEY = "workbench-renderer-%(version)s";
const load = model => new Promise(resolve => {
  const hear = (content, buffers) => {
    if (content?.type === "%(request)s") {
      stop();
      const code = new Blob([buffers[0]], { type: "text/javascript" });
      const address = URL.createObjectURL(code);
      globalThis[KEY] ??= import(address).finally(() => URL.revokeObjectURL(address));
      resolve(globalThis[KEY]);
    }
  };
  const ask = () => globalThis[KEY] ? (stop(), resolve(globalThis[KEY]))
    : model.send({ type: "%(request)s" });
  const timer = setInterval(ask, 1000);
  const stop = () => { clearInterval(timer); model.off("msg:custom", hear); };
  model.on("msg:custom", hear);
  ask();
});
async function render({ model, el }) {
  let removed = false, end = () => {};
  el.textContent = "Waits for the kernel. If there is none, run the cell.";
  load(model).then(({ mount }) => {
    el.textContent = "";
    if (!removed) end = mount({ model, el });
  });
  return () => { removed = true; end(); };
}
export default { render };
"""


class AnyGraphWidget(LinkedWidget, AnyWidget):
    """The live graph in VS Code, Colab, marimo and other hosts of anywidget."""

    _esm: str
    #: The same in all views of this widget, which share one line to the kernel.
    key = Unicode("").tag(sync=True)

    def __init__(self, session: Session, **settings: Any) -> None:
        self._renderer = read_renderer().encode()
        version = sha256(self._renderer).hexdigest()[:12]
        self._esm = LOADER % {"version": version, "request": REQUEST}
        super().__init__(session, key=uuid4().hex, **settings)

    def make_view(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what makes anywidget draw the graph; Colab needs the metadata."""
        made: Any = self._repr_mimebundle_()
        data, metadata = made
        return {VIEW: data[VIEW]}, metadata

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("type") == REQUEST:
            self.send({"type": REQUEST}, [self._renderer])
        else:
            super()._handle_custom_msg(content, buffers)
