// The page: one panel per figure. A figure that fails says so in its place and leaves the others alone.

monet.PANELS = [
  ["headline", "", "", "bare"],
  ["bounds", "Lower bounds on the time", "All hold for every plan but one: the longest chain is that of this plan, with its tiles and cores.", "half"],
  ["phases", "Forward, backward, update", "Each bar is the whole step, split by phase.", "half"],
  ["gantt", "Timeline", "Every tile and transfer. Drag to move, double-click or Ctrl + wheel to zoom; after a click the wheel and the keys + − ← → 0 work too. Memory below follows.", ""],
  ["memory", "Memory over time", "", ""],
  ["time_partition", "Where each core's time goes", "Every bar is the whole step; its parts add up exactly. The figure at the right is the share of time in which the core computes.", "half"],
  ["critical_path", "Critical path", "The operators that hold most of the chain of tiles and transfers that sets the length of the step: only what is on it can shorten it.", "half"],
  ["energy", "Energy", "", ""],
  ["roofline", "Roofline", "Rate reached by every operator against its operations per off-chip byte. Under the slope DRAM limits, under the flat roof the arrays do; above the slope stand operators whose data was fetched before they ran.", ""],
  ["hardware", "Hardware", "Point at a core, memory or link for its figures.", ""],
  ["operators", "Operators", "Click a heading to sort, a row to see the operator on the timeline.", ""],
];

monet.TITLES = { headline: "Summary", bounds: "Bounds", phases: "Phases", time_partition: "Time", critical_path: "Path", memory: "Memory" };

monet.setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  monet.themed.forEach((redraw) => redraw());
};

monet.start = () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const asked = new URLSearchParams(location.search).get("theme");
  monet.setTheme(asked || (prefers.matches ? "dark" : "light"));
  prefers.addEventListener("change", (event) => monet.setTheme(event.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () =>
    monet.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  const shared = {
    view: data.gantt ? monet.timeView(data.gantt.end) : null,
    operators: data.operators ? data.operators.rows.map((row) => row[0]) : [],
  };
  monet.shared = shared;
  const failures = [];
  let figures = 0;
  for (const [name, title, about, shape] of monet.PANELS) {
    if (!data[name]) continue;
    const panel = monet.element("section", { class: `panel ${shape}`.trim(), id: name });
    if (title) panel.append(monet.element("div", { class: "head" }, monet.element("h2", {}, title)));
    if (about) panel.append(monet.element("p", { class: "about" }, about));
    document.getElementById("figures").append(panel);
    document.getElementById("contents").append(monet.element("a", { href: "#" + name }, monet.TITLES[name] || title));
    try {
      monet.draw[name](panel, data[name], shared);
      figures += 1;
    } catch (error) {
      failures.push(`${name}: ${error.stack || error}`);
      panel.append(monet.element("p", { class: "refused" }, `This figure could not be drawn: ${error.message}`));
    }
  }
  document.body.dataset.figures = figures;
  if (failures.length) { document.body.dataset.failures = failures.join("\n"); console.error(failures.join("\n")); }
  document.body.dataset.ready = "yes";
};

monet.start();
