"use strict";
(() => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const canvas = document.getElementById("map-canvas");
  const tip = document.getElementById("map-tip");
  const legend = document.getElementById("map-legend");
  const find = document.getElementById("map-find");
  const paper = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const count = data.x.length, SIDE = 2000, MARGIN = 14;
  const TRAINED = 0, TESTED = 1;
  const hasClasses = data.predicted.some((code) => code >= 0);
  const view = { zoom: 1, x: 0, y: 0 };
  let mode, chosen = -1, drag = null;

  const rest = () => (dark.matches ? "#55606d" : "#c3cad2");
  const wrong = () => (dark.matches ? "#ee7283" : "#d1495b");
  const right = () => (dark.matches ? "#5aa9d6" : "#2a6f97");
  const shade = (code) => (code < 0 ? rest() : (dark.matches ? data.dark : data.light)[code]);
  const mix = (share) => {
    // From unsure (yellow) through green to sure (blue): told apart in grey, too.
    const ends = [[237, 174, 73], [102, 161, 130], dark.matches ? [90, 169, 214] : [30, 80, 120]];
    const at = Math.min(Math.max(share, 0), 1) * 2, low = Math.min(Math.floor(at), 1);
    const part = ends[low].map((c, k) => Math.round(c + (ends[low + 1][k] - c) * (at - low)));
    return `rgb(${part.join()})`;
  };
  const mostLinks = data.links.reduce((a, b) => Math.max(a, b), 1);
  const linksShare = (i) => Math.log1p(data.links[i]) / Math.log1p(mostLinks);
  const isWrong = (i) => data.known[i] >= 0 && data.known[i] !== data.predicted[i];
  const lowest = data.classes.length ? 1 / data.classes.length : 0;
  const sure = (i) => (data.chance[i] / 1000 - lowest) / (1 - lowest || 1);

  const classLegend = (codes) => {
    const seen = new Set(codes), rows = [];
    data.classes.forEach((name, code) => {
      if (seen.has(code) && data.light[code] !== "#9aa5b1") rows.push([shade(code), name]);
    });
    if (data.light.some((c, code) => c === "#9aa5b1" && seen.has(code))) rows.push(["#9aa5b1", "other classes"]);
    if (seen.has(-1)) rows.push([rest(), "class not known"]);
    return rows;
  };
  const ramp = (low, high) => [[`linear-gradient(90deg,${mix(0)},${mix(.5)},${mix(1)})`, `${low} to ${high}`, "ramp"]];
  const MODES = {
    class: { label: "class", if: data.known.some((c) => c >= 0), colour: (i) => shade(data.known[i]), legend: () => classLegend(data.known) },
    prediction: { label: "prediction", if: hasClasses, colour: (i) => shade(data.predicted[i]), legend: () => classLegend(data.predicted) },
    confidence: { label: "confidence", if: hasClasses, colour: (i) => mix(sure(i)), legend: () => ramp("unsure", "sure") },
    error: {
      label: "error", if: hasClasses && data.part.includes(TESTED), last: isWrong,
      colour: (i) => (data.part[i] !== TESTED ? rest() : isWrong(i) ? wrong() : right()),
      legend: () => [[right(), "held out, right"], [wrong(), "held out, wrong"], [rest(), "trained on, or class not known"]],
    },
    links: { label: "number of links", if: !hasClasses, colour: (i) => mix(linksShare(i)), legend: () => ramp("few links", "many links") },
  };

  const place = (i) => {
    const w = canvas.clientWidth - 2 * MARGIN, h = canvas.clientHeight - 2 * MARGIN;
    return [
      MARGIN + (data.x[i] / SIDE - view.x) * view.zoom * w,
      MARGIN + (1 - data.y[i] / SIDE - view.y) * view.zoom * h,
    ];
  };
  const radius = () => (count < 1000 ? 4.5 : count < 5000 ? 3 : 2) * Math.min(2, Math.sqrt(view.zoom));

  function draw() {
    const scale = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
    paper.setTransform(scale, 0, 0, scale, 0, 0);
    paper.clearRect(0, 0, w, h);
    const groups = new Map(), size = radius(), last = MODES[mode].last;
    for (let i = 0; i < count; i++) {
      const key = (last && last(i) ? 1 : 0) + MODES[mode].colour(i);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(i);
    }
    paper.globalAlpha = 0.82;
    // Those that must be seen come last; one path for each colour is quick.
    for (const key of [...groups.keys()].sort((a, b) => a[0] - b[0])) {
      paper.fillStyle = key.slice(1);
      paper.beginPath();
      for (const i of groups.get(key)) {
        const [x, y] = place(i);
        if (x < -9 || y < -9 || x > w + 9 || y > h + 9) continue;
        paper.moveTo(x + size, y);
        paper.arc(x, y, size, 0, 7);
      }
      paper.fill();
    }
    paper.globalAlpha = 1;
    if (chosen >= 0) drawChosen(size);
  }

  function drawChosen(size) {
    const [x, y] = place(chosen);
    const ink = getComputedStyle(document.body).color;
    paper.strokeStyle = ink;
    paper.lineWidth = 1;
    for (const p of data.positives[chosen]) {
      if (p >= count) continue;
      const [a, b] = place(p);
      paper.beginPath(); paper.moveTo(x, y); paper.lineTo(a, b); paper.stroke();
      paper.beginPath(); paper.arc(a, b, size + 1.5, 0, 7); paper.stroke();
    }
    paper.lineWidth = 2;
    paper.beginPath(); paper.arc(x, y, size + 3, 0, 7); paper.stroke();
  }

  function line(kind, ...parts) {
    const element = document.createElement(kind);
    for (const part of parts) {
      const inner = document.createElement("bdi");  // a name's own direction stays its own
      inner.textContent = part;
      element.append(inner);
    }
    tip.append(element);
  }

  function choose(i) {
    if (i === chosen) return;
    chosen = i;
    tip.hidden = i < 0;
    tip.replaceChildren();
    if (i >= 0) {
      line("b", data.names[i]);
      if (data.known[i] >= 0) line("div", "Class: ", data.classes[data.known[i]], data.part[i] === TRAINED ? " (trained on)" : " (held out)");
      if (data.predicted[i] >= 0) line("div", "Predicted: ", data.classes[data.predicted[i]], ` (${(data.chance[i] / 10).toFixed(0)} %)`);
      line("div", `Links: ${data.links[i]}`);
      const near = data.positives[i].map((p) => data.names[p]);
      line("div", ...(near.length ? ["Positives: ", ...near.flatMap((name, k) => (k ? [", ", name] : [name]))] : ["No positives"]));
      const [x, y] = place(i), w = canvas.clientWidth, h = canvas.clientHeight;
      tip.style.left = `${Math.max(4, x + 16 + tip.offsetWidth > w ? x - 16 - tip.offsetWidth : x + 16)}px`;
      tip.style.top = `${Math.max(4, Math.min(y + 12, h - tip.offsetHeight - 4))}px`;
    }
    draw();
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = -1, least = 144;
    for (let i = 0; i < count; i++) {
      const [x, y] = place(i), d = (x - mx) ** 2 + (y - my) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  function zoom(factor, sx = 0.5, sy = 0.5) {
    const z = Math.min(40, Math.max(1, view.zoom * factor));
    view.x += sx / view.zoom - sx / z;
    view.y += sy / view.zoom - sy / z;
    view.zoom = z;
    keepInside();
  }
  function keepInside() {
    for (const a of ["x", "y"]) view[a] = Math.min(Math.max(view[a], 0), 1 - 1 / view.zoom);
    choose(-1);
    draw();
  }

  function colourBy(name) {
    mode = name;
    canvas.dataset.mode = name;
    legend.replaceChildren(...MODES[name].legend().map(([colour, text, kind]) => {
      const row = document.createElement("li"), mark = document.createElement("i"), label = document.createElement("bdi");
      mark.style.background = colour;
      mark.className = kind || "";
      label.textContent = text;
      row.append(mark, label);
      return row;
    }));
    draw();
  }

  const choices = document.getElementById("map-colour");
  const usable = Object.keys(MODES).filter((name) => MODES[name].if);
  usable.forEach((name, k) => {
    const label = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "colour", value: name, checked: k === 0 });
    input.addEventListener("change", () => colourBy(name));
    text.textContent = MODES[name].label;
    label.append(input, text);
    choices.append(label);
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { choose(nearest(event)); return; }
    view.x = drag.x - (event.clientX - drag.at[0]) / canvas.clientWidth / view.zoom;
    view.y = drag.y - (event.clientY - drag.at[1]) / canvas.clientHeight / view.zoom;
    keepInside();
  });
  canvas.addEventListener("pointerdown", (event) => {
    choose(nearest(event));
    if (view.zoom > 1 && event.pointerType === "mouse") drag = { at: [event.clientX, event.clientY], x: view.x, y: view.y };
  });
  addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { if (!drag) choose(-1); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 200), (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }, { passive: false });
  const order = Array.from({ length: count }, (_, i) => i).sort((a, b) => data.x[a] - data.x[b]);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") choose(-1);
    if (!step) return;
    event.preventDefault();
    choose(order[(order.indexOf(chosen) + step + count + (chosen < 0 && step < 0 ? 1 : 0)) % count]);
  });
  find.addEventListener("input", () => {
    const wanted = find.value.trim();
    const shown = data.names.slice(0, count);
    const at = wanted ? [shown.indexOf(wanted), shown.findIndex((name) => name.startsWith(wanted) || (name.endsWith("…") && wanted.startsWith(name.slice(0, -1))))].find((i) => i >= 0) ?? -1 : -1;
    find.classList.toggle("none", Boolean(wanted) && at < 0);
    view.zoom = 1; view.x = view.y = 0;
    choose(at);
    draw();
  });
  document.getElementById("map-in").addEventListener("click", () => zoom(1.6));
  document.getElementById("map-out").addEventListener("click", () => zoom(1 / 1.6));
  document.getElementById("map-whole").addEventListener("click", () => zoom(1e-9));
  dark.addEventListener("change", () => colourBy(mode));
  addEventListener("resize", () => draw());

  document.documentElement.classList.add("drawn");
  document.getElementById("map-live").hidden = false;
  colourBy(usable[0]);
  canvas.dataset.drawn = String(count);
})();
