// The script of the board's pages: it asks for what has changed, and shows what weights see in
// images. Without it pages are as they were when they were opened.
#include "monitor/board/pages.hpp"

namespace crema {

const char* const kBoardScript = R"js(
(function () {
'use strict';
var dataOf = document.getElementById('board-data');
var board = dataOf ? JSON.parse(dataOf.textContent) : {};
var state = document.getElementById('board-state');
if (!board.url) return;
var have = {}, lost = 0, timer = null, held = false;
board.parts.forEach(function (p) { have[p.id] = p.hash; });

function byId(id) { return document.getElementById(id); }
function element(html) { var t = document.createElement('template'); t.innerHTML = html; return t.content.firstElementChild; }
function make(name, className, words) {
  var e = document.createElement(name);
  if (className) e.className = className;
  if (words !== undefined) e.textContent = words;
  return e;
}

// What the reader has opened, scrolled and chosen in a part, for the new one.
function choices(part) {
  return {
    open: Array.prototype.map.call(part.querySelectorAll('details'), function (d) { return d.open; }),
    scroll: Array.prototype.map.call(part.querySelectorAll('.scroll,.net,pre'), function (e) { return [e.scrollLeft, e.scrollTop, e.scrollTop + e.clientHeight >= e.scrollHeight - 4]; }),
    checked: Array.prototype.filter.call(part.querySelectorAll('input[type=checkbox]'), function (b) { return b.checked; }).map(function (b) { return b.id + ' ' + b.value; }),
    sorted: Array.prototype.map.call(part.querySelectorAll('table.sorts'), function (t) {
      var heads = Array.prototype.slice.call(t.querySelectorAll('thead th')), at = heads.findIndex(function (h) { return h.hasAttribute('aria-sort'); });
      return at < 0 ? null : [at, heads[at].getAttribute('aria-sort')];
    })
  };
}
function choose(part, was) {
  part.querySelectorAll('details').forEach(function (d, k) { if (k < was.open.length) d.open = was.open[k]; });
  part.querySelectorAll('input[type=checkbox]').forEach(function (b) { b.checked = was.checked.indexOf(b.id + ' ' + b.value) >= 0; });
  part.querySelectorAll('table.sorts').forEach(function (t, k) {
    if (!was.sorted[k]) return;
    var head = t.querySelectorAll('thead th')[was.sorted[k][0]];
    for (var n = 0; head && n < 2 && head.getAttribute('aria-sort') !== was.sorted[k][1]; ++n) head.querySelector('button').click();
  });
  part.querySelectorAll('.scroll,.net,pre').forEach(function (e, k) {
    if (k >= was.scroll.length) return;
    e.scrollLeft = was.scroll[k][0];
    e.scrollTop = was.scroll[k][2] && e.classList.contains('log') ? e.scrollHeight : was.scroll[k][1];
  });
}

function put(answer) {
  var main = document.querySelector('main'), ids = {}, before = null, curves = false;
  answer.parts.forEach(function (p) {
    ids[p.id] = true;
    if (p.id === 'head') {
      if (p.html !== undefined) byId('head').innerHTML = p.html;
      byId('head').setAttribute('data-hash', p.hash);
      have.head = p.hash;
      return;
    }
    var old = byId(p.id);
    if (p.html !== undefined && p.id === 'images' && old) p.html = undefined;  // it holds what was seen
    if (p.html !== undefined) {
      var part = element(p.html), was = old ? choices(old) : null;
      if (old) old.replaceWith(part); else main.insertBefore(part, before ? before.nextSibling : main.firstChild);
      old = part;
      window.cremaReport.prepare(part);
      if (was) choose(part, was);
      curves = curves || p.id === 'curves';
      if (p.id === 'images') readyImages();
      if (p.id === 'net') readyMeasure();
    }
    have[p.id] = p.hash;
    before = old;
  });
  Object.keys(have).forEach(function (id) {
    if (ids[id]) return;
    var old = byId(id);
    if (old && id !== 'images') old.remove();
    delete have[id];
  });
  byId('parts').innerHTML = answer.links;
  document.title = (answer.live && answer.run ? '\u25cf ' : '') + answer.title;
  board.live = answer.live;
  if (answer.curves !== undefined) {
    var holder = byId('curves-data');
    if (!holder) {
      holder = make('script');
      holder.type = 'application/json';
      holder.id = 'curves-data';
      document.body.appendChild(holder);
    }
    holder.textContent = answer.curves;
  }
  if (curves) window.cremaReport.drawCharts();
  offerWeights(answer.weights);
}

function say(words, isLost) {
  state.textContent = words;
  state.className = isLost ? 'lost' : 'faint';
}
function again(seconds) { clearTimeout(timer); timer = setTimeout(ask, seconds * 1000); }
function ask() {
  // A chart that the reader is pressing stays.
  if (document.hidden || held) { again(1); return; }
  var list = Object.keys(have).map(function (id) { return id + ':' + have[id]; }).join(',');
  fetch(board.url + 'have=' + encodeURIComponent(list), { cache: 'no-store' }).then(function (r) {
    if (r.status === 404) throw { gone: true };
    if (!r.ok) throw { status: r.status };
    return r.json();
  }).then(function (answer) {
    lost = 0;
    put(answer);
    say(answer.live ? 'Live: this page follows ' + (answer.run ? 'the run.' : 'the runs.') : '', false);
    again(answer.live ? 2 : 10);
  }).catch(function (e) {
    if (e && e.gone) say('This is not in the folder of runs any more.', true);
    else if (++lost > 1) say('The board does not answer. Is crema board still running?', true);
    again(Math.min(30, 3 * lost + 2));
  });
}
document.addEventListener('pointerdown', function () { held = true; });
document.addEventListener('pointermove', function (e) { if (!e.buttons) held = false; });
['pointerup', 'pointercancel'].forEach(function (name) { document.addEventListener(name, function () { held = false; }); });
document.addEventListener('visibilitychange', function () { if (!document.hidden) again(0); });

// --- Images ------------------------------------------------------------------------------------
var waiting = [], busy = false;
function offerWeights(all) {
  var select = byId('weights');
  if (!select) return;
  var key = JSON.stringify(all), chosen = select.value;
  if (select.getAttribute('data-key') === key) return;
  select.setAttribute('data-key', key);
  select.textContent = '';
  all.forEach(function (w) {
    var option = make('option', '', w.words);
    option.value = w.name;
    select.appendChild(option);
  });
  if (all.some(function (w) { return w.name === chosen; })) select.value = chosen;
}
function svg(name, attributes) {
  var e = document.createElementNS('http://www.w3.org/2000/svg', name);
  Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
  return e;
}
function drawBoxes(item) {
  var least = byId('confidence').value / 100, shown = 0;
  item.querySelectorAll('.one-box').forEach(function (e) {
    var on = +e.getAttribute('data-score') >= least;
    e.style.display = on ? '' : 'none';
    if (on && e.tagName === 'LI') ++shown;
  });
  item.querySelector('.count').textContent = shown === 0 ? 'no box of this confidence' : shown + (shown === 1 ? ' box' : ' boxes');
}
function showSeen(item, frame, seen) {
  var scores = make('ul', 'scores');
  if (seen.kind === 'boxes') {
    var drawing = svg('svg', { viewBox: '0 0 ' + seen.width + ' ' + seen.height, preserveAspectRatio: 'none' });
    seen.found.forEach(function (f) {
      var b = f.box, rect = svg('rect', { x: b[0], y: b[1], width: Math.max(0, b[2] - b[0]), height: Math.max(0, b[3] - b[1]), 'class': 'box one-box', 'data-score': f.score });
      rect.style.setProperty('--b', f.color);
      drawing.appendChild(rect);
      var tag = make('span', 'tag one-box' + (b[1] < seen.height * 0.08 ? ' under' : ''), f.name + ' ' + f.score.toFixed(2));
      tag.setAttribute('data-score', f.score);
      tag.style.setProperty('--b', f.color);
      tag.style.left = 100 * b[0] / seen.width + '%';
      tag.style.top = 100 * b[1] / seen.height + '%';
      frame.appendChild(tag);
    });
    frame.insertBefore(drawing, frame.children[1] || null);
    byId('least').hidden = false;
  }
  if (seen.mask) {
    var mask = make('img', 'over');
    mask.src = seen.mask;
    mask.alt = 'The class of each pixel';
    frame.appendChild(mask);
  }
  seen.found.forEach(function (f) {
    var line = make('li', seen.kind === 'boxes' ? 'one-box' : ''), bar = make('i');
    line.setAttribute('data-score', f.score);
    bar.style.width = 100 * Math.max(0, Math.min(1, f.score)) + '%';
    if (seen.kind !== 'classes') bar.style.background = f.color;
    line.appendChild(bar);
    line.appendChild(make('span', '', f.name));
    line.appendChild(make('b', '', seen.kind === 'mask' ? (100 * f.score).toFixed(1) + '%' : f.score.toFixed(4)));
    scores.appendChild(line);
  });
  if (seen.kind === 'boxes') item.appendChild(make('div', 'count'));
  item.appendChild(scores);
  item.appendChild(make('div', 'faint', seen.width + ' \u00d7 ' + seen.height + ', ' + seen.milliseconds.toFixed(1) + ' ms'));
  seen.notes.forEach(function (n) { item.appendChild(make('div', 'faint', n)); });
  if (seen.kind === 'boxes') drawBoxes(item);
}
function next() {
  if (busy || !waiting.length) return;
  var file = waiting.shift(), select = byId('weights'), status = byId('see-state');
  busy = true;
  status.textContent = 'Looking at ' + file.name + (waiting.length ? ', ' + waiting.length + ' more wait' : '') + ' ...';
  var item = make('li'), frame = make('div', 'image'), picture = make('img'), words = select.options[select.selectedIndex];
  picture.alt = file.name;
  picture.src = URL.createObjectURL(file);
  picture.addEventListener('error', function () { picture.remove(); frame.appendChild(make('div', 'none', 'no image')); });
  picture.addEventListener('load', function () { URL.revokeObjectURL(picture.src); if (picture.naturalWidth < 100) frame.classList.add('small'); });
  frame.appendChild(picture);
  item.appendChild(frame);
  item.appendChild(make('div', '', file.name + (words ? ', by ' + words.textContent : '')));
  fetch('/see/' + board.run + '?weights=' + select.value, { method: 'POST', body: file, headers: { 'X-Crema-Board': '1', 'Content-Type': 'application/octet-stream' } }).then(function (r) {
    return r.json();
  }).then(function (seen) {
    if (seen.error) item.appendChild(make('p', 'fail', seen.error)); else showSeen(item, frame, seen);
  }).catch(function () {
    item.appendChild(make('p', 'fail', 'The board did not answer.'));
  }).then(function () {
    byId('seen').insertBefore(item, byId('seen').firstChild);
    status.textContent = '';
    busy = false;
    next();
  });
}
function take(files) {
  Array.prototype.forEach.call(files, function (file) { waiting.push(file); });
  next();
}
function readyImages() {
  var files = byId('see-files');
  if (!files) return;
  files.addEventListener('change', function () { take(files.files); files.value = ''; });
  byId('confidence').addEventListener('input', function () {
    byId('confidence-value').textContent = (this.value / 100).toFixed(2);
    byId('seen').querySelectorAll('li').forEach(function (item) { if (item.querySelector('.count')) drawBoxes(item); });
  });
}
document.addEventListener('dragover', function (e) {
  e.preventDefault();
  if (byId('drop')) document.body.classList.add('over');
});
document.addEventListener('dragleave', function (e) { if (!e.relatedTarget) document.body.classList.remove('over'); });
document.addEventListener('drop', function (e) {
  e.preventDefault();
  document.body.classList.remove('over');
  if (!byId('drop')) return;
  take(e.dataTransfer.files);
  byId('images').scrollIntoView();
});

function readyMeasure() {
  var button = byId('measure');
  if (!button) return;
  button.addEventListener('click', function () {
    var words = byId('measure-state');
    button.disabled = true;
    words.textContent = 'Running the net ...';
    fetch('/measure/' + board.run, { method: 'POST', body: '', headers: { 'X-Crema-Board': '1' } }).then(function (r) { return r.json(); }).then(function (answer) {
      words.textContent = answer.error || '';
      button.disabled = false;
      if (!answer.error) again(0);
    }).catch(function () { words.textContent = 'The board did not answer.'; button.disabled = false; });
  });
}

readyImages();
readyMeasure();
offerWeights(board.weights);
document.title = (board.live && board.run ? '\u25cf ' : '') + board.title;
say(board.live ? 'Live: this page follows ' + (board.run ? 'the run.' : 'the runs.') : '', false);
again(2);
}());
)js";

}  // namespace crema
