// Bars as plain elements: they wrap, scale and print. Lists of bars, stacked bars, headline cards.

monet.bar = (name, share, figure, note, colour, strong) => [
  monet.element("div", { class: "name" + (strong ? " strong" : ""), title: name }, name),
  monet.element("div", { class: "track" },
    monet.element("i", { style: `width:${Math.max(0, Math.min(100, 100 * share))}%;background:var(--${colour})` })),
  monet.element("div", { class: "figure" + (strong ? " strong" : "") }, figure, ...(note ? [monet.element("small", {}, " " + note)] : [])),
];

monet.draw.headline = (host, cards) => {
  host.append(monet.element("div", { class: "cards" }, ...cards.map((card) => {
    const bound = card.bound
      ? [monet.element("div", { class: "meter", title: "lower bound over ours" },
          monet.element("i", { style: `width:${Math.min(100, 100 / Math.max(1, card.distance))}%` })),
        monet.element("div", {}, "bound ", monet.element("b", {}, card.bound.split(":")[0]), card.bound.slice(card.bound.split(":")[0].length).replace(":", ",")),
        monet.element("div", {}, "distance ", monet.element("b", {}, monet.times(card.distance)))]
      : [monet.element("div", { class: "detail" }, "no lower bound stated")];
    return monet.element("div", { class: "card" }, monet.element("div", { class: "label" }, card.label),
      monet.element("div", { class: "value" }, card.value), monet.element("div", { class: "detail" }, card.detail),
      monet.element("div", { class: "bound" }, ...bound));
  })));
};

monet.draw.bounds = (host, data) => {
  const most = Math.max(...data.rows.map((row) => row.seconds));
  host.append(monet.element("div", { class: "bars" }, ...data.rows.flatMap((row) =>
    monet.bar(row.label, row.seconds / most, row.text, row.note, row.ours ? "accent" : "workspace", row.ours))));
  const list = (title, rows) => {
    if (!rows.length) return;
    const longest = Math.max(...rows.map((row) => row.value), 1e-30);
    host.append(monet.element("h3", { style: "margin-top:18px" }, title), monet.element("div", { class: "bars" }, ...rows.flatMap((row) =>
      monet.bar(monet.PATH[row.name] || row.name, row.value / longest, row.text, row.note, monet.KINDS[row.name] || "accent"))));
  };
  list("On the critical path", data.path);
  list("What bounds the operators (sum of their times)", data.limits.slice(0, 6));
};

monet.KINDS = { compute: "kind0", read: "kind1", write: "kind2", move: "kind3", evict: "kind4", gap: "workspace" };
monet.PATH = { compute: "computing", read: "reading from DRAM", write: "writing to DRAM", move: "moving between memories", evict: "evicting", gap: "waiting between steps" };

monet.draw.phases = (host, data) => {
  const rows = data.measures.map((measure) => {
    const sum = measure.values.reduce((total, value) => total + value, 0);
    const parts = data.phases.map((phase, index) => {
      const text = `${phase}: ${monet.quantity(measure.values[index], measure.unit)} (${monet.percent(measure.values[index] / (sum || 1))})`;
      return monet.hoverable(monet.element("i", {
        style: `width:${(100 * measure.values[index]) / (sum || 1)}%;background:var(--${phase})`, "aria-label": text,
      }), measure.label, text);
    });
    return [monet.element("div", { class: "name", title: measure.label }, measure.label),
      monet.element("div", { class: "track" }, ...parts),
      monet.element("div", { class: "figure" }, monet.quantity(sum, measure.unit))];
  });
  host.append(monet.element("div", { class: "bars stacked" }, ...rows.flat()), monet.phaseTable(data));
};

monet.phaseTable = (data) => monet.element("div", { class: "table plain", style: "margin-top:12px" }, monet.element("table", {},
  monet.element("thead", {}, monet.element("tr", {}, monet.element("th", { class: "words" }),
    ...data.phases.map((phase) => monet.element("th", {}, monet.swatch(phase), " " + phase)))),
  monet.element("tbody", {}, ...data.measures.map((measure) => monet.element("tr", {},
    monet.element("td", { class: "words" }, measure.label),
    ...data.phases.map((_, index) => monet.element("td", {}, monet.quantity(measure.values[index], measure.unit))))))));

monet.hoverable = (element, ...lines) => {
  element.addEventListener("pointermove", (event) => monet.tooltip.show(event, ...lines));
  element.addEventListener("pointerleave", monet.tooltip.hide);
  return element;
};

monet.draw.time_partition = (host, data) => {
  const line = (row, strong) => {
    const busy = (row.ticks[0] + row.ticks[1]) / (data.end || 1);
    return [
      monet.element("div", { class: "name" + (strong ? " strong" : ""), title: row.name }, row.name),
      monet.element("div", { class: "track" }, ...row.ticks.map((ticks, index) => ticks ? monet.hoverable(
        monet.element("i", { style: `width:${(100 * ticks) / (data.end || 1)}%;background:var(--part${index})` }), row.name,
        monet.tooltip.pair(data.causes[index], `${monet.quantity(ticks / data.ticks_per_second, "s")} (${monet.percent(ticks / (data.end || 1))})`, "part" + index)) : null)),
      monet.element("div", { class: "figure" + (strong ? " strong" : "") }, monet.percent(busy)),
    ];
  };
  host.append(
    monet.element("div", { class: "scroll" }, monet.element("div", { class: "bars stacked" }, ...line(data.mean, true), ...data.rows.flatMap((row) => line(row, false)))),
    monet.legend(data.causes.map((name, index) => [name, "part" + index])));
};

monet.draw.critical_path = (host, data) => {
  const most = Math.max(...data.operators.map((row) => row.value), 1e-30);
  host.append(monet.element("div", { class: "bars" },
    ...data.operators.flatMap((row) => monet.bar(row.name, row.value / most, row.text, row.note, row.phase || "accent"))));
};
