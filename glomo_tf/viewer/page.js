"use strict";
// The whole page in one script, longer than other files here: it is put into the page as it is, and
// nothing can be loaded beside it. Order: numbers, text, builders, controls, arcs, matrix, heads, events.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const MOST_ARCS = 600;
  const svgSpace = $("picture").namespaceURI;
  const state = {
    sentence: 0, direction: "both", layer: 0, head: 0, below: "", matrixOf: 0,
    threshold: 0.1, automatic: true, word: -1, arc: null,
  };
  let view; // Everything derived from the state that drawing and pointing need.

  // ------------------------------------------------------------------ numbers
  const weightsOf = (graph) => {
    if (!graph.values) {
      const bytes = atob(graph.weights);
      graph.values = new Uint16Array(bytes.length / 2);
      for (let i = 0; i < graph.values.length; i++) graph.values[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    }
    return graph.values;
  };

  // Layers and heads that are not chosen (0) are averaged; directions are added (they fill disjoint halves).
  const matrixOf = (graph, size, direction, layer, head) => {
    const values = weightsOf(graph), cells = size * size, result = new Float32Array(cells);
    const chosen = graph.directions.includes(direction) ? [direction] : graph.directions;
    const layers = layer && layer <= graph.layers ? [layer - 1] : [...Array(graph.layers).keys()];
    const heads = head && head <= graph.heads ? [head - 1] : [...Array(graph.heads).keys()];
    const unit = graph.scale / 65535 / layers.length / heads.length;
    for (const name of chosen) for (const l of layers) for (const k of heads) {
      const g = graph.directions.indexOf(name) * graph.layers + l;
      const start = (g * graph.heads + k) * cells;
      for (let i = 0; i < cells; i++) result[i] += values[start + i] * unit;
    }
    return result;
  };

  // About two arcs a word, none below 0.05, rounded up to the slider's step.
  const automaticThreshold = (matrix, size) => {
    const weights = matrix.filter((w) => w > 0).sort().reverse();
    const lowest = weights.length > 2 * size ? weights[2 * size - 1] : 0;
    return Math.min(1, Math.ceil(Math.max(lowest, 0.05) * 100 - 1e-4) / 100);
  };

  const arcsOf = (matrix, size, threshold) => {
    const arcs = [];
    for (let t = 0; t < size; t++) for (let s = 0; s < size; s++) {
      const weight = matrix[t * size + s];
      if (weight > 0 && weight >= threshold - 1e-6) arcs.push({ t, s, weight });
    }
    arcs.sort((a, b) => a.weight - b.weight);
    return { arcs: arcs.slice(-MOST_ARCS), found: arcs.length };
  };

  const parseMatrix = (heads) => {
    const size = heads.length, matrix = new Float32Array(size * size);
    heads.forEach((head, word) => { if (head) matrix[word * size + head - 1] = 1; });
    return matrix;
  };

  // ------------------------------------------------------------------ text
  const visible = (token) => {
    if (!token) return "∅";
    return token.replace(/\s/gu, "␣").replace(/[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu, "·");
  };
  const splitter = Intl.Segmenter ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;
  const short = (token, limit) => {
    const text = visible(token);
    if (text.length <= limit) return text;
    const parts = splitter ? [...splitter.segment(text)].map((x) => x.segment) : [...text];
    return parts.length <= limit ? text : parts.slice(0, limit - 1).join("") + "…";
  };
  const figure = (weight) => weight.toFixed(weight < 0.0995 ? 3 : 2);

  // ------------------------------------------------------------------ small builders
  const element = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const shape = (name, attributes = {}) => {
    const node = document.createElementNS(svgSpace, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const color = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().split(/\s+/).map(Number);
  const mix = (from, to, share) => from.map((v, i) => Math.round(v + (to[i] - v) * share));

  const choices = (id, entries, value, choose) => {
    const box = $(id);
    box.hidden = entries.length < 2;
    box.querySelector(".choices")?.remove();
    const row = element("div", { class: "choices" });
    for (const [key, text] of entries) {
      const input = element("input", { type: "radio", name: id, value: key });
      input.checked = String(key) === String(value);
      input.addEventListener("change", () => choose(key));
      const label = element("span");
      label.textContent = text;
      row.append(element("label", {}, input, label));
    }
    box.append(row);
  };

  // ------------------------------------------------------------------ controls
  const sentence = () => data.sentences[state.sentence];

  const refresh = () => {
    const now = sentence(), graph = now.graphs[0], count = (n) => [...Array(n).keys()].map((i) => [i + 1, String(i + 1)]);
    if (!graph.directions.includes(state.direction)) state.direction = "both";
    if (state.layer > graph.layers) state.layer = 0;
    if (state.head > graph.heads) state.head = 0;
    if (state.matrixOf >= now.graphs.length) state.matrixOf = 0;
    const lower = [["none", "nothing"]];
    if (now.parse) lower.push(["parse", "dependency parse"]);
    if (now.graphs[1]) lower.push(["compared", now.graphs[1].name]);
    // Another sentence may lack what was drawn below: then the last thing it has.
    if (!lower.some(([key]) => key === state.below)) state.below = lower.at(-1)[0];
    const set = (key) => (value) => { state[key] = value; refresh(); document.querySelector(`input[name="${key}"]:checked`)?.focus(); };
    choices("direction", graph.directions.length > 1 ? [["both", "both"], ...graph.directions.map((d) => [d, d])] : [], state.direction, set("direction"));
    choices("layer", graph.layers > 1 ? [[0, "mean"], ...count(graph.layers)] : [], state.layer, set("layer"));
    choices("head", graph.heads > 1 ? [[0, "mean"], ...count(graph.heads)] : [], state.head, set("head"));
    choices("below", lower, state.below, set("below"));
    choices("matrix-of", now.graphs.map((g, i) => [i, g.name]), state.matrixOf, (value) => {
      state.matrixOf = value; refresh(); document.querySelector('input[name="matrix-of"]:checked')?.focus();
    });
    $("note").hidden = !now.note;
    $("note").textContent = now.note;
    compute();
    drawArcs();
    drawHeads();
    point(); // which draws the matrix
  };

  const compute = () => {
    const now = sentence(), size = now.tokens.length;
    const choose = (graph) => matrixOf(graph, size, state.direction, state.layer, state.head);
    const upper = choose(now.graphs[0]);
    if (state.automatic) state.threshold = automaticThreshold(upper, size);
    const lower = state.below === "parse" ? parseMatrix(now.parse) : state.below === "compared" ? choose(now.graphs[1]) : null;
    const shown = state.matrixOf ? choose(now.graphs[state.matrixOf]) : upper;
    view = { size, upper, lower, shown, kept: Boolean(view?.kept) && state.word >= 0 };
    chooseArcs();
  };

  const chooseArcs = () => {
    const { size, upper, lower } = view;
    $("threshold").value = state.threshold;
    $("threshold-value").textContent = state.threshold.toFixed(2);
    $("automatic").setAttribute("aria-pressed", String(state.automatic));
    view.above = arcsOf(upper, size, state.threshold);
    view.below = lower ? arcsOf(lower, size, state.below === "parse" ? 0.5 : state.threshold) : { arcs: [], found: 0 };
  };

  // ------------------------------------------------------------------ arcs
  const pen = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.documentElement).fontFamily;
  const reach = (distance) => Math.min(14 + 1.05 * Math.pow(distance, 0.82), 300);

  const drawArcs = () => {
    const now = sentence(), words = now.tokens.map((token) => short(token, 22));
    pen.font = `15px ${family}`;
    const centers = [], widths = words.map((word) => pen.measureText(word).width);
    let x = 16;
    for (const width of widths) { centers.push(x + 8 + width / 2); x += width + 16; }
    const total = Math.ceil(x + 16);
    const highest = (arcs) => arcs.reduce((top, arc) => Math.max(top, reach(Math.abs(centers[arc.t] - centers[arc.s]))), 0);
    const above = Math.max(highest(view.above.arcs), 40) + 12;
    const below = view.lower ? highest(view.below.arcs) + 12 : 4;
    const svg = $("picture");
    svg.replaceChildren();
    svg.setAttribute("width", total);
    svg.setAttribute("height", above + 34 + below);
    view.words = [];
    view.paths = [];
    view.pointed = new Map();
    const draw = (arc, base, sign, lower) => {
      const strongest = lower && state.below === "parse" ? 1 : Math.max(0.3, (lower ? view.below : view.above).arcs.at(-1).weight);
      const share = arc.weight / strongest, plain = lower && state.below === "parse";
      const toward = Math.sign(centers[arc.t] - centers[arc.s]);
      const from = centers[arc.s] + (toward ? 4 * toward : -6), to = centers[arc.t] - (toward ? 4 * toward : -6);
      const head = 5 + 3 * share, top = base - sign * reach(Math.abs(to - from)) / 0.75;
      const curve = (end) => `M${from} ${base}C${from} ${top} ${to} ${top} ${to} ${end}`;
      const kind = plain ? "lower" : arc.s <= arc.t ? "earlier" : "later";
      const group = shape("g", { class: `arc ${kind}`, opacity: plain ? 0.85 : 0.25 + 0.75 * share, "data-source": arc.s, "data-receiver": arc.t });
      group.append(
        shape("path", { d: curve(base - sign * head), "stroke-width": plain ? 1.6 : 1 + 3.2 * share }),
        shape("polygon", { points: `${to},${base} ${to - head * 0.55},${base - sign * head} ${to + head * 0.55},${base - sign * head}` }),
        shape("path", { d: curve(base), class: "hit" }),
      );
      svg.append(group);
      view.paths.push({ group, arc });
      view.pointed.set(group, { ...arc, lower });
    };
    for (const arc of view.above.arcs) draw(arc, above, 1, false);
    for (const arc of view.below.arcs) draw(arc, above + 34, -1, true);
    words.forEach((word, index) => {
      const group = shape("g", { class: "word", "data-word": index });
      const text = shape("text", { x: centers[index], y: above + 22, "text-anchor": "middle" });
      text.textContent = word;
      const full = shape("title");
      full.textContent = `${visible(now.tokens[index])} (${index + 1})`;
      group.append(
        shape("rect", { x: centers[index] - widths[index] / 2 - 7, y: above + 3, width: widths[index] + 14, height: 28, rx: 6 }),
        text, full,
      );
      svg.append(group);
      view.words.push(group);
    });
    view.centers = centers;
    const { arcs, found } = view.above;
    $("count").textContent = found > arcs.length
      ? `the ${arcs.length} strongest of ${found} arcs of weight ≥ ${state.threshold.toFixed(2)}`
      : `${found} arc${found === 1 ? "" : "s"} of weight ≥ ${state.threshold.toFixed(2)}`;
    $("lower-key").textContent = state.below === "parse" ? "below: dependency parse, arrow at the dependent"
      : state.below === "compared" ? `above: ${now.graphs[0].name}, below: ${now.graphs[1].name}` : "";
    $("lower-key").classList.toggle("plain", state.below === "compared"); // Its arcs have both colours.
  };

  $("picture").addEventListener("pointerover", (event) => {
    const group = event.target.closest(".arc, .word");
    const arc = view.pointed.get(group) ?? null;
    const word = view.kept ? state.word : Number(group?.dataset.word ?? -1);
    if (arc === state.arc && word === state.word) return;
    Object.assign(state, { arc, word });
    point();
  });
  $("picture").addEventListener("pointerleave", () => {
    state.arc = null;
    if (!view.kept) state.word = -1;
    point();
  });
  $("picture").addEventListener("click", (event) => {
    const index = Number(event.target.closest(".word")?.dataset.word ?? -1);
    if (index < 0) return;
    view.kept = !(view.kept && state.word === index);
    state.word = index;
    point();
  });

  // ------------------------------------------------------------------ matrix
  const paint = (context, matrix, size, cell, left, top) => {
    const ground = color("card"), earlier = color("earlier"), later = color("later");
    const most = Math.max(0.05, matrix.reduce((a, b) => Math.max(a, b), 0));
    if (cell <= 7) { // Many small cells without lines between them: one image, drawn larger.
      const image = new ImageData(size, size);
      matrix.forEach((weight, i) => {
        const [red, green, blue] = mix(ground, i % size <= i / size ? earlier : later, Math.sqrt(weight / most));
        image.data.set([red, green, blue, weight > 0 ? 255 : 0], 4 * i);
      });
      const small = element("canvas", { width: size, height: size });
      small.getContext("2d").putImageData(image, 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(small, left, top, size * cell, size * cell);
      return;
    }
    for (let t = 0; t < size; t++) for (let s = 0; s < size; s++) {
      const weight = matrix[t * size + s];
      if (!(weight > 0)) continue;
      // The square root keeps weak weights visible beside strong ones.
      context.fillStyle = `rgb(${mix(ground, s <= t ? earlier : later, Math.sqrt(weight / most)).join(" ")})`;
      context.fillRect(left + s * cell, top + t * cell, cell - 1, cell - 1);
    }
  };

  const drawMatrix = () => {
    const now = sentence(), { size, shown } = view, canvas = $("matrix"), context = canvas.getContext("2d");
    const cell = Math.max(4, Math.min(26, Math.floor(600 / size)));
    const labels = cell >= 9, font = `${Math.min(13, cell - 1)}px ${family}`;
    const words = now.tokens.map((token) => short(token, 16));
    context.font = font;
    const room = labels ? Math.ceil(Math.max(...words.map((w) => context.measureText(w).width))) + 10 : 6;
    const side = room + size * cell + 2, ratio = window.devicePixelRatio || 1;
    canvas.width = side * ratio;
    canvas.height = side * ratio;
    canvas.style.width = canvas.style.height = `${side}px`;
    context.scale(ratio, ratio);
    context.font = font;
    if (!view.base) {
      // Painted once: pointing redraws only what is around and on top of it.
      view.base = document.createElement("canvas");
      view.base.width = view.base.height = size * cell * ratio;
      const base = view.base.getContext("2d");
      base.scale(ratio, ratio);
      paint(base, shown, size, cell, 0, 0);
    }
    context.drawImage(view.base, room, room, size * cell, size * cell);
    context.strokeStyle = `rgb(${color("line").join(" ")})`;
    context.strokeRect(room - 0.5, room - 0.5, size * cell + 1, size * cell + 1);
    const [row, column] = state.arc && !state.arc.lower ? [state.arc.t, state.arc.s] : [state.word, state.word];
    if (labels) words.forEach((word, i) => {
      const strong = i === row || i === column;
      context.fillStyle = `rgb(${color(strong ? "ink" : "quiet").join(" ")})`;
      context.textBaseline = "middle";
      context.textAlign = "right";
      context.fillText(word, room - 6, room + (i + 0.5) * cell);
      context.save();
      context.translate(room + (i + 0.5) * cell, room - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(word, 0, 0);
      context.restore();
    });
    context.strokeStyle = `rgb(${color("ink").join(" ")})`;
    if (state.arc && !state.arc.lower) context.strokeRect(room + column * cell - 0.5, room + row * cell - 0.5, cell, cell);
    else if (state.word >= 0) {
      context.globalAlpha = 0.55;
      context.strokeRect(room - 0.5, room + row * cell - 0.5, size * cell, cell);
      context.strokeRect(room + column * cell - 0.5, room - 0.5, cell, size * cell);
      context.globalAlpha = 1;
    }
    canvas.setAttribute("aria-label", `Matrix of ${size} by ${size} weights of ${now.graphs[state.matrixOf].name}`);
    view.cell = cell;
    view.room = room;
  };

  $("matrix").addEventListener("pointermove", (event) => {
    const s = Math.floor((event.offsetX - view.room) / view.cell), t = Math.floor((event.offsetY - view.room) / view.cell);
    const inside = s >= 0 && t >= 0 && s < view.size && t < view.size;
    const next = inside ? { t, s, weight: view.shown[t * view.size + s], cell: true } : null;
    if (next?.t === state.arc?.t && next?.s === state.arc?.s) return;
    state.arc = next;
    point();
  });
  $("matrix").addEventListener("pointerleave", () => { state.arc = null; point(); });

  // ------------------------------------------------------------------ every head
  const drawHeads = () => {
    const graph = sentence().graphs[0], { size } = view, box = $("heads");
    $("heads-card").hidden = graph.directions.length * graph.layers * graph.heads < 2;
    if ($("heads-card").hidden) return;
    const scheme = window.matchMedia("(prefers-color-scheme: dark)").matches;
    if (box.dataset.key !== `${state.sentence} ${scheme}`) {
      box.dataset.key = `${state.sentence} ${scheme}`;
      box.replaceChildren();
      for (const direction of graph.directions) for (let layer = 1; layer <= graph.layers; layer++) {
        const row = element("div", { class: "row" }), name = element("span");
        name.textContent = `${direction}, layer ${layer}`;
        row.append(name);
        for (let head = 1; head <= graph.heads; head++) {
          const text = `${direction}, layer ${layer}, head ${head}`, canvas = element("canvas");
          const scale = Math.max(1, Math.ceil(152 / size));
          canvas.width = canvas.height = size * scale;
          if (size > 76) canvas.style.imageRendering = "auto"; // Shrunk: leaving cells out would mislead.
          paint(canvas.getContext("2d"), matrixOf(graph, size, direction, layer, head), size, scale, 0, 0);
          const button = element("button", { type: "button", title: text, "aria-label": text, "data-pick": `${direction} ${layer} ${head}` }, canvas);
          button.addEventListener("click", () => {
            const again = state.direction === direction && state.layer === layer && state.head === head;
            Object.assign(state, again ? { direction: "both", layer: 0, head: 0 } : { direction, layer, head });
            refresh();
          });
          row.append(button);
        }
        box.append(row);
      }
    }
    // With nothing chosen all heads are drawn together: marking every one of them would say nothing.
    const some = state.direction !== "both" || state.layer || state.head;
    for (const button of box.querySelectorAll("button")) {
      const [direction, layer, head] = button.dataset.pick.split(" ");
      const on = some && (state.direction === "both" || direction === state.direction)
        && (!state.layer || Number(layer) === state.layer) && (!state.head || Number(head) === state.head);
      button.setAttribute("aria-pressed", String(on));
    }
  };

  // ------------------------------------------------------------------ weights of a word or an arc
  const list = (heading, entries, most) => {
    const title = element("h4");
    title.textContent = heading;
    const rows = element("ol");
    for (const { index, weight, kind } of entries) {
      const name = element("span"), value = element("span"), bar = element("span", { class: `bar ${kind}` }), fill = element("i");
      name.textContent = name.title = visible(sentence().tokens[index]);
      value.textContent = figure(weight);
      fill.style.width = `${Math.min(100, (100 * weight) / most)}%`;
      bar.append(fill);
      rows.append(element("li", {}, name, bar, value));
    }
    return [title, rows];
  };

  const point = () => {
    const { size, shown } = view, tokens = sentence().tokens, detail = $("detail");
    const { arc, word } = state;
    detail.replaceChildren();
    if (arc) {
      const name = element("h3"), text = element("p");
      name.textContent = `${short(tokens[arc.s], 24)} → ${short(tokens[arc.t], 24)}`;
      text.textContent = arc.lower && state.below === "parse"
        ? `In the dependency parse, “${short(tokens[arc.s], 24)}” is the head of “${short(tokens[arc.t], 24)}”.`
        : `“${short(tokens[arc.t], 24)}” (word ${arc.t + 1}) takes ${figure(arc.weight)} from “${short(tokens[arc.s], 24)}” (word ${arc.s + 1}).`;
      detail.append(name, text);
    } else if (word >= 0) {
      const name = element("h3");
      name.textContent = `${short(tokens[word], 48)}`;
      detail.append(name);
      const strongest = (weightOf) => {
        const entries = [];
        for (let i = 0; i < size; i++) if (weightOf(i) >= 0.0005) entries.push({ index: i, weight: weightOf(i), kind: "" });
        return entries.sort((a, b) => b.weight - a.weight);
      };
      const takes = strongest((i) => shown[word * size + i]), gives = strongest((i) => shown[i * size + word]);
      takes.forEach((e) => { e.kind = e.index <= word ? "earlier" : "later"; });
      gives.forEach((e) => { e.kind = word <= e.index ? "earlier" : "later"; });
      const most = Math.max(0.05, takes[0]?.weight ?? 0, gives[0]?.weight ?? 0);
      const heading = (verb, entries) => entries.length > 7 ? `${verb} ${entries.length} words; the strongest:` : entries.length ? verb : `${verb} none`;
      detail.append(...list(heading("takes from", takes), takes.slice(0, 7), most));
      detail.append(...list(heading("gives to", gives), gives.slice(0, 7), most));
    } else {
      const text = element("p", { class: "hint" });
      text.textContent = "Point at a word, an arc or a cell to see weights; click a word to keep it.";
      detail.append(text);
    }
    const near = new Set();
    for (const { group, arc: other } of view.paths) {
      const on = arc ? other.t === arc.t && other.s === arc.s : word >= 0 && (other.t === word || other.s === word);
      group.classList.toggle("on", on);
      group.classList.toggle("off", (arc !== null || word >= 0) && !on);
      if (on) { near.add(other.t); near.add(other.s); }
    }
    view.words.forEach((group, index) => {
      const on = arc ? index === arc.t || index === arc.s : index === word;
      group.classList.toggle("on", on);
      group.classList.toggle("off", (arc !== null || word >= 0) && !on && !near.has(index));
    });
    drawMatrix();
  };

  // ------------------------------------------------------------------ events
  const moveWord = (step) => {
    state.word = state.word < 0 ? (step > 0 ? 0 : view.size - 1) : Math.min(view.size - 1, Math.max(0, state.word + step));
    state.arc = null;
    view.kept = true;
    point();
    const box = $("arcs"), center = view.centers[state.word];
    if (center < box.scrollLeft + 80 || center > box.scrollLeft + box.clientWidth - 80) box.scrollLeft = center - box.clientWidth / 2;
  };
  const moveSentence = (step) => {
    state.sentence = Math.min(data.sentences.length - 1, Math.max(0, state.sentence + step));
    state.word = -1;
    state.arc = null;
    $("sentence").value = state.sentence;
    $("arcs").scrollLeft = 0;
    refresh();
  };
  const setThreshold = (value) => {
    state.threshold = Math.min(1, Math.max(0.01, value));
    state.automatic = false;
    state.arc = null;
    chooseArcs();
    drawArcs();
    point();
  };
  const cycle = (key, values) => { state[key] = values[(values.indexOf(state[key]) + 1) % values.length]; refresh(); };

  $("threshold").addEventListener("input", (event) => setThreshold(Number(event.target.value)));
  $("automatic").addEventListener("click", () => { state.automatic = !state.automatic; refresh(); });
  $("previous").addEventListener("click", () => moveSentence(-1));
  $("next").addEventListener("click", () => moveSentence(1));
  $("sentence").addEventListener("change", (event) => { state.sentence = Number(event.target.value); moveSentence(0); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
    const arrows = event.key.startsWith("Arrow") && event.target.matches("input");
    const graph = sentence().graphs[0], numbers = (n) => [...Array(n + 1).keys()];
    const keys = {
      ArrowLeft: () => moveWord(-1), ArrowRight: () => moveWord(1),
      Home: () => { state.word = -1; moveWord(1); }, End: () => { state.word = -1; moveWord(-1); },
      Escape: () => { state.word = -1; state.arc = null; view.kept = false; point(); },
      "[": () => setThreshold(state.threshold - 0.01), "]": () => setThreshold(state.threshold + 0.01),
      ",": () => moveSentence(-1), ".": () => moveSentence(1),
      l: () => cycle("layer", numbers(graph.layers)), h: () => cycle("head", numbers(graph.heads)),
      d: () => graph.directions.length > 1 && cycle("direction", ["both", ...graph.directions]),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    const moves = ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key);
    // Arrow keys keep their meaning in a slider or a group of choices, and Home and End in the page.
    if (!act || arrows || (moves && event.target.matches("input")) || (["Home", "End"].includes(event.key) && event.target !== $("arcs"))) return;
    event.preventDefault();
    act();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);

  data.sentences.forEach((entry, index) => {
    const option = element("option", { value: index });
    option.textContent = `${data.sentences.length > 1 ? `${index + 1}. ` : ""}${entry.title}`.slice(0, 90);
    $("sentence").append(option);
  });
  $("sentences").hidden = data.sentences.length < 2;
  refresh();
})();
