// The script of a report. Without it all is there but zoom, smoothing, values and sorting. The
// board calls cremaReport where it puts new parts into a page.
#include "monitor/report/page.hpp"

namespace crema {

const char* const kReportScript = R"js(
(function () {
'use strict';
var data, smoothing;
var W = 1000, H = 300, view = null, axis = 'iteration', log = false, hiddenLines = {};

function sum(deltas) { var at = 0; return deltas.map(function (d) { return at += d; }); }
function interpolate(xs, ys, x) {
  if (!xs.length) return NaN;
  var lo = 0, hi = xs.length - 1;
  if (x <= xs[0]) return ys[0];
  if (x >= xs[hi]) return ys[hi];
  while (hi - lo > 1) { var mid = (lo + hi) >> 1; if (xs[mid] <= x) lo = mid; else hi = mid; }
  return ys[lo] + (ys[hi] - ys[lo]) * (x - xs[lo]) / (xs[hi] - xs[lo]);
}
function load() {
  var dataOf = document.getElementById('curves-data');
  data = dataOf && dataOf.textContent ? JSON.parse(dataOf.textContent) : { charts: [], clocks: [] };
  if (smoothing === undefined) smoothing = data.smoothing;
  data.clocks.forEach(function (c) { c.x = sum(c.x); });
  data.charts.forEach(function (c) { c.lines.forEach(function (l) { l.it = sum(l.x); }); });
}

// The positions of a line's points on the axis that is chosen.
function positions(line) {
  if (axis === 'iteration') return line.it;
  var clock = data.clocks[line.c], ys = clock && clock[axis];
  if (!ys || !ys.length) return [];
  return line.it.map(function (i) { return interpolate(clock.x, ys, i); });
}

// Each value becomes the mean of its neighbours on both sides, weighted by exp(-distance / reach).
function smooth(xs, ys, reach) {
  var n = xs.length, out = new Array(n), i, keep, s = 0, w = 0, back = new Array(n);
  if (!(reach > 0)) return ys.slice();
  for (i = 0; i < n; ++i) {
    keep = i ? Math.exp(-(xs[i] - xs[i - 1]) / reach) : 0;
    s = s * keep; w = w * keep;
    out[i] = [s, w];
    s += ys[i]; w += 1;
  }
  s = w = 0;
  for (i = n - 1; i >= 0; --i) {
    keep = i < n - 1 ? Math.exp(-(xs[i + 1] - xs[i]) / reach) : 0;
    s = s * keep; w = w * keep;
    back[i] = (out[i][0] + s + ys[i]) / (out[i][1] + w + 1);
    s += ys[i]; w += 1;
  }
  return back;
}

function extent(charts) {
  var lo = Infinity, hi = -Infinity;
  charts.forEach(function (c) { c.lines.forEach(function (l) {
    var p = l.px;
    if (p.length) { lo = Math.min(lo, 0, p[0]); hi = Math.max(hi, p[p.length - 1]); }
  }); });
  if (axis === 'iteration' && lo !== Infinity) hi = Math.max(hi, data.last);
  if (!(hi > lo)) { if (lo === Infinity) lo = 0; hi = lo + 1; }
  return [lo, hi];
}

function ticks(lo, hi, count) {
  var raw = (hi - lo) / count, base = Math.pow(10, Math.floor(Math.log10(raw))), f = raw / base;
  var step = base * (f > 5 ? 10 : f > 2.5 ? 5 : f > 2 ? 2.5 : f > 1 ? 2 : 1), all = [];
  var many = function (s) { return Math.floor(hi / s + 1e-9) - Math.ceil(lo / s - 1e-9) + 1; };
  // A range between round numbers has fewer of them: narrower steps then fit.
  [5, 2.5, 2, 1].forEach(function (o) {
    if (many(step) < count && base * o < step && many(base * o) <= count + 1) step = base * o;
  });
  for (var k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; ++k) all.push(k * step);
  return all;
}
function words(v) {
  if (!isFinite(v)) return String(v);
  var a = Math.abs(v);
  if (a >= 1e4 && a < 1e6) return String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, ',');
  if (a !== 0 && (a < 1e-3 || a >= 1e6)) return v.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return String(+v.toPrecision(4));
}
function value(chart, v) {
  if (chart.unit === 'share') return words(v * 100) + '%';
  if (chart.unit === 'bytes') return v >= 1e9 ? words(v / 1e9) + ' GB' : words(v / 1e6) + ' MB';
  return words(v);
}
function seconds(s) {
  s = Math.round(s);
  if (s >= 3600) return Math.floor(s / 3600) + 'h' + ('0' + Math.floor(s % 3600 / 60)).slice(-2) + 'm';
  return s >= 60 ? Math.floor(s / 60) + 'm' + ('0' + s % 60).slice(-2) + 's' : s + 's';
}
function place(x) {
  if (axis === 'time') return seconds(x);
  if (axis === 'epoch') return words(x);
  x = Math.round(x);
  return String(x).replace(/\B(?=(\d{3})+$)/g, ',');
}
function short(x) {
  if (axis === 'time') return seconds(x);
  var a = Math.abs(x);
  return a >= 1e6 ? words(x / 1e6) + 'M' : a >= 1e4 ? words(x / 1e3) + 'k' : words(x);
}

// The range of values to show: extremes far beyond what most points have are cut off.
function range(chart, lo, hi) {
  var raw = [], must = [];
  chart.lines.forEach(function (l) {
    if (l.hidden) return;
    for (var i = 0; i < l.px.length; ++i) {
      if (l.px[i] < lo || l.px[i] > hi) continue;
      if (l.s === 'smooth') { must.push(l.smooth[i]); raw.push(l.lo ? l.lo[i] : l.y[i], l.hi ? l.hi[i] : l.y[i]); }
      else must.push(l.y[i]);
    }
  });
  raw = raw.concat(must).filter(isFinite).sort(function (a, b) { return a - b; });
  if (chart.logs) raw = raw.filter(function (v) { return v > 0; });
  if (!raw.length) return [0, 1];
  must = must.filter(isFinite);
  var n = raw.length, from = raw[0], to = raw[n - 1];
  var a = Math.min(raw[Math.floor(n * 0.01)], Math.min.apply(null, must));
  var b = Math.max(raw[Math.min(n - 1, Math.ceil(n * 0.99) - 1)], Math.max.apply(null, must));
  if (!chart.logs && to - from > 2.5 * (b - a) && b > a) { from = a; to = b; }
  if (chart.logs) return to > from ? [from / Math.pow(to / from, 0.04), to * Math.pow(to / from, 0.04)] : [from / 3, from * 3];
  if (chart.zero && from > 0 && from < to * 0.5) from = 0;
  var flat = !(to - from > 1e-9 * Math.max(Math.abs(to), Math.abs(from)));
  if (flat && chart.zero && to >= 0) return [0, to > 0 ? to * 1.1 : 1];
  if (flat) { var pad = Math.abs(from) * 0.1 || 0.5; return [from - pad, to + pad]; }
  var margin = (to - from) * 0.04;
  return [from === 0 ? 0 : from - margin, to + margin];
}

function fixed(v) { return Math.round(v * 10) / 10; }

function draw(chart) {
  var lo = view ? view[0] : data.extent[0], hi = view ? view[1] : data.extent[1];
  chart.logs = log && chart.log;
  var reach = smoothing / 100 * (data.extent[1] - data.extent[0]) / 2;
  chart.lines.forEach(function (l) { if (l.s === 'smooth') l.smooth = smooth(l.px, l.y, reach); });
  var r = range(chart, lo, hi), from = r[0], to = r[1];
  var X = function (x) { return fixed((x - lo) / (hi - lo) * W); };
  var Y = function (y) {
    if (chart.logs) y = y > 0 ? Math.log(y / from) / Math.log(to / from) : -1;
    else y = (y - from) / (to - from);
    return fixed(Math.max(-9 * H, Math.min(10 * H, H - y * H)));
  };
  chart.scale = { X: X, Y: Y, lo: lo, hi: hi, from: from, to: to };
  chart.lines.forEach(function (l) {
    var first = 0, last = l.px.length - 1, i, d = '', band = '';
    while (first < last && l.px[first + 1] < lo) ++first;
    while (last > first && l.px[last - 1] > hi) --last;
    var path = function (ys) {
      var p = '';
      for (i = first; i <= last; ++i) p += (p ? 'L' : 'M') + X(l.px[i]) + ' ' + Y(ys[i]);
      return last === first && p ? p + 'h0' : p;
    };
    if (!l.px.length || l.hidden) { l.dom.forEach(function (e) { e.setAttribute('d', ''); }); return; }
    if (l.s === 'smooth') {
      if (l.lo) {
        for (i = first; i <= last; ++i) band += (band ? 'L' : 'M') + X(l.px[i]) + ' ' + Y(l.hi[i]);
        for (i = last; i >= first; --i) band += 'L' + X(l.px[i]) + ' ' + Y(l.lo[i]);
        l.dom[0].setAttribute('d', band + 'Z');
      } else l.dom[0].setAttribute('d', path(l.y));
      l.dom[1].setAttribute('d', path(l.smooth));
    } else {
      l.dom[0].setAttribute('d', path(l.y));
      if (l.dom[1]) {
        for (i = first; i <= last; ++i) d += 'M' + X(l.px[i]) + ' ' + Y(l.y[i]) + 'h0';
        l.dom[1].setAttribute('d', d);
      }
    }
  });
  var ys = chart.logs ? logTicks(from, to) : ticks(from, to, 4), grid = '', labels = '';
  ys.forEach(function (v) {
    var y = Y(v);
    grid += 'M0 ' + y + 'H' + W;
    labels += '<span style="top:' + y / H * 100 + '%">' + value(chart, v) + '</span>';
  });
  chart.dom.querySelector('.grid').setAttribute('d', grid);
  chart.dom.querySelector('.ys').innerHTML = labels;
  labels = '';
  chart.xs = axis === 'time' ? timeTicks(lo, hi) : ticks(lo, hi, 4).filter(function (v) { return axis !== 'iteration' || Math.abs(v - Math.round(v)) < 1e-9; });
  chart.ys = ys;
  chart.xs.forEach(function (v) {
    labels += '<span style="left:' + X(v) / W * 100 + '%">' + short(v) + '</span>';
  });
  chart.dom.querySelector('.xs').innerHTML = labels;
  var marks = chart.dom.querySelectorAll('.mark');
  (chart.marks || []).forEach(function (m, k) {
    var at = axis === 'iteration' ? m : interpolate(data.clocks[0].x, data.clocks[0][axis] || [], m);
    if (marks[k]) marks[k].setAttribute('d', isFinite(at) && at >= lo && at <= hi ? 'M' + X(at) + ' 0V' + H : '');
  });
}
function logTicks(from, to) {
  var all = [], k;
  for (k = Math.ceil(Math.log10(from) - 1e-9); k <= Math.log10(to) + 1e-9; ++k) all.push(Math.pow(10, k));
  return all.length > 1 ? all : ticks(from, to, 3).filter(function (v) { return v > 0; });
}
function timeTicks(lo, hi) {
  var steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400], step = steps[0], all = [];
  steps.forEach(function (s) { if ((hi - lo) / step > 5) step = s; });
  while ((hi - lo) / step > 5) step *= 2;
  if (hi - lo < 3) return ticks(lo, hi, 3).filter(function (v) { return v === Math.round(v); });
  for (var k = Math.ceil(lo / step); k * step <= hi; ++k) all.push(k * step);
  return all;
}

function setAxis(name) {
  axis = name;
  data.charts.forEach(function (c) { c.lines.forEach(function (l) { l.px = positions(l); }); });
  data.extent = extent(data.charts);
}
function drawAll() { data.charts.forEach(draw); say(); }

// The cursor is at one place in all charts.
function nearest(xs, x) {
  var lo = 0, hi = xs.length - 1;
  while (hi - lo > 1) { var mid = (lo + hi) >> 1; if (xs[mid] <= x) lo = mid; else hi = mid; }
  return Math.abs(xs[hi] - x) < Math.abs(xs[lo] - x) ? hi : lo;
}
var cursor = null;
function showCursor(x) {
  cursor = x;
  data.charts.forEach(function (c) {
    var line = c.dom.querySelector('.cursor'), s = c.scale, inside = x !== null && x >= s.lo && x <= s.hi;
    line.style.display = inside ? 'block' : 'none';
    if (inside) line.style.left = (x - s.lo) / (s.hi - s.lo) * 100 + '%';
    c.dom.querySelector('.at').textContent = inside ? 'at ' + place(x) + others(x) : '';
    var outs = c.dom.querySelectorAll('.legend output');
    c.lines.forEach(function (l, k) {
      if (!outs[k]) return;
      if (!inside || !l.px.length) { outs[k].textContent = l.last; return; }
      var i = nearest(l.px, x), t = value(c, l.y[i]);
      if (l.lo && l.lo[i] !== l.hi[i]) t += ' (' + value(c, l.lo[i]) + ' to ' + value(c, l.hi[i]) + ')';
      if (l.s === 'smooth' && smoothing > 0) t += ', smoothed ' + value(c, l.smooth[i]);
      outs[k].textContent = t;
    });
  });
}
function others(x) {
  if (axis !== 'iteration') return axis === 'epoch' ? ' epochs' : '';
  var c = data.clocks.length === 1 ? data.clocks[0] : null, t = '';
  if (c && c.epoch && c.epoch.length) t += ', epoch ' + words(interpolate(c.x, c.epoch, x));
  if (c && c.time && c.time.length) t += ', ' + seconds(interpolate(c.x, c.time, x));
  return t;
}
function setView(v) {
  if (v && !(v[1] - v[0] > 0)) v = null;
  view = v; drawAll(); showCursor(cursor);
  var reset = document.getElementById('reset');
  if (reset) reset.disabled = !view;
}

function watch(chart) {
  var plot = chart.dom.querySelector('.plot'), box = chart.dom.querySelector('.zoom'), start = null;
  function at(e) {
    var r = plot.getBoundingClientRect(), f = Math.max(0, Math.min(1, (e.clientX - r.left) / r.width));
    return chart.scale.lo + f * (chart.scale.hi - chart.scale.lo);
  }
  plot.addEventListener('pointerdown', function (e) {
    if (e.button) return;
    start = at(e);
    plot.setPointerCapture(e.pointerId);
  });
  plot.addEventListener('pointermove', function (e) {
    var x = at(e), s = chart.scale;
    showCursor(x);
    if (start === null) return;
    var a = Math.min(x, start), b = Math.max(x, start);
    box.style.display = 'block';
    box.style.left = (a - s.lo) / (s.hi - s.lo) * 100 + '%';
    box.style.width = (b - a) / (s.hi - s.lo) * 100 + '%';
  });
  plot.addEventListener('pointerup', function (e) {
    var x = at(e), s = chart.scale, a = Math.min(x, start), b = Math.max(x, start);
    box.style.display = 'none';
    if (start !== null && (b - a) / (s.hi - s.lo) > 0.02) setView([a, b]);
    start = null;
  });
  plot.addEventListener('pointercancel', function () { start = null; box.style.display = 'none'; });
  plot.addEventListener('pointerleave', function () { if (start === null) showCursor(null); });
  plot.addEventListener('dblclick', function () { setView(null); });
  plot.addEventListener('keydown', function (e) {
    var s = chart.scale, width = s.hi - s.lo, x = cursor === null ? (s.lo + s.hi) / 2 : cursor;
    if (e.key === 'ArrowRight') showCursor(Math.min(s.hi, x + width / 100));
    else if (e.key === 'ArrowLeft') showCursor(Math.max(s.lo, x - width / 100));
    else if (e.key === '+' || e.key === '=') setView([x - (x - s.lo) / 2, x + (s.hi - x) / 2]);
    else if (e.key === '-') setView([Math.max(data.extent[0], s.lo - width / 2), Math.min(data.extent[1], s.hi + width / 2)]);
    else if (e.key === 'Escape') setView(null);
    else return;
    e.preventDefault();
  });
}

function save(name, type, content) {
  var a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([content], { type: type }));
  a.download = name;
  a.click();
  setTimeout(function () { URL.revokeObjectURL(a.href); }, 1000);
}
function quoted(s) { return /[",\n]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s; }
function csv(chart) {
  var rows = ['line,iteration,value,least,greatest'];
  chart.lines.forEach(function (l) {
    l.it.forEach(function (i, k) {
      rows.push([quoted(l.n), i, l.y[k], l.lo ? l.lo[k] : l.y[k], l.hi ? l.hi[k] : l.y[k]].join(','));
    });
  });
  save(chart.id + '.csv', 'text/csv', rows.join('\n') + '\n');
}
function xml(s) { return s.replace(/[&<>"]/g, function (c) { return '&#' + c.charCodeAt(0) + ';'; }); }
// For papers: on white, with names at both axes, and lines that differ without colours.
function picture(chart) {
  var w = 640, h = 320, l = 74, t = 14, pw = w - l - 16, ph = h - t - 66, s = chart.scale;
  var name = chart.dom.querySelector('h3').textContent;
  var out = '<svg xmlns="http://www.w3.org/2000/svg" width="' + w + '" height="' + h + '" viewBox="0 0 ' + w + ' ' + h +
    '" font-family="Helvetica, Arial, sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>' +
    '<text text-anchor="middle" transform="translate(16 ' + (t + ph / 2) + ') rotate(-90)">' + xml(name) + '</text>' +
    '<defs><clipPath id="p"><rect x="-5" y="-5" width="' + (pw + 10) + '" height="' + (ph + 10) + '"/></clipPath></defs><g transform="translate(' + l + ' ' + t + ')">';
  chart.ys.forEach(function (v) {
    var y = s.Y(v) / H * ph;
    out += '<path stroke="#ddd" d="M0 ' + y + 'H' + pw + '"/><text text-anchor="end" x="-6" y="' + (y + 4) + '">' + xml(value(chart, v)) + '</text>';
  });
  chart.xs.forEach(function (v) {
    out += '<text text-anchor="middle" x="' + s.X(v) / W * pw + '" y="' + (ph + 15) + '">' + short(v) + '</text>';
  });
  out += '<path stroke="#444" fill="none" d="M0 0V' + ph + 'H' + pw + '"/><g clip-path="url(#p)">';
  var inks = ['#0b62a8', '#c2410c', '#0f766e', '#8e2bd0', '#8a6100', '#be185d', '#3f6f0b', '#475569'];
  var dashes = ['', '7 4', '2 4', '10 3 2 3', '12 5', '5 2 1 2', '1 3', '9 3 3 3 3 3'];
  var widths = { raw: 1, smooth: 2, plain: 2, dots: 5 }, drawn = [];
  chart.dom.querySelectorAll('g.line').forEach(function (g, k) {
    if (chart.lines[k].hidden) return;
    var kinds = g.getAttribute('class'), ink = inks[+/k(\d)/.exec(kinds)[1] - 1], one = /one/.test(kinds);
    var dash = dashes[drawn.length % dashes.length];
    drawn.push([chart.lines[k].n, ink, dash]);
    g.querySelectorAll('path').forEach(function (p) {
      var kind = p.getAttribute('class');
      out += '<path transform="scale(' + pw / W + ' ' + ph / H + ')" vector-effect="non-scaling-stroke" d="' + p.getAttribute('d') + '" ' +
        (kind === 'band' ? 'fill="' + ink + '" fill-opacity="0.22"' : 'fill="none" stroke="' + ink + '" stroke-width="' + (one ? 7 : widths[kind]) +
        '" stroke-linecap="' + (kind === 'dots' || one ? 'round' : 'butt') + '" stroke-linejoin="round"' + (kind === 'raw' ? ' stroke-opacity="0.4"' : '') +
        (dash && !one && kind !== 'raw' && kind !== 'dots' ? ' stroke-dasharray="' + dash + '"' : '')) + '/>';
    });
  });
  out += '</g><text text-anchor="middle" x="' + pw / 2 + '" y="' + (ph + 32) + '">' + axis + '</text></g>';
  var x = l;
  drawn.forEach(function (d) {
    out += '<path stroke="' + d[1] + '" stroke-width="2"' + (d[2] ? ' stroke-dasharray="' + d[2] + '"' : '') + ' d="M' + x + ' ' + (h - 12) + 'h26"/><text x="' + (x + 31) + '" y="' + (h - 8) + '">' + xml(d[0]) + '</text>';
    x += 47 + 6.2 * d[0].length;
  });
  save(chart.id + '.svg', 'image/svg+xml', out + '</svg>\n');
}

function say() {
  var out = document.getElementById('smoothing-value');
  if (!out) return;
  var span = smoothing / 100 * (data.extent[1] - data.extent[0]);
  out.textContent = smoothing > 0 ? 'over ' + words(smoothing) + '% of the run (' + place(span) + (axis === 'time' ? '' : axis === 'epoch' ? ' epochs' : ' iterations') + ')' : 'off';
}

// Draws the charts of the page with the settings that the reader chose.
function start() {
  if (!data.charts.length) return;
  var slider = document.getElementById('smoothing'), choice = document.getElementById('axis'), logs = document.getElementById('log');
  choice.value = axis;
  if (choice.value !== axis) { axis = 'iteration'; choice.value = axis; view = null; }
  slider.value = smoothing;
  if (logs) logs.checked = log; else log = false;
  setAxis(axis);
  data.charts.forEach(function (c) {
    c.dom = document.getElementById(c.id);
    var groups = c.dom.querySelectorAll('g.line'), outs = c.dom.querySelectorAll('.legend output');
    c.lines.forEach(function (l, k) {
      l.dom = Array.prototype.slice.call(groups[k].querySelectorAll('path'));
      l.last = outs[k] ? outs[k].textContent : '';
      var key = c.id + ' ' + l.n;
      l.hidden = !!hiddenLines[key];
      var item = outs[k] && outs[k].parentNode.querySelector('button');
      if (item && l.hidden) item.setAttribute('aria-pressed', 'false');
      if (item && c.lines.length > 1) item.addEventListener('click', function () {
        l.hidden = hiddenLines[key] = !l.hidden;
        item.setAttribute('aria-pressed', String(!l.hidden));
        draw(c);
      });
    });
    watch(c);
    c.dom.querySelector('.csv').addEventListener('click', function () { csv(c); });
    c.dom.querySelector('.svg').addEventListener('click', function () { picture(c); });
  });
  slider.addEventListener('input', function () { smoothing = +slider.value; drawAll(); });
  choice.addEventListener('change', function () { setAxis(choice.value); view = null; setView(null); });
  if (logs) logs.addEventListener('change', function () { log = logs.checked; drawAll(); });
  document.getElementById('reset').addEventListener('click', function () { setView(null); });
  setView(view);
}

// Tables sort by a column when its head is pressed.
function prepare(root) {
root.querySelectorAll('table.sorts').forEach(function (table) {
  table.querySelectorAll('thead th').forEach(function (head, column) {
    var button = document.createElement('button');
    button.type = 'button';
    while (head.firstChild) button.appendChild(head.firstChild);
    head.appendChild(button);
    button.addEventListener('click', function () {
      var down = head.getAttribute('aria-sort') === 'descending' ||
        (head.getAttribute('aria-sort') !== 'ascending' && !head.classList.contains('number'));
      table.querySelectorAll('thead th').forEach(function (h) { h.removeAttribute('aria-sort'); });
      head.setAttribute('aria-sort', down ? 'ascending' : 'descending');
      var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);
      var key = function (row) {
        var cell = row.cells[column], v = cell.getAttribute('data-v');
        return v === null ? cell.textContent : v === '' ? null : +v;
      };
      rows.sort(function (a, b) {
        var x = key(a), y = key(b);
        if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
        var order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
        return down ? order : -order;
      });
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
});
root.querySelectorAll('button.copy').forEach(function (button) {
  button.addEventListener('click', function () {
    var code = button.parentNode.querySelector('code');
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(function () { button.textContent = 'Copied'; });
    else { var r = document.createRange(); r.selectNodeContents(code); var s = getSelection(); s.removeAllRanges(); s.addRange(r); }
  });
});
}
load();
start();
prepare(document);
window.cremaReport = { drawCharts: function () { load(); start(); }, prepare: prepare };
document.documentElement.classList.add('scripted');
}());
)js";

}  // namespace crema
