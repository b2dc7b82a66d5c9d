"use strict";
(() => {
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  document.querySelectorAll(".js-only").forEach((part) => { part.hidden = false; });

  // ---------------------------------------------------------------- light and dark

  const system = matchMedia("(prefers-color-scheme: dark)");
  const toggle = find("theme");
  const charts = [];

  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }

  const redraws = []; // of drawings that take their colours from the page

  function showTheme() {
    toggle.setAttribute("aria-pressed", String(dark()));
    charts.forEach((chart) => chart.paint());
    redraws.forEach((redraw) => redraw());
  }

  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    showTheme();
  });
  system.addEventListener("change", showTheme);

  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  /** The red, green and blue of one of the style sheet's colours, as the page shows it now. */
  function rgb(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  }

  const hex = (parts) => `#${parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
  const colour = (name) => hex(rgb(name));

  /** `n` colours on the way from one colour to another. */
  function between(from, to, n) {
    const [a, b] = [rgb(from), rgb(to)];
    return Array.from({ length: n }, (_, k) => hex(a.map((part, c) => part + ((b[c] - part) * k) / (n - 1))));
  }

  const rising = () => between("map-size-low", "map-size-high", 128);
  const diverging = () => [...between("map-low", "map-low-mid", 64), ...between("map-high-mid", "map-high", 64)];

  // ---------------------------------------------------------------- what is under the mouse

  const tip = find("tip");
  const mouse = { x: 0, y: 0 };

  document.addEventListener("pointermove", (event) => {
    mouse.x = event.clientX;
    mouse.y = event.clientY;
    if (!event.target.closest(".live")) tip.hidden = true;
  });

  function showTip(text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(mouse.x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${mouse.y + 18 + box.height > innerHeight ? mouse.y - box.height - 12 : mouse.y + 18}px`;
  }

  // ---------------------------------------------------------------- charts

  /** Bokeh takes $$ and \\( for mathematics: a character of no width keeps names as they are. */
  const plain = (name) => name.replaceAll("$", "$\u200b").replaceAll("\\", "\\\u200b").replace(/\s+/g, " ");
  const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

  class Chart {
    constructor(name, known, plot) {
      Object.assign(this, { name, known, plot, parts: [...plot.references()] });
      this.rows = this.parts.find((part) => part.name === "rows");
      this.columns = this.parts.find((part) => part.name === "columns");
      this.box = find(`live-${name}`);
      for (const source of this.parts.filter((part) => part.type === "ColumnDataSource")) {
        source.inspect.connect(() => showTip(this.tip(source)));
      }
      for (const range of [plot.x_range, plot.y_range]) range.change.connect(() => this.label());
      new ResizeObserver(() => this.label()).observe(this.box);
      if (matchMedia("(pointer: coarse)").matches || innerWidth < 640) plot.toolbar_location = null;
      else this.parts.filter((part) => part.type === "BoxZoomTool").forEach((tool) => { tool.active = true; });
      this.paint();
      this.label();
    }

    tip(source) {
      const [at] = source.inspected.indices;
      return at === undefined || !source.data.tip ? "" : source.data.tip[at];
    }

    rowName(row) {
      return this.known.rows[row];
    }

    /** Names beside the rows and columns in view: as many as there is room for. */
    label() {
      const long = this.box.clientWidth < 560 ? 14 : 26;
      if (this.rows) this.ticks(this.rows, this.plot.y_range, this.known.rows.length, this.plot.inner_height, 11, (k) =>
        short(plain(this.rowName(k)), long), true);
      if (this.columns) {
        const names = this.known.columns.map((name) => short(plain(name), 18));
        const room = (this.plot.inner_width || this.box.clientWidth) / names.length;
        const upright = room < 7.5 * Math.max(...names.map((name) => name.length));
        this.columns.major_label_orientation = upright ? "vertical" : "horizontal";
        this.ticks(this.columns, this.plot.x_range, names.length, this.plot.inner_width, 14, (k) => names[k], false);
      }
    }

    ticks(axis, range, count, pixels, least, name, flip) {
      const low = Math.max(0, Math.floor(Math.min(range.start, range.end)));
      const high = Math.min(count, Math.ceil(Math.max(range.start, range.end)));
      const step = Math.max(1, Math.ceil(((high - low) * least) / (pixels || 400)));
      const ticks = [];
      const names = new Map();
      for (let k = 0; k < count; k += step) {
        const at = (flip ? count - 1 - k : k) + 0.5;
        if (at < low || at > high) continue;
        ticks.push(at);
        names.set(at, name(k));
      }
      axis.major_label_overrides = names;
      axis.ticker.ticks = ticks;
    }

    /** The page's colours and type. */
    paint() {
      const [ink, soft, rule, paper] = ["ink", "soft", "rule", "paper"].map(colour);
      const font = getComputedStyle(document.body).fontFamily;
      const roles = { better: "accent", worse: "warm", unclear: "soft", line: "accent", whisker: "some", zero: "ink", rule: "ink" };
      for (const part of this.parts) {
        if (part.type === "Figure") part.setv({ background_fill_color: paper, border_fill_color: paper, outline_line_color: null });
        else if (/Axis$/.test(part.type)) {
          part.setv({
            axis_line_color: part.name ? null : rule, major_tick_line_color: part.name ? null : rule, minor_tick_line_color: null,
            major_label_text_color: part.name === "groups" ? soft : ink, axis_label_text_color: soft,
            major_label_text_font: font, axis_label_text_font: font, axis_label_text_font_style: "normal",
            major_label_text_font_size: part.name === "rows" ? "11px" : "12px", axis_label_text_font_size: "12px",
          });
        } else if (part.type === "Grid") part.setv({ grid_line_color: rule, grid_line_alpha: 0.6 });
        else if (part.type === "ColorBar") {
          part.setv({
            background_fill_color: null, border_line_color: null, bar_line_color: null, major_tick_line_color: null,
            major_label_text_color: ink, title_text_color: soft, title_text_font: font, major_label_text_font: font,
            title_text_font_style: "normal", title_text_font_size: "12px", major_label_text_font_size: "12px",
          });
        } else if (part.type === "Span") part.setv({ line_color: colour(roles[part.name]), line_alpha: 0.7 });
        else if (part.type === "GlyphRenderer" && part.name === "chosen") part.glyph.setv({ fill_color: "#ffffff", line_color: "#000000" });
        else if (part.type === "GlyphRenderer" && part.name === "constant") part.glyph.setv({ line_color: soft });
        else if (part.type === "GlyphRenderer" && roles[part.name]) {
          const of = colour(roles[part.name]);
          part.glyph.setv(part.glyph.type === "Scatter" ? { fill_color: of, line_color: paper } : { line_color: of });
        } else if (part.name === "diverging") part.palette = this.signed === false ? rising() : diverging();
      }
    }
  }

  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const whole = new Intl.NumberFormat("en");
  const number = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7 ? value.toPrecision(2) : digits.format(value)).replace("-", "−");
  const counted = (n, noun) => `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`;

  function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  /** The coefficient map: a picture per stage. */
  class CoefficientMap extends Chart {
    constructor(name, known, plot) {
      super(name, known, plot);
      this.cells = this.parts.find((part) => part.name === "cells");
      this.frames = known.frames.map((frame) => ({ ...frame, classes: frame.cells.map(unpack), freed: new Set(frame.freed) }));
      this.constant = new Set(known.constant);
      this.choice = find("class");
      this.choice?.addEventListener("change", () => this.choose());
      this.mapper = this.parts.find((part) => part.name === "diverging");
      this.bar = this.parts.find((part) => part.name === "bar");
      this.slider = find("stage");
      this.slider?.addEventListener("input", () => this.show());
      find("own-scale").addEventListener("change", () => this.show());
      find("play")?.addEventListener("click", () => this.play());
      this.choose();
    }

    /** One class, or the sum of the sizes over all: that has no sign. */
    choose() {
      const chosen = this.known.classes.length ? this.choice.value : "0";
      this.signed = chosen !== "";
      for (const frame of this.frames) frame.values = this.signed ? frame.classes[Number(chosen)] : this.sizes(frame);
      this.tops = undefined;
      let top = 0;
      for (const frame of this.frames) for (const value of frame.values) top = Math.max(top, Math.abs(value) || 0);
      this.end = top * this.known.scale || 1;
      this.mapper.palette = this.signed ? diverging() : rising();
      this.show();
    }

    sizes(frame) {
      const size = (k) => frame.classes.reduce((sum, values) => sum + (Math.abs(values[k]) || 0), 0);
      return frame.classes[0].map((_, k) => size(k) || NaN);
    }

    get at() {
      return this.slider ? this.slider.valueAsNumber - 1 : 0;
    }

    rowName(row) {
      return `${this.frames?.[this.at].freed.has(row) ? "● " : ""}${this.known.rows[row]}`;
    }

    value(frame, row, column) {
      const width = this.known.columns.length;
      return frame.values[(this.known.rows.length - 1 - row) * width + column];
    }

    /** What each row is divided by for its colours: its largest coefficient over all stages. */
    get largest() {
      const width = this.known.columns.length;
      this.tops ??= this.known.rows.map((_, row) => {
        let top = 0;
        for (const frame of this.frames) for (let c = 0; c < width; c += 1) top = Math.max(top, Math.abs(this.value(frame, row, c)) || 0);
        return top || 1;
      });
      return this.tops;
    }

    show() {
      const frame = this.frames[this.at];
      const own = find("own-scale").checked;
      const width = this.known.columns.length;
      const count = this.known.rows.length;
      const image = this.cells.data.image[0];
      for (let k = 0; k < image.length; k += 1) {
        image[k] = frame.values[k] * (own ? 1 / this.largest[count - 1 - Math.floor(k / width)] : this.known.scale);
      }
      const end = own ? 1 : this.end;
      const what = this.signed ? "coefficient" : "sum of |coefficients| over classes";
      this.mapper.setv({ low: this.signed ? -end : 0, high: end });
      this.bar.title = own ? `${what} / largest of its feature (blank: exactly 0)` : `${what}, in the data's units (blank: exactly 0)`;
      this.cells.change.emit();
      this.label();
      const stage = this.frames.length > 1 ? [frame.title, `${counted(frame.free, "feature")} freed`] : [];
      const said = [...stage, counted(frame.features, "feature") + " in use", counted(frame.entries, "coefficient") + " not 0"];
      find("stage-said").textContent = said.join(" · ");
      this.slider?.setAttribute("aria-valuetext", said.join(", "));
    }

    play() {
      clearInterval(this.clock);
      this.slider.value = 1;
      this.show();
      this.clock = setInterval(() => {
        if (this.at + 1 >= this.frames.length) clearInterval(this.clock);
        else { this.slider.valueAsNumber += 1; this.show(); }
      }, 1100);
    }

    tip(source) {
      const [cell] = source.inspected.image_indices ?? [];
      if (!cell) return "";
      const row = this.known.rows.length - 1 - cell.j;
      const [feature, task] = [this.known.rows[row], this.known.columns[cell.i]];
      if (feature === undefined || task === undefined) return "";
      const value = this.value(this.frames[this.at], row, cell.i);
      if (!Number.isNaN(value)) return `${feature} in ${task}: ${number(value * this.known.scale)}`;
      const constant = this.constant.has(row * this.known.columns.length + cell.i);
      return `${feature} in ${task}: 0${constant ? ", constant there: nothing could be learned" : ""}`;
    }
  }

  async function draw() {
    for (const [name, known] of Object.entries(data.charts)) {
      const figure = find(`figure-${name}`);
      figure.classList.add("alive");
      try {
        await Bokeh.embed.embed_item(known.item, `live-${name}`);
        const plot = Bokeh.documents.at(-1).roots()[0];
        charts.push(name === "map" ? new CoefficientMap(name, known, plot) : new Chart(name, known, plot));
      } catch (error) {
        figure.classList.remove("alive"); // the still picture stays
        console.error(error);
      }
    }
  }

  // ---------------------------------------------------------------- one task at a time

  const SVG = "http://www.w3.org/2000/svg";

  function part(parent, tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  /** About `n` round numbers between two others. */
  function round(low, high, n = 5) {
    const raw = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw);
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) out.push(k * step);
    return out;
  }

  /** A drawing with axes: `x` and `y` give places of values. */
  class Drawing {
    constructor(box, title, width, height, pad) {
      this.figure = document.createElement("figure");
      this.figure.className = "panel";
      const head = document.createElement("h3");
      head.textContent = title;
      this.figure.append(head);
      this.svg = part(this.figure, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
      part(this.svg, "rect", { width, height, fill: colour("paper") });
      Object.assign(this, { title, width, height, pad, ink: colour("ink"), soft: colour("soft"), rule: colour("rule") });
      this.figure.append(downloads((kind) => save(this.svg, title, kind)));
      box.append(this.figure);
    }

    axes([x0, x1], [y0, y1], xName, yName) {
      const { left, right, top, bottom } = this.pad;
      this.x = (value) => left + ((value - x0) / (x1 - x0 || 1)) * (this.width - left - right);
      this.y = (value) => this.height - bottom - ((value - y0) / (y1 - y0 || 1)) * (this.height - top - bottom);
      for (const at of round(x0, x1, 4)) this.tick(this.x(at), undefined, number(at));
      if (yName) for (const at of round(y0, y1)) this.tick(undefined, this.y(at), number(at));
      this.text((left + this.width - right) / 2, this.height - 4, xName, "middle", this.soft);
      if (yName) part(this.svg, "text", { transform: `translate(11 ${(top + this.height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", "font-size": 11, "font-family": "sans-serif", fill: this.soft }, yName);
    }

    tick(x, y, text) {
      const { left, right, top, bottom } = this.pad;
      if (x === undefined) {
        this.line(left, y, this.width - right, y, this.rule, 0.7);
        this.text(left - 5, y + 4, text, "end", this.soft);
      } else {
        this.line(x, top, x, this.height - bottom, this.rule, 0.7);
        this.text(x, this.height - bottom + 14, text, "middle", this.soft);
      }
    }

    line(x1, y1, x2, y2, stroke, width = 1, dash = "") {
      part(this.svg, "line", { x1, y1, x2, y2, stroke, "stroke-width": width, ...(dash && { "stroke-dasharray": dash }) });
    }

    text(x, y, text, anchor, fill = this.ink) {
      return part(this.svg, "text", { x, y, "text-anchor": anchor, "font-size": 11, "font-family": "sans-serif", fill }, text);
    }

    dot(x, y, fill, r = 2.6, said = "") {
      const made = part(this.svg, "circle", { cx: x, cy: y, r, fill, "fill-opacity": 0.75 });
      if (said) part(made, "title", {}, said);
    }

    path(points, stroke) {
      part(this.svg, "polyline", { points: points.map((one) => one.join(",")).join(" "), fill: "none", stroke, "stroke-width": 2 });
    }
  }

  const PAD = { left: 54, right: 14, top: 8, bottom: 34 };

  function ends(values, wide = 0.05) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    const pad = wide * (high - low || Math.abs(high) || 1);
    return [low - pad, high + pad];
  }

  function drawCoefficients(box, known, at) {
    const found = known.coefs[at];
    const what = known.signed ? (known.ratio ? `log of the ${known.ratio}` : "effect") : "size of the effect";
    const title = `${known.tasks[at]}: ${what} of ${known.step}`;
    if (!found.length) return;
    const drawing = new Drawing(box, title, 350, 24 * found.length + 46, { left: 130, right: 52, top: 8, bottom: 34 });
    const [low, high] = ends([0, ...found.flatMap(([, value, lines]) => [value, ...lines.flat()])]);
    drawing.axes([low, high], [0, 1], `${what} of ${known.step}`, "");
    drawing.line(drawing.x(0), 8, drawing.x(0), 24 * found.length + 12, drawing.ink);
    found.forEach(([place, value, lines], k) => {
      const y = 22 + 24 * k;
      const fill = colour(value < 0 ? "warm" : "accent");
      drawing.text(122, y + 4, short(known.features[place], 20), "end");
      lines.forEach(([a, b], l) => {
        const off = lines.length > 1 ? 7 * (l / (lines.length - 1) - 0.5) : 0;
        drawing.line(drawing.x(a), y + off, drawing.x(b), y + off, fill, 1.5);
      });
      if (!lines.length) drawing.line(drawing.x(0), y, drawing.x(value), y, fill, 5);
      drawing.dot(drawing.x(value), y, fill, 4.5, `${known.features[place]}: ${number(value)}`);
      drawing.text(348, y + 4, known.ratio && known.signed ? `×${number(Math.exp(value))}` : number(value), "end", drawing.soft);
    });
  }

  function drawPoints(box, known, pairs, name) {
    const [observed, predicted] = pairs;
    if (!observed.length) return;
    const r = observed.length > 400 ? 1.6 : 2.8;
    const both = ends([...observed, ...predicted]);
    const plain = new Drawing(box, `${name}: observed and predicted`, 300, 290, PAD);
    plain.axes(both, both, `predicted ${short(known.target, 24)}`, `observed ${short(known.target, 24)}`);
    plain.line(plain.x(both[0]), plain.y(both[0]), plain.x(both[1]), plain.y(both[1]), plain.soft, 1, "4 4");
    observed.forEach((y, k) => plain.dot(plain.x(predicted[k]), plain.y(y), colour("accent"), r, `observed ${number(y)}, predicted ${number(predicted[k])}`));
    const left = observed.map((y, k) => y - predicted[k]);
    const rest = new Drawing(box, `${name}: residuals`, 300, 290, PAD);
    rest.axes(ends(predicted), ends([...left, 0]), `predicted ${short(known.target, 24)}`, "observed less predicted");
    rest.line(PAD.left, rest.y(0), 300 - PAD.right, rest.y(0), rest.ink);
    left.forEach((value, k) => rest.dot(rest.x(predicted[k]), rest.y(value), colour("accent"), r, number(value)));
  }

  const HAZARDS = [["low hazard", "accent"], ["middle", "ink"], ["high hazard", "warm"]];

  /** Shares without an event as time goes on: as expected at three hazards, and as observed. */
  function drawSurvival(box, found, name) {
    const width = Math.max(300, Math.min(480, box.clientWidth)); // letters keep their size on a small screen
    const drawing = new Drawing(box, `${name}: share still without the event`, width, 320, { ...PAD, right: 84 });
    const [end] = found.end;
    drawing.axes([0, end], [0, 1], "time", "share without the event");
    const stair = ([times, shares]) => {
      const points = [[0, 1]];
      times.forEach((time, k) => points.push([time, points.at(-1)[1]], [time, shares[k]]));
      return [...points, [end, points.at(-1)[1]]];
    };
    const shown = [...HAZARDS.map(([said, shade]) => [said, colour(shade)]), ["observed", drawing.soft]];
    shown.forEach(([said, shade], k) => drawing.text(width - 80, 20 + 16 * k, said, "start", shade));
    for (const k of [3, 0, 1, 2]) {
      drawing.path(stair(found.steps[k]).map(([x, y]) => [drawing.x(x), drawing.y(y)]), shown[k][1]);
    }
  }

  function chooseTasks(known) {
    const [select, panels] = [find("one-task"), find("one-panels")];
    if (!select) return;
    const options = known.points && known.tasks.length > 1 ? [["all", `all ${known.words} together`]] : [];
    known.tasks.forEach((name, k) => options.push([String(k), name]));
    for (const [value, name] of options) select.append(new Option(name, value));
    select.value = "0";
    const show = () => {
      panels.replaceChildren();
      const whole = select.value === "all";
      const at = Number(select.value);
      const near = whole ? [] : known.alike[at];
      find("one-said").textContent = whole ? "Every dot is a row." : `${known.tasks[at]}: ${known.said[at]}.`;
      find("one-alike").textContent = near.length
        ? `Resembles most: ${near.map(([name, s]) => `${name} (${s.toFixed(2)})`).join(", ")}. In brackets: how alike the effects of all features are, 1 being the same up to a factor.`
        : "";
      if (!whole) drawCoefficients(panels, known, at);
      if (known.survival?.[at]) drawSurvival(panels, known.survival[at], known.tasks[at]);
      if (!known.points) return;
      const pairs = whole ? [0, 1].map((side) => known.points.flatMap((one) => one[side])) : known.points[at];
      drawPoints(panels, known, pairs, whole ? `all ${known.words}` : known.tasks[at]);
    };
    const move = (by) => {
      select.selectedIndex = (select.selectedIndex + by + options.length) % options.length;
      show();
    };
    find("one-before").addEventListener("click", () => move(-1));
    find("one-after").addEventListener("click", () => move(1));
    select.addEventListener("change", show);
    redraws.push(show);
    show();
  }

  function chooseCurves(known) {
    const { curves } = known;
    if (!curves || !find("threshold")) return;
    const [tasks, classes, threshold] = ["curve-task", "curve-class", "threshold"].map(find);
    tasks?.append(new Option(`all ${known.words} together`, "0"));
    known.tasks.slice(0, curves.counts.length - 1).forEach((name, k) => tasks?.append(new Option(name, String(k + 1))));
    curves.classes.forEach((name, k) => classes?.append(new Option(name, String(k))));
    const show = () => {
      const c = Number(classes?.value ?? 0);
      const counts = curves.counts[Number(tasks?.value ?? 0)][c];
      const name = tasks ? tasks.selectedOptions[0].textContent : known.target;
      const cut = (threshold.valueAsNumber / 100) * curves.bins;
      const [no, yes] = [1, 2].map((side) => counts.reduce((sum, one) => sum + one[side], 0));
      const above = [1, 2].map((side) => counts.reduce((sum, one) => sum + (one[0] >= cut ? one[side] : 0), 0));
      const share = (n, of) => (of ? `${whole.format(n)} of ${whole.format(of)} (${Math.round((100 * n) / of)} %)` : "none");
      find("threshold-said").textContent = `From a probability of ${threshold.value} % on: found ${share(above[1], yes)} rows of ${curves.classes[c]}; false alarms ${share(above[0], no)} of the others.`;
      const panels = find("curve-panels");
      panels.replaceChildren();
      drawRoc(panels, counts, no, yes, above, `${name}: ROC, ${curves.classes[c]}`);
      drawCalibration(panels, counts, curves.bins, `${name}: calibration, ${curves.classes[c]}`);
    };
    for (const control of [tasks, classes]) control?.addEventListener("change", show);
    threshold.addEventListener("input", show);
    redraws.push(show);
    show();
  }

  function drawRoc(box, counts, no, yes, above, title) {
    const drawing = new Drawing(box, title, 340, 320, PAD);
    drawing.axes([0, 1], [0, 1], "share of the others above the threshold", "share of the class above it");
    drawing.line(drawing.x(0), drawing.y(0), drawing.x(1), drawing.y(1), drawing.soft, 1, "4 4");
    if (!no || !yes) { drawing.text(180, 150, "one class only: no curve", "middle"); return; }
    const points = [[0, 0]];
    let [a, b] = [0, 0];
    for (const [, others, own] of [...counts].reverse()) { a += others / no; b += own / yes; points.push([a, b]); }
    const area = points.slice(1).reduce((sum, [x, y], k) => sum + ((x - points[k][0]) * (y + points[k][1])) / 2, 0);
    drawing.path(points.map(([x, y]) => [drawing.x(x), drawing.y(y)]), colour("accent"));
    drawing.dot(drawing.x(above[0] / no), drawing.y(above[1] / yes), colour("warm"), 5.5, "the threshold");
    drawing.text(326, 270, `AUC ${area.toFixed(2)}`, "end");
  }

  function drawCalibration(box, counts, bins, title) {
    const drawing = new Drawing(box, title, 340, 320, PAD);
    drawing.axes([0, 1], [0, 1], "predicted probability", "share observed");
    drawing.line(drawing.x(0), drawing.y(0), drawing.x(1), drawing.y(1), drawing.soft, 1, "4 4");
    const groups = Array.from({ length: 10 }, () => [0, 0, 0]);
    for (const [bin, others, own] of counts) {
      const group = groups[Math.floor((10 * bin) / bins)];
      group[0] += others + own;
      group[1] += own;
      group[2] += ((bin + 0.5) / bins) * (others + own);
    }
    const most = Math.max(...groups.map(([n]) => n));
    for (const [n, own, p] of groups.filter(([count]) => count)) {
      const [share, se] = [own / n, Math.sqrt((((own + 1) / (n + 2)) * (1 - (own + 1) / (n + 2))) / n)];
      drawing.line(drawing.x(p / n), drawing.y(Math.max(0, share - 2 * se)), drawing.x(p / n), drawing.y(Math.min(1, share + 2 * se)), colour("accent"), 1.2);
      drawing.dot(drawing.x(p / n), drawing.y(share), colour("accent"), 3 + 5 * Math.sqrt(n / most), `${counted(n, "row")}: predicted ${number(p / n)}, observed ${number(share)}`);
    }
  }

  // ---------------------------------------------------------------- downloads

  function download(name, blob) {
    const link = document.createElement("a");
    link.download = name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) + `.${blob.type.match(/csv|svg|png/)[0]}`;
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  /** The text of a picture as SVG, or painted as PNG at twice its size. */
  function savePicture(text, width, height, name, kind) {
    if (kind === "svg") { download(name, new Blob([text], { type: "image/svg+xml" })); return; }
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * (width || image.naturalWidth), 2 * (height || image.naturalHeight)];
      const pen = canvas.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(name, blob), "image/png");
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }

  function save(svg, name, kind) {
    savePicture(new XMLSerializer().serializeToString(svg), svg.viewBox.baseVal.width, svg.viewBox.baseVal.height, name, kind);
  }

  function downloads(act) {
    const line = document.createElement("p");
    line.className = "downloads";
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.setAttribute("aria-label", `Download this chart as ${kind.toUpperCase()}`);
      button.addEventListener("click", () => act(kind));
      line.append(button);
    }
    return line;
  }

  document.querySelectorAll("[data-picture]").forEach((button) => button.addEventListener("click", () => {
    const still = find(`figure-${button.dataset.picture}`).querySelector(".still");
    const bytes = Uint8Array.from(atob(still.src.split(",")[1]), (letter) => letter.charCodeAt(0));
    savePicture(new TextDecoder().decode(bytes), 0, 0, `${document.title} ${button.dataset.picture}`, button.dataset.kind);
  }));

  /** A field of CSV: numbers in full, names quoted where they must be; a spreadsheet takes none of them for a formula. */
  function field(cell) {
    if (cell.dataset.v !== undefined) return cell.dataset.v === "nan" ? "" : cell.dataset.v;
    const text = /^[=+\-@\t\r]/.test(cell.textContent) ? `'${cell.textContent}` : cell.textContent;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  document.querySelectorAll("[data-csv]").forEach((button) => button.addEventListener("click", () => {
    const table = find(`table-${button.dataset.csv}`).querySelector("table");
    const lines = [...table.rows].map((row) => [...row.cells].map(field).join(","));
    download(`${document.title} ${button.dataset.csv}`, new Blob([`\ufeff${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  }));

  // ---------------------------------------------------------------- tables

  const key = (cell) => (cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v));

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return Number.isNaN(a) - Number.isNaN(b) || a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const falling = before === "none" ? head.classList.contains("n") : before === "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [key(row.cells[place]), row]);
        rows.sort((a, b) => {
          const absent = Number.isNaN(a[0]) - Number.isNaN(b[0]);
          return absent || (falling ? -1 : 1) * compare(a[0], b[0]);
        });
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }

  function searchable(block) {
    const form = block.querySelector("form");
    if (!form) return;
    const rows = [...block.querySelectorAll("tbody tr")];
    const [text, filter, found] = ["[data-search]", "[data-filter]", "[data-found]"].map((part) => form.querySelector(part));
    for (const row of rows) {
      row.dataset.text = [...row.cells].filter((cell) => !cell.classList.contains("n")).map((cell) => cell.textContent.toLowerCase()).join(" ");
    }
    const update = () => {
      const wanted = text.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        const fits = row.dataset.text.includes(wanted) && (!filter?.value || row.cells[1].textContent === filter.value);
        row.hidden = !fits;
        count += fits;
      }
      found.textContent = `${whole.format(count)} of ${whole.format(rows.length)} shown`;
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }

  document.querySelectorAll(".table-block").forEach((block) => {
    if (block.querySelectorAll("tbody tr").length > 1) sortable(block.querySelector("table"));
    searchable(block);
  });

  // ---------------------------------------------------------------- contents

  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main section").forEach((section) => seen.observe(section));

  if (data.tasks) {
    chooseTasks(data.tasks);
    chooseCurves(data.tasks);
  }
  showTheme();
  draw().then(() => { root.dataset.ready = "true"; });
})();
