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

  function showTheme() {
    toggle.setAttribute("aria-pressed", String(dark()));
    charts.forEach((chart) => chart.paint());
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
  const number = (value) => (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7 ? value.toPrecision(2) : digits.format(value)).replace("-", "−");
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
      const stage = this.frames.length > 1 ? [frame.title, counted(frame.free, "capped row")] : [];
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

  showTheme();
  draw().then(() => { root.dataset.ready = "true"; });
})();
