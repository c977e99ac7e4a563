/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Puts the page together: words and tables from the summary, pictures from the run. */
'use strict';

const TONES = {
	data_loading: ['✖', 'Data loading slows this training down', '--bad'],
	not_data_loading: ['✔', 'Data loading is not the bottleneck', '--good'],
	stalled: ['✖', 'Training makes no progress', '--bad'],
	insufficient_data: ['?', 'Too little was seen to tell', '--warn'],
};

/* of the evidence, so that the pictures are not far below; the rest unfolds */
const EVIDENCE_FIRST = 4;

const busiest = (run) => [...run.summary.loaders].sort((a, b) => b.getnext.count - a.getnext.count)[0];

function fillHeader({ summary, span }) {
	const { target, window: time, tool } = summary;
	byId('command').textContent = target.cmdline || `process ${target.pid}`;
	document.title = `dlprof-bpf: ${target.cmdline || target.pid}`;
	const began = time.clock_realtime_at_start;
	const facts = [`pid ${target.pid}`, target.python && `Python ${target.python}`,
		target.torch && `torch ${target.torch}`, target.container && `container ${target.container}`,
		`watched for ${fmtUs(span)}`,
		began && `from ${new Date(began / 1e6).toLocaleString()}`, `${tool.name} ${tool.version}`];
	byId('target').append(...facts.filter(Boolean).map((fact) => el('li', {}, fact)));
}

function chip(name, value) {
	return el('li', {}, `${name} `, el('b', {}, value));
}

function fillVerdict({ summary }) {
	const { verdict } = summary;
	const [icon, title, tone] = TONES[verdict.bottleneck] || ['?', verdict.bottleneck, '--warn'];
	const total = known(verdict.exposed_wait_ratio)
		? verdict.exposed_wait_ratio + (verdict.startup_ratio || 0) : null;
	const at = byId('verdict');
	at.style.setProperty('--tone', `var(${tone})`);
	const why = el('div', { class: 'why' });
	const list = (name, items) => el('div', {}, el('h3', {}, name), el('ul', {}, ...items));
	if (verdict.advice.length)
		why.append(list('What to do', verdict.advice.map((it) => el('li', {}, it.text,
			el('small', {}, `Check: ${it.counter_check}`)))));
	if (verdict.candidates.length) {
		const part = el('div', {}, el('h3', {}, 'Likely gains, as shares of the waiting'));
		for (const { cause, share } of verdict.candidates) {
			const bar = el('b');
			bar.style.width = `${share * 100}%`;
			part.append(el('div', { class: 'share' }, el('span', {}, cause.replaceAll('_', ' ')),
				el('i', {}, bar), el('span', {}, fmtRatio(share))));
		}
		why.append(part);
	}
	const evidence = verdict.evidence.map((it) => el('li', {}, it.text));
	if (evidence.length) {
		const part = list('Evidence', evidence.slice(0, EVIDENCE_FIRST));
		if (evidence.length > EVIDENCE_FIRST)
			part.append(el('details', {}, el('summary', {}, `${evidence.length - EVIDENCE_FIRST} more`),
				el('ul', {}, ...evidence.slice(EVIDENCE_FIRST))));
		why.append(part);
	}
	at.append(
		el('div', {}, el('div', { class: 'number', id: 'exposed' }, fmtRatio(total)),
			el('div', { class: 'of' }, 'of the time, training waited for data')),
		el('div', {}, el('h1', {}, `${icon} ${title}`), el('p', { class: 'say' }, verdict.text),
			el('ul', { class: 'chips' }, chip('cause', verdict.cause.replaceAll('_', ' ')),
				chip('where', verdict.where), chip('severity', verdict.severity),
				chip('confidence', verdict.confidence))),
		...(why.childElementCount ? [why] : []));
}

function fillTiles(run) {
	const loader = busiest(run);
	const tile = (name, value, more, id) => byId('tiles').append(el('div', {}, el('span', {}, name),
		el('b', id ? { id } : {}, value), el('small', {}, more)));
	const sum = (pick) => run.summary.loaders.reduce((all, it) => all + (pick(it) || 0), 0);
	const batches = sum((it) => it.batches);
	tile('Batches', fmtCount(batches), `${digits(batches / (run.span / 1e6))} per second`, 'batches');
	if (loader) {
		const { getnext, batch_time: step, queue } = loader;
		tile('GetNext, median', fmtUs(getnext.median_us),
			`99 % within ${fmtUs(getnext.p99_us)}, longest ${fmtUs(getnext.max_us)}`, 'getnext');
		tile('Batch time, median', fmtUs(step.median_us), `longest ${fmtUs(step.max_us)}`);
		tile('Outliers', fmtCount(run.outliers.getnext), 'calls of at least twice the median', 'outliers');
		tile('Batches ready', known(queue.mean_ready) ? digits(queue.mean_ready) : unknown,
			known(queue.empty_fraction) ? `none ready in ${fmtRatio(queue.empty_fraction)} of calls` : 'when GetNext begins');
	}
	tile('Workers', fmtCount(run.summary.target.workers_seen),
		run.summary.loaders.length > 1 ? `${run.summary.loaders.length} loaders` : 'seen in all');
}

function fillTimeline(run, view) {
	const pictures = [], at = byId('timeline');
	const add = (picture, ...below) => {
		picture.figure.append(...below);
		at.append(picture.figure);
		pictures.push(picture);
	};
	add(new DurationPicture(run, view, { name: 'getnext', column: 'dur', flag: CALL_OUTLIER, height: 190,
		title: 'GetNext', text: 'How long training waits for each batch. Line: median; band: shortest to longest; ◆ outliers.',
		label: 'Duration of the calls of GetNext over time, logarithmic' }));
	add(new DurationPicture(run, view, { name: 'step', column: 'step', flag: STEP_OUTLIER, height: 150,
		title: 'Batch time', text: 'From the start of one GetNext to the start of the next, which it is drawn at.',
		label: 'Batch time over time, logarithmic' }));
	if (run.samples.rows)
		add(new LanePicture(run, view, { title: 'What each process did', height: 0,
			text: 'Shares of its main thread’s time; below them, blocked moments told one by one.',
			label: 'States of the trainer and of each worker over time; the table of workers has the sums' }),
		legend(STATES, run.states));
	if (run.calls.rows)
		add(new ChainPicture(run, view, { title: 'The way of each batch', height: 0,
			text: 'From being asked for until GetNext returns it.',
			label: 'Stations of each batch over time' }), legend(STAGES, Object.keys(STAGES)));
	addResources(run, view, add);
	return pictures;
}

function addResources(run, view, add) {
	const { cpu, io } = run, { system } = run.summary;
	const use = (value) => known(value) ? `${value.toFixed(2)} CPUs` : unknown;
	const layers = [['trainer', ['#009e73', '', 'trainer']], ['workers', ['#0072b2', '', 'workers']],
		['pool', ['#56b4e9', '/', 'other threads of the job']], ['others', ['#8a8f98', '', 'outside the job']],
		['waiting', ['#e69f00', '\\', 'job’s threads that wait for a CPU']]];
	if (cpu.rows)
		add(new AreaPicture(run, view, { grid: cpu, layers, unit: use, height: 130, title: 'CPU',
			text: 'CPUs in use, and threads of the job that want one.', least: system.cpus || 0,
			lines: system.cpus ? [[system.cpus, `${system.cpus} CPUs`]] : [],
			label: 'CPUs used over time by the job and others',
			rows: (bin) => layers.map(([name, entry]) => [entry[2], use(cpu[name][bin])]) }),
		legend(Object.fromEntries(layers.map(([, entry]) => [entry[2], [entry[0], entry[1], '']])),
			layers.map(([, entry]) => entry[2])));
	if (!io.rows)
		return;
	const rate = (bytes) => `${fmtBytes(bytes / (io.width / 1e6))}/s`;
	add(new AreaPicture(run, view, { grid: io, unit: rate, height: 110, title: 'Block IO',
		text: 'Bytes per second from and to block devices.', label: 'Block device throughput over time',
		layers: [['read_bytes', ['#7b2d5e', '', 'read']], ['write_bytes', ['#cc79a7', '/', 'written']]],
		rows: (bin) => [['read', rate(io.read_bytes[bin])], ['reads', fmtCount(Math.round(io.reads[bin]))],
			['mean latency of reads', io.reads[bin] > 0 ? fmtUs(io.wait_us[bin] / io.reads[bin]) : unknown],
			['longest read', io.reads[bin] > 0 ? fmtUs(io.max_us[bin]) : unknown],
			['written', rate(io.write_bytes[bin])]] }),
	legend({ read: ['#7b2d5e', '', ''], written: ['#cc79a7', '/', ''] }, ['read', 'written']));
}

function fillOverview(run, view) {
	const canvas = el('canvas', { role: 'img', 'aria-label': 'Share of time that training waited, over the whole window' });
	byId('overview').append(canvas);
	overviewFor(view, canvas);
	view.listeners.push(() => {
		const { ctx, width, height } = prepare(canvas, 34), { bins } = run;
		ctx.fillStyle = theme.grid;
		ctx.fillRect(0, 0, width, height);
		ctx.fillStyle = theme.accent;
		for (let i = 0; i < bins.rows; i++) {
			const tall = Math.min(1, bins.exposed[i] / bins.width) * (height - 2);
			const x = i * bins.width / view.span * width;
			ctx.fillRect(x, height - tall, bins.width / view.span * width + 0.3, tall);
		}
		const from = view.from / view.span * width, to = view.to / view.span * width;
		ctx.fillStyle = theme.card;
		ctx.globalAlpha = 0.72;
		ctx.fillRect(0, 0, from, height);
		ctx.fillRect(to, 0, width - to, height);
		ctx.globalAlpha = 1;
		ctx.strokeStyle = theme.ink;
		ctx.lineWidth = 2;
		ctx.strokeRect(from + 1, 1, Math.max(to - from - 2, 2), height - 2);
		byId('range').textContent = `${fmtAt(view.from, view.width / 200)} to ${fmtAt(view.to, view.width / 200)}` +
			` (${fmtUs(view.width)} of ${fmtUs(view.span)})`;
	});
}

/* Some 40 calls around the longest one, as far as they were told one after the other. */
function showBatches(run, view) {
	const { calls } = run;
	let best = 0;
	for (let i = 0; i < calls.rows; i++)
		if (calls.dur[i] > calls.dur[best] && known(calls.asked[i]))
			best = i;
	let first = best, last = best;
	while (first > 0 && best - first < 20 && !(calls.flags[first] & CALL_GAP))
		first--;
	while (last + 1 < calls.rows && last - best < 20 && !(calls.flags[last + 1] & CALL_GAP))
		last++;
	if (calls.rows)
		view.set(calls.start[first], calls.end[last]);
}

function table(caption, heads, rows) {
	if (!rows.length)
		return el('p', { class: 'none' }, `${caption}: none seen.`);
	const numeric = heads.map(([, kind]) => kind === 'n' ? { class: 'n', scope: 'col' } : { scope: 'col' });
	return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
		el('table', {}, el('caption', {}, caption),
			el('thead', {}, el('tr', {}, ...heads.map(([text], i) => el('th', numeric[i], text)))),
			el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map((cell, i) =>
				el('td', heads[i][1] ? { class: heads[i][1] } : {}, cell)))))));
}

function fillDistribution(run, redraw) {
	const at = el('div', { class: 'trio' }), loader = busiest(run);
	const quantiles = (it) => it ? [['median', it.median_us], ['95 %', it.p95_us], ['99 %', it.p99_us]] : [];
	/* marks are one loader's, bars everyone's: with several they would not belong together */
	const marks = (it) => run.summary.loaders.length === 1 ? quantiles(it) : [];
	const parts = [['GetNext', 'getnext', loader && marks(loader.getnext)],
		['Batch time', 'step', loader && marks(loader.batch_time)],
		['Making one batch', 'produce', []]];
	for (const [title, name, lines] of parts) {
		const counts = run.doc.histograms[name];
		if (!counts.bucket.length)
			continue;
		const canvas = el('canvas', { role: 'img', 'aria-label': `Distribution of ${title}` });
		const total = counts.count.reduce((sum, count) => sum + count, 0);
		at.append(el('figure', {}, el('figcaption', {}, el('h3', {}, title),
			el('span', {}, `${fmtCount(total)} times`)), canvas));
		redraw.push(() => drawHistogram(canvas, counts, lines || []));
		canvas.addEventListener('pointermove', (event) => hoverHistogram(event, canvas, counts));
		canvas.addEventListener('pointerleave', hideTip);
	}
	byId('distribution').append(at);
	byId('distribution').append(table('Loaders', [['loader'], ['iterator'], ['workers', 'n'], ['batches', 'n'],
		['median', 'n'], ['95 %', 'n'], ['99 %', 'n'], ['longest', 'n'], ['batch time, median', 'n']],
	run.summary.loaders.map((it) => [it.id, it.iterator_type || unknown, fmtCount(it.num_workers),
		fmtCount(it.batches), fmtUs(it.getnext.median_us), fmtUs(it.getnext.p95_us),
		fmtUs(it.getnext.p99_us), fmtUs(it.getnext.max_us), fmtUs(it.batch_time.median_us)])));
}

function splitOf(states) {
	return Object.fromEntries(Object.entries(states || {}).map(([name, us]) => [name.replace(/_us$/, ''), us]));
}

function fillWorkers(run, redraw) {
	const rows = [];
	const bar = (states) => {
		const split = splitOf(states), canvas = el('canvas', { role: 'img' });
		const sum = Object.values(split).reduce((all, us) => all + (us || 0), 0);
		if (!sum)
			return unknown;
		const text = Object.entries(split).filter(([, us]) => us / sum >= 0.005)
			.sort((a, b) => b[1] - a[1]).map(([name, us]) => [name, fmtRatio(us / sum)]);
		canvas.setAttribute('aria-label', text.map((pair) => pair.join(' ')).join(', '));
		canvas.addEventListener('pointermove', (event) => showTip(event, 'Shares of its time', text));
		canvas.addEventListener('pointerleave', hideTip);
		redraw.push(() => drawSplit(canvas, split));
		return canvas;
	};
	const main = run.summary.main || {};
	rows.push(['trainer, inside GetNext', bar(main.inside), unknown, unknown, unknown, unknown],
		['trainer, outside', bar(main.outside), unknown, unknown, unknown, unknown]);
	for (const it of run.summary.workers.slice(0, 256))
		rows.push([`pid ${it.pid}${it.exit ? `, ${it.exit}` : ''}`, bar(it.states), fmtCount(it.batches),
			fmtUs(it.produce.median_us), fmtUs(it.produce.max_us), fmtBytes(it.read_bytes)]);
	byId('workers').append(table('Main threads; the colours are those of the timeline',
		[['process'], ['time by state', 'split'], ['batches', 'n'], ['median', 'n'], ['longest', 'n'], ['read', 'n']], rows),
	legend(STATES, run.states));
	if (run.summary.workers.length > 256)
		byId('workers').append(el('p', { class: 'none' }, `The first 256 of ${run.summary.workers.length} workers.`));
}

function fillEpochs(run) {
	const it = run.doc.epochs, get = (name) => column(it, name), rows = [];
	const [loader, epoch, batches, start, dur, wait, first, median, longest, outliers, init] =
		['loader', 'epoch', 'batches', 'start', 'dur', 'wait', 'first', 'median', 'longest',
			'outliers', 'init'].map(get);
	const causes = new Map(run.summary.phases.filter((phase) => phase.kind === 'steady')
		.map((phase) => [`${phase.loader} ${phase.epoch}`, phase.cause]));
	for (let i = 0; i < it.rows; i++)
		rows.push([`${run.summary.loaders.length > 1 ? `loader ${loader[i]}, ` : ''}${epoch[i]}`,
			fmtAt(start[i], 1e4), fmtUs(dur[i]), fmtCount(batches[i]), fmtRatio(wait[i] / dur[i]),
			fmtUs(init[i]), fmtUs(first[i]), fmtUs(median[i]), fmtUs(longest[i]), fmtCount(outliers[i]),
			(causes.get(`${loader[i]} ${epoch[i]}`) || unknown).replaceAll('_', ' ')]);
	byId('epochs').append(table(`Epochs seen${it.total > it.rows ? `: the first ${it.rows} of ${it.total}` : ''}`,
		[['epoch'], ['from', 'n'], ['took', 'n'], ['batches', 'n'], ['waited', 'n'], ['iterator', 'n'],
			['first GetNext', 'n'], ['median', 'n'], ['longest', 'n'], ['outliers', 'n'], ['cause']], rows));
}

function fillDevices(run) {
	const { block_io: devices, system } = run.summary;
	byId('devices').append(el('div', { class: 'pair' },
		table('Block devices, reads', [['device'], ['reads', 'n'], ['bytes', 'n'], ['median', 'n'], ['99 %', 'n'], ['longest', 'n']],
			(devices || []).map((it) => [it.device || unknown, fmtCount(it.reads), fmtBytes(it.read_bytes),
				fmtUs(it.latency.median_us), fmtUs(it.latency.p99_us), fmtUs(it.latency.max_us)])),
		table('CPU time used outside the job', [['process'], ['pid', 'n'], ['CPU time', 'n']],
			((system && system.steal_by_others) || []).slice(0, 8).map((it) => [it.comm, String(it.pid), fmtUs(it.cpu_us)]))));
}

function fillNotes(run) {
	const { loss, overhead } = run.summary, { calls, waits } = run, at = byId('notes');
	const say = (...text) => at.append(el('li', {}, ...text));
	say(el('b', {}, loss.complete ? 'Complete: ' : 'Incomplete: '), loss.complete
		? 'no event was lost.' : `${fmtCount(loss.events_lost)} events were lost; figures may be short.`);
	if (calls.rows < calls.total)
		say(el('b', {}, 'Thinned out: '), `single calls and batches are drawn for ${fmtCount(calls.rows)} of ` +
			`${fmtCount(calls.total)}: the slowest stretches, and an even choice of the rest. ` +
			'Medians, ranges, outliers, epochs and distributions are of all of them.');
	if (waits.rows < waits.total)
		say(el('b', {}, 'Thinned out: '), `the ${fmtCount(waits.rows)} longest of ${fmtCount(waits.total)} blocked moments are drawn.`);
	for (const [name, count] of Object.entries(run.doc.left_out))
		say(el('b', {}, 'Left out: '), `${fmtCount(count)} ${name} at the end of the run, for want of room.`);
	say('An outlier is a call of at least twice its loader’s median. Times are microseconds of the ' +
		'machine’s monotonic clock; – is what was not measured.');
	if (known(overhead.daemon_cpu_us))
		say(`The tool itself used ${fmtUs(overhead.daemon_cpu_us)} of CPU time and ` +
			`${fmtBytes(overhead.daemon_rss_bytes)} of memory; its probes ${fmtUs(overhead.probe_cpu_us)}.`);
}

function bindButtons(run, view) {
	const actions = { in: () => view.zoom(0.5), out: () => view.zoom(2), left: () => view.move(-0.5),
		right: () => view.move(0.5), all: () => view.set(0, view.span),
		batch: () => showBatches(run, view) };
	for (const button of document.querySelectorAll('button[data-do]'))
		button.addEventListener('click', actions[button.dataset.do]);
	byId('to-batches').title = 'Single batches, around the slowest one';
	keysFor(view, byId('timeline'));
	keysFor(view, byId('bar'));
	addEventListener('scroll', hideTip, { passive: true });
}

function start() {
	const run = readRun(JSON.parse(byId('data').textContent));
	const view = new View(run.span), tables = [];
	fillHeader(run);
	fillVerdict(run);
	fillTiles(run);
	fillOverview(run, view);
	fillTimeline(run, view);
	fillDistribution(run, tables);
	fillWorkers(run, tables);
	fillEpochs(run);
	fillDevices(run);
	fillNotes(run);
	bindButtons(run, view);
	view.listeners.push(paintSwatches);
	const all = () => {
		readTheme();
		for (const draw of [...view.listeners, ...tables])
			draw();
	};
	all();
	/* the page's width, or its colours */
	let width = innerWidth;
	addEventListener('resize', () => {
		if (innerWidth !== width)
			all();
		width = innerWidth;
	});
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', all);
	document.documentElement.dataset.drawnMs = Math.round(performance.now());
}

start();
