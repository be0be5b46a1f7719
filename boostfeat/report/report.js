"use strict";
// Text from the data reaches the page through textContent only; nothing here builds HTML from strings.
(() => {
  const $ = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const json = (id) => JSON.parse($(id).textContent);
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") node.className = value;
      else if (key === "style") node.style.cssText = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };

  async function unpack(id) {
    const text = atob($(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // -- theme ---------------------------------------------------------------------------------------------------------

  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("boostfeat-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
  function setTheme(name) {
    if (name) root.dataset.theme = name;
    for (const div of all(".plot[data-drawn]")) Plotly.relayout(div, { template: template() });
  }
  function template() {
    const probe = document.body.appendChild(make("i", { hidden: "" })); // what a named colour is in the theme of the moment
    const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    const axis = {
      gridcolor: colour("--grid"), zerolinecolor: colour("--line"), linecolor: colour("--line"), tickcolor: colour("--line"),
      title: { font: { size: 12, color: colour("--quiet") }, standoff: 8 },
    };
    const layout = {
      font: { family: getComputedStyle(root).getPropertyValue("--font"), size: 12, color: colour("--text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", xaxis: axis, yaxis: axis,
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--text") } },
    };
    probe.remove();
    return { layout };
  }

  // -- figures: drawn when they first come into view -----------------------------------------------------------------

  let figures = null, plotly = null;
  const loadPlotly = () => plotly ??= unpack("data-plotly").then((text) => {
    document.head.append(make("script", {}, text)); // its hash is in the policy
    $("data-plotly").remove();
  });
  async function draw(div) {
    await loadPlotly();
    if (div.dataset.drawn || !div.clientWidth) return;
    figures ??= json("data-figures");
    const { data, layout } = figures[div.dataset.figure];
    div.dataset.drawn = "yes";
    div.style.height = `${layout.height}px`; // plotly's own resizing takes the element's
    const config = { responsive: true, displaylogo: false, displayModeBar: false, locale: "en" };
    await Plotly.newPlot(div, data, { ...layout, template: template(), autosize: true, dragmode: false }, config);
    const size = () => ({ format: "svg", width: div.clientWidth, height: layout.height, filename: div.dataset.figure });
    saveButton(div, () => Plotly.downloadImage(div, size()));
    if (div.dataset.figure.startsWith("duel-"))
      div.on("plotly_click", (event) => browser.open(event.points[0].customdata));
  }
  function saveButton(figure, save) {
    const button = make("button", { type: "button", class: "save", title: "Save this figure as SVG" }, "SVG");
    button.addEventListener("click", save);
    figure.after(button);
  }
  for (const [k, svg] of all(".grid.trees svg").entries())
    saveButton(svg.parentNode, () => {
      const text = new XMLSerializer().serializeToString(svg);
      const link = make("a", { download: `tree-${k + 1}.svg`, href: `data:image/svg+xml,${encodeURIComponent(text)}` });
      link.click();
    });
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "200px" });

  // -- tabs ----------------------------------------------------------------------------------------------------------

  const tabs = all('[role="tab"]');
  function openTab(id, { focus = false, push = true } = {}) {
    const chosen = tabs.find((tab) => tab.getAttribute("aria-controls") === id) ?? tabs[0];
    for (const tab of tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", on);
      tab.tabIndex = on ? 0 : -1;
      $(tab.getAttribute("aria-controls")).hidden = !on;
    }
    if (focus) chosen.focus();
    chosen.scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
    if (push) { history.replaceState(null, "", "#" + chosen.getAttribute("aria-controls")); scrollTo({ top: 0, behavior: "instant" }); }
    if (chosen.getAttribute("aria-controls") === "sentences") browser.load();
    dispatchEvent(new Event("resize")); // plots drawn at another width while hidden
  }
  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => openTab(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: k + 1, ArrowLeft: k - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      openTab(tabs[(to + tabs.length) % tabs.length].getAttribute("aria-controls"), { focus: true });
    });
  });
  for (const button of all("[data-shows]")) button.addEventListener("click", () => {
    for (const other of all("[data-shows]", button.parentNode)) {
      other.setAttribute("aria-pressed", other === button);
      $(other.dataset.shows).hidden = other !== button;
    }
  });

  // -- tables that sort by a click on a heading ----------------------------------------------------------------------

  function markSorted(table, heading, ascending) {
    for (const th of all("thead th", table)) th.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  }
  const numberIn = (text) => {
    const found = text.replaceAll("−", "-").replaceAll(",", "").match(/[-+]?\d+(\.\d+)?/);
    return found ? Number(found[0]) : null;
  };
  for (const table of all("table.sortable")) {
    const row = table.tHead.rows[table.tHead.rows.length - 1];
    [...row.cells].forEach((th, column) => th.firstElementChild.addEventListener("click", () => {
      const ascending = th.getAttribute("aria-sort") ? th.getAttribute("aria-sort") === "descending" : column === 0;
      const key = (tr) => column === 0 ? tr.cells[0].textContent : numberIn(tr.cells[column].textContent);
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null); // what is not there stays at the end
        return (x < y ? -1 : x > y ? 1 : 0) * (ascending ? 1 : -1);
      });
      table.tBodies[0].append(...rows);
      markSorted(table, th, ascending);
    }));
  }

  // -- sentences -----------------------------------------------------------------------------------------------------

  /** Words of a and b in order: ["=" | "-" | "+", word], by their longest common subsequence. */
  function diff(a, b) {
    const n = a.length, m = b.length, lcs = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
    for (let i = n - 1; i >= 0; i--)
      for (let j = m - 1; j >= 0; j--) lcs[i][j] = a[i] === b[j] ? lcs[i + 1][j + 1] + 1 : Math.max(lcs[i + 1][j], lcs[i][j + 1]);
    const out = [];
    for (let i = 0, j = 0; i < n || j < m;) {
      if (i < n && j < m && a[i] === b[j]) { out.push(["=", a[i++]]); j++; }
      else if (i < n && (j === m || lcs[i + 1][j] >= lcs[i][j + 1])) out.push(["-", a[i++]]);
      else out.push(["+", b[j++]]);
    }
    return out;
  }
  const words = (text) => text.split(/\s+/).filter(Boolean);
  const signed = (x, digits = 1) => (x > 0 ? "+" : x < 0 ? "−" : "") + Math.abs(x).toFixed(digits);

  const PAGE = 50;
  const browser = {
    ready: false, rows: [], shown: [], page: 0, key: "id", ascending: true, at: 0, wanted: null,

    async load() {
      if (this.loading) return;
      this.loading = true;
      this.data = JSON.parse(await unpack("data-sentences"));
      $("data-sentences").remove();
      this.data.sentences.forEach((s, k) => {
        s.k = k;
        s.words = words(s.source).length;
        s.find = [s.id, s.source, ...s.refs, ...s.hyps.map((h) => h.text)].join("\n").toLowerCase();
      });
      this.ready = true;
      this.update();
      this.at = this.wanted ?? this.rows.find((r) => r.changed)?.s.k ?? 0; // begin with something to see
      this.list();
      if (this.wanted !== null) this.reveal();
      this.showDetail();
    },
    columnOf(name) { // position in a sentence's list of choices: systems, the decoder, the oracle
      const k = this.data.systems.indexOf(name);
      return k >= 0 ? k : this.data.systems.length + (name === "oracle" ? 1 : 0);
    },
    pick(s, name) { return s.hyps[s.chosen[this.columnOf(name)]] ?? { text: "", gain: 0, rank: null, units: [], own: [] }; },

    update() {
      if (!this.ready) return;
      const ours = $("ours").value, other = $("other").value, query = $("search").value.trim().toLowerCase();
      const onlyChanged = $("changed").checked;
      this.rows = this.data.sentences.map((s) => {
        const a = this.pick(s, ours), b = this.pick(s, other);
        return { s, id: s.id, words: s.words, size: s.size, source: s.source || s.refs[0] || a.text, rank: a.rank ?? 0,
                 gain: a.gain, delta: a.gain - b.gain, changed: a.text !== b.text };
      });
      this.shown = this.rows.filter((r) => (!query || r.s.find.includes(query)) && (!onlyChanged || r.changed));
      const sign = this.ascending ? 1 : -1, key = this.key;
      this.shown.sort((x, y) => (x[key] < y[key] ? -sign : x[key] > y[key] ? sign : x.s.k - y.s.k));
      this.page = 0;
      const total = this.rows.length.toLocaleString("en"), n = this.shown.length.toLocaleString("en");
      const changed = this.shown.filter((r) => r.changed).length.toLocaleString("en");
      $("found").textContent = `${n} of ${total} sentences; ${ours} and ${other} differ in ${changed} of them`;
      this.setScale();
      this.list();
    },
    list() {
      const pages = Math.max(1, Math.ceil(this.shown.length / PAGE));
      this.page = Math.min(Math.max(0, this.page), pages - 1);
      const rows = this.shown.slice(this.page * PAGE, (this.page + 1) * PAGE).map((r) => {
        const delta = make("td", { class: r.delta > 0.05 ? "up" : r.delta < -0.05 ? "down" : "quiet" }, signed(r.delta));
        const tr = make("tr", { tabindex: 0, "aria-selected": r.s.k === this.at, "data-k": r.s.k },
          make("td", {}, String(r.id)), make("td", {}, String(r.words)), make("td", {}, String(r.size)),
          make("td", {}, r.rank ? String(r.rank) : "–"), make("td", {}, r.gain.toFixed(1)), delta, make("td", {}, r.source));
        return tr;
      });
      $("table-sentences").tBodies[0].replaceChildren(...rows);
      $("page").textContent = `page ${this.page + 1} of ${pages}`;
      $("previous").disabled = this.page === 0;
      $("next").disabled = this.page === pages - 1;
    },
    select(k) {
      this.at = k;
      for (const tr of all("tbody tr", $("table-sentences"))) tr.setAttribute("aria-selected", Number(tr.dataset.k) === k);
      this.showDetail();
      if ($("detail").getBoundingClientRect().bottom < 80) $("detail").scrollIntoView({ block: "center" }); // one column: it is above
    },
    reveal() { // turn to the page that has the current sentence
      const place = this.shown.findIndex((r) => r.s.k === this.at);
      if (place >= 0) { this.page = Math.floor(place / PAGE); this.list(); }
    },
    open(k) {
      this.wanted = k;
      openTab("sentences");
      if (this.ready) {
        $("search").value = ""; $("changed").checked = false;
        this.update(); this.at = k; this.reveal(); this.showDetail();
      }
    },

    // Colours: a unit's part of the score against the usual one of this system, so that a phrase that costs more than most is red.
    contribution(unit, m) {
      const part = $("part").value, linear = unit[2][m], trees = unit[3][m];
      return part === "1" ? trees : part === "2" ? linear : linear + trees;
    },
    setScale() {
      const m = this.data.scorers.indexOf($("ours").value), values = [];
      if (m >= 0) for (const s of this.data.sentences.slice(0, 500)) for (const u of s.units) values.push(this.contribution(u, m));
      values.sort((a, b) => a - b);
      const quantile = (q) => values[Math.floor(q * (values.length - 1))] ?? 0;
      this.middle = $("part").value === "1" ? 0 : quantile(0.5);
      this.reach = Math.max(1e-9, quantile(0.95) - this.middle, this.middle - quantile(0.05));
    },
    shade(value) {
      const t = Math.max(-1, Math.min(1, (value - this.middle) / this.reach));
      const colour = t >= 0 ? "var(--up)" : "var(--down)";
      return `background:color-mix(in srgb, ${colour} ${Math.round(6 + 48 * Math.abs(t))}%, transparent)`;
    },
    coloured(s, hyp) {
      const m = this.data.scorers.indexOf($("ours").value), tokens = words(hyp.text), p = make("p");
      if (m < 0 || !hyp.units.length) { p.append(hyp.text || "(nothing)"); return p; }
      const unit = (row, text) => {
        const u = s.units[row], title = `${u[0] || "?"} → ${u[1]}\nscore ${signed(u[2][m] + u[3][m], 3)}: weights ${signed(u[2][m], 3)}, trees ${signed(u[3][m], 3)}`;
        return make("span", { class: "unit", title, style: this.shade(this.contribution(u, m)) }, text);
      };
      const spans = [...hyp.units].sort((a, b) => a[1] - b[1]);
      let end = 0; // spans that are known, in order and do not overlap colour the sentence itself; else units stand in a row
      const fits = spans.every(([, start, n]) => { const ok = start >= end && n >= 0; end = start + n; return ok; }) && end <= tokens.length;
      if (!fits) { for (const [row] of hyp.units) p.append(unit(row, s.units[row][1] || "∅"), " "); return p; }
      let at = 0;
      for (const [row, start, n] of spans) {
        if (start > at) p.append(tokens.slice(at, start).join(" ") + " ");
        p.append(unit(row, n ? tokens.slice(start, start + n).join(" ") : "∅"), " ");
        at = start + n;
      }
      p.append(tokens.slice(at).join(" "));
      return p;
    },
    score(s, hyp) {
      const m = this.data.scorers.indexOf($("ours").value);
      return m < 0 ? null : hyp.units.reduce((sum, [row]) => sum + s.units[row][2][m] + s.units[row][3][m], hyp.own[m] ?? 0);
    },
    showDetail() {
      if (!this.ready) return;
      const s = this.data.sentences[this.at], ours = $("ours").value, other = $("other").value, query = $("search").value.trim();
      if (!s) return;
      const plain = (text) => {
        const p = make("p"), at = query ? text.toLowerCase().indexOf(query.toLowerCase()) : -1;
        if (at < 0) p.append(text);
        else p.append(text.slice(0, at), make("mark", {}, text.slice(at, at + query.length)), text.slice(at + query.length));
        return p;
      };
      const who = (name, ...facts) => make("div", { class: "who" }, make("b", {}, name), ...facts.map((f) => make("span", {}, f)));
      const facts = (hyp) => {
        const score = this.score(s, hyp);
        return [`${this.data.gain} ${hyp.gain.toFixed(1)}`, hyp.rank ? `rank ${hyp.rank} of ${s.size}` : "", score === null ? "" : `score ${signed(score, 3)}`].filter(Boolean);
      };
      const a = this.pick(s, ours), b = this.pick(s, other), best = this.pick(s, "oracle");
      const parts = [make("h3", {}, `Sentence ${s.id}`, make("span", { class: "quiet" }, `${s.words} words, ${s.size} hypotheses`))];
      if (s.source) parts.push(who("source"), plain(s.source));
      s.refs.forEach((ref, k) => parts.push(who(s.refs.length > 1 ? `reference ${k + 1}` : "reference"), plain(ref)));
      parts.push(who(other, ...facts(b)), this.coloured(s, b), who(ours, ...facts(a)), this.coloured(s, a));
      if (other !== "decoder" && ours !== "decoder") {
        const d = this.pick(s, "decoder"); parts.push(who("decoder", ...facts(d)), this.coloured(s, d));
      }
      if (other !== "oracle") parts.push(who("oracle", ...facts(best)), this.coloured(s, best));
      const line = make("p");
      for (const [kind, word] of diff(words(b.text), words(a.text)))
        line.append(kind === "=" ? word : make(kind === "-" ? "del" : "ins", {}, word), " ");
      parts.push(who(`from ${other} to ${ours}`), a.text === b.text ? make("p", { class: "quiet" }, "the same words") : line);
      if (ours === this.data.ours && other === "decoder" && s.why.length) { // parts that sum to the difference in score
        const total = s.why.reduce((sum, [, part]) => sum + part, 0);
        const by = total < 0 ? `behind by ${(-total).toFixed(3)}: minimum Bayes risk decides` : `ahead by ${total.toFixed(3)}`;
        parts.push(who(`why ${ours} and not decoder`, by), make("table", { class: "why" }, make("tbody", {},
          ...s.why.map(([name, part]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: part > 0 ? "up" : "down" }, signed(part, 3)))))));
      }
      if (this.data.scorers.includes(ours)) {
        const low = "color-mix(in srgb, var(--down) 54%, transparent)", high = "color-mix(in srgb, var(--up) 54%, transparent)";
        parts.push(make("div", { class: "legend" }, "costs more than most", make("i", { style: `background:linear-gradient(90deg, ${low}, transparent, ${high})` }), `adds more, to ${ours}'s score`));
      }
      $("detail").replaceChildren(...parts);
    },
  };

  for (const button of all("button[data-key]")) button.addEventListener("click", () => {
    const key = button.dataset.key;
    browser.ascending = browser.key === key ? !browser.ascending : ["id", "source", "delta", "gain"].includes(key);
    browser.key = key;
    browser.update();
    markSorted($("table-sentences"), button.parentNode, browser.ascending);
  });
  let waiting = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      browser.update();
      if (browser.shown.length && !browser.shown.some((r) => r.s.k === browser.at)) browser.select(browser.shown[0].s.k);
      else browser.showDetail();
    }, 120);
  });
  for (const id of ["ours", "other", "part", "changed"]) $(id).addEventListener("change", () => { browser.update(); browser.showDetail(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("previous").addEventListener("click", () => { browser.page--; browser.list(); });
  $("next").addEventListener("click", () => { browser.page++; browser.list(); });
  $("table-sentences").tBodies[0].addEventListener("click", (event) => {
    const tr = event.target.closest("tr");
    if (tr) browser.select(Number(tr.dataset.k));
  });
  $("table-sentences").tBodies[0].addEventListener("keydown", (event) => {
    const tr = event.target.closest("tr");
    const to = { Enter: tr, ArrowDown: tr?.nextElementSibling, ArrowUp: tr?.previousElementSibling }[event.key];
    if (!to) return;
    event.preventDefault();
    to.focus();
    browser.select(Number(to.dataset.k));
  });
  $("copy").addEventListener("click", async () => {
    const text = $("command").textContent;
    try { await navigator.clipboard.writeText(text); }
    catch { getSelection().selectAllChildren($("command")); document.execCommand("copy"); }
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
  });

  $("theme").addEventListener("click", () => {
    const name = isDark() ? "light" : "dark";
    try { localStorage.setItem("boostfeat-theme", name); } catch { /* a page opened from a file may have no storage */ }
    setTheme(name);
  });
  prefersDark.addEventListener("change", () => setTheme());
  setTheme(remembered());
  for (const div of all(".plot")) seen.observe(div);
  openTab(location.hash.slice(1), { push: false }); // the first where none is named
  addEventListener("hashchange", () => openTab(location.hash.slice(1), { push: false }));
  // plotly takes a second to start in a cold browser: not while the page opens, but before most people ask for it
  setTimeout(() => (window.requestIdleCallback ?? setTimeout)(() => loadPlotly()), 4000);
  root.dataset.ready = Math.round(performance.now());
})();
