// The accelerator: boxes and wires at the places computed in Python, coloured by how busy they were.

monet.svg = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

monet.mix = (load) => `color-mix(in srgb, var(--backward) ${Math.round(100 * Math.min(1, Math.max(0, load)))}%, var(--track))`;

monet.draw.hardware = (host, data) => {
  const margin = 14;
  const drawing = monet.svg("svg", {
    viewBox: `${-margin} ${-margin} ${data.width + 2 * margin} ${data.height + 2 * margin}`,
    width: data.width + 2 * margin, height: data.height + 2 * margin, role: "img", "aria-label": "The accelerator",
  });
  for (const wire of data.wires) drawing.append(monet.drawWire(wire));
  for (const box of data.boxes) drawing.append(monet.drawBox(box));
  host.append(monet.element("div", { class: "drawing" }, drawing),
    monet.element("p", { class: "hint" }, "idle", monet.element("span", { class: "scale" }), "always busy (memories: full at their peak)"));
};

monet.drawWire = (wire) => {
  const path = (points) => "M" + points.map(([x, y]) => `${x},${y}`).join("L");
  const all = [path(wire.points), ...(wire.stubs || []).map(path)].join("");
  const colour = `color-mix(in srgb, var(--backward) ${Math.round(100 * Math.min(1, wire.load))}%, var(--workspace))`;
  const group = monet.svg("g", {});
  group.append(monet.svg("path", { d: all, fill: "none", style: `stroke:${colour}`, "stroke-width": wire.bus ? 4 : 3, "stroke-linecap": "round" }));
  const reach = monet.svg("path", { d: all, fill: "none", stroke: "transparent", "stroke-width": 14 });
  group.append(reach);
  if (wire.bus) {
    const [x, y] = wire.points[0];
    group.append(monet.svg("text", { x: x + 8, y: y + 15, "font-size": 12, style: "fill:var(--soft)" }, wire.name));
  }
  return monet.hoverable(group, ...wire.about);
};

monet.drawBox = (box) => {
  const group = monet.svg("g", {});
  group.append(monet.svg("rect", {
    x: box.x, y: box.y, width: box.width, height: box.height, rx: 7, style: `fill:${monet.mix(box.load)};stroke:var(--line)`, "stroke-width": 1.2,
  }));
  const roomy = box.lines.length > 1;
  const step = 17, top = box.y + box.height / 2 - ((box.lines.length - 1) * step) / 2 + (roomy && box.kind === "core" ? -3 : 4);
  box.lines.forEach((line, index) => group.append(monet.svg("text", {
    x: box.kind === "core" ? box.x + box.width / 2 : box.x + 16, y: top + index * step + (roomy && box.kind === "core" ? 4 : 0), "text-anchor": box.kind === "core" ? "middle" : "start", "font-size": index ? 12.5 : 13.5,
    "font-weight": index ? 400 : 650,
  }, line)));
  if (box.kind === "core" && roomy) {
    group.append(monet.svg("rect", { x: box.x + 8, y: box.y + box.height - 9, width: box.width - 16, height: 4, rx: 2, style: "fill:var(--panel)" }));
    group.append(monet.svg("rect", { x: box.x + 8, y: box.y + box.height - 9, width: (box.width - 16) * Math.min(1, box.load), height: 4, rx: 2, style: "fill:var(--ink)" }));
  }
  return monet.hoverable(group, ...box.about);
};
