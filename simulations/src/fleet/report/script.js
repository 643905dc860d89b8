// Sorts tables by the column whose title is pressed, and shows what drawings tell beside the pointer. The page says the
// same without it.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
    };
    const sort = () => {
      const falls = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x === typeof y) return typeof x === "number" ? x - y : x.localeCompare(y);
        return typeof x === "number" ? -1 : 1;
      };
      [...body.rows].sort((a, b) => (falls ? -order(a, b) : order(a, b))).forEach((row) => body.append(row));
    };
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", sort);
    head.append(button);
  });
}
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
for (const title of [...document.querySelectorAll("svg title")]) {
  title.parentNode.setAttribute("data-tip", title.textContent);
  title.remove();
}
const show = (event) => {
  const told = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !told;
  if (!told) return;
  tip.textContent = told.dataset.tip;
  const room = document.documentElement.clientWidth;
  const left = event.clientX + 14 + tip.offsetWidth > room ? event.clientX - tip.offsetWidth - 14 : event.clientX + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
