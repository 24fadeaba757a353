"""Best-first search over which action is consistent at which critical state (theory B3).

A node fixes the slab of some states; its relaxation is the convex problem over the ball, the cuts
and those slabs (:mod:`tensorplan.oracle.node`). The open leaf with the largest bound is expanded
at a state that its optimum violates; when it violates none, its value is the answer. Children
cover the disjunction of their state, so the largest bound of the open leaves is valid at any time,
and stays valid when the set shrinks: the tree is kept, and a leaf learns of new rows when it
is popped.

The order breaks ties by depth, which matters on plateaus of equal bounds; reported bounds are never
touched by it. Of several violated states the one is split whose children promise the least work
(strong branching), and more are tried as long as none moves the bound.

Every function is plain Python over arrays; compiled code uses the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensorplan.oracle.arrays import (
    ACTIONS,
    CLOSED,
    ENTRIES,
    EXPANSIONS,
    FLAT,
    FREE,
    HEAP,
    LOOKS,
    NODES,
    SOLVES,
    STAMP,
    STATES,
    Face,
    Problem,
    Tree,
)
from tensorplan.oracle.node import (
    EMPTY,
    MANY,
    SOLVED,
    UNDECIDED,
    Solve,
    copy_face,
    keep_positive,
    load_face,
    load_flat,
    make_face,
    make_solve,
    solve_flat,
    solve_slabs,
)
from tensorplan.oracle.primitives import copy_vector, most_broken, scan_cuts, slab_excess
from tensorplan.records import FloatArray, IntArray

GROW, PAUSED, FOUND, EXHAUSTED = range(4)
"""Why a run returned: out of room, enough solves, the best is known, no leaf is left to expand."""

SATISFIED = 1e-9
"""How far outside its slabs a parameter may be, in units of the ball, and count as consistent."""

GAP, TIE, INCUMBENT, CEILING = range(4)
"""Positions in ``Search.levels``: gap, weight of depth in the order, value of the best point, and
the bound that the search has come down to."""

SOLVE_LIMIT, TRIALS, LOOK_STEPS, ALONE, SIZE, STALLED = range(6)
"""Positions in ``Search.limits``: solves after which to pause; states to try in a split; rows that
may enter in a try; slabs of a single node that is to be solved, -1 to search; how many of its
rows have a multiplier; and how many leaves were expanded since the bound last came down."""

_MORE_TRIALS = 3
"""How many times more states are tried while no split moves the bound."""

_PLATEAU = 30
"""Leaves expanded under one bound, after which it is taken for that of a plateau."""

_PLATEAU_TRIALS = 12
"""States to try in a split on a plateau, each child solved to the end: what tells splits apart
there is which children are empty, and a look does not see that."""

_MOVED = 1e-7
"""By how much a bound comes down that is not taken for the same."""


class Bank(NamedTuple):
    """Relaxations of the children of a split.

    Attributes:
        status: [A].
        theta: [A, d].
        rows: [A, d + 1].
        multipliers: [A, d + 1].
        active: [A].
        bound: [A].
        radius: [A].
    """

    status: IntArray
    theta: FloatArray
    rows: IntArray
    multipliers: FloatArray
    active: IntArray
    bound: FloatArray
    radius: FloatArray


class Search(NamedTuple):
    """Scratch space of a search, its limits, and the best point that it has seen.

    Attributes:
        face: active rows of the node at hand.
        trial: active rows of a child.
        work: scratch of node solves.
        path: [K + 1], rows of the node at hand.
        decided: [K], whether the node at hand has chosen a slab of a state.
        excess: [K A], how far theta is outside each slab.
        violation: [K], of the undecided states.
        here: children of the split at hand.
        best: children of the best split.
        levels: [4], see the positions above.
        limits: [6], see the positions above.
        point: [d], the best point.
    """

    face: Face
    trial: Face
    work: Solve
    path: IntArray
    decided: IntArray
    excess: FloatArray
    violation: FloatArray
    here: Bank
    best: Bank
    levels: FloatArray
    limits: IntArray
    point: FloatArray


def make_bank(width: int, dim: int) -> Bank:
    """An empty bank for A children."""
    whole, real = np.zeros(width, np.int64), np.zeros(width)
    return Bank(
        status=whole,
        theta=np.zeros((width, dim)),
        rows=np.zeros((width, dim + 1), np.int64),
        multipliers=np.zeros((width, dim + 1)),
        active=whole.copy(),
        bound=real,
        radius=real.copy(),
    )


def make_search(dim: int, states: int, width: int, cuts: int, rows: int) -> Search:
    """Scratch space for a problem of a given size."""
    return Search(
        face=make_face(dim),
        trial=make_face(dim),
        work=make_solve(dim, cuts, rows),
        path=np.zeros(states + 1, np.int64),
        decided=np.zeros(states + 1, np.int64),
        excess=np.zeros(states * width + 1),
        violation=np.zeros(states + 1),
        here=make_bank(width, dim),
        best=make_bank(width, dim),
        levels=np.zeros(4),
        limits=np.zeros(6, np.int64),
        point=np.zeros(dim),
    )


def sift_up(tree: Tree, position: int) -> None:
    """Move a heap entry up to where it belongs."""
    key, entry = tree.key[position], tree.entry[position]
    while position > 0:
        above = (position - 1) // 2
        if tree.key[above] >= key:
            break
        tree.key[position], tree.entry[position] = tree.key[above], tree.entry[above]
        position = above
    tree.key[position], tree.entry[position] = key, entry


def sift_down(tree: Tree, position: int) -> None:
    """Move a heap entry down to where it belongs."""
    size = tree.counts[HEAP]
    key, entry = tree.key[position], tree.entry[position]
    while True:
        below = 2 * position + 1
        if below >= size:
            break
        if below + 1 < size and tree.key[below + 1] > tree.key[below]:
            below += 1
        if tree.key[below] <= key:
            break
        tree.key[position], tree.entry[position] = tree.key[below], tree.entry[below]
        position = below
    tree.key[position], tree.entry[position] = key, entry


def push(tree: Tree, slot: int, key: float) -> None:
    """Add a slot to the heap."""
    position = tree.counts[HEAP]
    tree.key[position], tree.entry[position] = key, slot
    tree.counts[HEAP] = position + 1
    sift_up(tree, position)


def pop(tree: Tree) -> int:
    """Take the slot with the largest key off the heap."""
    slot = tree.entry[0]
    last = tree.counts[HEAP] - 1
    tree.counts[HEAP] = last
    if last > 0:
        tree.key[0], tree.entry[0] = tree.key[last], tree.entry[last]
        sift_down(tree, 0)
    return int(slot)


def order_key(tree: Tree, search: Search, slot: int) -> float:
    """What orders a leaf: its bound, deeper first among equals."""
    return tree.bound[slot] + search.levels[TIE] * tree.depth[tree.node[slot]]


def take_slot(tree: Tree) -> int:
    """A slot that is not in use."""
    left = tree.counts[FREE] - 1
    tree.counts[FREE] = left
    return int(tree.free[left])


def release(tree: Tree, slot: int) -> None:
    """Put a slot back, and take its node out of the open leaves."""
    tree.slot[tree.node[slot]] = -1
    tree.free[tree.counts[FREE]] = slot
    tree.counts[FREE] += 1


def add_node(tree: Tree, parent: int, choice: int) -> int:
    """A new node under a parent; -1 for the root."""
    node = tree.counts[NODES]
    tree.counts[NODES] = node + 1
    tree.parent[node], tree.choice[node] = parent, choice
    tree.depth[node] = tree.depth[parent] + 1 if parent >= 0 else 0
    tree.slot[node] = -1
    return node


def log_closed(tree: Tree, node: int, rows: IntArray, multipliers: FloatArray, size: int) -> None:
    """Keep the proof that a node holds no parameter."""
    leaf, end = tree.counts[CLOSED], tree.counts[ENTRIES]
    for k in range(size):
        if multipliers[k] != 0.0:
            tree.closed_rows[end], tree.closed_multipliers[end] = rows[k], multipliers[k]
            end += 1
    tree.closed_node[leaf], tree.closed_end[leaf] = node, end
    tree.counts[CLOSED], tree.counts[ENTRIES] = leaf + 1, end


def trace_path(problem: Problem, tree: Tree, node: int, search: Search) -> int:
    """Write the rows in force of a node's path, mark its states as decided; its depth."""
    for i in range(problem.sizes[STATES]):
        search.decided[i] = 0
    depth = 0
    while tree.parent[node] >= 0:
        state, action = tree.choice[node] // ACTIONS, tree.choice[node] % ACTIONS
        search.decided[state] = 1
        if problem.current[state, action] >= 0:
            search.path[depth] = problem.current[state, action]
            depth += 1
        node = tree.parent[node]
    return depth


def still_optimal(problem: Problem, search: Search, depth: int) -> bool:
    """Whether the theta in ``work`` satisfies all rows in force of its node."""
    work = search.work
    _, broken, _ = scan_cuts(problem, work.theta, work.active, work.excess, work.near)
    _, excess = most_broken(problem, search.path, depth, work.theta, work.active)
    return bool(max(broken, excess) <= SATISFIED)


def resolve(problem: Problem, tree: Tree, search: Search, slot: int, depth: int) -> bool:
    """Solve the relaxation of a leaf whose path has been traced; False if it is empty."""
    tree.counts[SOLVES] += 1
    work = search.work
    rows, multipliers, size = tree.rows[slot], tree.multipliers[slot], tree.active[slot]
    count = load_face(problem, rows, multipliers, size, search.face, work)
    t = tree.radius[slot]
    status, size = solve_slabs(problem, search.path, depth, search.face, count, t, MANY, work)
    return keep_answer(problem, tree, slot, work, status, size)


def keep_answer(
    problem: Problem, tree: Tree, slot: int, work: Solve, status: int, size: int
) -> bool:
    """Write the answer in ``work`` to a leaf, whose bound only ever falls; False if it is empty."""
    if status == EMPTY:
        log_closed(tree, tree.node[slot], work.rows, work.multipliers, size)
        return False
    tree.stamp[slot] = problem.sizes[STAMP]
    copy_vector(work.theta, tree.theta[slot])
    tree.radius[slot] = work.best[1]
    if work.best[0] < tree.bound[slot]:
        tree.bound[slot] = work.best[0]
        tree.active[slot] = size
        for k in range(size):
            tree.rows[slot, k], tree.multipliers[slot, k] = work.rows[k], work.multipliers[k]
    return True


def refresh(problem: Problem, tree: Tree, search: Search, slot: int) -> bool:
    """Bring the relaxation of a leaf up to date with the rows in force; False if it is empty."""
    work = search.work
    depth = trace_path(problem, tree, tree.node[slot], search)
    copy_vector(tree.theta[slot], work.theta)
    if tree.stamp[slot] >= 0 and still_optimal(problem, search, depth):
        tree.stamp[slot] = problem.sizes[STAMP]
        return True
    if problem.sizes[FLAT] == 0 or depth == 0:
        return resolve(problem, tree, search, slot, depth)
    tree.counts[SOLVES] += 1
    count = load_flat(problem, search.path, depth - 1, search.face, work)
    status, size, _ = solve_flat(problem, search.face, count, search.path[depth - 1], work)
    return keep_answer(problem, tree, slot, work, status, size)


def predict(problem: Problem, theta: FloatArray) -> float:
    """<c, theta>."""
    value = 0.0
    for j in range(len(theta)):
        value += problem.objective[j] * theta[j]
    return value


def find_violated(problem: Problem, search: Search) -> int:
    """How far the theta in ``work`` is outside each undecided state; how many are violated."""
    slab_excess(problem, search.work.theta, search.excess)
    width = problem.current.shape[1]
    found = 0
    for i in range(problem.sizes[STATES]):
        search.violation[i] = 0.0
        if search.decided[i] == 0 and problem.actions[i] > 0:
            least = math.inf
            for a in range(width):
                least = min(least, search.excess[i * width + a])
            if least > SATISFIED:
                search.violation[i] = least
                found += 1
    return found


def thicken(problem: Problem, tree: Tree, search: Search, slot: int, depth: int) -> None:
    """Solve a leaf of exact data with the thickness of its slabs.

    Where a flat all but touches the ball, or rows are nearly parallel, that much moves the optimum.
    """
    resolve(problem, tree, search, slot, depth)
    copy_vector(tree.theta[slot], search.work.theta)


def next_candidate(problem: Problem, search: Search) -> int:
    """The most violated state that was not tried yet; it is taken off the list."""
    state = 0
    for i in range(problem.sizes[STATES]):
        if search.violation[i] > search.violation[state]:
            state = i
    search.violation[state] = 0.0
    return state


def keep_child(
    tree: Tree, work: Solve, bank: Bank, slot: int, action: int, status: int, size: int
) -> float:
    """Write the answer in ``work`` into a bank; the child's bound, -inf if it is empty.

    A child that could not be bounded better than its parent keeps the parent's proof.
    """
    bank.status[action] = status
    bank.radius[action] = work.best[1]
    copy_vector(work.theta, bank.theta[action])
    if status != EMPTY and work.best[0] >= tree.bound[slot]:
        size = tree.active[slot]
        bank.bound[action] = tree.bound[slot]
        for k in range(size):
            bank.rows[action, k] = tree.rows[slot, k]
            bank.multipliers[action, k] = tree.multipliers[slot, k]
    else:
        bank.bound[action] = -math.inf if status == EMPTY else work.best[0]
        for k in range(size):
            bank.rows[action, k], bank.multipliers[action, k] = work.rows[k], work.multipliers[k]
    bank.active[action] = size
    return bank.bound[action]


def on_plateau(search: Search) -> bool:
    """Whether many leaves were expanded while the bound stayed where it is."""
    return bool(search.limits[STALLED] > _PLATEAU)


def note_bound(tree: Tree, search: Search, slot: int) -> None:
    """Note the bound of the leaf that is expanded next."""
    if tree.bound[slot] < search.levels[CEILING] - _MOVED:
        search.levels[CEILING] = tree.bound[slot]
        search.limits[STALLED] = 0
    search.limits[STALLED] += 1


def split_work(bound: float, ceiling: float, scale: float) -> float:
    """Guess of the work under a child, relative to a child that does not move the bound."""
    if bound == -math.inf:
        return 0.0
    return math.exp((bound - ceiling) / scale)


def try_split(
    problem: Problem,
    tree: Tree,
    search: Search,
    slot: int,
    depth: int,
    count: int,
    state: int,
    limit: float,
) -> float:
    """Solve the children of a split; the guess of their work, inf once it is over the limit."""
    width = problem.current.shape[1]
    ceiling, t = tree.bound[slot], tree.radius[slot]
    steps = MANY if on_plateau(search) else search.limits[LOOK_STEPS]
    scale = max(1e-6, 0.02 * abs(ceiling))
    work = 0.0
    for action in range(width):
        search.here.status[action] = EMPTY
        search.here.bound[action] = -math.inf
        search.here.active[action] = -1
        row = problem.current[state, action]
        if row < 0:
            continue
        copy_face(search.face, count, search.trial)
        search.path[depth] = row
        if problem.sizes[FLAT] == 1:
            status, size, _ = solve_flat(problem, search.trial, count, row, search.work)
            status = SOLVED if status == UNDECIDED else status
        else:
            face, path = search.trial, search.path
            status, size = solve_slabs(problem, path, depth + 1, face, count, t, steps, search.work)
        tree.counts[LOOKS if status == UNDECIDED else SOLVES] += 1
        bound = keep_child(tree, search.work, search.here, slot, action, status, size)
        work += split_work(bound, ceiling, scale)
        if work >= limit:
            return math.inf
    return work


def copy_bank(source: Bank, target: Bank) -> None:
    """Copy the children of a split."""
    for action in range(len(source.status)):
        target.status[action], target.active[action] = source.status[action], source.active[action]
        target.bound[action], target.radius[action] = source.bound[action], source.radius[action]
        copy_vector(source.theta[action], target.theta[action])
        for k in range(source.active[action]):
            target.rows[action, k] = source.rows[action, k]
            target.multipliers[action, k] = source.multipliers[action, k]


def choose_split(
    problem: Problem, tree: Tree, search: Search, slot: int, depth: int, violated: int
) -> int:
    """The state to split a leaf at; its children are left in ``best``."""
    work = search.work
    if problem.sizes[FLAT] == 1:
        count = load_flat(problem, search.path, depth, search.face, work)
    else:
        rows, multipliers = tree.rows[slot], tree.multipliers[slot]
        count = load_face(problem, rows, multipliers, tree.active[slot], search.face, work)
        count = keep_positive(search.face, count, tree.radius[slot], work)
    chosen, least, tried = -1, math.inf, 0
    trials = _PLATEAU_TRIALS if on_plateau(search) else search.limits[TRIALS]
    while tried < violated:
        state = next_candidate(problem, search)
        guess = try_split(problem, tree, search, slot, depth, count, state, least)
        tried += 1
        if guess < least:
            chosen, least = state, guess
            copy_bank(search.here, search.best)
        if least == 0.0 or tried >= _MORE_TRIALS * trials:
            break
        if tried >= trials and (trials == 1 or least < 0.9):
            break
    return chosen


def open_children(problem: Problem, tree: Tree, search: Search, node: int, state: int) -> None:
    """Make the children in ``best`` nodes of the tree, and open those that are not empty."""
    bank, width = search.best, problem.current.shape[1]
    for action in range(width):
        if bank.active[action] < 0:
            continue
        child = add_node(tree, node, state * ACTIONS + action)
        size = bank.active[action]
        if bank.status[action] == EMPTY:
            log_closed(tree, child, bank.rows[action], bank.multipliers[action], size)
            continue
        slot = take_slot(tree)
        tree.slot[child], tree.node[slot] = slot, child
        copy_vector(bank.theta[action], tree.theta[slot])
        tree.bound[slot], tree.radius[slot] = bank.bound[action], bank.radius[action]
        # A child that was only looked at is solved when it comes to the top.
        tree.stamp[slot] = -1 if bank.status[action] == UNDECIDED else problem.sizes[STAMP]
        tree.active[slot] = size
        for k in range(size):
            tree.rows[slot, k] = bank.rows[action, k]
            tree.multipliers[slot, k] = bank.multipliers[action, k]
        push(tree, slot, order_key(tree, search, slot))


def is_full(tree: Tree, width: int) -> bool:
    """Whether the arrays may not hold the children of one more split."""
    counts, dim = tree.counts, tree.theta.shape[1]
    return (
        counts[NODES] + width > len(tree.parent)
        or counts[FREE] < width
        or counts[CLOSED] + width + 1 > len(tree.closed_node)
        or counts[ENTRIES] + (width + 1) * (dim + 1) > len(tree.closed_rows)
    )


def any_undecided(problem: Problem, search: Search) -> int:
    """Some state that the node at hand has not decided; -1 if there is none."""
    for i in range(problem.sizes[STATES]):
        if search.decided[i] == 0 and problem.actions[i] > 0:
            search.violation[i] = 1.0
            return i
    return -1


def accept(problem: Problem, tree: Tree, search: Search, slot: int) -> None:
    """Take the consistent theta of a leaf for the best point, if it is; put the leaf back."""
    value = predict(problem, search.work.theta)
    if value > search.levels[INCUMBENT]:
        search.levels[INCUMBENT] = value
        copy_vector(search.work.theta, search.point)
    # NOTE: a leaf whose bound is not reached by its own theta cannot be improved any more.
    # One that is goes back without its bonus for depth, which would bring it up again at once.
    reached = tree.bound[slot] <= value + search.levels[GAP]
    push(tree, slot, tree.bound[slot] if reached else -math.inf)


def expand(problem: Problem, tree: Tree, search: Search, slot: int) -> None:
    """Split a leaf that is off the heap, or put it back if its theta is consistent."""
    node = tree.node[slot]
    depth = trace_path(problem, tree, node, search)
    copy_vector(tree.theta[slot], search.work.theta)
    violated = find_violated(problem, search)
    if violated == 0 and problem.sizes[FLAT] == 1:
        gained = tree.bound[slot] - predict(problem, search.work.theta)
        if gained > search.levels[GAP]:
            thicken(problem, tree, search, slot, depth)
            violated = find_violated(problem, search)
    if violated == 0:
        if still_optimal(problem, search, depth):
            accept(problem, tree, search, slot)
            return
        if any_undecided(problem, search) < 0:
            push(tree, slot, -math.inf)
            return
        violated = 1
    tree.counts[EXPANSIONS] += 1
    note_bound(tree, search, slot)
    state = choose_split(problem, tree, search, slot, depth, violated)
    release(tree, slot)
    open_children(problem, tree, search, node, state)


def solve_alone(problem: Problem, search: Search) -> int:
    """Solve the node whose slabs stand in ``search.path``; its status."""
    depth = search.limits[ALONE]
    face, path = search.face, search.path
    status, size = solve_slabs(problem, path, depth, face, 0, 1.0, MANY, search.work)
    search.limits[SIZE] = size
    return status


Runner = Callable[[Problem, Tree, Search], int]


def make_run(sources: str = "") -> Runner:
    """The search as a function.

    Args:
        sources: what compiled code is cached under, beside this file.
    """

    def run(problem: Problem, tree: Tree, search: Search) -> int:
        """Expand leaves until the best point is known, none is left, or it is time to pause."""
        width, _ = problem.current.shape[1], sources
        if search.limits[ALONE] >= 0:
            return solve_alone(problem, search)
        while True:
            known = -math.inf
            if search.levels[INCUMBENT] > -math.inf:
                known = search.levels[INCUMBENT] + search.levels[GAP]
            if tree.counts[HEAP] == 0 or tree.key[0] == -math.inf:
                return FOUND if known > -math.inf else EXHAUSTED
            if tree.key[0] <= known:
                return FOUND
            if is_full(tree, width):
                return GROW
            if tree.counts[SOLVES] >= search.limits[SOLVE_LIMIT]:
                return PAUSED
            slot = pop(tree)
            if tree.stamp[slot] < problem.sizes[STAMP]:
                if not refresh(problem, tree, search, slot):
                    release(tree, slot)
                    continue
                key = order_key(tree, search, slot)
                if tree.counts[HEAP] > 0 and key < tree.key[0]:
                    push(tree, slot, key)
                    continue
            expand(problem, tree, search, slot)

    return run


run_tree = make_run()
