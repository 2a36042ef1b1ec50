"""The files that a forge and a contributor read: they say what is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.project import release
from tests.run import PARTS

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def validate(schema: str, *files: Path) -> None:
    """Validate files by the schema of a service, of those that come with the tool."""
    # Its import takes a second: once, and here alone.
    import check_jsonschema
    from click.testing import CliRunner

    command = ["--builtin-schema", schema, *map(str, files)]
    answer = CliRunner().invoke(check_jsonschema.main, command)
    assert answer.exit_code == 0, answer.output


def test_workflows_and_issue_forms_are_what_the_forge_reads() -> None:
    """They cannot run here; their schemas can."""
    validate("vendor.github-workflows", *ROOT.glob(".github/workflows/*.yml"))
    validate("vendor.github-issue-config", ROOT / ".github/ISSUE_TEMPLATE/config.yml")
    validate("vendor.citation-file-format", ROOT / "CITATION.cff")
    forms = [path for path in FORMS if path.name != "config.yml"]
    assert len(forms) == 3
    validate("vendor.github-issue-forms", *forms)


def test_a_wrong_workflow_is_found(tmp_path: Path) -> None:
    wrong = (ROOT / ".github/workflows/tests.yml").read_text()
    path = tmp_path / "tests.yml"
    path.write_text(wrong.replace("runs-on:", "runs-at:"))
    with pytest.raises(AssertionError, match="runs-on"):
        validate("vendor.github-workflows", path)


def test_the_workflow_runs_every_python_that_the_package_says() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    matrix = workflow["jobs"]["python"]["strategy"]["matrix"]
    assert tuple(matrix["python"]) == release.PYTHONS
    assert project()["requires-python"] == f">={release.PYTHONS[0]}"
    language = "Programming Language :: Python :: 3."
    said = [x for x in project()["classifiers"] if x.startswith(language)]
    assert [x.rpartition(" ")[2] for x in said] == [*release.PYTHONS]


def test_the_workflows_run_every_part_of_the_tests() -> None:
    text = (ROOT / ".github/workflows/tests.yml").read_text()
    parts = re.findall(r"tests/run\.py (.+)", text)
    named = {name for part in parts for name in part.split()}
    assert named == PARTS.keys() - {"long"}
    assert "make test-long" in text
    for path in WORKFLOWS:
        for script in re.findall(r"python (tests/[\w/]+\.py)", path.read_text()):
            assert (ROOT / script).exists()
        for target in re.findall(r"run: make ([\w-]+)$", path.read_text(), re.M):
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_actions_are_pinned_to_a_commit_and_name_its_version() -> None:
    """Who takes over an action can move its tags, and then runs what he wants here."""
    used = [
        line
        for path in WORKFLOWS
        for line in re.findall(r"uses: (.*)", path.read_text())
    ]
    assert len(used) > 10
    pinned = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_hooks_are_local_and_name_tools_that_make_test_installs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())[
        "repos"
    ]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert set(hooks) == {"ruff-check", "ruff-format", "mypy", "eslint"}
    tools = " ".join(project()["optional-dependencies"]["test"])
    for hook in hooks.values():
        assert hook["language"] == "system"
        tool = re.match(r"\.venv/bin/(\w+)", hook["entry"])
        assert tool is None or tool[1] in tools


def list_recipes() -> dict[str, str]:
    """The files that CONTRIBUTING names as recipes, with their texts."""
    table = CONTRIBUTING.partition("its recipe")[2].partition("\n\n")[0]
    files = re.findall(r"`([\w/]+/(?:__init__\.py|README\.md))`", table)
    return {file: (ROOT / file).read_text() for file in files}


def test_what_contributing_names_is_there() -> None:
    """Files and folders, also those of the recipes, and targets of the Makefile."""
    path = r"`((?:workbench|extension|tests|notebooks)/[\w./*-]*)`"
    recipes = list_recipes()
    assert len(recipes) == 5
    for file, text in {"CONTRIBUTING.md": CONTRIBUTING, **recipes}.items():
        paths = set(re.findall(path, text))
        home = (ROOT / file).parent
        assert [
            path
            for path in sorted(paths)
            if not [*ROOT.glob(path)] and not (home / path).exists()
        ] == []
        modules = set(re.findall(r"`(\w+\.py)`", text)) if file in recipes else set()
        assert [
            name
            for name in sorted(modules)
            if not (home / name).exists()
            and not any([*(ROOT / top).rglob(name)] for top in ("workbench", "tests"))
        ] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`?make ([\w-]+)", CONTRIBUTING))
    assert {"lab", "test", "test-long", "tutorials"} <= targets
    assert [name for name in targets if f"\n{name}:" not in makefile] == []


def test_contributing_shows_every_room() -> None:
    rooms = {path.parent.name for path in ROOT.glob("workbench/*/__init__.py")}
    pages = {path.name for path in ROOT.glob("extension/src/*") if path.is_dir()}
    named = set(re.findall(r"`(\w+)/`", CONTRIBUTING))
    assert rooms | pages <= named


def test_the_changelog_keeps_its_form() -> None:
    """As Keep a Changelog says: versions, newest first, with their kinds of change."""
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.M)
    assert versions[0] == ("Unreleased", "")
    assert all(date for _, date in versions[1:])
    kinds = set(re.findall(r"^### (\w+)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def project() -> dict[str, object]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["project"]


def test_the_top_level_is_what_the_project_says() -> None:
    """A file that a test or a tool left there, and someone committed, is found."""
    answer = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        pytest.skip("no git checkout")
    top = {name.split("/")[0] for name in answer.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} == {
        "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile",
        "README.md", "binder", "extension", "notebooks", "pyproject.toml",
        "tests", "workbench",
    }  # fmt: skip
