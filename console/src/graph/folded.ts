// A large graph is drawn folded: nodes that are alike are one.
import type { Layout, PlacedNode } from "../api/types";
import { exact, plural } from "../lib/text";
import type { Hue, State } from "../ui/state";
import type { Drawn, Drawing, GraphProps } from "./drawn";

// foldsOf returns for each node the fold that it is in; undefined for a layout that is not folded.
export function foldsOf(layout: Layout): number[] | undefined {
  if (!layout.folds?.length) return undefined;
  const out: number[] = [];
  layout.folds.forEach((f, i) => f.members!.forEach((m) => (out[m] = i)));
  return out;
}

// drawingOf returns what is drawn of a layout: its nodes, or its folds.
export const drawingOf = (layout: Layout): Drawing => layout.folds?.length
  ? { width: layout.width, height: layout.height, nodes: layout.folds, edges: layout.fold_edges ?? [] }
  : layout;

// worst are hues, the one that is drawn of several first.
const worst: readonly Hue[] = ["bad", "lost", "person", "held", "run", "ok", "idle"];

// together returns the state of several nodes: the one that needs attention most.
export function together(states: readonly State[]): State {
  let best = states[0]!;
  for (const s of states) {
    const a = worst.indexOf(s.hue), b = worst.indexOf(best.hue);
    // Of nodes that have ended and others that have not begun, some are still to run.
    if (a < b && !(s.hue === "ok" && best.key === "none")) best = s;
    else if (s.key === "none" && best.hue === "ok") best = s;
  }
  return best;
}

// counts says how many of several nodes are in each state, the most frequent first.
export function counts(states: readonly State[], most = 2): string {
  const by = new Map<string, number>();
  for (const s of states) by.set(s.word, (by.get(s.word) ?? 0) + 1);
  const list = [...by].sort((a, b) => b[1] - a[1]);
  if (list.length === 1) return `all ${list[0]![0].toLowerCase()}`;
  const text = list.slice(0, most).map(([word, n]) => `${exact(n)} ${word.toLowerCase()}`);
  return [...text, ...(list.length > most ? [`${list.length - most} more`] : [])].join(", ");
}

// drawnFold is what is drawn of a fold.
export function drawnFold(fold: PlacedNode, drawn: (i: number) => Drawn): Drawn {
  const members = fold.members!;
  if (members.length === 1) return drawn(members[0]!);
  const states = members.map((i) => drawn(i).state);
  const ok = states.filter((s) => s.hue === "ok" || s.key === "skipped" || s.key === "cancelled").length;
  const bad = states.filter((s) => s.hue === "bad").length;
  return {
    state: together(states), attempts: 0, count: states.length, status: counts(states, 1),
    title: `${fold.node}: ${plural(states.length, "node")}, ${counts(states, 6)}`,
    share: { done: ok / states.length, failed: bad / states.length },
  };
}

// folded returns the properties of a graph whose layout is folded for its drawing.
export function folded(p: GraphProps): GraphProps & { drawing: Drawing } {
  const { layout } = p;
  const of = foldsOf(layout);
  const drawing = drawingOf(layout);
  if (!of) return { ...p, drawing };
  const names = new Map(layout.nodes.map((n, i) => [n.node, i]));
  const at = p.selected === undefined ? undefined : names.get(p.selected);
  const up = (nodes: Set<number>) => new Set([...nodes].map((i) => of[i]!));
  const pairs = new Set([...(p.critical?.edges ?? [])].map((e) => `${of[layout.edges[e]!.from]} ${of[layout.edges[e]!.to]}`));
  const kept = drawing.edges.flatMap((e, i) => pairs.has(`${e.from} ${e.to}`) ? [i] : []);
  return {
    ...p, drawing,
    drawn: (i) => drawnFold(layout.folds![i]!, p.drawn),
    selected: at === undefined ? undefined : layout.folds![of[at]!]!.node,
    critical: p.critical && { nodes: up(p.critical.nodes), edges: new Set(kept) },
    marked: p.marked && up(p.marked),
    focus: p.focus === undefined ? undefined : of[p.focus],
    onSelect: (name) => {
      const fold = layout.folds!.find((f) => f.node === name)!;
      const first = layout.nodes[fold.members![0]!]!.node;
      if (fold.members!.length > 1) p.onFold?.(first);
      else p.onSelect(first);
    },
  };
}
