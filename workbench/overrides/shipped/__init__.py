"""The rules that come with Workbench; `workbench.rules` is their public face."""
