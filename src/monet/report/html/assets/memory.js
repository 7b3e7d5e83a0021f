// Memory over time, stacked by category, with the capacity line and the peak. Steps hold until the next one.

monet.draw.memory = (host, data, shared) => {
  let chosen = 0;
  const view = shared.view;
  const facts = monet.element("p", { class: "about" });
  const box = monet.element("div", {});
  const memory = () => data.memories[chosen];
  const select = monet.element("select", {
    onchange: (event) => { chosen = Number(event.target.value); facts.replaceChildren(monet.memoryFacts(data, memory())); figure.redraw(); },
  }, ...data.memories.map((one, index) =>
    monet.element("option", { value: index }, `${one.name} (peak ${monet.quantity(one.peak_bytes, "B", 3)}${one.capacity ? ` of ${monet.quantity(one.capacity, "B", 3)}` : ""})`)));
  host.append(monet.element("div", { class: "controls" }, monet.element("label", {}, "memory", select)), facts, box,
    monet.legend([...data.categories].reverse().map((name) => [monet.words(name), name])));
  facts.replaceChildren(monet.memoryFacts(data, memory()));
  const plot = () => {
    const width = Math.max(200, box.clientWidth);
    return { left: width < 560 ? 84 : 132, right: width - 4 }; // as on the timeline above
  };
  const figure = monet.canvas(box, "Bytes over time, by category", (width) => (width < 560 ? 240 : 300), (context, width, height) => {
    const { left, right } = plot();
    monet.paintMemory(context, data, memory(), view, { left, right, top: 24, bottom: height - 22 });
  });
  figure.element.dataset.memories = data.memories.length;
  view.listeners.push(figure.redraw);
  const timeAt = monet.steer(figure.element, view, plot);
  figure.element.addEventListener("pointermove", (event) => {
    const one = memory();
    const index = monet.stepAt(one.time, timeAt(event.offsetX));
    if (index < 0 || event.buttons) { monet.tooltip.hide(); return; }
    const sum = one.bytes.reduce((total, row) => total + row[index], 0);
    monet.tooltip.show(event, `${one.name} at ${monet.quantity(timeAt(event.offsetX) / data.ticks_per_second, "s", 5)}`,
      ...data.categories.map((name, category) => one.bytes[category][index]
        ? monet.tooltip.pair(monet.words(name), monet.quantity(one.bytes[category][index], "B"), name) : null).reverse(),
      monet.tooltip.pair("together", monet.quantity(sum, "B") + (one.capacity ? ` (${monet.percent(sum / one.capacity)})` : "")));
  });
  figure.element.addEventListener("pointerleave", monet.tooltip.hide);
};

monet.stepAt = (times, time) => {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
};

monet.memoryFacts = (data, memory) => {
  const parts = data.categories.map((name, index) => [monet.words(name), memory.at_peak[index]]).filter(([, amount]) => amount)
    .sort((one, other) => other[1] - one[1]).map(([name, amount]) => `${name} ${monet.quantity(amount, "B")}`);
  const merged = memory.merged ? ` ${memory.steps.toLocaleString("en")} steps are drawn as the largest of each interval.` : "";
  return `Peak ${monet.quantity(memory.peak_bytes, "B")} at ${monet.quantity(memory.peak_time_s, "s")}, in ${memory.peak_operator || "the first step"}: ` +
    `${parts.join(", ")}. ${memory.capacity ? `Capacity ${monet.quantity(memory.capacity, "B")}, ${monet.percent(memory.peak_bytes / memory.capacity)} used at the peak.` : "Outside of the chip; no capacity is given."}${merged}`;
};

monet.paintMemory = (context, data, memory, view, { left, right, top, bottom }) => {
  const shown = memory.capacity && memory.capacity <= 2.2 * memory.peak_bytes;
  const most = (shown ? Math.max(memory.capacity, memory.peak_bytes) : memory.peak_bytes) * 1.08 || 1;
  const scale = (right - left) / (view.end - view.begin);
  const X = (time) => left + (time - view.begin) * scale;
  const Y = (amount) => bottom - (amount / most) * (bottom - top);
  monet.timeAxis(context, view, data.ticks_per_second, left, right, bottom, top);
  context.textAlign = "right";
  for (const tick of monet.ticks(0, most, 4)) {
    context.fillStyle = monet.colour("grid");
    context.fillRect(left, Math.round(Y(tick)), right - left, 1);
    context.fillStyle = monet.colour("soft");
    context.fillText(monet.quantity(tick, "B", 3), left - 6, Y(tick));
  }
  context.save();
  context.beginPath();
  context.rect(left, 0, right - left, bottom);
  context.clip();
  monet.paintStack(context, data, memory, view, X, Y);
  if (shown) {
    context.strokeStyle = monet.colour("warn");
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(left, Y(memory.capacity));
    context.lineTo(right, Y(memory.capacity));
    context.stroke();
    context.setLineDash([]);
  }
  context.fillStyle = monet.colour("warn");
  context.textAlign = "right";
  const text = memory.capacity ? `capacity ${monet.quantity(memory.capacity, "B", 3)}${shown ? "" : " ↑ (off this scale)"}` : "";
  context.fillText(text, right - 6, shown ? Y(memory.capacity) - 8 : 10);
  monet.paintPeak(context, memory, X(memory.peak_time), Y(memory.peak_bytes), left, right);
  context.restore();
};

monet.paintStack = (context, data, memory, view, X, Y) => {
  const first = Math.max(0, monet.stepAt(memory.time, view.begin));
  let last = first;
  while (last + 1 < memory.time.length && memory.time[last] <= view.end) last += 1;
  const stop = (index) => (index + 1 < memory.time.length ? memory.time[index + 1] : data.end);
  const base = new Float64Array(last - first + 1);
  data.categories.forEach((name, category) => {
    context.fillStyle = monet.colour(name);
    context.beginPath();
    for (let index = first; index <= last; index += 1) {
      const y = Y(base[index - first] + memory.bytes[category][index]);
      context.lineTo(X(memory.time[index]), y);
      context.lineTo(X(stop(index)), y);
    }
    for (let index = last; index >= first; index -= 1) {
      const y = Y(base[index - first]);
      context.lineTo(X(stop(index)), y);
      context.lineTo(X(memory.time[index]), y);
      base[index - first] += memory.bytes[category][index];
    }
    context.fill();
  });
};

monet.paintPeak = (context, memory, x, y, left, right) => {
  if (x < left || x > right) return;
  context.strokeStyle = monet.colour("ink");
  context.fillStyle = monet.colour("ink");
  context.beginPath();
  context.arc(x, y, 4, 0, 7);
  context.fill();
  const text = monet.fitted(context, `peak ${monet.quantity(memory.peak_bytes, "B")} in ${memory.peak_operator || "the first step"}`, 0.75 * (right - left));
  const width = context.measureText(text).width;
  context.textAlign = "left";
  context.fillText(text, Math.max(left + 2, Math.min(x + 9, right - width - 4)), Math.max(y - 11, 23));
};
