// Elements and formats. All text of the server enters the page here, as text and never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** An HTML element. Children that are texts become text nodes. */
export function html(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Sets an element's text, unless it has it: a selection survives. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const isNumber = (n) => typeof n === "number" && Number.isFinite(n);
const NONE = "–";

/** 1,234,567 */
export function count(n) {
  return isNumber(n) ? whole.format(n) : NONE;
}

/** Three digits: 987, 12.3k, 4.56M. */
export function short(n) {
  if (!isNumber(n)) return NONE;
  const units = ["", "k", "M", "G", "T"];
  let at = 0;
  while (Math.abs(n) >= 999.5 && at < units.length - 1) {
    n /= 1000;
    at += 1;
  }
  return digits(n, at === 0) + units[at];
}

function digits(n, mayBeWhole) {
  const size = Math.abs(n);
  if (mayBeWhole && (Number.isInteger(n) || size >= 99.95)) return n.toFixed(0);
  if (size >= 99.95) return n.toFixed(0);
  return n.toFixed(size >= 9.995 ? 1 : 2);
}

/** 12.3 MiB */
export function bytes(n) {
  if (!isNumber(n)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(n) >= 1023.5 && at < units.length - 1) {
    n /= 1024;
    at += 1;
  }
  return `${at === 0 ? n.toFixed(0) : digits(n, false)} ${units[at]}`;
}

/** A time in microseconds: 850 ns, 12.3 µs, 4.56 ms, 1.20 s. */
export function micros(us) {
  if (!isNumber(us)) return NONE;
  if (us < 0.9995) return `${(us * 1000).toFixed(0)} ns`;
  if (us < 999.5) return `${digits(us, false)} µs`;
  if (us < 999500) return `${digits(us / 1000, false)} ms`;
  return `${digits(us / 1e6, false)} s`;
}

/** A share between 0 and 1. */
export function percent(share) {
  if (!isNumber(share)) return NONE;
  const n = share * 100;
  if (n > 0 && n < 0.1) return "<0.1 %";
  return `${n >= 99.95 || n === 0 ? n.toFixed(0) : n.toFixed(1)} %`;
}

/** Seconds: 12 s, 4 min, 3 h 20 min, 5 d 2 h. */
export function seconds(s) {
  if (!isNumber(s)) return NONE;
  s = Math.max(0, Math.floor(s));
  const [minutes, hours, days] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  if (s < 60) return `${s} s`;
  if (minutes < 60) return `${minutes} min`;
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** The time of day of a Unix time in milliseconds. */
export function clock(ms) {
  return isNumber(ms) ? new Date(ms).toLocaleTimeString("en-GB") : NONE;
}

/** Terms and values. A value is a text, or [text, exact value]. `id` is for the value. */
export function facts(list, rows) {
  rows = rows.filter(Boolean);
  while (list.children.length > rows.length) list.lastElementChild.remove();
  rows.forEach(([id, term, value, tone], at) => {
    let row = list.children[at];
    if (!row) {
      row = html("div", {}, html("dt"), html("dd", {}, html("data")));
      list.append(row);
    }
    const [text, exact] = Array.isArray(value) ? value : [value, value];
    const data = row.querySelector("data");
    setText(row.firstElementChild, term);
    setText(data, text);
    setAttribute(data, "id", id);
    setAttribute(data, "value", exact ?? "");
    setAttribute(row, "data-tone", tone || null);
  });
}

/**
 * A table whose rows are kept from one tick to the next. Columns: { name, label, number, wide, share, cell(row) }. A cell is
 * a text, or [text, exact value]. `share(row)` draws a bar between 0 and 1.
 */
export class Table {
  constructor(place, labelledBy, columns, empty) {
    this.columns = columns;
    this.empty = html("p", { class: "empty" }, empty);
    this.body = html("tbody", { role: "rowgroup" });
    const heads = columns.map((column) => {
      const head = html("th", { role: "columnheader", scope: "col", class: column.number ? "number" : null });
      if (column.sort) {
        const button = html("button", { type: "button", class: "sort" }, column.label);
        button.addEventListener("click", () => this.sortBy(column));
        head.append(button);
        column.head = head;
      } else head.append(column.label);
      return head;
    });
    const head = html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, ...heads));
    this.table = html("table", { role: "table", "aria-labelledby": labelledBy }, head, this.body);
    place.replaceChildren(this.table, this.empty);
    this.sorted = columns.find((column) => column.sort) ?? null;
    this.mark();
  }

  sortBy(column) {
    this.sorted = column;
    this.mark();
    this.show(this.rows ?? []);
  }

  mark() {
    for (const column of this.columns.filter((column) => column.head)) {
      column.head.setAttribute("aria-sort", column === this.sorted ? column.order ?? "descending" : "none");
    }
  }

  show(rows) {
    this.rows = rows;
    if (this.sorted) rows = [...rows].sort((a, b) => this.sorted.sort(b) - this.sorted.sort(a));
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    while (this.body.rows.length > rows.length) this.body.lastElementChild.remove();
    rows.forEach((row, at) => this.showRow(this.body.rows[at] ?? this.addRow(), row));
  }

  addRow() {
    const cells = this.columns.map((column, at) => {
      const attributes = { role: at === 0 ? "rowheader" : "cell", "data-label": column.label, "data-column": column.name };
      if (column.number) attributes.class = "number";
      const value = html("span", { class: "value" });
      const cell = html(at === 0 ? "th" : "td", attributes, value);
      if (column.share) cell.append(html("span", { class: "bar-cell", "aria-hidden": "true" }, html("i")));
      return cell;
    });
    cells[0].setAttribute("scope", "row");
    const row = html("tr", { role: "row" }, ...cells);
    this.body.append(row);
    return row;
  }

  showRow(element, row) {
    this.columns.forEach((column, at) => {
      const cell = element.children[at];
      const shown = column.cell(row);
      const [text, exact] = Array.isArray(shown) ? shown : [shown, shown];
      setText(cell.firstElementChild, String(text ?? NONE));
      setAttribute(cell, "data-value", exact ?? "");
      if (column.share) cell.querySelector("i").style.setProperty("width", `${100 * Math.min(1, column.share(row) || 0)}%`);
    });
    setAttribute(element, "data-tone", row.tone || null);
  }
}
