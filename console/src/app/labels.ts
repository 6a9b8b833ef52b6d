// A narrow window shows each row of a table as a block. The head of the table is out of sight then, so each cell has the
// name of its column as a label, which the style shows there.

const label = (table: HTMLTableElement) => {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  const names = heads.map((h) => h.querySelector(".sr, input") ? "" : h.textContent!.trim());
  for (const body of table.tBodies) {
    for (const row of body.rows) {
      if (row.cells.length !== names.length) continue;
      [...row.cells].forEach((cell, i) => {
        // What a name, a state or a button is, it says itself.
        const plain = cell.matches(".strong") || cell.querySelector(".strong, .st, .btn, input") ? "" : names[i]!;
        if (plain && cell.dataset["label"] !== plain) cell.dataset["label"] = plain;
        else if (!plain && cell.dataset["label"]) delete cell.dataset["label"];
      });
    }
  }
};

// startLabels keeps the labels of all tables of the page, also of those that appear later.
export function startLabels(root: HTMLElement) {
  let due = 0;
  const all = () => {
    due = 0;
    root.querySelectorAll("table").forEach(label);
  };
  const narrow = matchMedia("(max-width: 640px)");
  const later = () => {
    if (narrow.matches) due ||= requestAnimationFrame(all);
  };
  new MutationObserver(later).observe(root, { childList: true, subtree: true });
  narrow.addEventListener("change", later);
}
