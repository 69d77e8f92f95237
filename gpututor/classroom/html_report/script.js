"use strict";
(() => {
  const table = document.querySelector("table.marks");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const reports = [...document.querySelectorAll("details.student")];
  const words = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const find = document.getElementById("find");
  const which = document.getElementById("which");
  const found = document.getElementById("found");

  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, place) => {
      const isShown = words[place].includes(wanted) && (!which.value || row.dataset.state === which.value);
      row.hidden = !isShown;
      reports[place].hidden = !isShown;
      shown += isShown;
    });
    found.textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
  };
  find.addEventListener("input", filter);
  which.addEventListener("change", filter);
  document.querySelector(".controls").hidden = false;

  const value = (row, column) => {
    const text = row.cells[column].textContent.trim().replace(/[()]/g, "");
    const number = text === "–" ? 0 : Number(text);
    return column === 0 || Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (one, other) => {
    if (typeof one !== typeof other) return typeof one === "number" ? 1 : -1;
    return one < other ? -1 : one > other ? 1 : 0;
  };
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const turn = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headers.forEach((each) => each.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      const keys = new Map(rows.map((row) => [row, value(row, column)]));
      body.append(...[...rows].sort((one, other) => turn * compare(keys.get(one), keys.get(other))));
    });
  });

  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const report = target && target.closest("details.student");
    if (report) {
      report.hidden = false;
      report.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
})();
