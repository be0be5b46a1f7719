"""Sums over segments that begin alike: hypotheses of a list differ in a few units, and what comes before these is summed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import F64, I32, I64, Array, frozen, in_ranges, unsigned
from .kernels import kernel


@dataclass(frozen=True)
class Prefixes:
    """The segments of each group as a tree of their beginnings: a node is what comes before it and one element more.

    Nodes are numbered within their group from 1, 0 being the empty beginning, the short ones first: a sum over the segments is
    one addition a node, and none waits for the one before it. Segments in their order in the tree have places within their
    group; those that begin with a node have neighbouring ones, and empty segments the last.
    """

    group_ptr: I64  # [S+1] segments of each group
    node_ptr: I64  # [S+1] nodes of each group
    parent: Array  # [N] number of the beginning that a node continues; this and all below are uint16 where that is enough
    idx: I32  # [N] the element that it adds
    first: Array  # [N] place of the first segment that begins with it
    last: Array  # [N] place behind the last one
    end: Array  # [H] number of the node that is the whole segment
    place: Array  # [H]

    @classmethod
    def of(cls, group_ptr: I64, ptr: I64, idx: I32, *, threads: int = 1) -> Prefixes:
        """Of groups of the segments ptr [H+1] of idx [R]."""
        node_ptr, end = np.zeros(len(group_ptr), np.int64), np.empty(len(ptr) - 1, np.int32)

        def grown(some: slice) -> tuple[I32, I32]:
            own = group_ptr[some.start : some.stop + 1]
            room = np.empty((2, ptr[own[-1]] - ptr[own[0]]), np.int32)  # no page of it is there before it is written
            n = _grow(frozen(own), frozen(ptr), unsigned(idx), room[0], room[1], end, node_ptr[some.start + 1 : some.stop + 1])
            return room[0, :n].copy(), room[1, :n].copy()

        parents, elements = zip(*in_ranges(grown, len(group_ptr) - 1, threads), strict=True)
        most = max(node_ptr.max(), np.diff(group_ptr).max(initial=0))
        kind = np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32
        np.cumsum(node_ptr, out=node_ptr)
        parent, end = np.concatenate(parents).astype(kind), end.astype(kind)
        first, last, place = np.empty(len(parent), kind), np.empty(len(parent), kind), np.empty(len(end), kind)

        def placed(some: slice) -> None:
            groups, nodes = (frozen(ptr[some.start : some.stop + 1]) for ptr in (group_ptr, node_ptr))
            _put(groups, nodes, frozen(parent), frozen(end), first, last, place)

        in_ranges(placed, len(group_ptr) - 1, threads)
        return cls(group_ptr, node_ptr, parent, np.concatenate(elements), first, last, end, place)

    def sum(self, values: F64, *, threads: int = 1) -> F64:
        """[H] Σ values over the elements of each segment, in their order: to the last bit as arrays.add_segment_sums does."""
        out = np.empty(len(self.end))

        def part(some: slice) -> None:
            groups, nodes = (frozen(ptr[some.start : some.stop + 1]) for ptr in (self.group_ptr, self.node_ptr))
            _node_sums(groups, nodes, frozen(self.parent), unsigned(self.idx), frozen(self.end), frozen(values), out)

        in_ranges(part, len(self.group_ptr) - 1, threads)
        return out

    def some(self, segments: I64, *, threads: int = 1) -> SomePrefixes:
        """Of these segments alone, which rise."""
        group_ptr, node_ptr = np.searchsorted(segments, self.group_ptr), np.zeros(len(self.node_ptr), np.int64)
        place = np.empty(len(segments), self.place.dtype)

        def part(some: slice) -> tuple[Array, ...]:
            own = slice(some.start, some.stop + 1)
            groups, nodes, mine = frozen(self.group_ptr[own]), frozen(self.node_ptr[own]), frozen(group_ptr[own])
            room = np.empty(nodes[-1] - nodes[0], np.int32)
            bounds = np.empty((2, len(room)), self.first.dtype)
            n = _keep(
                groups, nodes, unsigned(self.idx), frozen(self.first), frozen(self.last), frozen(self.place),
                mine, frozen(segments), place, room, *bounds, node_ptr[some.start + 1 : some.stop + 1],
            )  # fmt: skip
            return room[:n].copy(), *bounds[:, :n].copy()

        idx, first, last = (np.concatenate(x) for x in zip(*in_ranges(part, len(self.group_ptr) - 1, threads), strict=True))
        return SomePrefixes(group_ptr, np.cumsum(node_ptr), idx, first, last, place)


@dataclass(frozen=True)
class SomePrefixes:
    """Some segments of each group, and the nodes that they begin with; places are among them."""

    group_ptr: I64  # [S+1]
    node_ptr: I64  # [S+1]
    idx: I32  # [N]
    first: Array  # [N]
    last: Array  # [N]
    place: Array  # [L]

    def spread(self, values: F64, n: int, *, threads: int = 1) -> F64:
        """[n] Σ of the values [L] of the segments that hold each of n elements, by what all with the same beginning sum to.

        Sums are of parts, and differences of sums: of values on a grid (growing_kernels.on_grid) all are exact, and so the
        same, to the last bit, as what arrays.scatter_segments gives.
        """

        def part(some: slice) -> F64:
            out = np.zeros(n)
            groups, nodes = (frozen(ptr[some.start : some.stop + 1]) for ptr in (self.group_ptr, self.node_ptr))
            columns = unsigned(self.idx), frozen(self.first), frozen(self.last), frozen(self.place)
            _node_spread(groups, nodes, *columns, frozen(values), out)
            return out

        total, *others = in_ranges(part, len(self.group_ptr) - 1, threads)

        def add(some: slice) -> None:
            for other in others:
                total[some] += other[some]

        in_ranges(add, n if others else 0, threads)
        return total


@kernel
def _most(ptr):  # type: ignore[no-untyped-def]
    """The length of the longest segment."""
    most = 0
    for s in range(len(ptr) - 1):
        most = max(most, ptr[s + 1] - ptr[s])
    return most


@kernel
def _grow(group_ptr, ptr, idx, parent, element, end, counts):  # type: ignore[no-untyped-def]
    """OUT parent, element [R]: the nodes, from the first place on; end[H]; counts[S] of nodes. Returns their number.

    All segments of a group take a step at a time. A table has the nodes of the step under way, by what they continue and add.
    """
    most = _most(group_ptr)
    size = 2
    while size < 2 * most:
        size *= 2
    mask = np.uint64(size - 1)
    key, node, used_in = np.empty(size, np.uint64), np.empty(size, np.int32), np.zeros(size, np.int64)
    longer = np.empty(most, np.int64)  # the segments that have not ended
    step, n = 0, 0
    for s in range(len(counts)):
        start, first = n, group_ptr[s]
        left = group_ptr[s + 1] - first
        for k in range(left):
            longer[k], end[first + k] = first + k, 0
        depth = 0
        while left:
            step += 1
            going = 0
            last, last_node = np.uint64(0), np.int32(0)  # neighbours often begin alike
            for k in range(left):
                h = longer[k]
                i = ptr[h] + depth
                if i >= ptr[h + 1]:
                    continue
                longer[going] = h
                going += 1
                own = (np.uint64(end[h]) << np.uint64(32)) | np.uint64(idx[i])
                if own != last or last_node == 0:
                    slot = ((own * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
                    while used_in[slot] == step and key[slot] != own:
                        slot = (slot + np.uint64(1)) & mask
                    if used_in[slot] != step:
                        parent[n], element[n] = end[h], idx[i]
                        n += 1
                        used_in[slot], key[slot], node[slot] = step, own, n - start
                    last, last_node = own, node[slot]
                end[h] = last_node
            left = going
            depth += 1
        counts[s] = n - start
    return n


@kernel
def _put(group_ptr, node_ptr, parent, end, first, last, place):  # type: ignore[no-untyped-def]
    """OUT first, last [N] and place [H] of these groups: below a node its children come one after the other, then what ends."""
    most = _most(node_ptr)
    below, free = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)  # segments of each node; the next place there
    for s in range(len(node_ptr) - 1):
        before = parent[node_ptr[s] : node_ptr[s + 1]]
        ends, own = end[group_ptr[s] : group_ptr[s + 1]], place[group_ptr[s] : group_ptr[s + 1]]
        start, stop = first[node_ptr[s] : node_ptr[s + 1]], last[node_ptr[s] : node_ptr[s + 1]]
        below[: len(before) + 1] = 0
        for h in range(len(ends)):
            below[ends[h]] += 1
        for k in range(len(before) - 1, -1, -1):
            below[before[k]] += below[k + 1]
        free[0] = 0
        for k in range(len(before)):
            at = free[before[k]]
            start[k], stop[k], free[k + 1] = at, at + below[k + 1], at
            free[before[k]] = at + below[k + 1]
        for h in range(len(ends)):
            own[h] = free[ends[h]]
            free[ends[h]] += 1


@kernel
def _node_sums(group_ptr, node_ptr, parent, idx, end, values, out):  # type: ignore[no-untyped-def]
    """OUT out[H]: the sums of the segments of these groups."""
    total = np.zeros(_most(node_ptr) + 1)
    for s in range(len(node_ptr) - 1):
        before, own = parent[node_ptr[s] : node_ptr[s + 1]], idx[node_ptr[s] : node_ptr[s + 1]]
        for k in range(len(own)):
            total[k + 1] = total[before[k]] + values[own[k]]
        some = slice(group_ptr[s], group_ptr[s + 1])
        ends, sums = end[some], out[some]
        for h in range(len(ends)):
            sums[h] = total[ends[h]]


@kernel
def _keep(  # type: ignore[no-untyped-def]
    group_ptr, node_ptr, idx, first, last, place, own_ptr, segments, own_place, kept, own_first, own_last, counts
):
    """OUT own_place[L] of some segments, own_ptr of each group; kept, own_first, own_last: nodes with any; counts[S] of these."""
    fewer = np.empty(_most(group_ptr) + 1, own_place.dtype)  # of places: how many of these segments come before
    n = np.uint64(0)
    for s in range(len(counts)):
        size, nodes_before = group_ptr[s + 1] - group_ptr[s], n
        fewer[: size + 1] = 0
        some, own = segments[own_ptr[s] : own_ptr[s + 1]], own_place[own_ptr[s] : own_ptr[s + 1]]
        for k in range(len(some)):
            fewer[place[some[k]] + 1] = 1
        for k in range(size):
            fewer[k + 1] += fewer[k]
        for k in range(len(some)):
            own[k] = fewer[place[some[k]]]
        nodes = slice(node_ptr[s], node_ptr[s + 1])
        elements, start, stop = idx[nodes], first[nodes], last[nodes]
        for k in range(len(elements)):
            a, b = fewer[start[k]], fewer[stop[k]]
            kept[n], own_first[n], own_last[n] = elements[k], a, b  # the next node takes the place, if this one has none
            n += np.uint64(a < b)
        counts[s] = n - nodes_before
    return n


@kernel
def _node_spread(group_ptr, node_ptr, idx, first, last, place, values, out):  # type: ignore[no-untyped-def]
    """INOUT out[n] += what the segments of these groups add."""
    most = _most(group_ptr)
    sorted_, before = np.empty(most), np.zeros(most + 1)
    for s in range(len(node_ptr) - 1):
        own, at = values[group_ptr[s] : group_ptr[s + 1]], place[group_ptr[s] : group_ptr[s + 1]]
        for h in range(len(own)):
            sorted_[at[h]] = own[h]
        total = 0.0
        for h in range(len(own)):
            total += sorted_[h]
            before[h + 1] = total
        elements = idx[node_ptr[s] : node_ptr[s + 1]]
        a, b = first[node_ptr[s] : node_ptr[s + 1]], last[node_ptr[s] : node_ptr[s + 1]]
        for k in range(len(elements)):
            out[elements[k]] += before[b[k]] - before[a[k]]
