"""``tensorplan verify``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from proof_reference import cases_proof, contraction_proof, empty_problem, sealed, solved

from tensorplan.cli import main


class Ran(NamedTuple):
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Ran:
        code = main(("verify", *arguments))
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a valid proof."""
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(cases_proof()), encoding="utf-8")
    return path


def test_proof_is_told_in_words(run: Run, path: Path) -> None:
    ran = run(str(path))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"{path}\n"
        "  verdict     accepted\n"
        "  proved      every allowed parameter predicts at most 0.75\n"
        "  norm bound  not used: the claim holds for parameters of any norm\n"
        "  point       a parameter that is allowed within 0.001 predicts 0.75\n"
        "  size        4 leaves, 2 splits, 1 derived claim\n"
    )


def test_proof_that_nothing_is_left_says_so_and_what_norm_it_needs(run: Run, path: Path) -> None:
    proof = solved(empty_problem(1))
    path.write_text(json.dumps(proof), encoding="utf-8")
    words = " ".join(run(str(path)).out.split())
    assert "proved no parameter is allowed" in words
    assert "norm bound used: the claim holds for norms of at most " in words
    assert "point" not in words


def test_json_has_the_whole_verdict(run: Run, path: Path) -> None:
    path.write_text(json.dumps(contraction_proof()), encoding="utf-8")
    ran = run(str(path), "--json")
    assert ran.code == 0
    assert json.loads(ran.out) == {
        "file": str(path),
        "accepted": True,
        "reason": None,
        "kind": "upper",
        "value": 2.0,
        "norm": 1e6,
        "norm_used": False,
        "norm_limit": None,
        "point_value": 2.0,
        "point_tolerance": 0.0,
        "leaves": 1,
        "splits": 0,
        "claims": 4,
    }


def test_false_proof_has_its_place_and_its_code(run: Run, path: Path) -> None:
    false = sealed(cases_proof() | {"claim": {"kind": "upper", "value": 0.7}})
    path.write_text(json.dumps(false), encoding="utf-8")
    ran = run(str(path))
    assert (ran.code, ran.err) == (1, "")
    words = " ".join(ran.out.split())
    assert "verdict rejected reason tree.children[0].children[0].bound: the bound that it" in words
    data = json.loads(run(str(path), "--json").out)
    assert (data["accepted"], data["kind"]) == (False, None)
    assert data["reason"].startswith("tree.children[0].children[0].bound: ")


@pytest.mark.parametrize(
    ("found", "put", "reason"),
    [
        (b"}$", b"", "file: is not JSON"),
        (b"^.*$", b"", "file: is not JSON"),
        (b"0\\.75", b"0.76", "digest: is not that of the rest"),
        (b"^", b"\xff\xfe", "file: byte 0 is not UTF-8 text"),
    ],
)
def test_damaged_file_is_a_false_proof(
    run: Run, path: Path, found: bytes, put: bytes, reason: str
) -> None:
    path.write_bytes(re.sub(found, put, path.read_bytes(), count=1))
    ran = run(str(path))
    assert (ran.code, ran.err) == (1, "")
    assert reason in " ".join(ran.out.split())


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_file_that_cannot_be_read_is_misuse(run: Run, tmp_path: Path, name: str) -> None:
    ran = run(str(tmp_path / name))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: argument FILE: ")
    assert ran.err.count("\n") == 1


def test_help_has_examples_and_codes(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    assert "\nexamples:\n  tensorplan verify proof.json\n" in ran.out
    assert "\n  1    a proof is false or damaged" in ran.out


def test_checker_runs_as_a_module_and_says_the_same(run: Run, path: Path) -> None:
    command = [sys.executable, "-m", "tensorplan.checker", str(path)]
    alone = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (alone.returncode, alone.stderr) == (0, "")
    said = [" ".join(line.split()) for line in run(str(path)).out.splitlines()[1:]]
    assert [line.replace(":", "", 1) for line in alone.stdout.splitlines()] == said
