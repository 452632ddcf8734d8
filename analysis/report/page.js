"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const pane = get("pane"), lanes = [...document.querySelectorAll(".lane")];
  const factors = [1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48];
  let step = 0;
  document.documentElement.classList.add("scripted");

  function filter() {
    const words = get("pod").value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    const node = get("node").value, word = get("word").value;
    let shown = 0;
    for (const lane of lanes) {
      const of = lane.dataset, text = of.find.toLowerCase();
      lane.hidden = !!(node && of.node !== node || word && of.word !== word || words.length && !words.some((w) => text.includes(w)));
      shown += !lane.hidden;
    }
    get("shown").textContent = shown === lanes.length ? "" : shown + " of " + lanes.length + " lanes";
  }

  // zoom keeps the instant that is under the pointer, or in the middle, where it is.
  function zoom(to, at) {
    const label = pane.querySelector(".label").offsetWidth, view = pane.clientWidth - label;
    const over = at === undefined ? view / 2 : at - pane.getBoundingClientRect().left - label;
    const instant = (pane.scrollLeft + over) / factors[step];
    step = Math.max(0, Math.min(factors.length - 1, to));
    pane.style.setProperty("--zoom", factors[step]);
    pane.dataset.zoom = factors[step] < 4 ? 1 : factors[step] < 16 ? 2 : 3;
    pane.scrollLeft = instant * factors[step] - over;
    get("factor").value = factors[step] + "×";
  }

  // find shows the lane, or the place in a lane, that the address names.
  function find() {
    const name = decodeURIComponent(location.hash.slice(1)), target = name && get(name);
    const lane = target && target.closest(".lane");
    for (const other of lanes) other.classList.toggle("found", other === lane);
    if (!lane) return;
    if (lane.hidden) { get("pod").value = get("node").value = get("word").value = ""; filter(); }
    lane.classList.add("open");
    if (target !== lane && step < 4) zoom(4);
    const box = pane.getBoundingClientRect(), there = lane.getBoundingClientRect();
    pane.scrollTop += there.top - box.top - pane.clientHeight / 3;
    if (target !== lane) {
      const label = pane.querySelector(".label").offsetWidth;
      const x = target.getBoundingClientRect().left - box.left - label;
      pane.scrollLeft += x - (pane.clientWidth - label) / 2;
    }
    pane.scrollIntoView({ block: "nearest" });
  }

  for (const id of ["pod", "node", "word"]) get(id).addEventListener("input", filter);
  get("in").addEventListener("click", () => zoom(step + 1));
  get("out").addEventListener("click", () => zoom(step - 1));
  get("fit").addEventListener("click", () => zoom(0));
  get("small").addEventListener("input", (e) => document.body.classList.toggle("compact", e.target.checked));
  pane.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(step + (e.deltaY < 0 ? 1 : -1), e.clientX);
  }, { passive: false });
  pane.addEventListener("click", (e) => {
    const name = e.target.closest(".name");
    if (!name) return;
    const lane = name.closest(".lane"), open = lane.classList.toggle("open"), steps = lane.querySelector(".steps");
    if (steps) steps.open = open;
  });
  addEventListener("hashchange", find);
  find();
})();
