"use strict";
// Headings of columns become buttons that sort; without this script the tables are as they are.
for (const hint of document.querySelectorAll(".script")) hint.classList.remove("script");
for (const table of document.querySelectorAll("table.paper")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    if (!button.textContent.trim()) button.ariaLabel = "row"; // the head above the names of rows is empty
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].firstChild?.textContent.trim() ?? "";
      const order = (one, two) => {
        const [a, b] = [key(one), key(two)];
        const [noA, noB] = [a, b].map((text) => ["", "--"].includes(text));
        if (noA || noB) return noA - noB; // what has no number comes last
        const numbers = [Number(a), Number(b)];
        const way = numbers.some(Number.isNaN) ? a.localeCompare(b) : numbers[0] - numbers[1];
        return down ? -way : way;
      };
      for (const body of table.tBodies) { // rows that were printed and rows that were run stay apart
        const named = (row) => row.cells.length === 1;
        body.append(...[...body.rows].filter((row) => !named(row)).sort(order));
      }
    });
  });
}
