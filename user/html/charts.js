/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pictures of durations and rates: over time, and their distribution. */
'use strict';

const AXIS = 18; /* height of the time axis */

/* A canvas on the shared time axis; draws itself again when the view moves. */
class TimePicture {
	constructor(run, view, parts) {
		this.run = run;
		this.view = view;
		this.height = parts.height;
		this.note = el('span');
		this.canvas = el('canvas', { role: 'img', 'aria-label': parts.label });
		this.figure = el('figure', {}, el('figcaption', {}, el('h3', {}, parts.title),
			el('span', {}, parts.text), this.note), this.canvas);
		view.listeners.push(() => this.draw());
		handsFor(view, this.canvas, (event) => this.hover(event));
	}

	x(us) { return (us - this.view.from) / this.view.width * this.paper.width; }
	at(event) { return this.view.from + share(event, this.canvas) * this.view.width; }

	draw() {
		this.paper = prepare(this.canvas, this.height);
		const { ctx, width } = this.paper, bottom = this.height - AXIS;
		this.bottom = bottom;
		const step = tickStep(this.view.width, width / 72);
		ctx.lineWidth = 1;
		ctx.textAlign = 'center';
		for (let at = Math.ceil(this.view.from / step) * step; at <= this.view.to; at += step) {
			const x = Math.round(this.x(at)) + 0.5;
			ctx.strokeStyle = theme.grid;
			ctx.beginPath();
			ctx.moveTo(x, 0);
			ctx.lineTo(x, bottom);
			ctx.stroke();
			ctx.fillStyle = theme.soft;
			if (x > 18 && x < width - 18)
				ctx.fillText(fmtAt(at, step), x, this.height - 4);
		}
		ctx.strokeStyle = theme.line;
		ctx.strokeRect(0.5, 0.5, width - 1, bottom - 1);
		ctx.save();
		ctx.beginPath();
		ctx.rect(0, 0, width, bottom);
		ctx.clip();
		this.paint(ctx);
		ctx.restore();
	}

	/* Text with a ground of its own, over whatever is drawn there. */
	label(text, x, y) {
		const { ctx } = this.paper;
		ctx.textAlign = 'left';
		const width = ctx.measureText(text).width;
		ctx.globalAlpha = 0.82;
		ctx.fillStyle = theme.card;
		ctx.fillRect(x - 2, y - 10, width + 4, 13);
		ctx.globalAlpha = 1;
		ctx.fillStyle = theme.soft;
		ctx.fillText(text, x, y);
	}
}

/* Durations on a logarithmic scale: the range and median of each bin, single calls, outliers. */
class DurationPicture extends TimePicture {
	constructor(run, view, parts) {
		super(run, view, parts);
		this.name = parts.name;
		this.column = parts.column;
		this.flag = parts.flag;
		this.values = run.calls[parts.column];
		let low = Infinity, high = 0;
		const least = run.bins[`${this.name}_min`], most = run.bins[`${this.name}_max`];
		for (let i = 0; i < run.bins.rows; i++) {
			if (!known(least[i]))
				continue;
			low = Math.min(low, Math.max(least[i], 1));
			high = Math.max(high, most[i]);
		}
		this.low = Math.log10(Math.min(low, 1e9)) - 0.15;
		this.high = Math.max(Math.log10(Math.max(high, 10)) + 0.15, this.low + 1);
		this.marks = [];
		const factors = this.high - this.low < 2 ? [1, 2, 5] : [1];
		for (let power = Math.floor(this.low); power <= this.high; power++)
			for (const factor of factors)
				if (factor * 10 ** power > 10 ** this.low && factor * 10 ** power < 10 ** this.high)
					this.marks.push(factor * 10 ** power);
	}

	y(us) {
		const share = (Math.log10(Math.max(us, 1)) - this.low) / (this.high - this.low);
		return this.bottom - share * this.bottom;
	}

	/* Ranges of a handful of calls say less than the calls do, where those are drawn. */
	paintBins(ctx) {
		const { bins } = this.run, { from, to } = this.view;
		const first = Math.max(0, Math.floor(from / bins.width));
		const last = Math.min(bins.rows - 1, Math.floor(to / bins.width));
		let inside = 0;
		for (let i = first; i <= last; i++)
			inside += bins.calls[i];
		if (this.dots && inside < 12 * (last - first + 1))
			return;
		const least = bins[`${this.name}_min`], most = bins[`${this.name}_max`];
		const median = bins[`${this.name}_median`];
		ctx.fillStyle = theme.band;
		for (let i = first; i <= last; i++) {
			if (!known(least[i]))
				continue;
			const x = this.x(i * bins.width), wide = this.x((i + 1) * bins.width) - x;
			const top = this.y(most[i]);
			ctx.fillRect(x, top, Math.max(wide, 1), Math.max(this.y(least[i]) - top, 1));
		}
		ctx.strokeStyle = theme.accent;
		ctx.lineWidth = 1.5;
		ctx.beginPath();
		let drawn = false;
		for (let i = first; i <= last; i++) {
			if (!known(median[i])) {
				drawn = drawn && bins.width / this.view.width * this.paper.width < 3;
				continue;
			}
			const x = this.x((i + 0.5) * bins.width), y = this.y(median[i]);
			if (drawn)
				ctx.lineTo(x, y);
			else
				ctx.moveTo(x, y);
			drawn = true;
		}
		ctx.stroke();
	}

	paint(ctx) {
		for (const us of this.marks) {
			const y = Math.round(this.y(us)) + 0.5;
			ctx.strokeStyle = theme.grid;
			ctx.beginPath();
			ctx.moveTo(0, y);
			ctx.lineTo(this.paper.width, y);
			ctx.stroke();
		}
		const { calls } = this.run;
		const first = lowerBound(calls.start, this.view.from);
		const last = lowerBound(calls.start, this.view.to);
		this.dots = last - first <= 4000;
		this.paintBins(ctx);
		if (this.dots)
			this.paintCalls(ctx, first, last);
		this.paintOutliers(ctx);
		for (const us of this.marks)
			this.label(fmtUs(us), 5, Math.max(11, this.y(us) + 4));
	}

	paintCalls(ctx, first, last) {
		const { calls } = this.run, size = last - first < 400 ? 4 : 3;
		ctx.fillStyle = theme.accent;
		for (let i = first; i < last; i++)
			if (known(this.values[i]) && (calls.flags[i] & CALL_WINDOW))
				ctx.fillRect(this.x(calls.start[i]) - size / 2, this.y(this.values[i]) - size / 2, size, size);
	}

	/* Diamonds, so that colour is not all that tells them; one per spot is enough. */
	paintOutliers(ctx) {
		const { outliers } = this.run, seen = new Set();
		ctx.fillStyle = theme.bad;
		ctx.beginPath();
		for (let i = lowerBound(outliers.start, this.view.from); i < outliers.rows.length; i++) {
			const row = outliers.rows[i];
			if (row.start > this.view.to)
				break;
			if (!(row.flags & this.flag))
				continue;
			const x = this.x(row.start), y = this.y(row[this.column]);
			const spot = Math.round(x / 2) * 4096 + Math.round(y / 2);
			if (seen.has(spot))
				continue;
			seen.add(spot);
			ctx.moveTo(x, y - 4);
			ctx.lineTo(x + 3.5, y);
			ctx.lineTo(x, y + 4);
			ctx.lineTo(x - 3.5, y);
		}
		ctx.fill();
	}

	nearestOutlier(us) {
		const { outliers } = this.run, reach = this.view.width / this.paper.width * 6;
		let best = null;
		for (let i = lowerBound(outliers.start, us - reach); i < outliers.rows.length; i++) {
			const row = outliers.rows[i];
			if (row.start > us + reach)
				break;
			if ((row.flags & this.flag) && (!best || row[this.column] > best[this.column]))
				best = row;
		}
		return best;
	}

	hover(event) {
		const us = this.at(event), { calls, bins } = this.run;
		const outlier = this.nearestOutlier(us);
		if (outlier)
			return showTip(event, 'Outlier: at least twice the median', callRows(this.run, outlier.call, outlier));
		let near = lowerBound(calls.start, us);
		if (near && (near === calls.rows || us - calls.start[near - 1] < calls.start[near] - us))
			near--;
		const reach = this.view.width / this.paper.width * 8;
		if (this.dots && near < calls.rows && Math.abs(calls.start[near] - us) < reach)
			return showTip(event, 'One call of GetNext', callRows(this.run, near));
		const bin = Math.min(bins.rows - 1, Math.floor(us / bins.width));
		showTip(event, `${fmtAt(bin * bins.width, bins.width)} and ${fmtUs(bins.width)} on`, [
			['calls', fmtCount(bins.calls[bin])],
			['shortest', fmtUs(bins[`${this.name}_min`][bin])],
			['median', fmtUs(bins[`${this.name}_median`][bin])],
			['longest', fmtUs(bins[`${this.name}_max`][bin])],
			['training waited', fmtRatio(bins.exposed[bin] / bins.width)]]);
	}
}

/* What is known of one call; `row` has what calls that are not told one by one have. */
function callRows(run, i, row) {
	const { calls, workers } = run;
	const it = row || { start: calls.start[i], dur: calls.dur[i], worker: calls.worker[i],
		index: calls.index[i], step: calls.step[i] };
	const rows = [['GetNext begins', fmtAt(it.start, 100)], ['and takes', fmtUs(it.dur)]];
	if (it.index >= 0)
		rows.unshift(['batch', `${it.index}${i >= 0 ? `, epoch ${calls.epoch[i]}` : ''}`]);
	if (it.worker >= 0)
		rows.push(['worker', `pid ${workers.pid[it.worker]}`]);
	if (known(it.step))
		rows.push(['batch time before', fmtUs(it.step)]);
	if (i >= 0 && known(calls.asked[i]))
		rows.push(['asked for', `${fmtUs(calls.start[i] - calls.asked[i])} before`],
			['waited for the worker', fmtUs(calls.taken[i] - calls.asked[i])],
			['made in', fmtUs(calls.made[i] - calls.taken[i])],
			['sent, received', `${fmtUs(calls.sent[i] - calls.made[i])}, ${fmtUs(calls.received[i] - calls.sent[i])}`],
			['then ready for', fmtUs(calls.end[i] - calls.received[i])]);
	return rows;
}

/* Areas on top of each other, on a linear scale from 0. */
class AreaPicture extends TimePicture {
	constructor(run, view, parts) {
		super(run, view, parts);
		Object.assign(this, { grid: parts.grid, layers: parts.layers, unit: parts.unit, rows: parts.rows });
		this.high = parts.least || 0;
		for (let i = 0; i < this.grid.rows; i++) {
			let sum = 0;
			for (const [name] of this.layers)
				sum += this.grid[name][i] || 0;
			this.high = Math.max(this.high, sum);
		}
		this.high = (this.high || 1) * 1.12;
		this.lines = parts.lines || [];
	}

	y(value) { return this.bottom - value / this.high * this.bottom; }

	paint(ctx) {
		const { grid } = this;
		const first = Math.max(0, Math.floor(this.view.from / grid.width));
		const last = Math.min(grid.rows - 1, Math.floor(this.view.to / grid.width));
		for (let i = first; i <= last; i++) {
			const x = this.x(i * grid.width), wide = this.x((i + 1) * grid.width) - x;
			let under = 0;
			for (const [name, entry] of this.layers) {
				const value = grid[name][i];
				if (!(value > 0))
					continue;
				ctx.fillStyle = paintOf(entry);
				ctx.fillRect(x, this.y(under + value), wide + 0.4, this.y(under) - this.y(under + value));
				under += value;
			}
		}
		for (const [value, text] of this.lines) {
			const y = Math.round(this.y(value)) + 0.5;
			ctx.strokeStyle = theme.ink;
			ctx.setLineDash([5, 4]);
			ctx.beginPath();
			ctx.moveTo(0, y);
			ctx.lineTo(this.paper.width, y);
			ctx.stroke();
			ctx.setLineDash([]);
			this.label(text, 5, y - 4 > 12 ? y - 4 : y + 13);
		}
		if (!this.lines.length)
			this.label(this.unit(this.high / 1.12), 5, this.y(this.high / 1.12) + 4);
	}

	hover(event) {
		const bin = Math.min(this.grid.rows - 1, Math.floor(this.at(event) / this.grid.width));
		showTip(event, `${fmtAt(bin * this.grid.width, this.grid.width)} and ${fmtUs(this.grid.width)} on`,
			this.rows(bin));
	}
}

/* Counts per eighth of an octave; both axes as people read them: durations logarithmic. */
function drawHistogram(canvas, table, marks) {
	const { ctx, width, height } = prepare(canvas, 170), bottom = height - AXIS;
	const first = table.bucket[0] - 1, last = table.bucket[table.bucket.length - 1] + 2;
	const x = (bucket) => (bucket - first) / (last - first) * width;
	const high = Math.max(...table.count);
	const bucketOf = (us) => Math.log2(Math.max(us, 1)) * 8;
	/* room above the bars for what the marks say */
	const room = marks.some((mark) => known(mark[1])) ? 44 : 8;
	for (let power = 0; power < 10; power++) {
		const at = x(bucketOf(10 ** power));
		if (at < 0 || at > width)
			continue;
		ctx.fillStyle = theme.grid;
		ctx.fillRect(at, 0, 1, bottom);
		ctx.fillStyle = theme.soft;
		ctx.textAlign = at < 24 ? 'left' : at > width - 24 ? 'right' : 'center';
		ctx.fillText(fmtUs(10 ** power), at, height - 4);
	}
	ctx.fillStyle = theme.accent;
	for (let i = 0; i < table.bucket.length; i++) {
		const tall = Math.max(1.5, table.count[i] / high * (bottom - room));
		ctx.fillRect(x(table.bucket[i]) + 0.5, bottom - tall, Math.max(x(1) - x(0) - 1, 1), tall);
	}
	ctx.strokeStyle = theme.line;
	ctx.strokeRect(0.5, 0.5, width - 1, bottom - 1);
	let row = 0;
	for (const [text, us] of marks.filter((mark) => known(mark[1]))) {
		const at = x(bucketOf(us));
		ctx.fillStyle = theme.bad;
		ctx.fillRect(at, 0, 1.5, bottom);
		ctx.textAlign = at > width / 2 ? 'right' : 'left';
		ctx.fillText(`${text} ${fmtUs(us)}`, at + (at > width / 2 ? -4 : 5), 13 + 13 * row++);
	}
}

function hoverHistogram(event, canvas, table) {
	const first = table.bucket[0] - 1, last = table.bucket[table.bucket.length - 1] + 2;
	const bucket = Math.floor(first + share(event, canvas) * (last - first));
	const at = table.bucket.indexOf(bucket);
	const total = table.count.reduce((sum, count) => sum + count, 0);
	showTip(event, `${fmtUs(2 ** (bucket / 8))} to ${fmtUs(2 ** ((bucket + 1) / 8))}`,
		[['times', fmtCount(at < 0 ? 0 : table.count[at])],
			['of all', fmtRatio(at < 0 ? 0 : table.count[at] / total)]]);
}
