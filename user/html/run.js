/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The data block made ready for drawing: times are microseconds since the window opened. */
'use strict';

/* flags of a call */
const CALL_DATA = 2, CALL_WINDOW = 8, CALL_OUTLIER = 32, STEP_OUTLIER = 64,
	CALL_GAP = 128;

/* Stations of a batch are told as distances to the start of the call that returned it. */
function stations(table, start) {
	const out = {};
	for (const name of ['asked', 'taken', 'made', 'sent', 'received'])
		out[name] = column(table, name).map((at, i) => at + start[i]);
	return out;
}

function readCalls(table) {
	const start = summed(table, 'start'), dur = column(table, 'dur');
	return {
		rows: table.rows, total: table.total, start, dur,
		end: start.map((at, i) => at + dur[i]),
		step: column(table, 'step'), loader: column(table, 'loader'),
		epoch: summed(table, 'epoch'), flags: column(table, 'flags'),
		worker: column(table, 'worker'), index: summed(table, 'index'),
		...stations(table, start),
	};
}

/*
 * Calls that took at least twice the median, or came so late, in order of time: those that are
 * among the calls told one by one (`call` is their position), and those that are not (-1).
 */
function readOutliers(table, calls) {
	const rows = [];
	const add = (from, i, call) => rows.push({ start: from.start[i], dur: from.dur[i],
		step: from.step[i], flags: from.flags[i], worker: from.worker[i], index: from.index[i], call });
	const others = { start: summed(table, 'start'), index: summed(table, 'index') };
	for (const name of ['dur', 'step', 'flags', 'worker'])
		others[name] = column(table, name);
	for (let i = 0; i < table.rows; i++)
		add(others, i, -1);
	for (let i = 0; i < calls.rows; i++)
		if (calls.flags[i] & (CALL_OUTLIER | STEP_OUTLIER))
			add(calls, i, i);
	rows.sort((a, b) => a.start - b.start);
	return { rows, start: Float64Array.from(rows, (row) => row.start),
		getnext: rows.filter((row) => row.flags & CALL_OUTLIER).length };
}

function readSamples(table, states) {
	const split = states.map((state) => column(table, state));
	return { rows: table.rows, who: column(table, 'who'), start: summed(table, 'start'),
		dur: column(table, 'dur'), split };
}

function readWaits(table) {
	return { rows: table.rows, total: table.total, who: column(table, 'who'),
		start: summed(table, 'start'), dur: column(table, 'dur'), state: column(table, 'state') };
}

/*
 * Workers whose lives do not overlap share a lane: those of one epoch follow those of another.
 * Returns per worker the number of its lane.
 */
function layLanes(workers) {
	const order = [...workers.pid.keys()].sort((a, b) => workers.born[a] - workers.born[b]);
	const lane = new Int32Array(workers.rows), free = [];
	for (const i of order) {
		let at = free.findIndex((last) => last.loader === workers.loader[i] &&
			last.until <= workers.born[i]);
		if (at < 0)
			at = free.push({}) - 1;
		free[at] = { loader: workers.loader[i], until: workers.died[i] };
		lane[i] = at;
	}
	return { lane, count: free.length };
}

function readWorkers(table, span) {
	const workers = { rows: table.rows, pid: column(table, 'pid'), loader: column(table, 'loader'),
		born: column(table, 'born'), died: column(table, 'died') };
	workers.born = workers.born.map((at) => known(at) ? at : 0);
	workers.died = workers.died.map((at) => known(at) ? at : span);
	return { ...workers, ...layLanes(workers) };
}

/* Rows of what each thread did, by who: positions in the table, in order of time. */
function groupBy(who, count) {
	const groups = Array.from({ length: count }, () => []);
	for (let i = 0; i < who.length; i++)
		if (who[i] >= 0 && who[i] < count)
			groups[who[i]].push(i);
	return groups;
}

/*
 * Batches of one worker are in flight at the same time, so each gets the first row of its lane
 * that is free; the rows of a lane are as many as that needs, up to eight.
 */
function layBatches(run) {
	const { calls, workers } = run;
	const rows = Array.from({ length: Math.max(workers.count, 1) }, () => []);
	const row = new Int16Array(calls.rows).fill(-1);
	const order = [];
	for (let i = 0; i < calls.rows; i++)
		if ((calls.flags[i] & CALL_DATA) && calls.worker[i] >= 0 && known(calls.asked[i]))
			order.push(i);
	order.sort((a, b) => calls.asked[a] - calls.asked[b]);
	for (const i of order) {
		const free = rows[workers.lane[calls.worker[i]]];
		let at = free.findIndex((until) => until <= calls.asked[i]);
		if (at < 0)
			at = free.length < 8 ? free.length : free.indexOf(Math.min(...free));
		free[at] = calls.end[i];
		row[i] = at;
	}
	const first = [0];
	for (const lane of rows)
		first.push(first[first.length - 1] + Math.max(1, lane.length));
	return { row, order, first, asked: Float64Array.from(order, (i) => calls.asked[i]) };
}

function readGrid(table, names) {
	const out = { rows: table.rows, width: table.width_us };
	for (const name of names)
		out[name] = column(table, name);
	return out;
}

function readRun(doc) {
	const run = { doc, summary: doc.summary, span: doc.span_us, states: Object.keys(STATES) };
	run.workers = readWorkers(doc.workers, run.span);
	run.calls = readCalls(doc.calls);
	run.outliers = readOutliers(doc.outliers, run.calls);
	run.bins = readGrid(doc.bins, ['calls', 'exposed', 'getnext_min', 'getnext_median',
		'getnext_max', 'step_min', 'step_median', 'step_max']);
	run.samples = readSamples(doc.samples, run.states);
	run.waits = readWaits(doc.waits);
	run.sampleRows = groupBy(run.samples.who, run.workers.rows + 1);
	run.waitRows = groupBy(run.waits.who, run.workers.rows + 1);
	run.chain = layBatches(run);
	run.cpu = readGrid(doc.cpu, ['trainer', 'workers', 'pool', 'others', 'waiting']);
	for (const name of ['trainer', 'workers', 'pool', 'others', 'waiting'])
		run.cpu[name] = run.cpu[name].map((us) => us / run.cpu.width);
	run.io = readGrid(doc.io, ['read_bytes', 'reads', 'wait_us', 'max_us', 'write_bytes']);
	/* stretches of calls that are not told one by one */
	run.gaps = [];
	for (let i = 0; i < run.calls.rows; i++)
		if (run.calls.flags[i] & CALL_GAP)
			run.gaps.push({ from: i ? run.calls.end[i - 1] : 0, to: run.calls.start[i] });
	if (run.calls.rows < run.calls.total)
		run.gaps.push({ from: run.calls.rows ? run.calls.end[run.calls.rows - 1] : 0, to: run.span });
	run.longestBatch = 0;
	for (let i = 0; i < run.calls.rows; i++)
		if (known(run.calls.asked[i]))
			run.longestBatch = Math.max(run.longestBatch, run.calls.end[i] - run.calls.asked[i]);
	return run;
}
