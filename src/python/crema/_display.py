"""How nets and blobs look: tables, pictures, and what a terminal or Jupyter shows of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _crema
from ._layer import BlobVec
from ._mistakes import no_attribute


class Summary(str):
    """The table of `crema summary` as text, which a terminal and Jupyter show as a table.

    rows: a dict for each layer, with the keys name, type, tops (shapes, as tuples), params (number
        of values), flops (of the forward pass), bytes (of the tops), format (of the memory),
        engine, detail, and fused_into (the layer that computes it, or "").
    """

    rows: list[dict[str, Any]]

    def __new__(cls, text: str, rows: list[dict[str, Any]]) -> Summary:
        made = super().__new__(cls, text)
        made.rows = rows
        return made

    def __repr__(self) -> str:
        return str(self).rstrip("\n")

    def _repr_html_(self) -> str:
        from html import escape

        totals = str(self).rpartition("\n\n")[2].strip()
        return table(self.rows) + f"<div style='white-space:pre-wrap'>{escape(totals)}</div>"


def shape_text(shape: tuple[int, ...]) -> str:
    """64x1x28x28; of no axes, "scalar"."""
    return "x".join(map(str, shape)) or "scalar"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows of a summary as a table of HTML, in a frame that scrolls if it is long."""
    from html import escape

    heads = ("layer", "type", "tops", "params", "GFLOP", "MB", "engine")
    lines = ["<tr>" + "".join(f"<th style='text-align:left'>{head}</th>" for head in heads)
             + "</tr>"]
    for row in rows:
        cells = [row["name"], row["type"]]
        if row["fused_into"]:
            cells += ["", "", "", "", f"in {row['fused_into']}"]
        else:
            cells += [" ".join(map(shape_text, row["tops"])),
                      f"{row['params']:,}" if row["params"] else "",
                      f"{row['flops'] / 1e9:.3f}" if row["flops"] else "",
                      f"{row['bytes'] / 1e6:.2f}", row["engine"]]
        lines.append("<tr>" + "".join(
            f"<td style='text-align:{'right' if 3 <= place <= 5 else 'left'}'>{escape(cell)}</td>"
            for place, cell in enumerate(cells)) + "</tr>")
    return ("<div style='max-height:30em;overflow:auto'><table>" + "".join(lines)
            + "</table></div>")


class NetDisplay:
    """The part of Net that shows it."""

    _core: _crema.Net

    def summary(self) -> Summary:
        """The table of `crema summary`: a line a layer, then totals, memory and notes.

        Each line has the shapes of the tops, the number of parameters, the operations of a forward
        pass, the bytes of the tops, their format in memory and the engine. The result is a str
        that shows itself as a table; its `rows` are the same for programs.
        """
        return Summary(_crema.net_summary(self._core), _crema.net_rows(self._core))

    def to_svg(self, expand: bool = False) -> str:
        """A picture of the net, with the shapes of its blobs, as the text of an SVG.

        Of several equal blocks in a row one is drawn, with their number; `expand` draws each. Its
        colours follow the reader's light or dark scheme.
        """
        return _crema.draw_net(self._core, expand=expand, dot=False)

    def to_dot(self, expand: bool = False) -> str:
        """The same graph in the language of Graphviz."""
        return _crema.draw_net(self._core, expand=expand, dot=True)

    def _repr_html_(self) -> str:
        """For Jupyter: a line, the table of the summary, and the picture to unfold."""
        from html import escape

        summary = self.summary()
        phase = "TRAIN" if self._core.train else "TEST"
        said = f"crema.Net {self._core.name!r}, {len(summary.rows)} layers, {phase}"
        return (f"<div><div>{escape(said)}</div>{summary._repr_html_()}"
                f"<details><summary>picture</summary>{self.to_svg()}</details></div>")


class Blobs(OrderedDict[str, _crema.Blob]):
    """Blobs by name. A terminal shows a line a blob, with its shape."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            ways = {name: f"a blob is named by net.blobs[{name!r}]"} if name in self else {}
            raise no_attribute(self, name, ways)

    def __missing__(self, name: object) -> Any:
        raise _unknown(name, "the net keeps no blob", list(self))

    def __setitem__(self, name: str, blob: _crema.Blob) -> None:
        if not isinstance(blob, _crema.Blob):
            raise TypeError("a blob of a net cannot be replaced; write into its values: "
                            f"net.blobs[{name!r}].data[...] = array")
        super().__setitem__(name, blob)

    def __repr__(self) -> str:
        return _lines({name: [blob.shape] for name, blob in self.items()}) or "no blobs"


class Params(OrderedDict[str, BlobVec]):
    """Parameters by layer. A terminal shows a line a layer, with their shapes, and the total."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            way = f"the parameters of a layer are net.params[{name!r}]"
            raise no_attribute(self, name, {name: way} if name in self else {})

    def __missing__(self, name: object) -> Any:
        raise _unknown(name, "no layer with parameters has the name", list(self))

    def __setitem__(self, name: str, blobs: BlobVec) -> None:
        if not isinstance(blobs, BlobVec):
            raise TypeError("parameters of a net cannot be replaced; write into their values: "
                            f"net.params[{name!r}][0].data[...] = array")
        super().__setitem__(name, blobs)

    def __repr__(self) -> str:
        if not self:
            return "no parameters"
        total = sum(blob.count for blobs in self.values() for blob in blobs)
        shapes = {name: [blob.shape for blob in blobs] for name, blobs in self.items()}
        return f"{_lines(shapes)}\n{total:,} values"


def _unknown(name: object, said: str, known: list[str]) -> KeyError:
    """With the nearest name, or all if there are few."""
    import difflib

    near = difflib.get_close_matches(str(name), known, 1)
    if near:
        return KeyError(f"{said} {name!r}; did you mean {near[0]!r}?")
    shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return KeyError(f"{said} {name!r}; there are {shown or 'none'}")


def _lines(shapes: Mapping[str, list[tuple[int, ...]]]) -> str:
    width = max(map(len, shapes), default=0)
    return "\n".join(f"{name:<{width}}  {'  '.join(map(shape_text, each))}"
                     for name, each in shapes.items())
