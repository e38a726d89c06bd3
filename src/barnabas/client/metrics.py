"""What a client counts: rates, totals, averages, maxima, latencies, gauges.

An instrument is made once (`metrics.meter("producer-metrics", "record-send")`), kept by whoever
uses it, and fed with plain method calls that take the time as an argument: `meter.add(count, now)`
costs a few hundred nanoseconds, so it belongs on batches and requests, not on records. Making an
instrument a second time gives the same one.

Names and groups are those of Kafka's JMX beans, so that existing dashboards and habits apply: the
meter `record-send` shows as `record-send-rate` and `record-send-total`, the distribution
`request-latency` as `request-latency-avg` and `request-latency-max`. Rates, averages and maxima are
of a sliding window: a ring of slots, each of `window / slots` seconds, of which the oldest is
emptied when the clock enters the next one; the window is `metrics.sample.window.ms` times
`metrics.num.samples`. A rate of a client that is younger than the window is
over its age, so that a number is right from the start.

Labels split an instrument by topic, partition or node. The number of label sets of one instrument
is bounded (`limit`): what comes after goes to one set that is called "other", so a client that meets
a million topics does not keep a million numbers. `remove` gives back the places of what is gone.

`prometheus` gives the text format and needs no library; `collector` wraps the same numbers for a
registry of `prometheus_client`. There, rates and averages are left to Prometheus, which computes
them from totals and histograms over any time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings

WINDOW_S = 60.0
SLOTS = 10
LABEL_SETS = 1_000
OTHER = "other"

LATENCY_BOUNDS_MS = (
    *(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 125.0, 250.0),
    *(500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0),
)

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge", "histogram"]
Number = int | float
_Instrument = TypeVar("_Instrument", bound="Instrument")


class Sample(NamedTuple):
    """One line of Prometheus' text format, without its metric's name."""

    suffix: str
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    """All samples of one Prometheus metric. `name` of a counter comes without `_total`."""

    name: str
    kind: Kind
    documentation: str
    samples: list[Sample]


class Instrument:
    """What all kinds share: `values` under Kafka's names, `families` for Prometheus."""

    __slots__ = ()

    def values(self, name: str, now: float) -> Iterator[tuple[str, float]]:
        raise NotImplementedError

    def parts(self, now: float) -> Iterator[tuple[str, Kind, list[tuple[str, str, float]]]]:
        """(ending of the metric's name, kind, [(suffix, value of `le`, value)])."""
        raise NotImplementedError


class _Window:
    """A ring of slots. Subclasses empty a slot in `clear`."""

    __slots__ = ("at", "slot_s", "started_at", "turn")

    def __init__(self, now: float, window_s: float) -> None:
        self.slot_s = window_s / SLOTS
        self.started_at = now
        self.turn = int(now / self.slot_s)
        self.at = self.turn % SLOTS

    def clear(self, slot: int) -> None:
        raise NotImplementedError

    def advance(self, now: float) -> None:
        turn = int(now / self.slot_s)
        if turn <= self.turn:
            return
        for step in range(max(self.turn + 1, turn - SLOTS + 1), turn + 1):
            self.clear(step % SLOTS)
        self.turn = turn
        self.at = turn % SLOTS

    def seconds(self, now: float) -> float:
        """What the slots cover: whole slots but the present one, and never more than its age.

        At least one slot, so that a first event is no huge rate.
        """
        covered = (SLOTS - 1) * self.slot_s + now % self.slot_s
        return max(min(covered, now - self.started_at), self.slot_s)


class Meter(_Window, Instrument):
    """Counts events: `-total` since the start, `-rate` a second over the window."""

    __slots__ = ("_counts", "total")

    def __init__(self, now: float, window_s: float = WINDOW_S) -> None:
        super().__init__(now, window_s)
        self.total: Number = 0
        self._counts: list[Number] = [0] * SLOTS

    def clear(self, slot: int) -> None:
        self._counts[slot] = 0

    def add(self, count: Number, now: float) -> None:
        if now >= (self.turn + 1) * self.slot_s:
            self.advance(now)
        self._counts[self.at] += count
        self.total += count

    def rate(self, now: float) -> float:
        self.advance(now)
        return sum(self._counts) / self.seconds(now)

    def values(self, name: str, now: float) -> Iterator[tuple[str, float]]:
        yield f"{name}-rate", self.rate(now)
        yield f"{name}-total", self.total

    def parts(self, now: float) -> Iterator[tuple[str, Kind, list[tuple[str, str, float]]]]:
        yield "", "counter", [("_total", "", self.total)]


class Distribution(_Window, Instrument):
    """Sizes or latencies: `-avg` and `-max` over the window; a histogram since the start.

    Without `bounds` the histogram has only its sum and count.
    """

    __slots__ = ("_counts", "_maxima", "_sums", "bounds", "buckets", "count", "sum")

    def __init__(
        self, now: float, bounds: Sequence[float] = (), window_s: float = WINDOW_S
    ) -> None:
        super().__init__(now, window_s)
        self.bounds = tuple(bounds)
        self.buckets = [0] * (len(self.bounds) + 1)
        self.count = 0
        self.sum: Number = 0
        self._counts = [0] * SLOTS
        self._sums: list[Number] = [0] * SLOTS
        self._maxima: list[Number] = [0] * SLOTS

    def clear(self, slot: int) -> None:
        self._counts[slot] = 0
        self._sums[slot] = 0
        self._maxima[slot] = 0

    def observe(self, value: Number, now: float) -> None:
        if now >= (self.turn + 1) * self.slot_s:
            self.advance(now)
        at = self.at
        self._counts[at] += 1
        self._sums[at] += value
        self._maxima[at] = max(self._maxima[at], value)
        self.count += 1
        self.sum += value
        self.buckets[bisect_left(self.bounds, value)] += 1

    def average(self, now: float) -> float:
        """Of the window; 0 when nothing happened in it."""
        self.advance(now)
        count = sum(self._counts)
        return sum(self._sums) / count if count else 0.0

    def maximum(self, now: float) -> Number:
        self.advance(now)
        return max(self._maxima)

    def values(self, name: str, now: float) -> Iterator[tuple[str, float]]:
        yield f"{name}-avg", self.average(now)
        yield f"{name}-max", self.maximum(now)

    def parts(self, now: float) -> Iterator[tuple[str, Kind, list[tuple[str, str, float]]]]:
        lines: list[tuple[str, str, float]] = []
        below = 0
        for bound, count in zip(self.bounds, self.buckets, strict=False):
            below += count
            lines.append(("_bucket", format(bound, "g"), below))
        lines.append(("_bucket", "+Inf", self.count))
        lines.append(("_sum", "", self.sum))
        lines.append(("_count", "", self.count))
        yield "", "histogram", lines
        yield "_max", "gauge", [("", "", self.maximum(now))]


class Gauge(Instrument):
    """A number of this moment: the last `set`, or what a function says when somebody looks."""

    __slots__ = ("read", "value")

    def __init__(self, read: Callable[[], Number] | None = None) -> None:
        self.read = read
        self.value: Number = 0

    def set(self, value: Number) -> None:
        self.value = value

    def values(self, name: str, now: float) -> Iterator[tuple[str, float]]:
        yield name, self.value if self.read is None else self.read()

    def parts(self, now: float) -> Iterator[tuple[str, Kind, list[tuple[str, str, float]]]]:
        yield "", "gauge", [("", "", self.value if self.read is None else self.read())]


class _Named:
    """All label sets of one metric."""

    __slots__ = ("children", "documentation", "group", "name", "other")

    def __init__(self, group: str, name: str, documentation: str) -> None:
        self.group = group
        self.name = name
        self.documentation = documentation
        self.children: dict[Labels, Instrument] = {}
        self.other: Instrument | None = None


class Metrics:
    """All instruments of one client. `domain` is "producer", "consumer" or "admin.client"."""

    def __init__(
        self,
        domain: str,
        client_id: str,
        now: float,
        *,
        window_s: float = WINDOW_S,
        limit: int = LABEL_SETS,
    ) -> None:
        self.domain = domain
        self.client_id = client_id
        self.window_s = window_s
        self.limit = limit
        self._started_at = now
        self._named: dict[tuple[str, str], _Named] = {}

    @classmethod
    def of(cls, domain: str, settings: ClientSettings, now: float) -> Metrics:
        """Those of a client with these options."""
        window_ms = settings.metrics_sample_window_ms * settings.metrics_num_samples
        return cls(domain, settings.client_id, now, window_s=window_ms / 1000)

    # -- making instruments

    def meter(self, group: str, name: str, documentation: str = "", **labels: Any) -> Meter:
        """`name-rate` and `name-total`."""
        make = partial(Meter, self._started_at, self.window_s)
        return self._get(Meter, group, name, documentation, labels, make)

    def distribution(
        self,
        group: str,
        name: str,
        documentation: str = "",
        *,
        bounds: Sequence[float] = (),
        **labels: Any,
    ) -> Distribution:
        """`name-avg` and `name-max`; with `bounds` a histogram for Prometheus."""
        make = partial(Distribution, self._started_at, bounds, self.window_s)
        return self._get(Distribution, group, name, documentation, labels, make)

    def latency(
        self, group: str, name: str, documentation: str = "", **labels: Any
    ) -> Distribution:
        """A distribution of milliseconds."""
        return self.distribution(group, name, documentation, bounds=LATENCY_BOUNDS_MS, **labels)

    def gauge(
        self,
        group: str,
        name: str,
        documentation: str = "",
        *,
        read: Callable[[], Number] | None = None,
        **labels: Any,
    ) -> Gauge:
        """`name`, from `set` or from the function `read`. A later `read` takes the former's place."""
        gauge = self._get(Gauge, group, name, documentation, labels, partial(Gauge, read))
        if read is not None:
            gauge.read = read
        return gauge

    def _get(
        self,
        kind: type[_Instrument],
        group: str,
        name: str,
        documentation: str,
        labels: Mapping[str, Any],
        make: Callable[[], _Instrument],
    ) -> _Instrument:
        named = self._named.get((group, name))
        if named is None:
            named = self._named[group, name] = _Named(group, name, documentation)
        key: Labels = tuple((label, str(value)) for label, value in labels.items())
        found = named.children.get(key)
        if found is None and len(named.children) >= self.limit:
            if named.other is None:
                named.other = named.children[tuple((label, OTHER) for label in labels)] = make()
            found = named.other
        if found is None:
            found = named.children[key] = make()
        if type(found) is not kind:
            raise ValueError(f"{group}:{name} is a {type(found).__name__}, not a {kind.__name__}")
        return found

    def remove(self, **labels: Any) -> None:
        """Forget every instrument that has all these labels (a node, a partition that is gone)."""
        gone = {(label, str(value)) for label, value in labels.items()}
        assert gone, "remove needs labels"
        for named in self._named.values():
            for key in [key for key in named.children if gone <= set(key)]:
                if named.children.pop(key) is named.other:
                    named.other = None

    # -- reading them

    def as_dict(self, now: float) -> dict[str, dict[str, Any]]:
        """`{group: {metric: number}}`; split ones are `{group: {"orders-0": {metric: number}}}`.

        The key of a label set is its values joined by a hyphen, as Kafka writes a partition.
        """
        found: dict[str, dict[str, Any]] = {}
        for named in list(self._named.values()):
            group = found.setdefault(named.group, {})
            for labels, instrument in list(named.children.items()):
                place = group
                if labels:
                    place = group.setdefault("-".join(value for _, value in labels), {})
                place.update(instrument.values(named.name, now))
        return found

    def families(self, now: float) -> list[Family]:
        """The same for Prometheus: `kafka_producer_producer_metrics_record_send` and so on."""
        found: dict[str, Family] = {}
        for named in list(self._named.values()):
            stem = _plain(f"kafka_{self.domain}_{named.group}_{named.name}")
            for labels, instrument in list(named.children.items()):
                own = {"client_id": self.client_id}
                own.update((_plain(label), value) for label, value in labels)
                for ending, kind, lines in instrument.parts(now):
                    name = stem + ending
                    family = found.get(name)
                    if family is None:
                        text = named.documentation or named.name.replace("-", " ")
                        family = found[name] = Family(name, kind, text, [])
                    family.samples.extend(
                        Sample(suffix, {**own, "le": le} if le else own, value)
                        for suffix, le, value in lines
                    )
        return list(found.values())

    def prometheus(self, now: float) -> str:
        """Prometheus' text format, version 0.0.4."""
        lines: list[str] = []
        for family in self.families(now):
            shown = family.name + ("_total" if family.kind == "counter" else "")
            lines.append(f"# HELP {shown} {_escape(family.documentation)}")
            lines.append(f"# TYPE {shown} {family.kind}")
            for suffix, labels, value in family.samples:
                inside = ",".join(f'{k}="{_escape(v, quote=True)}"' for k, v in labels.items())
                lines.append(f"{family.name}{suffix}{{{inside}}} {_number(value)}")
        return "\n".join(lines) + "\n" if lines else ""

    def collector(self, clock: Callable[[], float]) -> Any:
        """For `prometheus_client`: `REGISTRY.register(producer_metrics.collector(time.monotonic))`.

        `clock` must be the one whose times the instruments were fed with.
        """
        from prometheus_client.core import Metric

        metrics = self

        class Collector:
            def collect(self) -> Iterator[Metric]:
                for family in metrics.families(clock()):
                    metric = Metric(family.name, family.documentation, family.kind)
                    for suffix, labels, value in family.samples:
                        metric.add_sample(family.name + suffix, dict(labels), value)
                    yield metric

            def describe(self) -> list[Metric]:
                """Nothing is promised, so several clients may share a registry."""
                return []

        return Collector()


def _plain(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
