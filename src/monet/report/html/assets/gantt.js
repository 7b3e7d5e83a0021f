// Timeline: every tile and transfer on its core, link or DRAM. Tiles narrower than a pixel are merged per pixel, so a
// frame paints at most (width × rows) rectangles however many tiles there are.

monet.gantt = {};

// Differences back to absolute starts, as typed arrays.
monet.gantt.unpack = (row) => {
  const count = row.start.length;
  const start = new Float64Array(count), end = new Float64Array(count);
  let time = 0;
  for (let index = 0; index < count; index += 1) {
    time += row.start[index];
    start[index] = time;
    end[index] = time + row.length[index];
  }
  return { ...row, start, end, count };
};

// First event that may reach past `time`: events of a row follow each other, so one step back is enough.
monet.gantt.firstFrom = (row, time) => {
  let low = 0, high = row.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.start[middle] < time) low = middle + 1; else high = middle;
  }
  return Math.max(0, low - 1);
};

monet.gantt.palette = (data, by) => {
  if (by === "phase") {
    const colours = data.phases.map(monet.colour), none = monet.colour("workspace");
    return (operator) => (operator < 0 ? none : colours[data.operator_phase[operator]] || none);
  }
  if (by === "event") {
    const colours = data.kinds.map((_, index) => monet.colour("kind" + index));
    return (_, event) => colours[event];
  }
  const made = new Map();
  return (operator) => {
    if (!made.has(operator)) made.set(operator, monet.hue(operator));
    return made.get(operator);
  };
};

// One row of events. `chosen(operator)` says which keep full strength.
monet.gantt.paintRow = (context, row, view, left, right, y, height, colourOf, chosen) => {
  const scale = (right - left) / (view.end - view.begin);
  let drawn = 0, pixel = -1, cover = new Map();
  const flush = () => {
    if (pixel >= 0 && cover.size) {
      let best = null, most = 0, sum = 0;
      for (const [colour, amount] of cover) { sum += amount; if (amount > most) { most = amount; best = colour; } }
      context.globalAlpha = Math.min(1, 0.3 + 0.7 * sum);
      context.fillStyle = best;
      context.fillRect(pixel, y, 1, height);
      drawn += 1;
    }
    pixel = -1;
    cover = new Map();
  };
  for (let index = monet.gantt.firstFrom(row, view.begin); index < row.count && row.start[index] <= view.end; index += 1) {
    if (row.end[index] < view.begin) continue;
    const operator = row.operator[index];
    const x0 = Math.max(left, left + (row.start[index] - view.begin) * scale);
    const x1 = Math.min(right, left + (row.end[index] - view.begin) * scale);
    const faint = !chosen(operator);
    const colour = faint ? monet.gantt.faint : colourOf(operator, row.event[index]);
    if (x1 - x0 < 1.5) {
      const here = Math.min(Math.floor(x0), right - 1);
      if (here !== pixel) { flush(); pixel = here; }
      cover.set(colour, (cover.get(colour) || 0) + Math.max(0.06, x1 - x0) * (faint ? 0.3 : 1));
      continue;
    }
    flush();
    context.globalAlpha = faint ? 0.5 : 1;
    context.fillStyle = colour;
    context.fillRect(x0, y, x1 - x0 - (x1 - x0 > 5 ? 1 : 0), height);
    drawn += 1;
    if (x1 - x0 > 46 && height >= 14 && !faint) monet.gantt.write(context, row.operators[operator], x0, x1, y, height);
  }
  flush();
  context.globalAlpha = 1;
  return drawn;
};

monet.gantt.write = (context, name, x0, x1, y, height) => {
  const text = monet.fitted(context, name || "", x1 - x0 - 8);
  if (!text) return;
  context.fillStyle = "#fff";
  context.textAlign = "left";
  context.fillText(text, x0 + 4, y + height / 2 + 1);
};

monet.gantt.layout = (rows, width) => {
  const label = width < 560 ? 84 : 132;
  let y = 30;
  const placed = rows.map((row, index) => {
    if (index && rows[index - 1].kind !== row.kind) y += 10;
    const height = row.kind === "core" ? 19 : 15;
    const place = { y, height };
    y += height + 3;
    return place;
  });
  return { label, placed, bottom: y + 2, height: y + 26 };
};

monet.gantt.bands = (context, data, view, left, right) => {
  const scale = (right - left) / (view.end - view.begin);
  let labelled = 0; // labels of phases that overlap would, too
  for (const band of data.bands) {
    const x0 = Math.max(left, left + (band.begin - view.begin) * scale);
    const x1 = Math.min(right, left + (band.end - view.begin) * scale);
    if (x1 <= x0) continue;
    context.fillStyle = monet.colour(band.phase);
    context.fillRect(x0, 20, Math.max(1, x1 - x0), 4);
    if (x1 - x0 > 60 && x0 >= labelled) {
      labelled = x0 + context.measureText(band.phase).width + 8;
      context.fillStyle = monet.colour("soft");
      context.textAlign = "left";
      context.fillText(monet.fitted(context, band.phase, x1 - x0 - 4), x0 + 2, 10);
    }
  }
};

monet.draw.gantt = (host, data, shared) => {
  const rows = data.rows.map((row) => ({ ...monet.gantt.unpack(row), operators: data.operators }));
  const view = shared.view;
  let by = "phase", wanted = "", hot = -1;
  const matches = new Map();
  const chosen = (operator) => {
    if (hot >= 0) return operator === hot;
    if (!wanted) return true;
    if (!matches.has(operator)) matches.set(operator, (data.operators[operator] || "").toLowerCase().includes(wanted));
    return matches.get(operator);
  };
  const box = monet.element("div", { class: "scroll" });
  const legend = monet.element("div", {});
  const plot = () => {
    const width = Math.max(200, box.clientWidth);
    return { left: monet.gantt.layout(rows, width).label, right: width - 4 };
  };
  const paint = (context, width) => {
    const { left, right } = plot();
    const { placed, bottom } = monet.gantt.layout(rows, width);
    const colourOf = monet.gantt.palette(data, by);
    monet.gantt.faint = monet.colour("line");
    monet.timeAxis(context, view, data.ticks_per_second, left, right, bottom, 26);
    monet.gantt.bands(context, data, view, left, right);
    let drawn = 0;
    rows.forEach((row, index) => {
      const { y, height } = placed[index];
      context.fillStyle = monet.colour("track");
      context.fillRect(left, y, right - left, height);
      context.fillStyle = monet.colour(row.kind === "core" ? "ink" : "soft");
      context.textAlign = "right";
      const busy = ` ${monet.percent(row.busy)}`;
      const room = left - 8 - (width < 560 ? 0 : context.measureText(busy).width + 4);
      const name = monet.fitted(context, row.name, room);
      context.fillText(name, left - 6 - (width < 560 ? 0 : context.measureText(busy).width + 2), y + height / 2 + 1);
      if (width >= 560) {
        context.fillStyle = monet.colour("soft");
        context.fillText(busy, left - 5, y + height / 2 + 1);
      }
      drawn += monet.gantt.paintRow(context, row, view, left, right, y, height, colourOf, chosen);
    });
    if (figure) figure.element.dataset.drawn = drawn;
  };
  let figure = null;
  host.append(monet.gantt.controls(data, view, {
    by(value) { by = value; legend.replaceChildren(monet.gantt.legend(data, by)); figure.redraw(); },
    find(value) { wanted = value.trim().toLowerCase(); matches.clear(); hot = -1; figure.redraw(); },
  }), box, legend);
  legend.append(monet.gantt.legend(data, by));
  figure = monet.canvas(box, `Timeline of ${data.events} tiles and transfers`, (width) => monet.gantt.layout(rows, width).height, paint);
  figure.element.dataset.events = data.events;
  figure.paint();
  view.listeners.push(figure.redraw);
  const timeAt = monet.steer(figure.element, view, plot);
  monet.gantt.hover(figure, rows, data, timeAt, () => monet.gantt.layout(rows, Math.max(200, box.clientWidth)), (operator) => {
    if (hot !== operator) { hot = operator; figure.redraw(); }
  });
  shared.paintTimeline = figure.paint;
  shared.showOperator = (name) => monet.gantt.show(rows, data, view, name, host);
};

monet.gantt.controls = (data, view, on) => {
  const colours = monet.element("select", { onchange: (event) => on.by(event.target.value) },
    monet.element("option", { value: "phase" }, "phase"), monet.element("option", { value: "operator" }, "operator"),
    monet.element("option", { value: "event" }, "kind of event"));
  const find = monet.element("input", {
    type: "search", placeholder: "find an operator", "aria-label": "find an operator", oninput: (event) => on.find(event.target.value),
  });
  const button = (text, label, action) => monet.element("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  const middle = () => (view.begin + view.end) / 2;
  return monet.element("div", { class: "controls" },
    monet.element("label", {}, "colour by", colours), find, monet.element("span", { class: "spring" }),
    monet.element("span", { class: "steps" }, button("◀", "earlier", () => view.pan(-0.3)), button("▶", "later", () => view.pan(0.3)),
    button("+", "zoom in", () => view.zoom(middle(), 0.5)), button("−", "zoom out", () => view.zoom(middle(), 2)),
    button("fit", "show the whole step", () => view.fit())));
};

monet.gantt.legend = (data, by) => {
  if (by === "phase") return monet.legend(data.phases.map((name) => [name, name]));
  if (by === "event") return monet.legend(data.kinds.map((name, index) => [name, "kind" + index]));
  return monet.element("div", { class: "legend" }, "one colour per operator; point at a tile for its name");
};

monet.gantt.hover = (figure, rows, data, timeAt, layout, heat) => {
  const canvas = figure.element;
  canvas.addEventListener("pointermove", (event) => {
    const { placed } = layout();
    const at = placed.findIndex(({ y, height }) => event.offsetY >= y - 1 && event.offsetY <= y + height + 1);
    const row = rows[at];
    const time = timeAt(event.offsetX);
    if (!row || event.offsetX < layout().label || event.buttons) { heat(-1); monet.tooltip.hide(); return; }
    let index = monet.gantt.firstFrom(row, time + 1e-9);
    const slack = (timeAt(event.offsetX + 1.5) - time);
    if (index + 1 < row.count && row.end[index] + slack < time && row.start[index + 1] - slack <= time) index += 1;
    const hit = row.count && row.start[index] - slack <= time && row.end[index] + slack >= time;
    heat(hit ? row.operator[index] : -1);
    if (!hit) { monet.tooltip.show(event, row.name, `nothing at ${monet.quantity(time / data.ticks_per_second, "s", 5)}`); return; }
    const operator = row.operator[index];
    const second = (ticks) => monet.quantity(ticks / data.ticks_per_second, "s", 5);
    monet.tooltip.show(event, data.operators[operator] || "(no operator)",
      `${data.kinds[row.event[index]]} on ${row.name}${operator >= 0 ? ", " + (data.phases[data.operator_phase[operator]] || "") : ""}`,
      monet.tooltip.pair("takes", second(row.end[index] - row.start[index])),
      monet.tooltip.pair("from", second(row.start[index])), monet.tooltip.pair("to", second(row.end[index])));
  });
  canvas.addEventListener("pointerleave", () => { heat(-1); monet.tooltip.hide(); });
};

// Move the view to an operator's first to last event, with some time around it.
monet.gantt.show = (rows, data, view, name, host) => {
  const wanted = data.operators.indexOf(name);
  let begin = Infinity, end = -Infinity;
  for (const row of rows)
    for (let index = 0; index < row.count; index += 1)
      if (row.operator[index] === wanted) { begin = Math.min(begin, row.start[index]); end = Math.max(end, row.end[index]); }
  if (begin > end) return;
  const around = 0.15 * (end - begin);
  view.set(begin - around, end + around);
  host.scrollIntoView({ behavior: "smooth", block: "start" });
};
