import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { middle } from "../lib/text";
import type { Hue } from "../ui/state";
import { nodeHeight, nodeWidth, type View } from "./geometry";
import type { Drawing, Drawn, GraphProps } from "./drawn";

type Props = GraphProps & { drawing: Drawing; view: View; only: "all" | "open" | "critical" };

type Colours = Record<Hue | "surface" | "bg" | "line-2" | "ink" | "ink-3" | "accent" | "control-line", string>;

const names = ["idle", "run", "person", "held", "lost", "ok", "bad", "surface", "bg", "line-2", "ink", "ink-3", "accent",
  "control-line"] as const;

// colours reads the tokens as the theme has them.
export function colours(at: Element): Colours {
  const probe = document.createElement("span");
  at.append(probe);
  const out = {} as Colours;
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    out[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return out;
}

// CanvasGraph draws a large graph: what is outside of the view is not drawn, and small nodes are blocks.
export function CanvasGraph(p: Props) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ w: 0, h: 0 });
  const [theme, setTheme] = useState(0);
  const grid = useMemo(() => gridOf(p.drawing), [p.drawing.nodes, p.drawing.edges]);
  useEffect(() => {
    const box = ref.current!.parentElement!;
    const watch = new ResizeObserver(() => setSize({ w: box.clientWidth, h: box.clientHeight }));
    watch.observe(box);
    const again = () => setTheme((n) => n + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    return () => (watch.disconnect(), dark.removeEventListener("change", again));
  }, []);
  const drawn = useMemo(() => lazily(p.drawn), [p.layout, p.drawn]);
  const palette = useMemo(() => (ref.current ? colours(ref.current.parentElement!) : undefined), [theme, size.w > 0]);
  useLayoutEffect(() => {
    if (ref.current && size.w && palette) draw(ref.current, size, p, drawn, grid, palette);
  }, [size, p.view, p.only, p.selected, p.critical, drawn, grid, palette]);
  const click = (e: MouseEvent) => {
    const x = (e.offsetX - p.view.x) / p.view.k;
    const y = (e.offsetY - p.view.y) / p.view.k;
    const hit = grid.near(x, y, x, y).find((i) => {
      const n = p.drawing.nodes[i]!;
      return x >= n.x && x <= n.x + nodeWidth && y >= n.y && y <= n.y + nodeHeight;
    });
    if (hit !== undefined) p.onSelect(p.drawing.nodes[hit]!.node);
  };
  return (
    <canvas ref={ref} role="img" onClick={click}
      aria-label={`${p.label}: ${p.drawing.nodes.length} nodes. The tab Table shows the same.`} />
  );
}

// lazily keeps what was drawn of nodes: most nodes of a large graph are outside of the view.
function lazily(drawn: (i: number) => Drawn): (i: number) => Drawn {
  const known: Drawn[] = [];
  return (i) => (known[i] ??= drawn(i));
}

const cellSize = 512;

// gridOf finds nodes and edges by their places.
function gridOf(layout: Drawing) {
  const nodes = new Map<string, number[]>();
  const key = (x: number, y: number) => `${Math.floor(x / cellSize)} ${Math.floor(y / cellSize)}`;
  layout.nodes.forEach((n, i) => {
    const k = key(n.x + nodeWidth / 2, n.y + nodeHeight / 2);
    const list = nodes.get(k);
    if (list) list.push(i);
    else nodes.set(k, [i]);
  });
  const boxes = new Float64Array(layout.edges.length * 4); // around each edge: left, top, right, bottom
  layout.edges.forEach((e, i) => {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    e.points?.forEach((v, k) => {
      box[k % 2] = Math.min(box[k % 2]!, v);
      box[2 + (k % 2)] = Math.max(box[2 + (k % 2)]!, v);
    });
    boxes.set(box, i * 4);
  });
  return {
    // crosses reports whether an edge may be in a part of the drawing.
    crosses: (i: number, x1: number, y1: number, x2: number, y2: number) =>
      boxes[i * 4]! <= x2 && boxes[i * 4 + 1]! <= y2 && boxes[i * 4 + 2]! >= x1 && boxes[i * 4 + 3]! >= y1,
    near(x1: number, y1: number, x2: number, y2: number): number[] {
      const out: number[] = [];
      for (let x = Math.floor(x1 / cellSize) - 1; x <= Math.floor(x2 / cellSize) + 1; x++) {
        for (let y = Math.floor(y1 / cellSize) - 1; y <= Math.floor(y2 / cellSize) + 1; y++) {
          const list = nodes.get(`${x} ${y}`);
          if (list) out.push(...list);
        }
      }
      return out;
    },
  };
}

function draw(
  canvas: HTMLCanvasElement, size: { w: number; h: number }, p: Props, drawn: (i: number) => Drawn,
  grid: ReturnType<typeof gridOf>, c: Colours,
) {
  const ratio = devicePixelRatio;
  if (canvas.width !== size.w * ratio || canvas.height !== size.h * ratio) {
    canvas.width = size.w * ratio;
    canvas.height = size.h * ratio;
  }
  const g = canvas.getContext("2d")!;
  const { x, y, k } = p.view;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, size.w, size.h);
  g.setTransform(ratio * k, 0, 0, ratio * k, x * ratio, y * ratio);
  const left = -x / k, top = -y / k, right = left + size.w / k, bottom = top + size.h / k;
  edges(g, p, c, (i) => grid.crosses(i, left, top, right, bottom));
  const wide = (right - left) * (bottom - top) > p.drawing.nodes.length * cellSize * cellSize;
  const shown = wide || k < 0.35 ? p.drawing.nodes.map((_, i) => i) : grid.near(left, top, right, bottom);
  const groups = new Map<string, number[]>();
  const details: [number, Drawn][] = [];
  for (const i of shown) {
    const n = p.drawing.nodes[i]!;
    if (n.x > right || n.x + nodeWidth < left || n.y > bottom || n.y + nodeHeight < top) continue;
    const d = drawn(i);
    if (p.only === "critical" && !p.critical?.nodes.has(i)) continue;
    if (p.only === "open" && !["run", "person", "held", "lost"].includes(d.state.hue)) continue;
    if (k >= 0.35) details.push([i, d]);
    else (groups.get(d.state.hue) ?? groups.set(d.state.hue, []).get(d.state.hue)!).push(i);
  }
  for (const [hue, list] of groups) {
    g.fillStyle = c[hue as Hue];
    g.beginPath();
    for (const i of list) g.rect(p.drawing.nodes[i]!.x, p.drawing.nodes[i]!.y, nodeWidth, nodeHeight);
    g.fill();
  }
  for (const [i, d] of details) box(g, p, c, i, d, k);
  const at = p.drawing.nodes.find((n) => n.node === p.selected);
  if (at) {
    g.strokeStyle = c.accent;
    g.lineWidth = 2 / Math.min(1, k);
    g.strokeRect(at.x - 4, at.y - 4, nodeWidth + 8, nodeHeight + 8);
  }
}

// edges draws the lines in view. From afar only the critical path is drawn.
function edges(g: CanvasRenderingContext2D, p: Props, c: Colours, inView: (i: number) => boolean) {
  const critical = p.critical?.edges ?? new Set<number>();
  const line = (i: number) => {
    const q = p.drawing.edges[i]!.points ?? [];
    g.moveTo(q[0]!, q[1]!);
    for (let n = 2; n < q.length; n += 2) g.lineTo(q[n]!, q[n + 1]!);
  };
  if (p.view.k >= 0.35 || p.drawing.edges.length <= 1500) {
    g.strokeStyle = c["line-2"];
    g.lineWidth = 1.25;
    g.beginPath();
    for (let i = 0; i < p.drawing.edges.length; i++) if (inView(i) && !critical.has(i)) line(i);
    g.stroke();
  }
  g.strokeStyle = c.ink;
  g.lineWidth = 2.25;
  g.beginPath();
  for (const i of critical) if (inView(i)) line(i);
  g.stroke();
}

function box(g: CanvasRenderingContext2D, p: Props, c: Colours, i: number, d: Drawn, k: number) {
  const n = p.drawing.nodes[i]!;
  const colour = c[d.state.hue];
  g.beginPath();
  g.roundRect(n.x, n.y, nodeWidth, nodeHeight, 7);
  g.fillStyle = d.state.key === "none" ? c.bg : c.surface;
  g.fill();
  g.strokeStyle = ["idle", "ok"].includes(d.state.hue) ? c["line-2"] : colour;
  g.lineWidth = 1.5;
  g.stroke();
  g.fillStyle = colour;
  g.beginPath();
  g.arc(n.x + 17, n.y + 23, 6, 0, 7);
  g.fill();
  g.fillStyle = d.state.key === "none" ? c["ink-3"] : c.ink;
  g.font = "600 11px sans-serif";
  g.fillText(middle(n.node, 15), n.x + 33, n.y + (k >= 0.7 ? 20 : 27));
  if (k < 0.7) return;
  g.fillStyle = c["ink-3"];
  g.font = "11px sans-serif";
  g.fillText(middle(d.status || d.state.word.toLowerCase(), 17), n.x + 33, n.y + 36);
}
