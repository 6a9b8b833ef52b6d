import type { Layout, PlacedEdge, PlacedNode } from "../api/types";
import type { State } from "../ui/state";

// Drawn is what a graph shows of each node, by its place in the layout.
export interface Drawn {
  state: State;
  status: string;
  // share is the part of the items of a map, or of the nodes of a fold, that have ended, 0 to 1.
  share?: { done: number; failed: number };
  attempts: number;
  // count is how many nodes a fold stands for.
  count?: number;
  // title is what pointing at the node says, if that is more than its name.
  title?: string;
}

// Drawing is what is drawn: all nodes of a layout, or its folds.
export interface Drawing {
  width: number;
  height: number;
  nodes: readonly PlacedNode[];
  edges: readonly PlacedEdge[];
}

export interface GraphProps {
  layout: Layout;
  drawn: (i: number) => Drawn;
  selected?: string | undefined;
  onSelect(node: string): void;
  // onFold opens a fold, by its first node.
  onFold?(first: string): void;
  critical?: { nodes: Set<number>; edges: Set<number> } | undefined;
  marked?: Set<number> | undefined;
  // focus is the place of a node that is in view at first.
  focus?: number | undefined;
  // ofRun reports whether the graph is that of a run: whether nodes are open or critical.
  ofRun?: boolean;
  label: string;
}
