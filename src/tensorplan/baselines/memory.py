"""The planner that forgets nothing: graph search among all states it was ever shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tensorplan.local import Handle, LocalAccess
from tensorplan.records import Phase

_DECIMALS = 9
"""States whose features agree to so many decimals are taken for one."""

_Name = tuple[int, bytes]


@dataclass
class _Node:
    """A state that was shown.

    Attributes:
        handle: leads to the state, so that it can be asked about again.
        untried: available actions whose outcome is not known, in the order in which to try them.
        onward: where the tried actions lead, without those that end the episode.
        visited: whether the episode has been here.
        resting: an action that earns the highest reward and does not move, once it was seen.
    """

    handle: Handle
    untried: list[int]
    onward: dict[int, _Name] = field(default_factory=dict[int, _Name])
    visited: bool = False
    resting: int | None = None


class Memory:
    """Explores the graph of the states, and rests where resting earns the highest reward.

    Handles are opaque, so states are recognised by their stage and their features; two states
    with the same features are taken for one. Each action is tried once: made for deterministic
    processes. The budget of a call goes to the untried actions nearest to the present state; then
    the planner walks to the nearest state where it has not been or knows an untried action. Where
    stages do not show that an episode begins, make one for each episode.

    Args:
        seed: of the order in which the actions of a state are tried.
        budget: largest number of queries in a call.
    """

    def __init__(self, seed: int, budget: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._budget = budget
        self._nodes: dict[_Name, _Node] = {}
        self._last: tuple[_Name, int] | None = None
        self._rest: _Name | None = None

    @property
    def states(self) -> int:
        """Number of states that it tells apart."""
        return len(self._nodes)

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        """Spend the budget on what is near, then rest or walk on."""
        name = self._admit(access, here)
        self._nodes[name].visited = True
        self._learn_move(access, name)
        for index in range(self._budget):
            asked = self._nearest_untried(name)
            if asked is None:
                break
            self._try(access, asked, (call, index))
        action = self._choose(access, here, name)
        self._last = (name, action)
        return action

    def _admit(self, access: LocalAccess, handle: Handle) -> _Name:
        rounded = access.features(handle)[0].round(_DECIMALS) + 0.0
        name = (handle.stage, rounded.tobytes())
        if name not in self._nodes:
            order = self._rng.permutation(np.flatnonzero(access.allowed(handle)[0]))
            self._nodes[name] = _Node(handle, [int(action) for action in order])
        return name

    def _learn_move(self, access: LocalAccess, name: _Name) -> None:
        """The last action led here, unless the stage shows that it ended an episode."""
        if self._last is None:
            return
        before, action = self._last
        node = self._nodes[before]
        if action in node.untried:
            node.untried.remove(action)
            if access.spec.horizon is None or name[0] == before[0] + 1:
                node.onward[action] = name

    def _try(self, access: LocalAccess, name: _Name, key: tuple[int, ...]) -> None:
        node = self._nodes[name]
        action = node.untried.pop()
        stage = node.handle.stage
        step = access.advance(node.handle, stage, np.array([action]), phase=Phase.ACT, key=key)
        if step.terminated[0]:
            return
        node.onward[action] = self._admit(access, step.states)
        if node.onward[action] == name and step.rewards[0] >= access.spec.reward_range[1]:
            node.resting, self._rest = action, name

    def _choose(self, access: LocalAccess, here: Handle, name: _Name) -> int:
        if self._rest is not None:
            resting = self._nodes[name].resting
            step = resting if resting is not None else self._step_towards(name, self._rest)
            if step is not None:
                return step
        step = self._step_to_frontier(name)
        if step is not None:
            return step
        return int(self._rng.choice(np.flatnonzero(access.allowed(here)[0])))

    def _step_towards(self, name: _Name, target: _Name) -> int | None:
        """First action of a shortest known way to a state."""
        return next((first for reached, first in self._around(name) if reached == target), None)

    def _step_to_frontier(self, name: _Name) -> int | None:
        """First action of a shortest known way to what is new."""
        for reached, first in self._around(name):
            node = self._nodes[reached]
            if first is None and node.untried:
                return node.untried[-1]
            if first is not None and (node.untried or not node.visited):
                return first
        return None

    def _nearest_untried(self, name: _Name) -> _Name | None:
        reached = (reached for reached, _ in self._around(name))
        return next((name for name in reached if self._nodes[name].untried), None)

    def _around(self, name: _Name) -> Iterator[tuple[_Name, int | None]]:
        """Known states in the order of their distance, each with the first action towards it."""
        queue = deque[tuple[_Name, int | None]]([(name, None)])
        found = {name}
        while queue:
            reached, first = queue.popleft()
            yield reached, first
            for action, following in self._nodes[reached].onward.items():
                if following not in found:
                    found.add(following)
                    queue.append((following, action if first is None else first))
