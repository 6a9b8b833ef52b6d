import type { Layout } from "../api/types";
import type { State } from "../ui/state";

// Drawn is what a graph shows of each node, by its place in the layout.
export interface Drawn {
  state: State;
  status: string;
  // share is the part of the items of a map that have ended, 0 to 1.
  share?: { done: number; failed: number };
  attempts: number;
}

export interface GraphProps {
  layout: Layout;
  drawn: (i: number) => Drawn;
  selected?: string | undefined;
  onSelect(node: string): void;
  critical?: { nodes: Set<number>; edges: Set<number> } | undefined;
  marked?: Set<number> | undefined;
  legend?: boolean;
  label: string;
}
