/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What all pictures share: elements, numbers for people, colours, the data, one tooltip. */
'use strict';

/* Whatever goes wrong is said on the page: a picture that is missing must not look like "nothing". */
function trouble(text) {
	const at = document.getElementById('trouble');
	at.textContent = `Part of this report could not be drawn: ${text}`;
	at.hidden = false;
}
addEventListener('error', (event) => trouble(event.message));

/* Text from the data goes in here only, as text: nothing on this page parses it as HTML. */
function el(tag, attributes, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {}))
		node.setAttribute(name, value);
	node.append(...children.filter((child) => child !== null && child !== undefined));
	return node;
}

const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
const unknown = '–';

function digits(value) {
	const size = Math.abs(value);
	return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

function fmtUs(us) {
	if (!known(us))
		return unknown;
	const size = Math.abs(us);
	if (size < 1000)
		return `${Math.round(us)} µs`;
	if (size < 1e6)
		return `${digits(us / 1e3)} ms`;
	return size < 120e6 ? `${digits(us / 1e6)} s` : `${digits(us / 60e6)} min`;
}

/* A moment of the window; `step` = how far moments that are shown together lie apart, us. */
function fmtAt(us, step) {
	const places = step >= 1e6 ? 0 : Math.min(6, Math.ceil(6 - Math.log10(Math.max(step, 1))));
	const seconds = us / 1e6;
	if (Math.abs(seconds) < 120)
		return `${seconds.toFixed(places)} s`;
	/* rounded first, or 119.996 s would read 1:60 */
	const rounded = Number(seconds.toFixed(places));
	const hours = Math.floor(rounded / 3600), minutes = Math.floor(rounded / 60) % 60;
	const rest = (rounded % 60).toFixed(places).padStart(places ? places + 3 : 2, '0');
	return hours ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

function fmtBytes(bytes) {
	if (!known(bytes))
		return unknown;
	let unit = 0;
	for (; bytes >= 1024 && unit < 5; unit++)
		bytes /= 1024;
	return `${digits(bytes)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`;
}

const fmtCount = (count) => known(count) ? count.toLocaleString('en-US') : unknown;
const fmtRatio = (ratio) => known(ratio) ? `${(ratio * 100).toFixed(1)} %` : unknown;

/*
 * Colours after Okabe and Ito, and patterns where two would be close for a colour-blind reader.
 * The order is that of the tool's states.
 */
const STATES = {
	run: ['#0072b2', '', 'on a CPU'],
	runq: ['#e69f00', '', 'ready, waiting for a CPU (quota included)'],
	disk: ['#7b2d5e', '', 'a read waits for a block device'],
	fault: ['#cc79a7', '/', 'a page fault waits for a block device'],
	fs: ['#7b2d5e', '\\', 'in a network or user-space file system'],
	net: ['#009e73', '', 'on a network socket'],
	lock: ['#d55e00', '', 'on a lock'],
	gil: ['#d9c500', '/', 'on Python’s interpreter lock'],
	pipe: ['#56b4e9', '', 'on a pipe of the job: moving batches'],
	sleep: ['#8c7ae6', '\\', 'asleep on purpose'],
	idle: ['--idle', '', 'nothing to do'],
	other: ['#8a8f98', '/', 'anything else'],
};

const STAGES = {
	queued: ['--idle', '', 'asked for, the worker is not there yet'],
	making: ['#0072b2', '', 'a worker makes it'],
	moving: ['#e69f00', '', 'made, the trainer has not read it yet'],
	ready: ['#009e73', '', 'read, until GetNext returns it'],
	waiting: ['#d55e00', '', 'training waits inside GetNext'],
};

let theme = {};
function readTheme() {
	const style = getComputedStyle(document.documentElement);
	const names = ['page', 'card', 'ink', 'soft', 'line', 'grid', 'accent', 'bad', 'band', 'idle'];
	theme = { paint: new Map() };
	for (const name of names)
		theme[name] = style.getPropertyValue(`--${name}`).trim();
}

/* Fill style of an entry of the tables above. */
function paintOf(entry) {
	if (theme.paint.has(entry))
		return theme.paint.get(entry);
	const [colour, pattern] = entry;
	const plain = colour.startsWith('--') ? theme[colour.slice(2)] : colour;
	let paint = plain;
	if (pattern) {
		const tile = el('canvas', { width: 6, height: 6 });
		const ctx = tile.getContext('2d');
		ctx.fillStyle = plain;
		ctx.fillRect(0, 0, 6, 6);
		ctx.strokeStyle = '#ffffffb0';
		ctx.lineWidth = 1.3;
		for (const shift of [-6, 0, 6]) {
			ctx.moveTo(shift, pattern === '/' ? 6 : 0);
			ctx.lineTo(shift + 6, pattern === '/' ? 0 : 6);
		}
		ctx.stroke();
		paint = ctx.createPattern(tile, 'repeat');
	}
	theme.paint.set(entry, paint);
	return paint;
}

/* Columns of the data are arrays, or one value when it is the same in each row. */
function column(table, name) {
	const out = new Float64Array(table.rows);
	const value = table[name];
	if (!Array.isArray(value))
		return out.fill(value === null || value === undefined ? NaN : value);
	for (let i = 0; i < table.rows; i++)
		out[i] = value[i] === null ? NaN : value[i];
	return out;
}

/* Each value is the distance to the one before. */
function summed(table, name) {
	const out = column(table, name);
	for (let i = 1; i < out.length; i++)
		out[i] += out[i - 1];
	return out;
}

/* First position in a rising array whose value is at least `value`. */
function lowerBound(array, value) {
	let low = 0, high = array.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (array[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

function showTip(event, title, rows) {
	const tip = byId('tip');
	const list = el('dl');
	for (const [name, value] of rows)
		list.append(el('dt', {}, name), el('dd', {}, value));
	tip.replaceChildren(el('h4', {}, title), list);
	tip.hidden = false;
	const box = tip.getBoundingClientRect();
	const below = event.clientY + 18 + box.height < innerHeight;
	tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
	tip.style.top = `${Math.max(4, below ? event.clientY + 18 : event.clientY - box.height - 14)}px`;
}

function hideTip() {
	byId('tip').hidden = true;
}

function legend(table, names) {
	const list = el('ul', { class: 'legend' });
	for (const name of names) {
		const swatch = el('canvas', { width: 32, height: 24, 'aria-hidden': 'true' });
		swatch.dataset.swatch = name;
		swatch.dlpEntry = table[name];
		list.append(el('li', {}, swatch, el('span', {}, el('b', {}, name), ` ${table[name][2]}`)));
	}
	return list;
}

function paintSwatches() {
	for (const swatch of document.querySelectorAll('canvas[data-swatch]')) {
		const ctx = swatch.getContext('2d');
		ctx.setTransform(2, 0, 0, 2, 0, 0);
		ctx.fillStyle = paintOf(swatch.dlpEntry);
		ctx.fillRect(0, 0, 16, 12);
	}
}

/* Sizes the canvas for the screen's pixels; drawing is in CSS pixels from then on. */
function prepare(canvas, height) {
	const ratio = devicePixelRatio || 1;
	const width = canvas.clientWidth;
	canvas.style.height = `${height}px`;
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	const ctx = canvas.getContext('2d');
	ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
	ctx.clearRect(0, 0, width, height);
	ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
	return { ctx, width, height };
}
