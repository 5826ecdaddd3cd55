"""Curves of a history as an SVG, light or dark as the reader's screen. No package draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._history import History

_WIDTH, _HEIGHT = 640, 220  # of a chart, with its margins
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 26, 26
_MOST_POINTS = 400  # of a curve: more cannot be told apart
_COLOURS = ("#3b7dd8", "#d8653b", "#3ba55d", "#a04fc4", "#b8922a", "#3aa6b9")

Points = Sequence[tuple[float, float]]


class _Curve:
    def __init__(self, name: str, points: Points, colour: str, *, thin: bool = False,
                 dots: bool = False):
        self.name = name
        self.points = [point for point in points if math.isfinite(point[1])]
        self.colour = colour
        self.thin = thin
        self.dots = dots


def thinned(points: Points, most: int = _MOST_POINTS) -> list[tuple[float, float]]:
    """At most `most` points that look the same: the least and greatest value of each stretch."""
    if len(points) <= most:
        return list(points)
    kept: list[tuple[float, float]] = []
    stretches = most // 2
    for index in range(stretches):
        part = points[index * len(points) // stretches:(index + 1) * len(points) // stretches]
        low, high = min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])
        kept += sorted({low, high})
    return kept


def _step(low: float, high: float, most: int) -> float:
    """The distance of at most about `most` ticks: 1, 2 or 5 times a power of ten."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    return next(step * times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= most)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two."""
    if not low < high:
        return [low]
    step = _step(low, high, most)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.10g}" if abs(value) < 1e5 and (value == 0 or abs(value) >= 1e-3) else (
        f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-"))


class _Axis:
    """Where values of a range stand between two pixels; by their logarithms if `log`."""

    def __init__(self, low: float, high: float, begin: float, end: float, log: bool = False):
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log

    def at(self, value: float) -> float:
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if not self.log:
            return ticks(self.low, self.high)
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        powers = [10.0 ** power for power in range(first, last + 1)]
        return powers if len(powers) > 1 else ticks(self.low, self.high)


def _chart(curves: Sequence[_Curve], first: float, last: float, top: float) -> list[str]:
    """A chart of the iterations from `first` to `last`, whose upper edge is at `top`."""
    from html import escape

    points = [point for curve in curves for point in curve.points]
    values = [value for _, value in points]
    low, high = min(values), max(values)
    log = low > 0 and high / low > 50
    if not log:
        low = min(low, 0.0) if low > 0 and low < 0.5 * high else low
        if low < high:  # so that the axis ends at ticks
            step = _step(low, high, 6)
            low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    x = _Axis(first, last, _LEFT, _WIDTH - _RIGHT)
    y = _Axis(low, high, top + _HEIGHT - _BOTTOM, top + _TOP, log)
    parts = []
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" '
                     f'y2="{at:.1f}"/><text x="{_LEFT - 6}" y="{at + 3.5:.1f}" '
                     f'text-anchor="end">{_number(tick)}</text>')
    for tick in x.ticks():
        if tick == int(tick):
            parts.append(f'<text x="{x.at(tick):.1f}" y="{top + _HEIGHT - 8}" '
                         f'text-anchor="middle">{_number(tick)}</text>')
    at = float(_LEFT)
    for curve in curves:
        parts.append(f'<rect x="{at:.0f}" y="{top + 7}" width="10" height="10" '
                     f'fill="{curve.colour}" opacity="{0.45 if curve.thin else 1}"/>'
                     f'<text x="{at + 14:.0f}" y="{top + 16}">{escape(curve.name)}</text>')
        at += 34 + 6.5 * len(curve.name)
        shown = [(x.at(step), y.at(value)) for step, value in thinned(curve.points)]
        path = " ".join(f"{left:.1f},{down:.1f}" for left, down in shown)
        if len(shown) > 1:
            style = 'stroke-width="1" opacity="0.45"' if curve.thin else 'stroke-width="1.8"'
            parts.append(f'<polyline points="{path}" fill="none" stroke="{curve.colour}" {style}/>')
        if curve.dots or len(shown) == 1:
            parts += [f'<circle cx="{left:.1f}" cy="{down:.1f}" r="2.6" fill="{curve.colour}"/>'
                      for left, down in shown]
    return parts


def history_svg(history: History) -> str:
    """The losses over the iterations and, in a chart below, the other outputs of tests."""
    steps = list(history._columns["iteration"])
    losses = [
        _Curve("loss", list(zip(steps, history._columns["loss"])), _COLOURS[0], thin=True),
        _Curve("smoothed", list(zip(steps, history._columns["smoothed"])), _COLOURS[0]),
    ]
    if history._columns["loss"] == history._columns["smoothed"]:
        losses = [_Curve("loss", losses[0].points, _COLOURS[0])]
    others: list[_Curve] = []
    for name, test, column in history._test_columns():
        points = list(zip(test._iteration, column))
        group = losses if is_loss(name) else others
        colour = _COLOURS[1 + (len(losses) + len(others)) % (len(_COLOURS) - 1)]
        group.append(_Curve(name, points, colour, dots=True))
    charts = [[curve for curve in group if curve.points] for group in (losses, others)]
    charts = [group for group in charts if group]
    height = _HEIGHT * max(len(charts), 1)
    shown = [step for group in charts for curve in group for step, _ in curve.points]
    body = ([part for index, group in enumerate(charts)
             for part in _chart(group, min(shown), max(shown), index * _HEIGHT)]
            or [f'<text x="{_LEFT}" y="{_HEIGHT / 2:.0f}">no iterations yet</text>'])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" class="crema-curves" role="img" '
            f'aria-label="loss over iterations"><style>.crema-curves text{{font:11px sans-serif;'
            'fill:currentColor}.crema-curves .grid{stroke:currentColor;opacity:.15}</style>'
            + "".join(body) + "</svg>")


def is_loss(name: str) -> bool:
    """Whether a word of the name says that less is better, as for snapshot_best of a solver."""
    words = "".join(sign if sign.isascii() and sign.isalpha() else " " for sign in name).lower()
    return not {"loss", "losses", "err", "error", "errors"}.isdisjoint(words.split())
