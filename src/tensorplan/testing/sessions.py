"""The rules of the paper's Appendix A oracle, which keeps its own state, and a check of them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from tensorplan.errors import SettingError, SimulatorError
from tensorplan.guards import checked_features, checked_masks, checked_step
from tensorplan.problem import Session, SessionData
from tensorplan.records import FloatArray, Step
from tensorplan.testing.compare import same_rows
from tensorplan.testing.probe import called, generator, judged
from tensorplan.testing.reports import Halt, Ledger, Report

RULES = {
    "runs": "every call returns",
    "shapes": "data(n) has features [d], rewards [A, n], next_features [A, n, d], allowed [A]",
    "rewards": "rewards are finite and within Spec.reward_range",
    "features": "features are finite and of norm at most 1",
    "masks": "a state of a running episode has an available action",
    "reset": "reset goes back to one and the same start, at stage 1",
    "movement": "data does not move",
    "fresh-noise": "asking for data again gives fresh noise",
    "deterministic": "data is always the same, as Spec.deterministic=True promises",
    "horizon": "an episode ends after the last stage at the latest, with features zero there",
    "termination": "no episode ends before the horizon, as Spec.may_terminate=False promises",
    "end": "after the end features are zero, and moving on changes nothing",
}

_ENDLESS_WALK = 50
_LONGEST_WALK = 1000
_AGAIN = 3
"""Times that data is asked for without moving."""


class _SessionExamination:
    """Random walks through a session, each from a reset."""

    def __init__(self, session: Session, ledger: Ledger, draws: int, seed: int) -> None:
        self._session, self._ledger = session, ledger
        self._draws, self._seed = draws, seed
        self._spec = called(ledger, "spec", lambda: session.spec)
        self._start: FloatArray | None = None
        self._differs = False
        if self._spec.may_terminate:
            ledger.skip("termination", "Spec.may_terminate=True: episodes may end at any stage")

    def episode(self, number: int) -> None:
        """One walk, from a reset to the end or to the limit."""
        rng = generator((self._seed, number))
        called(self._ledger, "reset", self._session.reset)
        horizon = self._spec.horizon
        for move in range(1, min(horizon or _ENDLESS_WALK, _LONGEST_WALK) + 1):
            data = self._look(move)
            if move == 1:
                self._judge_start(data)
            if self._forward(int(rng.choice(np.flatnonzero(data.allowed)))):
                if not self._spec.may_terminate and move != horizon:
                    self._ledger.break_("termination", f"an episode ended after stage {move}")
                self._judge_end()
                return
        if horizon is not None and horizon <= _LONGEST_WALK:
            self._ledger.break_("horizon", f"an episode goes on after stage {horizon}")

    def finish(self) -> None:
        """Judge what needs all episodes."""
        if self._spec.deterministic:
            self._ledger.skip("fresh-noise", "declared deterministic")
            broken = "data changed from one call to the next, without moving"
            self._ledger.judge("deterministic", broken if self._differs else None)
            return
        self._ledger.skip("deterministic", "not declared deterministic")
        if self._differs:
            self._ledger.hold("fresh-noise")
        else:
            self._ledger.skip("fresh-noise", "looks deterministic: declare it, or use more draws")

    def _look(self, move: int) -> SessionData:
        """Data of a running episode, asked for several times, judged."""
        first, *others = [self._data(f"stage {move}") for _ in range(_AGAIN)]
        for data in others:
            stays = np.array_equal(data.features, first.features)
            stays = stays and np.array_equal(data.allowed, first.allowed)
            broken = f"the features or the actions changed by asking for data at stage {move}"
            self._ledger.judge("movement", None if stays else broken)
            alike = same_rows(data.rewards, first.rewards)
            alike &= same_rows(data.next_features, first.next_features)
            self._differs = self._differs or not alike[first.allowed].all()
        mask = judged(
            self._ledger, "masks", lambda: checked_masks(first.allowed[None], 1, self._spec, move)
        )
        if mask is None:
            raise Halt
        if move == self._spec.horizon:
            beyond = np.any(first.next_features[first.allowed])
            broken = "next features after the last stage are not zero"
            self._ledger.judge("horizon", broken if beyond else None)
        self._judge_numbers(first, move)
        return first

    def _data(self, place: str) -> SessionData:
        data = called(self._ledger, f"data at {place}", lambda: self._session.data(self._draws))
        none = called(self._ledger, f"data(0) at {place}", lambda: self._session.data(0))
        told = np.array_equal(none.features, data.features)
        self._ledger.judge("features", None if told else "data(0) tells other features")
        whole = judged(self._ledger, "shapes", lambda: self._shaped(data))
        if whole is None:
            raise Halt
        return whole

    def _shaped(self, data: SessionData) -> SessionData:
        actions, dim = self._spec.actions, self._spec.dim
        wanted = {
            "features": (dim,),
            "rewards": (actions, self._draws),
            "next_features": (actions, self._draws, dim),
            "allowed": (actions,),
        }
        for name, shape in wanted.items():
            found = np.shape(getattr(data, name))
            if found != shape:
                raise SimulatorError(
                    f"{name} of shape {found}",
                    f"data({self._draws}) has {name} of shape {shape}",
                    "Return one row for each action, available or not.",
                )
        return data

    def _judge_numbers(self, data: SessionData, move: int) -> None:
        dim = self._spec.dim
        following = data.next_features[data.allowed].reshape(-1, dim)
        rows = np.concatenate([data.features[None], following])
        judged(
            self._ledger, "features", lambda: checked_features(rows, len(rows), self._spec, move)
        )
        self._judge_rewards(data.rewards[data.allowed].ravel(), move)

    def _judge_rewards(self, rewards: FloatArray, move: int) -> None:
        count = len(rewards)
        step = Step(rewards, np.zeros(count), np.zeros(count, np.bool_))
        judged(self._ledger, "rewards", lambda: checked_step(step, count, self._spec, move, None))

    def _judge_start(self, data: SessionData) -> None:
        if self._start is None:
            self._start = np.array(data.features)
            return
        same = np.array_equal(data.features, self._start)
        broken = "the features after a reset are not those of the start"
        self._ledger.judge("reset", None if same else broken)

    def _forward(self, action: int) -> bool:
        reward, ended = called(
            self._ledger, f"forward({action})", lambda: self._session.forward(action)
        )
        self._judge_rewards(np.array([reward], dtype=np.float64), 1)
        return bool(ended)

    def _judge_end(self) -> None:
        """After the end: zeros, and no way back but a reset."""
        if self._spec.horizon is not None:
            self._ledger.hold("horizon")
        for _ in range(2):
            data = self._data("the end")
            zero = not np.any(data.features) and not np.any(data.next_features)
            self._ledger.judge("end", None if zero else "features after the end are not zero")
            _, ended = called(
                self._ledger, "forward after the end", lambda: self._session.forward(0)
            )
            self._ledger.judge("end", None if ended else "an episode went on after its end")


def check_session(session: Session, *, draws: int = 8, episodes: int = 8, seed: int = 0) -> Report:
    """Walk through a session with random actions, and see whether it keeps its contract.

    Args:
        session: to be checked; it is left somewhere, reset it before use.
        draws: size of each sample of data.
        episodes: how many walks.
        seed: of the actions.

    Returns:
        A finding for each of the rules; what the session raises is a finding, too.
    """
    if draws < 1 or episodes < 2:
        raise SettingError(
            f"draws={draws}, episodes={episodes}",
            "a check needs at least 1 draw and 2 episodes",
            "Ask for more.",
        )
    ledger = Ledger(RULES)
    with suppress(Halt):
        examination = _SessionExamination(session, ledger, draws, seed)
        for number in range(episodes):
            examination.episode(number)
        examination.finish()
    return ledger.report()
