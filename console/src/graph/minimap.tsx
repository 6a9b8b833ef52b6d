import { useEffect, useRef } from "preact/hooks";
import { colours } from "./canvas";
import type { Drawing, Drawn } from "./drawn";
import { nodeHeight, nodeWidth, type View } from "./geometry";

const most = { w: 160, h: 110 };

interface Props {
  layout: Drawing; drawn: (i: number) => Drawn; view: View; box: { w: number; h: number }; onMove(v: View): void;
}

// MiniMap shows where in a large graph the view is, and moves it. It is for pointers: keys fit the graph and the table
// has all nodes.
export function MiniMap({ layout, drawn, view, box, onMove }: Props) {
  const ref = useRef<HTMLCanvasElement>(null);
  const k = Math.min(most.w / layout.width, most.h / layout.height);
  const w = Math.max(24, layout.width * k), h = Math.max(16, layout.height * k);
  // It is drawn a frame after the graph.
  useEffect(() => {
    const canvas = ref.current!;
    const ratio = devicePixelRatio;
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    const g = canvas.getContext("2d")!;
    g.scale(ratio * k, ratio * k);
    const colour = colours(canvas.parentElement!);
    let last = "";
    layout.nodes.forEach((n, i) => {
      const state = drawn(i).state;
      const fill = state.key === "none" ? colour["control-line"] : colour[state.hue];
      if (fill !== last) g.fillStyle = last = fill;
      // A node is at least a pixel.
      g.fillRect(n.x, n.y, Math.max(nodeWidth, 1 / k), Math.max(nodeHeight, 1 / k));
    });
  }, [layout, w, h]);
  const go = (e: PointerEvent) => {
    const r = ref.current!.getBoundingClientRect();
    const x = (e.clientX - r.left) / k, y = (e.clientY - r.top) / k;
    onMove({ ...view, x: box.w / 2 - x * view.k, y: box.h / 2 - y * view.k });
  };
  const left = Math.max(0, (-view.x / view.k) * k), top = Math.max(0, (-view.y / view.k) * k);
  const right = Math.min(w, ((box.w - view.x) / view.k) * k), bottom = Math.min(h, ((box.h - view.y) / view.k) * k);
  return (
    <div class="minimap desk" data-minimap aria-hidden="true" style={{ width: `${w}px`, height: `${h}px` }}
      onPointerDown={(e) => (e.stopPropagation(), e.currentTarget.setPointerCapture(e.pointerId), go(e))}
      onPointerMove={(e) => e.buttons & 1 && go(e)}>
      <canvas ref={ref} style={{ width: `${w}px`, height: `${h}px` }} />
      <i style={{ left: `${left}px`, top: `${top}px`, width: `${Math.max(4, right - left)}px`, height: `${Math.max(4, bottom - top)}px` }} />
    </div>
  );
}
