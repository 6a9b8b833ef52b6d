import { useMemo } from "preact/hooks";
import { states, type State } from "../../ui/state";
import type { RunData } from "./data";
import { criticalPath, replay } from "./history";

// View is the run at the moment that is looked at.
export interface View {
  now: number;
  past: boolean;
  state(i: number): State;
  history: ReturnType<typeof replay>;
  critical: ReturnType<typeof criticalPath>;
}

// useView returns the view at a moment, or at the present one.
export function useView(data: RunData, at: string | null): View {
  const moment = at ? Date.parse(at) : Infinity;
  const history = useMemo(() => replay(data.events, moment), [data.events, moment]);
  const layout = data.layout.data;
  const states_ = layout?.nodes.map((n, i) => at ? states[history.get(n.node)?.state ?? "none"] : data.stateAt(i)) ?? [];
  const key = states_.map((s) => s.key).join();
  const critical = useMemo(() => layout ? criticalPath(layout.edges, layout.nodes.map((n, i) => {
    const h = history.get(n.node);
    const now = layout.states?.[i];
    return {
      skipped: states_[i]!.key === "skipped",
      ended: h?.ended || (now?.ended_at && !at ? Date.parse(now.ended_at) : 0),
      started: h?.segments[0]?.from ?? 0,
    };
  })) : { nodes: new Set<number>(), edges: new Set<number>() }, [layout, history, key]);
  return { now: Math.min(moment, Date.now()), past: !!at, state: (i) => states_[i] ?? states.none, history, critical };
}
