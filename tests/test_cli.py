"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

import tensorplan as tp
from tensorplan.cli import codes, main, output, progress
from tensorplan.cli import plan as plan_command
from tensorplan.cli.command import assignment, count
from tensorplan.records import IterationEvent, Status
from tensorplan.theory import Setting, bounds_table, scientific

COMMANDS = ("problems", "plan", "bounds")
BY_PAPER = ("--planner", "paper")
SMALL_STOCHASTIC = (
    *("random-tabular", "--set", "outcomes=2", "--set", "horizon=2", "--set", "dim=2"),
    *("--delta", "1"),
    *BY_PAPER,
)

USERS_FILE = '''
"""Problems of a user."""
from __future__ import annotations
from dataclasses import dataclass
import tensorplan as tp

KNOWN = 3

@dataclass
class Pay:
    each: float

def make(stages: int = 3, pay: float = 0.5, *, loud: bool = False):
    if loud:
        print("hello from the simulator")
    spec = tp.Spec(actions=2, dim=1, horizon=stages, bound=2.0 * stages, deterministic=True)
    return tp.from_functions(
        spec,
        start=lambda rng: 0,
        step=lambda s, h, a, rng: (Pay(pay).each if a else 0.0, 0, False),
        features=lambda s, h: [(stages - h + 1) / stages],
    )

def untyped(stages, pay=0.5, word="x"):
    assert isinstance(stages, int) and isinstance(pay, float) and word == "y"
    return make(stages, pay)

def discounted(gamma: float = 0.5):
    spec = tp.Spec(1, 1, None, discount=gamma, bound=2.0, deterministic=True)
    return tp.from_functions(
        spec, lambda rng: 0, lambda s, h, a, rng: (0.5, 0, False), lambda s, h: [0.5]
    )

def impossible():
    spec = tp.Spec(actions=1, dim=1, horizon=2, bound=1.0, deterministic=True)
    return tp.from_functions(  # values fall from stage to stage, and the feature does not
        spec, lambda rng: 0, lambda s, h, a, rng: (0.5, 0, False), lambda s, h: [0.5]
    )

def long_features():
    spec = tp.Spec(actions=1, dim=1, horizon=1, bound=1.0, deterministic=True)
    return tp.from_functions(
        spec, lambda rng: 0, lambda s, h, a, rng: (1.0, 0, False), lambda s, h: [7.0]
    )

def no_simulator():
    return {"spec": 3}
'''


class Ran(NamedTuple):
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Ran:
        code = main(arguments)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return call


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a user's file; what it adds to the path of imports goes away again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "users_problems.py"
    path.write_text(USERS_FILE, encoding="utf-8")
    for name in [name for name in sys.modules if "users_problems" in name]:
        monkeypatch.delitem(sys.modules, name)
    return path


def shell(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tensorplan", *arguments]
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)


def refused(ran: Ran) -> str:
    """The message of a misuse: one line on standard error, nothing on standard output."""
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    return ran.err


# --- help, version, exit codes -------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples_and_exit_codes(run: Run, command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert f"\nexamples:\n  tensorplan {command}" in ran.out
    assert "\nexit codes:\n" in ran.out


def test_help_lists_all_commands_and_codes(run: Run) -> None:
    text = run("--help").out
    for command in COMMANDS:
        assert f"\n    {command} " in text
    for code in codes.ExitCode:
        assert f"\n  {code.value:<4} " in text


def test_every_example_is_understood(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples parse; those that need no file of a user also name a problem that exists."""
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        lines = run(command, "--help").out.splitlines()
        for line in lines:
            if line.startswith("  tensorplan ") and "mine.py" not in line and "mypack" not in line:
                extra = ("--budget-queries", "300", "--quiet") if command == "plan" else ()
                assert run(*line.split()[1:], *extra).code != codes.ExitCode.MISUSE, line


def test_version_is_that_of_the_installed_package(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> str:
        return f"9.8 of {name}"

    monkeypatch.setattr(metadata, "version", installed)
    assert run("--version") == (0, "tensorplan 9.8 of tensorplan\n", "")


def test_version_without_installation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert run("--version").out == "tensorplan (not installed, run from its source)\n"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.CLEAN, 0),
        (Status.CERTIFIED, 0),
        (Status.REJECTED, 3),
        (Status.BUDGET, 4),
        (Status.CANCELLED, 4),
        (Status.ORACLE_GAP, 5),
    ],
)
def test_exit_code_of_a_status(status: Status, code: int) -> None:
    assert codes.exit_code(status) == code


def test_interruption_has_its_own_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_given: object, **_settings: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_command, "make_plan", interrupt)
    assert run("plan", "deep-sea", "--quiet") == (130, "", "interrupted\n")


def test_a_reader_that_leaves_early_is_no_crash() -> None:
    command = [sys.executable, "-m", "tensorplan", "problems"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_module_runs_as_a_program() -> None:
    ran = shell("plan", "deep-sea", "--set", "size=4", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "certified"
    assert "iteration 1:" in ran.stderr
    wrong = shell("plan", "deep-see")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr


# --- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("plam deep-sea", "Did you mean 'plan'?"),
        ("plan depe-sea", "Did you mean 'deep-sea'?"),
        ("problems depe-sea", "Did you mean 'deep-sea'?"),
        ("plan deep-sea --set sise=3", "'size'"),
        ("plan deep-sea --detla .1", "Did you mean '--delta'"),
        ("plan deep-sea --rule bst", "Did you mean 'best'?"),
        ("plan deep-sea --set size=big", "size must be an integer"),
        ("plan deep-sea --set size", "must be of the form name=value"),
        ("plan deep-sea --set size=3 --set size=4", "given twice, as 3 and 4"),
        ("plan deep-sea --set size=0", "size must be at least 1"),
        ("plan deep-sea --delta -1", "delta=-1.0"),
        ("plan deep-sea --planner paper --delta 100", "delta must be below"),
        ("plan deep-sea --norm nan", "norm=nan"),
        ("plan deep-sea --seed -1", "whole number of at least 0"),
        ("plan deep-sea --sizes 1,2", "three whole numbers"),
        ("plan deep-sea --sizes 1,2,0", "'0' must be a whole number of at least 1"),
        ("plan deep-sea --planner paper --horizon 3", "deep-sea is not discounted"),
        ("plan aggregated --set stochastic=true --planner paper --exact", "exact=True"),
        ("plan deep-sea --sizes 1,1,1", "plan with --planner paper"),
        ("plan deep-sea --keep-rolling", "--keep-rolling with --planner adaptive"),
        ("plan deep-sea --planner paper --compete optimal", "plan with --planner adaptive"),
        ("plan deep-sea --planner paper --proof p", "--proof with --planner paper"),
        ("plan deep-sea --compete best", "'realizable'"),
        ("plan deep-sea --confidence 1", "confidence=1.0"),
        ("plan deep-sea --eta -1", "misspecification=-1.0"),
        ("plan deep-sea --oracle highs", "oracle='highs'"),
        ("plan deep-sea --proof /absent/p.json", "argument --proof"),
        ("bounds --dim 2 --actions 2 --norm 1 --delta .5", "--horizon is required"),
        ("bounds --dim 0 --actions 2 --norm 1 --delta .5 --horizon 2", "--dim"),
        ("bounds --dim 2 --actions 2 --norm 1 --delta 3 --horizon 2", "below the horizon"),
        ("bounds --dim 2 --actions 2 --norm 1 --delta .5 --discount 1", "discount=1.0"),
        ("", "COMMAND"),
    ],
)
def test_misuse_is_told_in_one_line(run: Run, line: str, fragment: str) -> None:
    assert fragment in refused(run(*line.split()))


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("1e6", 10**6), ("1_000", 1000), ("2.0", 2), ("9" * 30, 10**30 - 1)],
)
def test_counts_are_read(text: str, number: int) -> None:
    assert count(1)(text) == number


def test_names_of_settings_may_have_dashes_and_values_equal_signs() -> None:
    assert assignment("move-cost=a=b") == ("move_cost", "a=b")


# --- plan: what it prints ------------------------------------------------------------------------


def test_plan_prints_what_is_known(run: Run) -> None:
    ran = run("plan", "deep-sea", "--set", "size=6", *BY_PAPER)
    assert ran.code == 0
    plan = tp.plan(tp.problems.make("deep-sea", size=6), delta=0.1, planner="paper")
    plan.play()
    lines = [line.split(maxsplit=1) for line in ran.out.splitlines() if line.strip()]
    said = {words[0]: words[-1] for words in reversed(lines)}
    assert said["status"] == "clean"
    assert said["settings"] == "size=6 features=compact seed=none"
    assert said["predicted"] == f"{plan.value_predicted:.6g}"
    assert said["achieved"] == "0.99 in 1 episode"
    assert said["reference"] == "0.99, the optimal value"
    assert said["lower"] == "0.99 <= value of this policy"
    assert said["confidence"] == "1"
    assert said["queries"].startswith(f"{plan.queries.total} (test ")
    assert f"{plan.queries.per_episode} in the dearest episode" in ran.out
    assert said["iterations"].startswith(f"{len(plan.events)}, ")
    assert said["oracle"].startswith("slabs, ")
    assert said["sizes"] == "n1=1 n2=1 n3=1"
    assert plan.status.advice in ran.out
    assert plan.certificate.grounds in " ".join(ran.out.split())
    assert all(text in " ".join(ran.out.split()) for text in plan.certificate.assumptions)


def test_plan_json_has_what_scripts_rely_on(run: Run) -> None:
    ran = run("plan", "deep-sea", "--set", "size=6", "--seed", "4", *BY_PAPER, "--json", "--quiet")
    data = ran.data
    plan = tp.plan(tp.problems.make("deep-sea", size=6), delta=0.1, planner="paper", seed=4)
    value = plan.play().mean()
    assert data.items() >= json.loads(json.dumps(plan.summary())).items()
    assert {"lower", "upper", "gap", "confidence", "assumptions"} <= data["certificate"].keys()
    assert data["queries"]["total"] == sum(
        spent for phase, spent in data["queries"].items() if phase not in ("total", "play")
    )
    assert math.isclose(data["value_achieved"], value)
    assert data["value_achieved_error"] is None
    assert math.isclose(data["value_reference"], 0.99)
    assert (data["problem"], data["seed"], data["planner"]) == ("deep-sea", 4, "paper")
    assert data["problem_settings"] == {"size": 6, "features": "compact", "seed": None}
    assert data["planner_settings"]["delta"] == 0.1
    assert data["episodes"] == 1


def test_plan_says_plainly_when_no_theorem_covers_it(run: Run) -> None:
    ran = run("plan", *SMALL_STOCHASTIC, "--sizes", "2,50,100")
    assert "none: no theorem covers this run: the sample sizes were given by hand" in ran.out
    assert " (standard error) in 20 episodes" in ran.out
    assert "theorem's sizes" not in ran.err


def test_settings_of_the_planner_reach_it(run: Run) -> None:
    chosen = "--norm 3 --errata printed --exact --rule remark --keep-rolling --return-test"
    budget = ("--budget-seconds", "0")
    data = run(
        "plan", "deep-sea", "--set", "size=3", *BY_PAPER, "--json", *chosen.split(), *budget
    ).data
    assert data["planner_settings"] == {
        "delta": 0.1,
        "norm": 3.0,
        "horizon": 3,
        "errata": "printed",
        "exact": True,
        "rule": "best",
        "early_exit": False,
        "return_test": True,
    }
    assert "best-action test" in data["certificate"]["grounds"]


def test_oracle_and_sizes_reach_the_planner(run: Run) -> None:
    pytest.importorskip("pyscipopt")
    data = run(
        "plan", "counterexample", *BY_PAPER, "--oracle", "product", "--sizes", "2,3,4", "--json"
    ).data
    assert data["oracle"] != "slabs"
    assert data["sizes"] == {"rollouts": 2, "test_draws": 3, "refine_draws": 4}


def test_same_seed_same_json_and_another_seed_another(run: Run) -> None:
    def ask(seed: str) -> str:
        return run("plan", *SMALL_STOCHASTIC, "--sizes", "3,50,500", "--json", "--seed", seed).out

    first = ask("1")
    assert ask("1") == first
    assert json.loads(ask("2"))["value_achieved"] != json.loads(first)["value_achieved"]
    error = json.loads(first)["value_achieved_error"]
    assert error is not None
    assert error > 0


# --- plan: budgets, episodes, outcomes -----------------------------------------------------------


def test_query_budget_ends_a_run_before_it_is_exceeded(run: Run) -> None:
    ran = run("plan", "deep-sea", "--budget-queries", "15", "--json", "--episodes", "0")
    assert ran.code == 4
    assert ran.data["status"] == "budget"
    assert 0 < ran.data["queries"]["total"] <= 15
    assert ran.data["value_achieved"] is None


def test_time_budget_ends_a_run_before_its_next_query(run: Run) -> None:
    ran = run("plan", "deep-sea", "--budget-seconds", "0", "--json")
    assert (ran.code, ran.data["status"], ran.data["iterations"]) == (4, "budget", 0)
    assert ran.data["queries"]["total"] == 0


def test_theorems_sizes_are_announced_and_nothing_unaffordable_is_played(run: Run) -> None:
    ran = run("plan", *SMALL_STOCHASTIC, "--budget-queries", "1e3")
    assert ran.code == 4
    assert "these are the theorem's sizes: at most" in ran.err
    assert "achieved    not played" in ran.out


def test_sizes_that_drown_in_noise_are_told_so(run: Run) -> None:
    few = run("plan", *SMALL_STOCHASTIC, "--sizes", "2,50,100")
    assert "a test may be off by" in few.err
    needed = few.err.split("n2=")[-1].split()[0]
    enough = run("plan", *SMALL_STOCHASTIC, "--sizes", f"1,{2 * float(needed):.0f},100")
    assert "a test may be off by" not in enough.err


def test_fewer_episodes_are_played_where_each_is_dear(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_command, "PLAY_QUERIES", 999)  # 2 stages x 2 actions x 50 draws: 4
    arguments = ("plan", *SMALL_STOCHASTIC, "--sizes", "2,50,100", "--json")
    assert run(*arguments).data["episodes"] == 4
    assert run(*arguments, "--episodes", "6").data["episodes"] == 6


def test_rejected_run_is_a_result_with_its_own_code(run: Run, users: Path) -> None:
    ran = run("plan", f"{users}:impossible", "--delta", "1e-3")
    assert ran.code == 3
    assert "No parameter is left" in ran.out
    assert "  lower       none\n" in ran.out
    data = run("plan", f"{users}:impossible", "--delta", "1e-3", "--json").data
    assert (data["status"], data["certificate"]["confidence"]) == ("rejected", 1.0)
    assert data["episodes"] == 0


# --- plan: progress ------------------------------------------------------------------------------


def event(iteration: int) -> IterationEvent:
    return IterationEvent(iteration, 1.5, 1.25, (0.0,), (0, 3), 12345, 6)


@pytest.mark.parametrize(("terminal", "told"), [(True, [1, 2, 3, 4, 5]), (False, [1, 2, 4])])
def test_progress_is_full_at_a_terminal_and_sparse_elsewhere(
    *,
    terminal: bool,
    told: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "watched", lambda: terminal)
    watch = progress.reporter()
    for iteration in range(1, 6):
        watch(event(iteration))
    lines = capsys.readouterr().err.splitlines()
    assert [int(line.split()[1][:-1]) for line in lines] == told
    assert lines[0] == (
        "iteration 1: upper 1.5, rollout 1 failed at stage 3, 12,345 queries, 6 nodes"
    )


def test_quiet_leaves_standard_error_empty(run: Run) -> None:
    assert run("plan", "deep-sea", "--quiet").err == ""
    assert run("plan", "deep-sea").err != ""


# --- problems of the user's own ------------------------------------------------------------------


def test_factory_in_a_file(run: Run, users: Path) -> None:
    ran = run("plan", "users_problems.py:make", "--set", "stages=2", "--set", "pay=1", "--json")
    assert ran.code == 0
    assert ran.data["problem_settings"] == {"stages": 2, "pay": 1.0}
    assert math.isclose(ran.data["value_achieved"], 2.0)
    assert ran.data["value_reference"] is None
    assert "reference" not in run("plan", f"{users}:make").out


@pytest.mark.usefixtures("users")
def test_factory_in_a_module_of_the_working_directory(run: Run) -> None:
    ran = run("plan", "users_problems:make", "--json")
    assert ran.data["problem"] == "users_problems:make"
    assert math.isclose(ran.data["value_achieved"], 1.5)


def test_factory_in_a_module_from_the_shell(users: Path) -> None:
    ran = shell("plan", "users_problems:make", "--quiet", cwd=users.parent)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "1.5 in 1 episode" in ran.stdout


def test_settings_without_annotations_are_read_by_their_look(run: Run, users: Path) -> None:
    given = ("--set", "stages=2", "--set", "pay=.25", "--set", "word=y")
    data = run("plan", f"{users}:untyped", *given, "--json").data
    assert data["problem_settings"] == {"stages": 2, "pay": 0.25, "word": "y"}


def test_what_a_simulator_prints_does_not_spoil_the_json(run: Run, users: Path) -> None:
    ran = run("plan", f"{users}:make", "--set", "loud=yes", "--json", "--quiet")
    assert ran.data["status"] == "certified"
    assert ran.err == "hello from the simulator\n"


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("users_problems.py:maek", "Did you mean 'make'?"),
        ("users_problems.py:KNOWN", "KNOWN is a int, not a factory"),
        ("users_problems.py:no_simulator", "returned a dict, which is no simulator: it lacks spec"),
        ("users_problems.py:untyped", "missing a required argument: 'stages'"),
        ("users_problems.py:long_features", "2-norm at most 1"),
        ("users_problems.py", "Write users_problems.py:FACTORY"),
        ("absent.py:make", "there is no file absent.py"),
        ("absent_module:make", "there is no module 'absent_module'"),
        ("users_problems.deeper:make", "there is no module 'users_problems.deeper'"),
        ("not a module:make", "neither module:factory nor path.py:factory"),
    ],
)
@pytest.mark.usefixtures("users")
def test_wrong_factory_is_told_in_one_line(run: Run, name: str, fragment: str) -> None:
    assert fragment in refused(run("plan", name, "--quiet"))


@pytest.mark.parametrize(
    ("given", "fragment"),
    [("stagse=2", "Did you mean 'stages'?"), ("stages=two", "stages must be an integer")],
)
def test_wrong_setting_of_a_factory_is_told_in_one_line(
    run: Run, users: Path, given: str, fragment: str
) -> None:
    assert fragment in refused(run("plan", f"{users}:make", "--set", given))


@pytest.mark.usefixtures("users")
def test_failing_import_inside_a_module_keeps_its_traceback(run: Run) -> None:
    Path("broken_problem.py").write_text("import surely_absent_package\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="surely_absent_package"):
        run("plan", "broken_problem:make")


def test_discounted_problem_is_cut_at_the_theorems_horizon_or_a_given_one(
    run: Run, users: Path
) -> None:
    default = run("plan", f"{users}:discounted", *BY_PAPER, "--json", "--delta", ".5")
    setting = "--dim 1 --actions 1 --norm 2 --delta .5 --discount .5"
    bounds = run("bounds", *setting.split(), "--json")
    assert default.code == 0
    assert default.data["planner_settings"]["horizon"] == bounds.data["corrected"]["H"]
    assert math.isclose(default.data["value_achieved"], 1.0, abs_tol=1e-4)
    given = run(
        "plan",
        f"{users}:discounted",
        *BY_PAPER,
        "--json",
        "--delta",
        ".5",
        "--horizon",
        "2",
        "--episodes",
        "1",
    )
    assert given.data["planner_settings"]["horizon"] == 2
    # The cut changes values by far more than the tests let pass.
    assert (given.code, given.data["value_achieved"]) == (3, None)
    assert math.isclose(given.data["truncation"], 0.5)
    text = run("plan", f"{users}:discounted", *BY_PAPER, "--delta", ".5", "--horizon", "2").out
    assert "cut after 2 stages, which changes a value by at most 5.00e-1" in text


def test_discounted_problem_is_planned_directly_by_the_adaptive_planner(
    run: Run, users: Path
) -> None:
    data = run("plan", f"{users}:discounted", "--json", "--delta", ".05").data
    assert (data["status"], data["truncation"]) == ("certified", None)
    assert math.isclose(data["value_achieved"], 1.0, abs_tol=0.025)
    assert data["certificate"]["lower"] <= 1.0 <= data["certificate"]["upper"]
    assert data["certificate"]["gap"] <= 0.05


# --- problems ------------------------------------------------------------------------------------


def test_every_family_is_listed_with_its_reference(run: Run) -> None:
    text = " ".join(run("problems").out.split())
    data = run("problems", "--json").data["problems"]
    assert [each["name"] for each in data] == list(tp.problems.names())
    for each in data:
        assert each["reference"] == tp.problems.reference(each["name"])
        assert " ".join(each["summary"].split()) in text
        assert " ".join(each["realizable"].split()) in text
        defaults = {key: setting["default"] for key, setting in each["settings"].items()}
        assert defaults == tp.problems.defaults(each["name"])


def test_one_family_in_full(run: Run) -> None:
    ran = run("problems", "deep-sea")
    family = tp.problems.family("deep-sea")
    assert ran.code == 0
    assert family.features in " ".join(ran.out.split())
    assert "features  compact  'compact' or 'one-hot'\n" in ran.out
    assert "0.99 at the defaults" in ran.out
    data = run("problems", "deep-sea", "--json").data
    assert data["settings"]["seed"] == {
        "default": None,
        "type": "int",
        "optional": True,
        "options": [],
    }
    assert "It has no settings." in run("problems", "counterexample").out


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ((2, 2, 2, 1, 0.5), ("1.08e3", "5.0e4", "4.6e6", "6.4e14", "1.4e18")),
        ((2, 2, 5, 1, 0.5), ("1.23e3", "3.4e5", "3.3e7", "5.2e18", "1.3e22")),
        ((4, 2, 10, 2, 1), ("3.61e3", "1.0e6", "1.4e8", "9.0e20", "6.5e24")),
        ((5, 3, 5, 1, 0.5), ("4.30e4", "4.5e5", "7.7e7", "7.4e25", "9.6e30")),
        ((10, 2, 20, 5, 2), ("1.91e4", "5.7e6", "1.4e9", "3.1e23", "1.2e28")),
    ],
)
def test_bounds_give_the_reference_values(
    run: Run, setting: tuple[float, ...], expected: tuple[str, ...]
) -> None:
    names = ("--dim", "--actions", "--horizon", "--norm", "--delta")
    given = [text for pair in zip(names, map(str, setting), strict=True) for text in pair]
    lines = [line.split() for line in run("bounds", *given).out.splitlines() if line]
    shown = {words[0]: float(words[2]) for words in lines[3:]}
    data = run("bounds", *given, "--json").data
    for symbol, text in zip(("E_d", "n1", "n2", "n3", "queries"), expected, strict=True):
        digits = len(text.partition("e")[0]) - 2
        assert (
            f"{data['corrected'][symbol]:.{digits}e}".replace("e+0", "e").replace("e+", "e") == text
        )
        assert math.isclose(shown[symbol], data["corrected"][symbol], rel_tol=0.006)


def test_bounds_json_is_exact_in_its_integers(run: Run) -> None:
    given = "--dim 5 --actions 3 --horizon 5 --norm 1 --delta .5 --json"
    data = run("bounds", *given.split()).data
    table = {row.name: row for row in bounds_table(Setting(5, 3, 5, 1.0, 0.5))}
    for column in ("printed", "corrected"):
        assert data[column]["queries"] == getattr(table["query_bound"], column)
        assert isinstance(data[column]["queries"], int)
        assert data[column]["epsilon"] == float(getattr(table["epsilon"], column))
    assert data["corrected"]["n3"] != data["printed"]["n3"]
    assert (data["dim"], data["horizon"], data["discount"]) == (5, 5, None)


def test_bounds_of_a_discounted_problem_have_three_horizons(run: Run) -> None:
    given = "--dim 2 --actions 2 --norm 1 --delta .5 --discount .9"
    lines = [line.split() for line in run("bounds", *given.split()).out.splitlines() if line]
    shown = {words[0]: words[1:3] for words in lines[2:]}
    assert shown["H"] == ["3.74e3", "374"]
    assert shown["H_direct"] == ["-", "33"]
    data = run("bounds", *given.split(), "--json", "--horizon", "7").data
    assert data["horizon"] is None
    assert (data["corrected"]["H"], data["printed"]["H_direct"]) == (374, None)


def test_numbers_beyond_any_reader_become_text(run: Run) -> None:
    given = "bounds --dim 2 --actions 200 --horizon 2 --norm 1 --delta .5 --json"
    data = run(*given.split()).data["corrected"]
    table = {row.name: row.corrected for row in bounds_table(Setting(2, 200, 2, 1.0, 0.5))}
    assert float(table["epsilon"]) == 0
    assert data["epsilon"] == scientific(table["epsilon"])
    assert isinstance(data["n3"], int)
    assert output.plain({"n3": 3 * 10**4300}) == {"n3": "3.00e4300"}


def test_json_has_null_where_it_has_no_number() -> None:
    given = {"a": float("inf"), "b": (float("nan"), 1.5, None), "c": {1: -float("inf")}}
    assert output.plain(given) == {"a": None, "b": [None, 1.5, None], "c": {"1": None}}
