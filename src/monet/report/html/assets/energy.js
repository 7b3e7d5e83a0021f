// Energy, four views of one total.

monet.draw.energy = (host, data) => {
  const colour = (by, name) => (by === "phase" && monet.colour(name) ? name : name === "static" ? "workspace" : "accent");
  host.append(
    monet.element("p", { class: "about" }, `${monet.quantity(data.total, "J")} in all: ${monet.quantity(data.dynamic, "J")} dynamic, ` +
      `${monet.quantity(data.static, "J")} static (${monet.percent(data.static / (data.total || 1))}). Every list adds up to the same total.`),
    monet.element("div", { class: "views" }, ...data.views.map((view) => {
      const most = Math.max(...view.rows.map((row) => row.joules), 1e-30);
      return monet.element("div", {}, monet.element("h3", {}, "by " + view.by), monet.element("div", { class: "bars" },
        ...view.rows.flatMap((row) => monet.bar(row.name, row.joules / most, monet.quantity(row.joules, "J"),
          monet.percent(row.joules / (data.total || 1)), colour(view.by, row.name)))));
    })));
};
