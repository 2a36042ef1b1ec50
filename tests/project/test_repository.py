"""The files that a forge and a contributor read: they say what is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
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
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}
    assert project()["requires-python"] == f">={matrix['python'][0]}"
    commands = [step.get("run") for step in workflow["jobs"]["test"]["steps"]]
    assert "make test" in commands


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


def test_what_contributing_names_is_there() -> None:
    """Files and folders, and the targets of the Makefile."""
    paths = set(
        re.findall(
            r"`((?:workbench|extension|tests|notebooks)/[\w./*-]*)`", CONTRIBUTING
        )
    )
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not [*ROOT.glob(path)]] == []
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
        "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
        "binder", "extension", "notebooks", "pyproject.toml", "tests", "workbench",
    }  # fmt: skip
