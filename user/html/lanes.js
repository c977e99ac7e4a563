/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pictures with one row per worker: what it did, and the way of its batches. */
'use strict';

const GUTTER = 13; /* the name of a lane stands above it */

/*
 * What each worker's main thread did. Readings of its clock are a second or so apart, so within
 * one of them the states are shares, stacked; blocked moments long enough to be told one by one
 * are drawn where they were, in the strip below.
 */
class LanePicture extends TimePicture {
	constructor(run, view, parts) {
		const lanes = run.workers.count + 1;
		const tall = Math.max(9, Math.min(26, Math.floor(420 / lanes)));
		super(run, view, { ...parts, height: lanes * (tall + GUTTER) + AXIS + 3 });
		this.tall = tall;
		this.states = run.states.map((name) => STATES[name]);
		/* row 0 is the trainer's; `who` counts workers from 1 */
		this.lanes = Array.from({ length: lanes }, () => []);
		this.lanes[0].push(0);
		for (let i = 0; i < run.workers.rows; i++)
			this.lanes[run.workers.lane[i] + 1].push(i + 1);
	}

	top(lane) { return lane * (this.tall + GUTTER) + GUTTER; }

	paintSample(ctx, i, top, tall) {
		const { samples } = this.run;
		const x = this.x(samples.start[i]);
		const wide = this.x(samples.start[i] + samples.dur[i]) - x;
		let y = top, sum = 0;
		for (const split of samples.split)
			sum += split[i] || 0;
		for (let state = 0; state < this.states.length && sum; state++) {
			const part = samples.split[state][i] / sum * tall;
			if (!(part > 0))
				continue;
			ctx.fillStyle = paintOf(this.states[state]);
			ctx.fillRect(x, y, wide + 0.3, part);
			y += part;
		}
	}

	visible(rows, table, draw) {
		for (const i of rows) {
			if (table.start[i] > this.view.to)
				break;
			if (table.start[i] + table.dur[i] >= this.view.from)
				draw(i);
		}
	}

	paint(ctx) {
		const { run } = this, strip = run.waits.rows ? Math.max(3, Math.round(this.tall * 0.3)) : 0;
		for (let lane = 0; lane < this.lanes.length; lane++) {
			const top = this.top(lane);
			let name = lane ? null : 'trainer', pids = [];
			for (const who of this.lanes[lane]) {
				this.visible(run.sampleRows[who], run.samples,
					(i) => this.paintSample(ctx, i, top, this.tall - strip - (strip ? 1 : 0)));
				this.visible(run.waitRows[who], run.waits, (i) => {
					const x = this.x(run.waits.start[i]);
					const wide = this.x(run.waits.start[i] + run.waits.dur[i]) - x;
					ctx.fillStyle = paintOf(this.states[run.waits.state[i]]);
					ctx.fillRect(x, top + this.tall - strip, Math.max(wide, 0.6), strip);
				});
				if (who && run.workers.born[who - 1] <= this.view.to &&
				    run.workers.died[who - 1] >= this.view.from)
					pids.push(run.workers.pid[who - 1]);
			}
			name = name || `worker ${lane}${pids.length === 1 ? `: pid ${pids[0]}`
				: pids.length ? `: ${pids.length} processes, one after the other` : ''}`;
			ctx.fillStyle = theme.soft;
			ctx.textAlign = 'left';
			ctx.fillText(name, 4, top - 3);
		}
	}

	under(event) {
		const y = event.clientY - this.canvas.getBoundingClientRect().top;
		return Math.floor(y / (this.tall + GUTTER));
	}

	hover(event) {
		const { run } = this, us = this.at(event), lane = this.under(event);
		const reach = this.view.width / this.paper.width * 2;
		for (const who of this.lanes[lane] || []) {
			const title = who ? `worker pid ${run.workers.pid[who - 1]}` : 'trainer';
			const inside = (table, i, more) => table.start[i] - more <= us &&
				us <= table.start[i] + table.dur[i] + more;
			const sample = run.sampleRows[who].find((i) => inside(run.samples, i, 0));
			const wait = run.waitRows[who].filter((i) => inside(run.waits, i, reach))
				.sort((a, b) => run.waits.dur[b] - run.waits.dur[a])[0];
			if (sample === undefined && wait === undefined)
				continue;
			const rows = [];
			if (wait !== undefined) {
				const state = run.states[run.waits.state[wait]];
				rows.push([`${state}: ${STATES[state][2]}`, fmtUs(run.waits.dur[wait])]);
			}
			if (sample !== undefined)
				rows.push(...this.sampleText(sample));
			return showTip(event, title, rows);
		}
		hideTip();
	}

	sampleText(i) {
		const { samples, states } = this.run;
		const sum = samples.split.reduce((all, split) => all + (split[i] || 0), 0) || 1;
		const rows = [['from', fmtAt(samples.start[i], 1e4)], ['for', fmtUs(samples.dur[i])]];
		for (let state = 0; state < states.length; state++)
			if (samples.split[state][i] > 0)
				rows.push([states[state], fmtRatio(samples.split[state][i] / sum)]);
		return rows;
	}
}

const NOT_TOLD = ['--idle', '/', ''];

/* The way of each batch, from being asked for to being returned, below the calls of GetNext. */
class ChainPicture extends TimePicture {
	constructor(run, view, parts) {
		const { first } = run.chain, rows = first[first.length - 1];
		const tall = Math.max(5, Math.min(13, Math.floor(420 / rows)));
		super(run, view, { ...parts,
			height: (first.length - 1) * GUTTER + rows * tall + GUTTER + 18 + AXIS + 4 });
		this.tall = tall;
	}

	/* Top of row `row` of lane `lane`. */
	top(lane, row) {
		const { first } = this.run.chain;
		return GUTTER + 18 + (lane + 1) * GUTTER + (first[lane] + row) * this.tall;
	}

	/* Parts narrower than what the screen can show are drawn once per spot. */
	block(ctx, from, to, y, tall, key) {
		const x = this.x(from), wide = this.x(to) - x;
		if (!(wide >= 0))
			return;
		if (wide < 0.7) {
			if (x < this.last[key] + 0.7)
				return;
			this.last[key] = x;
		}
		ctx.fillRect(x, y, Math.max(wide, 0.7), tall);
	}

	paintBatch(ctx, i, y, row) {
		const { calls } = this.run, thin = Math.max(2, Math.round(this.tall / 3));
		const middle = y + (this.tall - 1 - thin) / 2, full = this.tall - 1;
		const parts = [
			['queued', calls.asked[i], calls.taken[i], middle, thin],
			['making', calls.taken[i], calls.made[i], y, full],
			['moving', calls.made[i], calls.received[i], y, full],
			['ready', calls.received[i], calls.end[i], middle, thin],
		];
		for (let part = 0; part < 4; part++) {
			const [name, from, to, top, tall] = parts[part];
			ctx.fillStyle = paintOf(STAGES[name]);
			this.block(ctx, from, to, top, tall, row * 4 + part);
		}
		if (this.x(calls.made[i]) - this.x(calls.taken[i]) > 34 && this.tall >= 11) {
			ctx.fillStyle = '#fff';
			ctx.textAlign = 'left';
			ctx.fillText(`${calls.index[i]}`, this.x(calls.taken[i]) + 3, y + this.tall - 3);
		}
	}

	paint(ctx) {
		const { calls, chain, workers } = this.run, { from, to } = this.view;
		const callsKey = chain.first[chain.first.length - 1] * 4;
		this.last = new Float64Array(callsKey + 1).fill(-Infinity);
		this.paintGaps(ctx);
		ctx.textAlign = 'left';
		ctx.fillStyle = theme.soft;
		ctx.fillText('trainer, inside GetNext', 4, GUTTER - 3);
		ctx.fillStyle = paintOf(STAGES.waiting);
		for (let i = Math.max(0, lowerBound(calls.start, from) - 2); i < calls.rows; i++) {
			if (calls.start[i] > to)
				break;
			this.block(ctx, calls.start[i], calls.end[i], GUTTER, 14, callsKey);
		}
		for (let lane = 0; lane < workers.count; lane++) {
			ctx.textAlign = 'left';
			ctx.fillStyle = theme.soft;
			ctx.fillText(`worker ${lane + 1}`, 4, this.top(lane, 0) - 3);
		}
		for (let k = lowerBound(chain.asked, from - this.run.longestBatch); k < chain.order.length; k++) {
			const i = chain.order[k];
			if (calls.asked[i] > to)
				break;
			if (calls.end[i] < from)
				continue;
			const lane = workers.lane[calls.worker[i]];
			this.paintBatch(ctx, i, this.top(lane, chain.row[i]), chain.first[lane] + chain.row[i]);
		}
		if (calls.rows < calls.total)
			this.note.textContent = `Shown: ${fmtCount(calls.rows)} of ${fmtCount(calls.total)} calls, ` +
				'the slowest stretches and an even choice of the rest.';
	}

	/* What was left out for want of room must not look like nothing. */
	paintGaps(ctx) {
		for (const gap of this.run.gaps) {
			if (gap.to < this.view.from || gap.from > this.view.to)
				continue;
			const x = Math.max(0, this.x(gap.from)), wide = Math.min(this.paper.width, this.x(gap.to)) - x;
			if (wide < 4)
				continue;
			ctx.globalAlpha = 0.35;
			ctx.fillStyle = paintOf(NOT_TOLD);
			ctx.fillRect(x, 0, wide, this.bottom);
			ctx.globalAlpha = 1;
			if (wide > 90)
				this.label('not shown', x + wide / 2 - 24, this.bottom / 2);
		}
	}

	hover(event) {
		const { calls, chain, workers } = this.run, us = this.at(event);
		const y = event.clientY - this.canvas.getBoundingClientRect().top;
		const reach = this.view.width / this.paper.width * 2;
		if (y < GUTTER + 16) {
			const i = Math.max(0, lowerBound(calls.start, us + reach) - 1);
			if (i < calls.rows && us <= calls.end[i] + reach && us >= calls.start[i] - reach)
				return showTip(event, 'Training waits for data', callRows(this.run, i));
			return hideTip();
		}
		for (let k = lowerBound(chain.asked, us - this.run.longestBatch); k < chain.order.length; k++) {
			const i = chain.order[k];
			if (calls.asked[i] > us)
				break;
			const top = this.top(workers.lane[calls.worker[i]], chain.row[i]);
			if (calls.end[i] >= us && y >= top && y < top + this.tall)
				return showTip(event, 'The way of one batch', callRows(this.run, i));
		}
		hideTip();
	}
}

/* One bar of shares of states, for tables. */
function drawSplit(canvas, states) {
	const { ctx, width, height } = prepare(canvas, 14);
	const sum = Object.values(states).reduce((all, us) => all + (us || 0), 0);
	let x = 0;
	for (const [name, us] of Object.entries(states)) {
		if (!us || !STATES[name])
			continue;
		ctx.fillStyle = paintOf(STATES[name]);
		ctx.fillRect(x, 0, us / sum * width, height);
		x += us / sum * width;
	}
}
