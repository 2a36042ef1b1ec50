"""Old programs are run by their tests, and are no tests themselves."""

collect_ignore_glob = ["programs/*"]
