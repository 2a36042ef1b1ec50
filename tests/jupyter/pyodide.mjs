// Runs tests/jupyter/browser_program.py in Pyodide, without a browser:
//   node pyodide.mjs RUNTIME CHECKOUT PACKAGES
// RUNTIME is a folder of Pyodide with its wheels, PACKAGES one with packages of plain
// Python, from which what Pyodide has not is taken.
import { pathToFileURL } from "node:url";

// Node would print the line of the runtime that threw: a megabyte.
process.on("uncaughtException", error => {
  console.error(String(error.message).slice(-4000));
  process.exit(1);
});
const [runtime, checkout, packages] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${runtime}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: `${runtime}/` });
const quiet = { messageCallback: () => undefined };
await python.loadPackage(["numpy", "scipy", "ipython"], quiet);
for (const [name, root] of [["/checkout", checkout], ["/packages", packages]]) {
  python.FS.mkdirTree(name);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, name);
}
await python.runPythonAsync(`
import json, sys

import numpy as np

sys.path.append("/checkout")
sys.path.append("/packages")

# Older NumPys lack some functions of the array standard; nothing here calls them.
def make_stand_in(name):
    def absent(*arguments, **settings):
        raise NotImplementedError(name)
    absent.__name__ = name
    return absent

for name in ("cumulative_prod", "cumulative_sum", "matvec", "unstack", "vecmat"):
    if not hasattr(np, name):
        setattr(np, name, make_stand_in(name))

from tests.jupyter import browser_program

print(json.dumps(await browser_program.main()))
`);
