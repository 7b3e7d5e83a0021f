// Roofline, log-log: circles are operators on arrays, squares vector operators; area grows with time.

monet.draw.roofline = (host, data, shared) => {
  const hidden = new Set();
  const box = monet.element("div", {});
  let places = [];
  const figure = monet.canvas(box, "Roofline of every operator", (width) => (width < 560 ? 330 : 440), (context, width, height) => {
    const area = { left: width < 560 ? 66 : 84, right: width - 12, top: 14, bottom: height - 44 };
    const axes = monet.roofAxes(data, area);
    monet.paintRoofs(context, data, axes, area);
    places = monet.paintPoints(context, data, axes, area, hidden);
  });
  figure.element.style.cursor = "default";
  figure.element.dataset.points = data.points.length;
  const legend = monet.element("div", { class: "legend" }, ...data.phases.map((phase, index) => monet.element("button", {
    type: "button", "aria-pressed": "true", onclick: (event) => {
      if (hidden.has(index)) hidden.delete(index); else hidden.add(index);
      event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(index)));
      figure.redraw();
    },
  }, monet.swatch(phase), phase)), monet.element("span", {}, "● on an array  ■ vector work; area by time"));
  host.append(box, legend);
  figure.redraw();
  const nearest = (event) => {
    let best = null, closest = 18 ** 2;
    for (const place of places) {
      const distance = (place.x - event.offsetX) ** 2 + (place.y - event.offsetY) ** 2;
      if (distance < closest) { closest = distance; best = place; }
    }
    return best && best.point;
  };
  figure.element.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    if (!point) { monet.tooltip.hide(); return; }
    const roof = monet.roofAt(data, point.x);
    monet.tooltip.show(event, shared.operators[point.operator], data.phases[point.phase],
      monet.tooltip.pair("intensity", point.x === null ? "no off-chip traffic" : monet.quantity(point.x, "op/B")),
      monet.tooltip.pair("rate", monet.quantity(point.y, "op/s")), monet.tooltip.pair("of its roof", monet.percent(point.y / roof)),
      monet.tooltip.pair("takes", monet.quantity(point.seconds, "s")));
  });
  figure.element.addEventListener("pointerleave", monet.tooltip.hide);
};

monet.roofAt = (data, intensity) => {
  const flat = data.roofs.length ? data.roofs[0].ops_per_s : Infinity;
  return intensity === null ? flat : Math.min(flat, intensity * data.bytes_per_s);
};

monet.roofAxes = (data, area) => {
  // operators that take next to no time or do next to no work do not stretch the axes; they are drawn at the edge
  const whole = data.points.reduce((sum, point) => sum + point.seconds, 0);
  const heavy = data.points.filter((point) => point.seconds > 5e-4 * whole);
  const xs = heavy.map((point) => point.x).filter((x) => x !== null && x > 0), ys = heavy.map((point) => point.y);
  const peak = data.roofs.length ? data.roofs[0].ops_per_s : Math.max(...ys, 1);
  const knee = data.bytes_per_s ? peak / data.bytes_per_s : 1;
  const least = (values, other) => values.reduce((low, value) => Math.min(low, value), other);
  const most = (values, other) => values.reduce((high, value) => Math.max(high, value), other);
  const x0 = Math.floor(Math.log10(Math.max(least(xs, knee) * 0.8, knee * 1e-5))), x1 = Math.ceil(Math.log10(most(xs, knee * 6)));
  const y0 = Math.floor(Math.log10(Math.max(least(ys, peak) * 0.8, peak * 1e-6))), y1 = Math.ceil(Math.log10(most(ys, peak) * 3));
  return {
    x0, x1, y0, y1,
    X: (x) => area.left + ((Math.log10(x) - x0) / (x1 - x0)) * (area.right - area.left),
    Y: (y) => area.bottom - ((Math.log10(y) - y0) / (y1 - y0)) * (area.bottom - area.top),
  };
};

monet.paintRoofs = (context, data, { x0, x1, y0, y1, X, Y }, area) => {
  context.textAlign = "center";
  const every = Math.ceil((x1 - x0) / Math.max(2, (area.right - area.left) / 70));
  for (let power = x0; power <= x1; power += 1) {
    context.fillStyle = monet.colour("grid");
    context.fillRect(Math.round(X(10 ** power)), area.top, 1, area.bottom - area.top);
    context.fillStyle = monet.colour("soft");
    if ((power - x0) % every === 0) context.fillText(monet.quantity(10 ** power, "", 3) || "1", Math.min(X(10 ** power), area.right - 8), area.bottom + 15);
  }
  context.fillText("operations per off-chip byte (op/B)", (area.left + area.right) / 2, area.bottom + 33);
  context.textAlign = "right";
  for (let power = y0; power <= y1; power += 1) {
    context.fillStyle = monet.colour("grid");
    context.fillRect(area.left, Math.round(Y(10 ** power)), area.right - area.left, 1);
    context.fillStyle = monet.colour("soft");
    context.fillText(monet.quantity(10 ** power, "op/s", 3), area.left - 6, Y(10 ** power));
  }
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
  context.clip();
  data.roofs.forEach((roof, index) => monet.paintRoof(context, data, roof, index, X, Y, area, x1));
  context.restore();
};

monet.paintRoof = (context, data, roof, index, X, Y, area, x1) => {
  const knee = data.bytes_per_s ? roof.ops_per_s / data.bytes_per_s : 1e-9;
  context.strokeStyle = monet.colour(index ? "soft" : "ink");
  context.lineWidth = index ? 1 : 1.6;
  context.beginPath();
  if (data.bytes_per_s && !index) {
    context.moveTo(X(knee * 1e-9), Y(roof.ops_per_s * 1e-9));
    context.lineTo(X(knee), Y(roof.ops_per_s));
  } else context.moveTo(X(knee), Y(roof.ops_per_s));
  context.lineTo(X(10 ** x1), Y(roof.ops_per_s));
  context.stroke();
  context.lineWidth = 1;
  context.fillStyle = monet.colour(index ? "soft" : "ink");
  context.textAlign = "right";
  const above = Y(roof.ops_per_s) - 9 > area.top + 4 ? -9 : 10;
  context.fillText(monet.fitted(context, roof.text, area.right - area.left - 40), area.right - 6, Y(roof.ops_per_s) + above);
  if (!index && data.bytes_per_s) {
    const slope = Math.atan2(Y(roof.ops_per_s) - Y(roof.ops_per_s / 1000), X(knee) - X(knee / 1000));
    const at = Math.max(X(knee) - 90, area.left + 70);
    const up = Y(roof.ops_per_s) - (X(knee) - at) * Math.tan(slope);
    context.save();
    context.translate(at, up - 9);
    context.rotate(slope);
    context.textAlign = "center";
    context.fillText(`off-chip ${monet.quantity(data.bytes_per_s, "B/s", 3)}`, 0, 0);
    context.restore();
  }
};

monet.paintPoints = (context, data, { X, Y }, area, hidden) => {
  const longest = data.points.reduce((most, point) => Math.max(most, point.seconds), 1e-30);
  const places = [];
  context.globalAlpha = 0.72;
  for (const point of data.points) {
    if (hidden.has(point.phase)) continue;
    const x = point.x === null ? area.right - 6 : Math.max(area.left + 3, Math.min(area.right - 3, X(point.x)));
    const y = Math.max(area.top + 3, Math.min(area.bottom - 3, Y(point.y)));
    const radius = 2.5 + 7 * Math.sqrt(point.seconds / longest);
    context.fillStyle = monet.colour(data.phases[point.phase]);
    context.beginPath();
    if (point.matrix) context.arc(x, y, radius, 0, 7);
    else context.rect(x - 0.85 * radius, y - 0.85 * radius, 1.7 * radius, 1.7 * radius);
    context.fill();
    places.push({ x, y, point });
  }
  context.globalAlpha = 1;
  return places;
};
