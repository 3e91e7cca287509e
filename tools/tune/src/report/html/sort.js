// Sorts a table by the column of the clicked heading; a second click reverses the order.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : null;
    };
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x !== null && y !== null) return down ? y - x : x - y;
      if (x !== null || y !== null) return x === null ? 1 : -1;
      const [s, t] = [a, b].map((row) => row.cells[column].textContent);
      return down ? t.localeCompare(s) : s.localeCompare(t);
    };
    body.append(...[...body.rows].sort(compare));
  });
}
