// What the page's scripts write, without a browser: a document of plain objects; prints the text of every panel as JSON.
// usage: node drawn.js ASSETS < data.json
const fs = require("fs"), vm = require("vm"), path = require("path");

const make = (tag) => ({
  tag, children: [], listeners: {}, style: {}, dataset: {}, attributes: {},
  append(...more) { this.children.push(...more); },
  replaceChildren(...more) { this.children = more; },
  setAttribute(name, value) { this.attributes[name] = value; },
  removeAttribute(name) { delete this.attributes[name]; },
  addEventListener(name, action) { this.listeners[name] = action; },
  set textContent(text) { this.children = [text]; },
});
let hovered = null;
const document = { createElement: make, documentElement: make("html"), getElementById: () => make("div") };
const context = vm.createContext({ document, getComputedStyle: () => ({ getPropertyValue: () => "red" }), console });
for (const name of ["format.js", "bars.js", "energy.js", "operators.js"])
  vm.runInContext(fs.readFileSync(path.join(process.argv[2], name), "utf8"), context);
const monet = vm.runInContext("monet", context);
monet.tooltip = {
  show(event, ...lines) { hovered = lines.map((line) => (typeof line === "string" ? line : text(line))); },
  hide() {}, pair: (name, figure) => monet.element("div", {}, `${name}: ${figure}`),
};

const text = (node) => (typeof node === "object" ? node.children.map(text).join("") : String(node));
const walk = (node, action) => { if (typeof node === "object") { action(node); node.children.forEach((child) => walk(child, action)); } };
const data = JSON.parse(fs.readFileSync(0, "utf8")), found = {};
for (const name of ["headline", "bounds", "phases", "energy", "time_partition", "critical_path", "operators"]) {
  const host = make("section"), panel = { rows: [], bars: [], hovers: [], about: [], cards: [] };
  monet.draw[name](host, data[name], {});
  walk(host, (node) => {
    if (node.tag === "button" && text(node).startsWith("show all")) node.listeners.click();
  });
  walk(host, (node) => {
    if (node.tag === "tr") panel.rows.push(node.children.map(text));
    if (node.className === "bars" || node.className === "bars stacked")
      for (let at = 0; at < node.children.length; at += 3) panel.bars.push([text(node.children[at]), text(node.children[at + 2])]);
    if (node.className === "about") panel.about.push(text(node));
    if (node.className === "card") panel.cards.push(node.children.map(text));
    if (node.listeners.pointermove) { node.listeners.pointermove({}); panel.hovers.push(hovered); }
  });
  found[name] = panel;
}
console.log(JSON.stringify(found));
