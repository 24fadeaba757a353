"""The project as a package: what it promises to those who install, cite, check or change it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from check import run_all
from readme_block import read_block

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)


def readme_block(name: str) -> str:
    return read_block((ROOT / "README.md").read_text(encoding="utf-8"), name)


def module_names(layers: list[str]) -> set[str]:
    return set(re.findall(r"\((\w+)\)", " ".join(layers)))


# --- one version, one citation -------------------------------------------------------------------


def test_version_is_the_newest_in_the_changelog_and_the_cited_one() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)[0]
    assert metadata.version("tensorplan") == newest
    assert citation()["version"] == newest


def test_citation_names_the_paper() -> None:
    cited = citation()
    assert cited["cff-version"] == "1.2.0"
    assert cited["title"] == "tensorplan"
    paper = cited["preferred-citation"]
    assert paper["title"] == (
        "On Query-efficient Planning in MDPs under Linear Realizability of the Optimal State-value "
        "Function"
    )
    assert [author["family-names"] for author in paper["authors"]] == [
        "Weisz",
        "Amortila",
        "Janzer",
        "Abbasi-Yadkori",
        "Jiang",
        "Szepesvári",
    ]
    assert (paper["year"], paper["volume"], paper["start"], paper["end"]) == (2021, 134, 4355, 4385)


# --- what is shipped -----------------------------------------------------------------------------


def test_wheel_ships_types_licence_and_command_and_nothing_beside_the_package(
    tmp_path: Path,
) -> None:
    built = run(
        *(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path), cwd=ROOT
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (scripts,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "tensorplan = tensorplan.cli:main" in archive.read(scripts).decode()
    assert "tensorplan/py.typed" in names
    assert "tensorplan/records.py" in names
    about = f"tensorplan-{PROJECT['project']['version']}.dist-info"
    assert f"{about}/licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"tensorplan", about}


def test_core_needs_three_packages() -> None:
    required = {
        re.split(r"\W", line)[0]
        for line in metadata.requires("tensorplan") or []
        if "extra ==" not in line
    }
    assert required == {"numpy", "scipy", "numba"}


# --- the commands in the README ------------------------------------------------------------------


def test_block_is_read_between_its_fences() -> None:
    text = "<!-- a -->\n```bash\none\n\ntwo\n```\n\n<!-- b -->\n\n```\nthree\n```\n"
    assert read_block(text, "a") == "one\n\ntwo\n"
    assert read_block(text, "b") == "three\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("no block", 0),
        ("<!-- a -->\n\nprose between\n\n```\none\n```\n", 0),
        ("<!-- a -->\n```\none\n```\n<!-- a -->\n```\ntwo\n```\n", 2),
    ],
)
def test_block_that_is_not_there_once_is_refused(text: str, count: int) -> None:
    with pytest.raises(ValueError, match=f"one block marked 'a', found {count}"):
        read_block(text, "a")


def test_readme_commands_make_their_own_environment() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("first-command", "test-command"):
        assert read_block(readme, name).startswith("python3 -m venv .venv && ")
    assert "tools/check.py" in read_block(readme, "test-command")


def test_continuous_integration_runs_the_command_in_the_readme(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in (".ci/run", "tools/readme_block.py"):
        (project / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, project / name)
    (project / ".venv").mkdir()
    seen = tmp_path / "seen"
    (project / "README.md").write_text(
        f"<!-- test-command -->\n```bash\nls -A > '{seen}'\nfalse\necho kept going\n```\n"
    )

    ran = run("bash", project / ".ci" / "run", cwd=tmp_path)

    assert ran.returncode == 1
    assert "\nkept going" not in ran.stdout
    assert seen.read_text().split() == [".ci", "README.md", "tools"]  # a copy, without .venv


# --- the one command that checks everything ------------------------------------------------------


@pytest.mark.parametrize(("status", "returncode"), [(0, 0), (3, 1)])
def test_check_fails_when_a_tool_fails_and_still_runs_the_next(
    status: int, returncode: int, capfd: pytest.CaptureFixture[str]
) -> None:
    first = [sys.executable, "-c", f"raise SystemExit({status})"]
    second = [sys.executable, "-c", "print('closing line')"]

    assert run_all({"first": first, "second": second}) == returncode

    printed = capfd.readouterr().out
    assert "\nclosing line\n" in printed
    assert f"\n{'FAILED' if status else 'passed'}  first (" in printed
    assert "\npassed  second (" in printed


def test_check_refuses_a_name_it_does_not_know() -> None:
    ran = run(sys.executable, "tools/check.py", "rust-check", cwd=ROOT)
    assert ran.returncode == 2
    assert "no such check: rust-check; choose from ruff-check" in ran.stderr


def test_the_checker_is_kept_apart_from_every_module_that_has_a_layer() -> None:
    layers, apart, *_ = PROJECT["tool"]["importlinter"]["contracts"]
    assert apart["layers"][-1] == "(checker)"
    assert module_names(apart["layers"]) == module_names(layers["layers"])


@pytest.mark.parametrize("marker", ["first-lines", "own-simulator", "other-simulators"])
def test_snippets_of_the_readme_run(marker: str) -> None:
    ran = run(sys.executable, "-W", "error", "-c", readme_block(marker), cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    printed = {
        "first-lines": ("0.99", "[0.99]"),
        "own-simulator": ("certified plan after", "[0.95]"),
        "other-simulators": ("certified 0\n", "[1.]\n"),
    }
    assert all(words in ran.stdout for words in printed[marker]), ran.stdout


def test_first_command_plans_and_prints_what_it_promises() -> None:
    words = readme_block("first-command").split(".venv/bin/tensorplan ")[1].split()
    ran = run(sys.executable, "-W", "error", "-m", "tensorplan", *words, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    for word in ("predicted   0.99\n", "achieved    0.99 ", "queries     111 "):
        assert word in ran.stdout
