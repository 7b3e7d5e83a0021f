"use strict";
// Numbers with units, colours, small elements. Everything hangs on `monet`; each figure adds monet.draw.NAME.
const monet = { draw: {} };

const PREFIXES = ["f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];

monet.quantity = (value, unit, digits = 4) => {
  if (!value) return `0 ${unit}`.trim();
  let position = 5;
  const least = ["s", "J", "W"].includes(unit) ? 0 : 5;
  while (Math.abs(value) >= 999.95 && position < PREFIXES.length - 1) { value /= 1000; position += 1; }
  while (Math.abs(value) < 0.99995 && position > least) { value *= 1000; position -= 1; }
  const text = String(Number(value.toPrecision(digits)));
  return `${text} ${PREFIXES[position]}${unit}`.trim();
};

monet.percent = (value) => (Math.abs(value) < 0.0995 ? (100 * value).toFixed(1) : (100 * value).toFixed(0)) + " %";

monet.times = (value) => (value < 10 ? value.toFixed(2) : Number(value.toPrecision(3)).toLocaleString("en")) + "×";

monet.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// Distinct hues for any number of operators: golden-angle steps, two lightnesses.
monet.hue = (index) => {
  const dark = document.documentElement.dataset.theme === "dark";
  return `hsl(${(index * 137.508) % 360} 55% ${(dark ? 52 : 48) + 9 * (index % 2)}%)`;
};

monet.element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

monet.swatch = (variable) => monet.element("i", { class: "swatch", style: `background:var(--${variable})` });

monet.legend = (entries) =>
  monet.element("div", { class: "legend" },
    ...entries.map(([name, variable]) => monet.element("span", {}, monet.swatch(variable), name)));

monet.words = (name) => name.replaceAll("_", " ");
