// Charts of the numbers in the table below them, with axes and the number under the pointer. Without this file there
// are lines.
"use strict";
(() => {
  const root = document.documentElement;
  const COLOURS = ["acc", "acquired", "blocked", "delayed"], DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3]];
  const HEIGHT = 150;
  const css = name => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  const zone = (() => {
    try {
      return new Intl.DateTimeFormat("en", { timeZone: root.dataset.tz }).resolvedOptions().timeZone;
    } catch {
      return "UTC";
    }
  })();

  const short = value => value >= 1e6 ? `${+(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${+(value / 1e3).toFixed(1)} k`
    : value.toLocaleString("en", { maximumFractionDigits: 1 });
  const TEXTS = {
    number: short,
    age: value => value < 60 ? `${+value.toFixed(1)} s`
      : value < 600 && value % 60 >= 1 ? `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s` : value < 3600 ? `${Math.round(value / 60)} min`
      : value < 86400 ? `${+(value / 3600).toFixed(1)} h` : `${+(value / 86400).toFixed(1)} d`,
  };
  const AGES = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];

  // (times, and the numbers of each of these columns)
  const numbers = chart => {
    const rows = [...document.querySelector("#numbers tbody").rows];
    const number = cell => cell?.textContent ? Number(cell.textContent) : null;
    const columns = chart.dataset.columns.split(" ").map(Number);
    return [rows.map(row => row.dataset.row / 1000), ...columns.map(at => rows.map(row => number(row.cells[at])))];
  };

  const plots = new Map();

  // The legend says the number under the pointer, else the last one.
  const point = chart => plot => {
    const at = plot.cursor.idx;
    [...chart.nextElementSibling.querySelectorAll("b")].forEach((place, nth) => {
      const values = plot.data[nth + 1] ?? [], value = at == null ? values.findLast(each => each != null) : values[at];
      place.textContent = value == null ? "" : TEXTS[chart.dataset.unit](value);
    });
  };

  const make = chart => {
    const text = TEXTS[chart.dataset.unit], data = numbers(chart);
    const axis = { stroke: css("ink2"), font: `11px ${css("sans")}`, grid: { stroke: css("line"), width: 1 }, ticks: { show: false } };
    const lines = data.slice(1).map((_, nth) => (
      { stroke: css(COLOURS[nth % COLOURS.length]), width: 1.6, dash: DASHES[nth % DASHES.length], points: { show: false } }));
    const plot = new uPlot({
      width: chart.clientWidth, height: HEIGHT, padding: [6, 18, 0, 0], legend: { show: false },
      tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), zone),
      cursor: { points: { size: 6 }, sync: { key: "time" }, drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, (most || 1) * 1.08] } },
      axes: [
        { ...axis, space: 70, size: 26, values: "{HH}:{mm}" },
        { ...axis, space: 30, size: 52, values: (_, values) => values.map(text), ...(chart.dataset.unit === "age" ? { incrs: AGES } : {}) },
      ],
      series: [{}, ...lines],
      hooks: { setCursor: [point(chart)] },
    }, data, chart);
    plot.root.dataset.own = "plot";
    plots.set(chart, plot);
  };

  const draw = () => {
    for (const [chart, plot] of plots) {
      if (chart.isConnected) continue;
      plot.destroy();
      plots.delete(chart);
    }
    for (const chart of document.querySelectorAll(".chart")) {
      const plot = plots.get(chart);
      if (!plot) make(chart);
      else {
        plot.setData(numbers(chart));
        point(chart)(plot);
      }
    }
  };
  const again = () => {
    for (const plot of plots.values()) plot.destroy();
    plots.clear();
    draw();
  };

  draw();
  addEventListener("anew", draw);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", again);
  addEventListener("resize", () => plots.forEach((plot, chart) => plot.setSize({ width: chart.clientWidth, height: HEIGHT })));
})();
