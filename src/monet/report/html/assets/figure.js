// Foundations of the drawn figures: tooltip, canvas that follows its width and the theme, axis ticks, shared time view.

monet.tooltip = (() => {
  const box = document.getElementById("tooltip");
  return {
    show(event, ...lines) {
      box.replaceChildren(...lines.filter(Boolean).map((line, index) =>
        typeof line === "string" ? monet.element(index ? "div" : "b", {}, line) : line));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const right = event.clientX + 14 + width < innerWidth;
      const x = right ? event.clientX + 14 : Math.max(4, event.clientX - width - 14);
      const y = Math.min(event.clientY + 16, innerHeight - height - 6);
      box.style.left = `${x}px`;
      box.style.top = `${y}px`;
    },
    hide() { box.hidden = true; },
    pair: (name, text, variable) => monet.element("div", { class: "pair" },
      monet.element("span", {}, ...(variable ? [monet.swatch(variable)] : []), name), monet.element("span", {}, text)),
  };
})();

// A canvas as wide as its host. `height(width)` gives its height, `draw(context, width, height)` paints it.
monet.canvas = (host, label, height, draw) => {
  const canvas = monet.element("canvas", { tabindex: "0", role: "img", "aria-label": label });
  host.append(canvas);
  let queued = false;
  const paint = () => {
    queued = false;
    const width = Math.max(200, host.clientWidth);
    const tall = height(width);
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      canvas.style.height = `${tall}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, tall);
    context.font = "12px system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    const begun = performance.now();
    draw(context, width, tall);
    canvas.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  };
  const redraw = () => {
    if (!queued) { queued = true; requestAnimationFrame(paint); }
  };
  new ResizeObserver(redraw).observe(host);
  monet.themed.push(redraw);
  paint();
  return { element: canvas, redraw, paint };
};

monet.themed = []; // called when the theme changes

monet.ticks = (low, high, wanted) => {
  const span = high - low || 1;
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || rough;
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) found.push(index * step);
  return found;
};

// Text cut to a width, with an ellipsis.
monet.fitted = (context, text, width) => {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
  }
  return low > 0 ? text.slice(0, low) + "…" : "";
};

// The part of time that is on screen, shared by every figure over time. Times in ticks.
monet.timeView = (end) => {
  const view = {
    begin: 0, end, limit: end, listeners: [],
    set(begin, until) {
      const span = Math.min(Math.max(until - begin, Math.min(20, end)), end);
      const low = Math.min(Math.max(begin, 0), end - span);
      view.begin = low;
      view.end = low + span;
      view.listeners.forEach((listener) => listener());
    },
    zoom(at, factor) { view.set(at - (at - view.begin) * factor, at + (view.end - at) * factor); },
    pan(share) { const shift = share * (view.end - view.begin); view.set(view.begin + shift, view.end + shift); },
    fit() { view.set(0, end); },
  };
  return view;
};

// Wheel, drag, pinch and keys move the view. `plot()` gives left and right edge of the time axis in pixels.
monet.steer = (canvas, view, plot) => {
  const timeAt = (x) => {
    const { left, right } = plot();
    return view.begin + ((x - left) / Math.max(1, right - left)) * (view.end - view.begin);
  };
  const fingers = new Map();
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || document.activeElement === canvas)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(event.deltaX / 1000);
    else view.zoom(timeAt(event.offsetX), Math.exp(event.deltaY * 0.0022));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event.offsetX);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.offsetX);
    const after = [...fingers.values()];
    if (after.length === 1) {
      const { left, right } = plot();
      view.pan((before[0] - after[0]) / Math.max(1, right - left));
    } else {
      const ratio = Math.abs(before[0] - before[1]) / Math.max(8, Math.abs(after[0] - after[1]));
      view.zoom(timeAt((after[0] + after[1]) / 2), ratio);
    }
  });
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("dblclick", (event) => view.zoom(timeAt(event.offsetX), 0.4));
  canvas.addEventListener("keydown", (event) => {
    const middle = (view.begin + view.end) / 2;
    const action = {
      ArrowLeft: () => view.pan(-0.15), a: () => view.pan(-0.15), ArrowRight: () => view.pan(0.15), d: () => view.pan(0.15),
      "+": () => view.zoom(middle, 0.6), "=": () => view.zoom(middle, 0.6), w: () => view.zoom(middle, 0.6),
      "-": () => view.zoom(middle, 1.7), s: () => view.zoom(middle, 1.7), 0: () => view.fit(), Home: () => view.fit(),
    }[event.key];
    if (action && !event.ctrlKey && !event.metaKey) { event.preventDefault(); action(); }
  });
  return timeAt;
};

// The time axis along y, with grid lines up to `top`.
monet.timeAxis = (context, view, ticksPerSecond, left, right, y, top) => {
  const scale = (right - left) / (view.end - view.begin);
  const from = view.begin / ticksPerSecond, to = view.end / ticksPerSecond;
  const digits = Math.min(12, Math.max(3, Math.ceil(Math.log10(Math.max(1e-12, to) / Math.max(1e-15, to - from))) + 3));
  context.textAlign = "center";
  for (const tick of monet.ticks(from, to, Math.max(2, (right - left) / 110))) {
    const x = left + (tick * ticksPerSecond - view.begin) * scale;
    context.fillStyle = monet.colour("grid");
    context.fillRect(Math.round(x), top, 1, y - top);
    context.fillStyle = monet.colour("soft");
    const text = monet.quantity(tick, "s", digits);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, left + half), right - half), y + 11);
  }
};
