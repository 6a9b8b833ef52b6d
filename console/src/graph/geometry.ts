// Sizes of nodes, and what graphs on SVG and on canvas share.
export const nodeWidth = 134;
export const nodeHeight = 46;

export interface View { x: number; y: number; k: number }

export const minZoom = 0.02;
export const maxZoom = 2;

// fit returns the view that shows a whole graph, not enlarged.
export function fit(width: number, height: number, boxWidth: number, boxHeight: number, least = minZoom): View {
  const k = Math.max(least, Math.min(1, (boxWidth - 24) / width, (boxHeight - 24) / height));
  return { k, x: Math.max(12, (boxWidth - width * k) / 2), y: Math.max(12, (boxHeight - height * k) / 2) };
}

// above and below are the height of the buttons over a graph, and of the legend under it.
const above = 44;
const below = 28;

// readable returns the view in full size, since smaller text is hard to read: all of the graph if it has room, else the
// part around a node, or its beginning.
export function readable(
  width: number, height: number, boxWidth: number, boxHeight: number, at?: { x: number; y: number },
): View {
  const along = (whole: number, box: number, from: number | undefined, size: number) => {
    if (whole <= box) return (box - whole) / 2;
    if (from === undefined) return 0;
    return Math.min(0, Math.max(box - whole, box / 2 - from - size / 2));
  };
  return { k: 1, x: along(width, boxWidth, at?.x, nodeWidth), y: above + along(height, boxHeight - above - below, at?.y, nodeHeight) };
}

// zoom enlarges around a point of the box.
export function zoom(v: View, by: number, x: number, y: number): View {
  const k = Math.min(maxZoom, Math.max(minZoom, v.k * by));
  return { k, x: x - ((x - v.x) * k) / v.k, y: y - ((y - v.y) * k) / v.k };
}

// rounded returns the path of a line with rounded corners.
export function rounded(points: readonly number[], radius = 8): string {
  let d = `M${points[0]} ${points[1]}`;
  for (let i = 2; i < points.length - 2; i += 2) {
    const [px, py, x, y, nx, ny] = points.slice(i - 2, i + 4) as [number, number, number, number, number, number];
    const before = Math.min(radius, (Math.abs(x - px) + Math.abs(y - py)) / 2);
    const after = Math.min(radius, (Math.abs(nx - x) + Math.abs(ny - y)) / 2);
    d += `L${x - Math.sign(x - px) * before} ${y - Math.sign(y - py) * before}`;
    d += `Q${x} ${y} ${x + Math.sign(nx - x) * after} ${y + Math.sign(ny - y) * after}`;
  }
  return d + `L${points[points.length - 2]} ${points[points.length - 1]}`;
}
