// Charts of the last minutes: lines over time, with axes and units, drawn as SVG in the size of their place.

import { html, svg, setText, setAttribute } from "./text.js";

/** The time that a chart shows: the first of these, in minutes, that has room for all points. */
const SPANS = [1, 2, 5];
const HEIGHT = 208;
const MARGIN = { top: 10, right: 12, bottom: 24, left: 56 };

/**
 * A chart in `figure`. Options: title, unit, lines: [{ name, label, tone }], format(value), log: a logarithmic axis, area.
 * The pointer, or the arrow keys, show the values at a time.
 */
export class Chart {
  constructor(figure, options) {
    this.options = options;
    this.points = [];
    this.figure = figure;
    figure.setAttribute("aria-label", options.title);
    this.values = options.lines.map((line) => html("b", { "data-line": line.name }, "–"));
    const legend = options.lines.map((line, at) =>
      html("span", { class: `line-key ${line.tone}` }, svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, svg("path", { d: "M1 4h16", class: `line ${line.tone}` })), `${line.label} `, this.values[at]));
    this.when = html("span", { class: "when" });
    this.plot = svg("svg", { class: "plot", height: HEIGHT, role: "img", tabindex: "0" });
    figure.append(
      html("figcaption", {}, html("span", { class: "chart-title" }, options.title, " ", html("small", {}, options.unit)), html("span", { class: "line-keys" }, ...legend, this.when)),
      this.plot,
    );
    new ResizeObserver(() => this.draw()).observe(figure);
    this.plot.addEventListener("pointermove", (event) => this.pick(event.clientX - this.plot.getBoundingClientRect().left));
    for (const name of ["pointerleave", "blur"]) this.plot.addEventListener(name, () => this.choose(null));
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(points) {
    this.points = points;
    this.draw();
  }

  scales() {
    const width = Math.max(220, this.figure.clientWidth - 32);
    const [x0, x1] = [MARGIN.left, width - MARGIN.right];
    const [y0, y1] = [HEIGHT - MARGIN.bottom, MARGIN.top];
    const end = this.points.at(-1)?.at ?? Date.now();
    const age = (end - (this.points[0]?.at ?? end)) / 60_000;
    const span = SPANS.find((minutes) => age <= minutes) ?? SPANS.at(-1);
    const x = (at) => x1 - ((end - at) / (span * 60_000)) * (x1 - x0);
    const values = this.points.flatMap((point) => this.options.lines.map((line) => point[line.name])).filter((n) => n > 0);
    const { ticks, place } = this.options.log ? logarithmic(values) : linear(values);
    return { width, x0, x1, y0, y1, end, span, x, ticks, y: (value) => y0 - place(value) * (y0 - y1) };
  }

  draw() {
    const s = (this.scale = this.scales());
    const grid = s.ticks.map((tick) => [
      svg("line", { x1: s.x0, x2: s.x1, y1: s.y(tick), y2: s.y(tick), class: "grid" }),
      svg("text", { x: s.x0 - 8, y: s.y(tick) + 4, class: "tick end" }, this.options.format(tick)),
    ]);
    const shown = times(s.span, s.width < 420).map((at) => svg("text", { x: s.x(s.end - at * 1000), y: HEIGHT - 6, class: `tick ${at === 0 ? "end" : "middle"}` }, at === 0 ? "now" : at % 60 ? `−${at} s` : `−${at / 60} min`));
    const lines = this.options.lines.flatMap((line, at) => {
      const d = path(this.points, line.name, s);
      const area = this.options.area && at === 0 ? [svg("path", { d: areaPath(this.points, line.name, s), class: `area ${line.tone}` })] : [];
      return [...area, svg("path", { d, class: `line ${line.tone}` })];
    });
    this.cursor = svg("g", { class: "cursor" });
    setAttribute(this.plot, "width", s.width);
    setAttribute(this.plot, "viewBox", `0 0 ${s.width} ${HEIGHT}`);
    this.plot.replaceChildren(...grid.flat(), ...shown, ...lines, this.cursor);
    this.read();
  }

  /** Shows the values of the chosen point, or of the last one. */
  read() {
    const point = this.points.find((one) => one.at === this.chosen) ?? null;
    const shown = point ?? this.points.at(-1) ?? {};
    const { lines, format, title, unit } = this.options;
    lines.forEach((line, at) => {
      setText(this.values[at], format(shown[line.name]));
      setAttribute(this.values[at], "data-value", shown[line.name] ?? "");
    });
    setText(this.when, point ? `${Math.round((this.scale.end - point.at) / 1000)} s ago` : "");
    this.cursor.replaceChildren();
    if (point) {
      const x = this.scale.x(point.at);
      this.cursor.append(svg("line", { x1: x, x2: x, y1: this.scale.y1, y2: this.scale.y0 }));
      for (const line of lines.filter((line) => point[line.name] > 0)) {
        this.cursor.append(svg("circle", { cx: x, cy: this.scale.y(point[line.name]), r: 3.5, class: line.tone }));
      }
    }
    const values = lines.map((line) => `${line.label} ${format(shown[line.name])}`).join(", ");
    setAttribute(this.plot, "aria-label", `${title}, ${unit}, the last minutes. ${point ? this.when.textContent : "Now"}: ${values}`);
  }

  pick(x) {
    let best = null;
    for (const point of this.points) {
      const distance = Math.abs(this.scale.x(point.at) - x);
      if (!best || distance < best.distance) best = { distance, at: point.at };
    }
    this.choose(best && best.distance < 24 ? best.at : null);
  }

  choose(at) {
    this.chosen = at;
    this.read();
  }

  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.choose(null);
    if (!step || this.points.length === 0) return;
    event.preventDefault();
    const now = this.points.findIndex((point) => point.at === this.chosen);
    const next = (now < 0 ? this.points.length - 1 : now) + step;
    this.choose(this.points[Math.max(0, next)]?.at ?? null);
  }
}

/** The labels of the time axis, in seconds ago. */
function times(minutes, isNarrow) {
  const step = (isNarrow ? { 1: 30, 2: 60, 5: 120 } : { 1: 15, 2: 30, 5: 60 })[minutes];
  const all = [];
  for (let at = 0; at < minutes * 60; at += step) all.push(at);
  return all;
}

/** A scale from 0 to a round number. */
function linear(values) {
  const most = Math.max(4, ...values);
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const top = step * Math.ceil(most / step);
  const ticks = [];
  for (let n = 0; n <= top + step / 2; n += step) ticks.push(n);
  return { ticks, place: (value) => value / top };
}

/** A scale between two powers of ten. */
function logarithmic(values) {
  const logs = values.map(Math.log10);
  const low = values.length ? Math.floor(Math.min(...logs)) : 0;
  const high = Math.max(low + 1, values.length ? Math.ceil(Math.max(...logs)) : 3);
  const ticks = [];
  for (let n = low; n <= high; n += 1) ticks.push(10 ** n);
  return { ticks, place: (value) => (Math.log10(value) - low) / (high - low) };
}

/** The runs of points that have a value. */
function runs(points, name) {
  const all = [[]];
  for (const point of points) {
    if (typeof point[name] === "number") all.at(-1).push(point);
    else if (all.at(-1).length > 0) all.push([]);
  }
  return all.filter((run) => run.length > 0);
}

const at = (point, name, s) => `${s.x(point.at).toFixed(1)} ${s.y(point[name]).toFixed(1)}`;

function path(points, name, s) {
  const before = points.filter((point) => s.x(point.at) >= s.x0 - 1);
  return runs(before, name).map((run) => `M${run.map((point) => at(point, name, s)).join("L")}${run.length === 1 ? "h1" : ""}`).join("");
}

function areaPath(points, name, s) {
  const before = points.filter((point) => s.x(point.at) >= s.x0 - 1);
  return runs(before, name).map((run) => {
    const line = run.map((point) => at(point, name, s)).join("L");
    return `M${s.x(run[0].at).toFixed(1)} ${s.y0}L${line}L${s.x(run.at(-1).at).toFixed(1)} ${s.y0}Z`;
  }).join("");
}
