import { memo } from "./memo";
import { useRef } from "preact/hooks";
import type { PlacedEdge, PlacedNode } from "../api/types";
import { exact, middle } from "../lib/text";
import { shapes } from "../ui/icon";
import { nodeHeight, nodeWidth, rounded, type View } from "./geometry";
import type { Drawing, Drawn, GraphProps } from "./drawn";

type Props = GraphProps & { drawing: Drawing; view: View; only: "all" | "open" | "critical" };

const open = (d: Drawn) => ["run", "person", "held", "lost"].includes(d.state.hue) || d.state.key === "queued";

// SvgGraph draws a graph with a button for each node: one tab stop, arrows move inside.
export function SvgGraph({ drawing: layout, drawn, selected, onSelect, critical, marked, view, only, label }: Props) {
  const group = useRef<SVGGElement>(null);
  const all = layout.nodes.map((_, i) => drawn(i));
  const dim = (i: number) =>
    (only === "open" && !open(all[i]!)) || (only === "critical" && !critical?.nodes.has(i));
  const current = Math.max(0, layout.nodes.findIndex((n) => n.node === selected));
  const keys = (e: KeyboardEvent) => {
    const at = layout.nodes.findIndex((n) => n.node === (e.target as Element).getAttribute("data-node"));
    const to = at < 0 ? -1 : neighbour(layout, at, e.key);
    if (to < 0) return;
    e.preventDefault();
    e.stopPropagation();
    (group.current?.children[to] as SVGGElement | undefined)?.focus();
  };
  return (
    <svg class="graph" role="group" aria-label={`${label}. The tab Table shows the same.`} onKeyDown={keys}>
      <g transform={`translate(${view.x} ${view.y}) scale(${view.k})`}>
        <g aria-hidden="true">
          {layout.edges.map((e, i) => (
            <Edge key={i} edge={e} kind={edgeKind(e, i, all, critical)} dim={dim(e.from) || dim(e.to)} />
          ))}
        </g>
        <g ref={group}>
          {layout.nodes.map((n, i) => (
            <NodeBox key={n.node} node={n} drawn={all[i]!} selected={n.node === selected} dim={dim(i)}
              marked={!!marked?.has(i)} tab={i === current} after={upstreams(layout, i)} onSelect={onSelect}
              labels={view.k >= 0.35} status={view.k >= 0.7} />
          ))}
        </g>
      </g>
    </svg>
  );
}

function upstreams(layout: Drawing, i: number): string {
  const names = layout.edges.filter((e) => e.to === i).map((e) => layout.nodes[e.from]!.node);
  return names.length ? `, after ${names.slice(0, 4).join(", ")}` : "";
}

function edgeKind(e: PlacedEdge, i: number, all: Drawn[], critical: GraphProps["critical"]): string {
  const from = all[e.from]!.state.key;
  const to = all[e.to]!.state.key;
  if (to === "skipped" || from === "skipped") return "skip";
  if (critical?.edges.has(i)) return to === "none" ? "crit next" : "crit";
  if (e.kind === "on_failure") return "fail";
  return to === "none" ? "next" : "";
}

const Edge = memo(({ edge, kind, dim }: { edge: PlacedEdge; kind: string; dim: boolean }) => {
  const p = edge.points ?? [];
  const x = p[p.length - 2]!;
  const y = p[p.length - 1]!;
  const line = [...p.slice(0, -2), x - 5, y];
  return (
    <g class={`edge ${kind}${dim ? " dim" : ""}`}>
      <path d={rounded(line)} />
      <path class={edge.data ? "head" : "head hollow"} d={`M${x - 7} ${y - 3.5}L${x} ${y}L${x - 7} ${y + 3.5}z`} />
      {edge.case && <text class="case" x={x - 12} y={y - 4} text-anchor="end">{middle(edge.case, 18)}</text>}
    </g>
  );
});

interface BoxProps {
  node: PlacedNode; drawn: Drawn; selected: boolean; marked: boolean; dim: boolean; tab: boolean; after: string;
  labels: boolean; status: boolean; onSelect(node: string): void;
}

const NodeBox = memo(({ node, drawn, selected, marked, dim, tab, after, onSelect, labels, status }: BoxProps) => {
  const { state } = drawn;
  const nested = !!drawn.count || ["map", "sub_flow", "loop", "expansion"].includes(node.kind);
  const height = node.height ?? nodeHeight;
  const middleY = (height - nodeHeight) / 2;
  const press = (e: KeyboardEvent) => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    onSelect(node.node);
  };
  return (
    <g class={`gnode s-${state.key} c-${state.hue}${dim ? " dim" : ""}`} transform={`translate(${node.x} ${node.y})`}
      role="button" tabIndex={tab ? 0 : -1} data-node={node.node} data-state={state.key} aria-pressed={selected}
      aria-label={`${drawn.title ?? `${node.node}, ${state.word.toLowerCase()}${drawn.status ? `, ${drawn.status}` : ""}`}${after}`}
      onClick={() => onSelect(node.node)} onKeyDown={press}>
      <title>{drawn.title ?? node.node}</title>
      {selected && <rect class="gsel" x="-4" y="-4" width={nodeWidth + 8} height={height + 8} rx="10" />}
      {marked && <rect class="gmark" x="-4" y="-4" width={nodeWidth + 8} height={height + 8} rx="10" />}
      {nested && <rect class="sheet" x="5" y="-5" width={nodeWidth} height={height} rx="7" />}
      <rect class="box" width={nodeWidth} height={height} rx="7" />
      <g transform={middleY ? `translate(0 ${middleY})` : undefined}>
      {drawn.share ? <Ring share={drawn.share} /> : (
        <svg x="9" y="15" width="16" height="16" viewBox="0 0 16 16"
          dangerouslySetInnerHTML={{ __html: shapes[state.icon] }} />
      )}
      {labels && <text aria-hidden="true" class="name" x="33" y={status ? 20 : 27}>{middle(node.node, 15)}</text>}
      {status && <text aria-hidden="true" class="status" x="33" y="36">{middle(drawn.status || state.word.toLowerCase(), 17)}</text>}
      {drawn.attempts > 1 && <text class="times" x={nodeWidth - 8} y="20" text-anchor="end">{drawn.attempts}×</text>}
      </g>
      {drawn.count && <text class="times strong" x={nodeWidth + 4} y="-9" text-anchor="end">×{exact(drawn.count)}</text>}
      {node.join && <text class="times" x="0" y="-4">{node.join}</text>}
    </g>
  );
});

// Ring shows the shares of the items of a map that succeeded and failed.
function Ring({ share }: { share: { done: number; failed: number } }) {
  const around = 2 * Math.PI * 6;
  const arc = (part: number, from: number) => ({
    "stroke-dasharray": `${part * around} ${around}`, transform: `rotate(${from * 360 - 90} 17 23)`,
  });
  return (
    <>
      <circle class="ring" cx="17" cy="23" r="6" />
      <circle class="ring ok" cx="17" cy="23" r="6" {...arc(share.done, 0)} />
      {share.failed > 0 && <circle class="ring bad" cx="17" cy="23" r="6" {...arc(share.failed, share.done)} />}
    </>
  );
}

// neighbour returns the node that an arrow key leads to: along edges, or up and down in a layer.
function neighbour(layout: Drawing, at: number, key: string): number {
  const here = layout.nodes[at]!;
  const near = (list: number[]) =>
    list.sort((a, b) => Math.abs(layout.nodes[a]!.y - here.y) - Math.abs(layout.nodes[b]!.y - here.y))[0] ?? -1;
  switch (key) {
    case "ArrowRight":
      return near(layout.edges.filter((e) => e.from === at).map((e) => e.to));
    case "ArrowLeft":
      return near(layout.edges.filter((e) => e.to === at).map((e) => e.from));
    case "ArrowUp":
    case "ArrowDown": {
      const down = key === "ArrowDown";
      const column = layout.nodes.map((_, i) => i).filter((i) => {
        const n = layout.nodes[i]!;
        return n.x === here.x && (down ? n.y > here.y : n.y < here.y);
      });
      return near(column);
    }
    default:
      return -1;
  }
}
