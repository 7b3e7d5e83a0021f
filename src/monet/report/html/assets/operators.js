// The operator table: sorts by any column, filters by words and phase, shows the rest on demand.

monet.draw.operators = (host, data, shared) => {
  const state = { by: data.columns.findIndex((column) => column.key === "span_s"), down: true, words: "", phase: "", shown: 60 };
  const phaseAt = data.columns.findIndex((column) => column.key === "phase");
  const phases = [...new Set(data.rows.map((row) => row[phaseAt]))];
  const count = monet.element("span", { class: "hint", style: "margin:0" });
  const body = monet.element("tbody");
  const more = monet.element("button", { type: "button", style: "margin-top:10px", onclick: () => { state.shown = Infinity; fill(); } });
  const heads = data.columns.map((column, index) => monet.element("th", { class: monet.cellClass(column), title: column.about, scope: "col" },
    monet.element("button", {
      type: "button", onclick: () => {
        state.down = state.by === index ? !state.down : Boolean(column.unit);
        state.by = index;
        fill();
      },
    }, column.label)));
  const fill = () => {
    const rows = monet.chosenRows(data, state, phaseAt);
    heads.forEach((head, index) => {
      if (index === state.by) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...rows.slice(0, state.shown).map((row) => monet.operatorRow(data, row, phaseAt, shared)));
    count.textContent = `${rows.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")} operators`;
    more.hidden = rows.length <= state.shown;
    more.textContent = `show all ${rows.length.toLocaleString("en")}`;
  };
  const select = monet.element("select", { "aria-label": "phase", onchange: (event) => { state.phase = event.target.value; fill(); } },
    monet.element("option", { value: "" }, "every phase"), ...phases.map((phase) => monet.element("option", { value: phase }, phase)));
  host.append(
    monet.element("div", { class: "controls" },
      monet.element("input", { type: "search", placeholder: "filter: name, kind, core, bound …", "aria-label": "filter operators", size: "28",
        oninput: (event) => { state.words = event.target.value.toLowerCase(); fill(); } }), select, count),
    monet.element("div", { class: "table" }, monet.element("table", {}, monet.element("thead", {}, monet.element("tr", {}, ...heads)), body)),
    more);
  fill();
};

monet.chosenRows = (data, state, phaseAt) => {
  const words = state.words.split(/\s+/).filter(Boolean);
  const text = data.columns.map((column, index) => (column.unit ? -1 : index)).filter((index) => index >= 0);
  const kept = data.rows.filter((row) => (!state.phase || row[phaseAt] === state.phase) &&
    words.every((word) => text.some((index) => String(row[index]).toLowerCase().includes(word))));
  const sign = state.down ? -1 : 1, by = state.by;
  const numeric = Boolean(data.columns[by].unit);
  return kept.sort((one, other) => sign * (numeric ? one[by] - other[by] : String(one[by]).localeCompare(String(other[by]), "en", { numeric: true })));
};

// words to the left; on a narrow screen the columns of WIDE step aside for the figures
monet.WIDE = ["kind", "core", "group"];
monet.cellClass = (column) => (column.unit ? "" : "words") + (monet.WIDE.includes(column.key) ? " wide" : "");

monet.operatorRow = (data, row, phaseAt, shared) => {
  const cells = data.columns.map((column, index) => {
    const value = row[index];
    if (!column.unit) {
      return monet.element("td", { class: monet.cellClass(column), title: value }, ...(index === phaseAt ? [monet.swatch(value)] : []), String(value));
    }
    if (column.key === "share")
      return monet.element("td", {}, monet.percent(value), monet.element("span", { class: "share" }, monet.element("i", { style: `width:${Math.min(100, 100 * value)}%` })));
    if (column.unit === "%") return monet.element("td", {}, monet.percent(value));
    if (column.unit === "n") return monet.element("td", {}, value.toLocaleString("en"));
    return monet.element("td", {}, monet.quantity(value, column.unit));
  });
  return monet.element("tr", { title: "show on the timeline", onclick: () => shared.showOperator && shared.showOperator(row[0].replace(/ \(again\)$/, "")) }, ...cells);
};
