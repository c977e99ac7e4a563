/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of the window that the timeline shows, and the ways to move it. */
'use strict';

const NARROWEST_US = 200;

class View {
	constructor(span) {
		this.span = Math.max(span, 1);
		this.from = 0;
		this.to = this.span;
		this.listeners = [];
		this.pending = false;
	}

	get width() { return this.to - this.from; }

	set(from, to) {
		const width = Math.min(this.span, Math.max(to - from, Math.min(NARROWEST_US, this.span)));
		const start = Math.max(0, Math.min((from + to - width) / 2, this.span - width));
		if (start === this.from && start + width === this.to)
			return;
		this.from = start;
		this.to = start + width;
		this.redraw();
	}

	redraw() {
		if (this.pending)
			return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			for (const listener of this.listeners)
				listener();
		});
	}

	/* `at`: share of the width that stays where it is. */
	zoom(factor, at = 0.5) {
		const pin = this.from + at * this.width;
		this.set(pin - at * this.width * factor, pin + (1 - at) * this.width * factor);
	}

	/* By a share of what is shown; the width stays. */
	move(share) {
		const by = Math.max(-this.from, Math.min(share * this.width, this.span - this.to));
		this.set(this.from + by, this.to + by);
	}
}

function keysFor(view, node) {
	const actions = {
		'+': () => view.zoom(0.5), '=': () => view.zoom(0.5), '-': () => view.zoom(2),
		ArrowLeft: () => view.move(-0.2), ArrowRight: () => view.move(0.2),
		Home: () => view.set(0, view.span), 0: () => view.set(0, view.span),
	};
	node.addEventListener('keydown', (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key])
			return;
		event.preventDefault();
		actions[event.key]();
	});
}

function share(event, node) {
	const box = node.getBoundingClientRect();
	return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
}

/* Drag, pinch, wheel and hover on one picture of the timeline; `hover(event)` shows the tooltip. */
function handsFor(view, canvas, hover) {
	const fingers = new Map();
	canvas.addEventListener('wheel', (event) => {
		const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
		if (!event.ctrlKey && !event.metaKey && !sideways)
			return; /* the page scrolls */
		event.preventDefault();
		const delta = sideways && !event.ctrlKey ? event.deltaX || event.deltaY : event.deltaY;
		if (event.ctrlKey || event.metaKey)
			view.zoom(Math.exp(Math.max(-60, Math.min(60, delta)) / 150), share(event, canvas));
		else
			view.move(delta / canvas.clientWidth);
	}, { passive: false });
	canvas.addEventListener('dblclick', (event) => view.zoom(0.25, share(event, canvas)));
	canvas.addEventListener('pointerdown', (event) => {
		fingers.set(event.pointerId, event.clientX);
		canvas.setPointerCapture(event.pointerId);
		if (event.pointerType !== 'mouse')
			hover(event);
	});
	canvas.addEventListener('pointermove', (event) => {
		if (!fingers.has(event.pointerId))
			return hover(event);
		const spread = () => {
			const at = [...fingers.values()];
			return at.length > 1 ? Math.max(Math.abs(at[0] - at[1]), 10) : 0;
		};
		const before = spread(), last = fingers.get(event.pointerId);
		fingers.set(event.pointerId, event.clientX);
		if (before)
			view.zoom(before / spread(), share(event, canvas));
		else if (event.clientX !== last)
			view.move((last - event.clientX) / canvas.clientWidth);
		hideTip();
	});
	for (const name of ['pointerup', 'pointercancel'])
		canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
	canvas.addEventListener('pointerleave', (event) => {
		if (event.pointerType === 'mouse')
			hideTip();
	});
}

/* The strip that always shows the whole window: dragging in it chooses what is shown below. */
function overviewFor(view, canvas) {
	let anchor = null;
	const at = (event) => share(event, canvas) * view.span;
	canvas.addEventListener('pointerdown', (event) => {
		anchor = at(event);
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener('pointermove', (event) => {
		if (anchor !== null && Math.abs(at(event) - anchor) > view.span / canvas.clientWidth * 4)
			view.set(Math.min(anchor, at(event)), Math.max(anchor, at(event)));
	});
	canvas.addEventListener('pointerup', (event) => {
		/* a click moves what is shown there */
		if (anchor !== null && Math.abs(at(event) - anchor) <= view.span / canvas.clientWidth * 4)
			view.set(anchor - view.width / 2, anchor + view.width / 2);
		anchor = null;
	});
}

/* Round distance between marks of an axis that has room for `count` of them. */
function tickStep(width, count) {
	const rough = width / Math.max(count, 1);
	if (rough > 1e6) {
		for (const seconds of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600])
			if (seconds * 1e6 >= rough)
				return seconds * 1e6;
		return Math.ceil(rough / 86400e6) * 86400e6;
	}
	const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
	return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}
