import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../ui/icon";
import { CanvasGraph } from "./canvas";
import type { GraphProps } from "./drawn";
import { folded } from "./folded";
import { fit, readable, type View, zoom } from "./geometry";
import { MiniMap } from "./minimap";
import { SvgGraph } from "./svg";

// svgMost is how many nodes are drawn as SVG. More are drawn on a canvas.
const svgMost = 300;

// Graph draws a graph that can be moved and enlarged. It is laid out once; only states change.
export function Graph(given: GraphProps) {
  const { ofRun } = given;
  const props = useMemo(() => folded(given), [given]);
  const { drawing, focus } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<View>({ x: 0, y: 0, k: 1 });
  const [size, setSize] = useState({ w: 0, h: 0 });
  const [only, setOnly] = useState<"all" | "open" | "critical">("all");
  const large = drawing.nodes.length > svgMost;
  const latest = useRef(view);
  latest.current = view;
  const fitAll = () => {
    const b = box.current!;
    setView(fit(drawing.width, drawing.height, b.clientWidth, b.clientHeight));
  };
  const moved = useRef(false);
  const show = useRef(() => {});
  show.current = () => {
    const b = box.current!;
    setSize({ w: b.clientWidth, h: b.clientHeight });
    if (moved.current) return;
    setView(readable(drawing.width, drawing.height, b.clientWidth, b.clientHeight, focus === undefined ? undefined : drawing.nodes[focus]));
  };
  useLayoutEffect(() => {
    moved.current = false;
    show.current();
    const watch = new ResizeObserver(() => show.current());
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [drawing.nodes]);
  const change = (v: View) => {
    moved.current = true;
    setView(v);
  };
  useEffect(() => move(box.current!, () => latest.current, change), []);
  const by = (factor: number) => {
    const b = box.current!;
    change(zoom(view, factor, b.clientWidth / 2, b.clientHeight / 2));
  };
  return (
    <div class="canvas" ref={box} data-graph={large ? "canvas" : "svg"}>
      {large ? <CanvasGraph {...props} view={view} only={only} /> : <SvgGraph {...props} view={view} only={only} />}
      <div class="tools">
        {ofRun && <span class="seg" role="group" aria-label="What the graph shows">
          {(["all", "open", "critical"] as const).map((key) => (
            <button key={key} type="button" class={only === key ? "on" : ""} aria-pressed={only === key}
              onClick={() => setOnly(key)}>{{ all: "All", open: "Open", critical: "Critical path" }[key]}</button>
          ))}
        </span>}
        <span class="seg desk" role="group" aria-label="Zoom">
          <button type="button" aria-label="Smaller" onClick={() => by(1 / 1.25)}>−</button>
          <button type="button" onClick={() => by(1 / view.k)} aria-label="Full size">{Math.round(view.k * 100)} %</button>
          <button type="button" aria-label="Larger" onClick={() => by(1.25)}>+</button>
        </span>
        <button type="button" class="btn icon" aria-label="Fit the graph" onClick={() => ((moved.current = true), fitAll())}><Icon name="fit" /></button>
      </div>
      {size.w > 0 && (drawing.width * view.k > size.w || drawing.height * view.k > size.h) && <MiniMap layout={drawing} drawn={props.drawn} view={view} box={size} onMove={change} />}
      {ofRun && (
        <div class="legend desk" aria-hidden="true">
          <span><i class="k-crit" />critical path</span>
          <span><i class="k-skip" />skipped</span>
          <span><i class="k-fail" />on failure</span>
        </div>
      )}
    </div>
  );
}

// move pans by dragging and scrolling, and zooms with Ctrl and the wheel.
function move(box: HTMLElement, view: () => View, set: (v: View) => void): () => void {
  const wheel = (e: WheelEvent) => {
    e.preventDefault();
    const v = view();
    const r = box.getBoundingClientRect();
    if (e.ctrlKey) return set(zoom(v, Math.exp(-e.deltaY / 200), e.clientX - r.left, e.clientY - r.top));
    set({ ...v, x: v.x - (e.shiftKey ? e.deltaY : e.deltaX), y: v.y - (e.shiftKey ? 0 : e.deltaY) });
  };
  const down = (e: PointerEvent) => {
    if (e.button !== 0 || (e.target as Element).closest("button,[role=button],.tools,.minimap")) return;
    const from = { x: e.clientX, y: e.clientY, view: view() };
    const drag = (m: PointerEvent) =>
      set({ ...from.view, x: from.view.x + m.clientX - from.x, y: from.view.y + m.clientY - from.y });
    const up = () => {
      removeEventListener("pointermove", drag);
      removeEventListener("pointerup", up);
    };
    addEventListener("pointermove", drag);
    addEventListener("pointerup", up);
  };
  box.addEventListener("wheel", wheel, { passive: false });
  box.addEventListener("pointerdown", down);
  return () => {
    box.removeEventListener("wheel", wheel);
    box.removeEventListener("pointerdown", down);
  };
}
