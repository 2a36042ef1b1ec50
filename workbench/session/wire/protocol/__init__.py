"""The types of all that travels between the kernel and the page, or is saved.

In `fields` are the kinds of fields, the limits and
the columns, in `snapshot` the picture of a session and what a notebook holds, in
`messages` what the kernel sends, in `events` what every page sends. What it may ask is
declared by the functions that answer, as `requests` says. `schema.py` writes all of it
as JSON Schema and checks data from outside by that; `extension/wire.py` writes the
schema and the types of the page, which checks what it gets by the same schema. A field
with a default may be absent.

Annotations are no strings in these modules: it takes five times as long to read them
as such.
"""
