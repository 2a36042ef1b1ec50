"""The JupyterLab under test: an empty folder, no token, this machine only."""

# ruff: noqa: F821 (Jupyter runs this file with the configuration `c` at hand)
from jupyterlab.galata import configure_jupyter_server

configure_jupyter_server(c)
c.ServerApp.allow_root = True  # tests run as root in containers
c.ServerApp.ip = "127.0.0.1"
c.LabApp.news_url = None  # no toast over the page
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.Application.log_level = "ERROR"
c.JupyterNotebookApp.expose_app_in_browser = True  # where Notebook 7 is installed
