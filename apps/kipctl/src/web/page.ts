// The page of kipctl web. Content from the cluster is always inserted as text, never as markup.

/** The page's three files. */
export const pageFiles: Readonly<Record<string, { readonly type: string; readonly text: string }>> =
  {
    "/": {
      type: "text/html; charset=utf-8",
      text: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>kip</title>
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body>
<h1>kip <small id="nodes"></small></h1>
<p id="connection" role="status">Connecting</p>
<dl>
<dt>Cells</dt><dd id="count">–</dd>
<dt>Now, an hour</dt><dd id="hour">–</dd>
<dt>A month at this price</dt><dd id="month">–</dd>
<dt>Spent this month on these cells</dt><dd id="spent">–</dd>
</dl>
<h2>Waits</h2>
<table><thead><tr><th>Pod or cell<th>For<th>Why</tr></thead><tbody id="waits"></tbody></table>
<h2>Cells</h2>
<p id="legend"></p>
<table><thead><tr><th>Pod<th>Machine<th>Phase<th>Address<th>An hour<th>Age<th>Start<th></tr></thead><tbody id="cells"></tbody></table>
</body>
</html>
`,
    },
    "/page.css": {
      type: "text/css; charset=utf-8",
      text: `:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 1.5rem; }
h1 small, #connection { color: gray; font-size: 1rem; font-weight: normal; }
dl { display: grid; grid-template-columns: max-content max-content; gap: .2rem 1rem; }
dd { margin: 0; font-weight: bold; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
td.start { width: 40%; }
#cells td:last-child { white-space: nowrap; }
svg { display: block; width: 100%; height: 14px; }
.api { fill: #7a869a; } .cloud { fill: #2f7ed8; } .boot { fill: #8bbc21; } .dial { fill: #1aadce; }
.pull { fill: #f28f43; } .unpack { fill: #c42525; } .start-phase { fill: #77629c; }
#legend svg { display: inline-block; width: 12px; height: 12px; margin: 0 .3rem 0 .9rem; }
`,
    },
    "/page.js": {
      type: "text/javascript; charset=utf-8",
      text: `"use strict";
const phases = ["api", "cloud", "boot", "dial", "pull", "unpack", "start"];
const byId = (id) => document.getElementById(id);
const dollars = (amount) => "$" + amount.toFixed(amount !== 0 && amount < 0.1 ? 4 : 2);
const seconds = (ms) => (ms / 1000).toFixed(2) + " s";

function age(since, time) {
  const s = Math.max(0, Math.round((Date.parse(time) - Date.parse(since)) / 1000));
  if (Number.isNaN(s)) return "";
  if (s < 120) return s + "s";
  if (s < 7200) return Math.floor(s / 60) + "m";
  return s < 172800 ? Math.floor(s / 3600) + "h" : Math.floor(s / 86400) + "d";
}

function row(texts) {
  const tr = document.createElement("tr");
  for (const text of texts) {
    const td = document.createElement("td");
    if (text instanceof Node) {
      td.className = "start";
      td.append(text);
    } else td.textContent = text ?? "";
    tr.append(td);
  }
  return tr;
}

function drawing(width) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 " + width + " 14");
  svg.setAttribute("preserveAspectRatio", "none");
  return svg;
}

function bar(phase, x, width, title) {
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("class", phase === "start" ? "start-phase" : phase);
  for (const [name, value] of Object.entries({ x, y: 0, width, height: 14 })) rect.setAttribute(name, value);
  const label = document.createElementNS("http://www.w3.org/2000/svg", "title");
  label.textContent = title;
  rect.append(label);
  return rect;
}

function waterfall(start, longest) {
  const svg = drawing(1000);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", start.map(({ phase, ms }) => phase + " " + seconds(ms)).join(", "));
  for (const { phase, atMs, ms } of start)
    svg.append(bar(phase, (atMs / longest) * 1000, Math.max(1, (ms / longest) * 1000), phase + " " + seconds(ms)));
  return svg;
}

function show({ time, problem, nodes, cost, cells, waits }) {
  byId("nodes").textContent = nodes.length === 0 ? "no node of kip" : nodes.join(", ");
  byId("count").textContent = cells.length;
  byId("hour").textContent = dollars(cost.perHour);
  byId("month").textContent = dollars(cost.perMonth);
  byId("spent").textContent = dollars(cost.thisMonth);
  byId("connection").textContent = problem === undefined ? "As of " + time : "May be old: " + problem;
  byId("waits").replaceChildren(...waits.map((wait) => row([wait.name, age(wait.since, time), wait.why])));
  const end = ({ start }) => start.reduce((last, { atMs, ms }) => Math.max(last, atMs + ms), 0);
  const longest = Math.max(1, ...cells.map(end));
  byId("cells").replaceChildren(...cells.map((cell) => row([
    cell.pod ?? "(stands by)", cell.type, cell.phase, cell.ip, dollars(cell.perHour), age(cell.since, time),
    waterfall(cell.start, longest), end(cell) === 0 ? "" : seconds(end(cell)),
  ])));
}

for (const phase of phases) {
  const svg = drawing(14);
  svg.append(bar(phase, 0, 14, phase));
  byId("legend").append(svg, phase);
}
const source = new EventSource("events");
source.onmessage = ({ data }) => show(JSON.parse(data));
source.onerror = () => { byId("connection").textContent = "Connection lost: kipctl web has ended, or comes back"; };
`,
    },
  };
