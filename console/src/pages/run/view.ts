import { useMemo } from "preact/hooks";
import { states, type State } from "../../ui/state";
import type { RunData } from "./data";
import { better, criticalPath, ofRecord, readyTimes, recordedOf, replay, type NodeHistory } from "./history";

// View is the run at the moment that is looked at.
export interface View {
  now: number;
  past: boolean;
  state(i: number): State;
  history: Map<string, NodeHistory>;
  critical: ReturnType<typeof criticalPath>;
}

// useView returns the view at a moment, or at the present one.
export function useView(data: RunData, at: string | null): View {
  const moment = at ? Date.parse(at) : Infinity;
  const layout = data.layout.data;
  const records = useMemo(() => recordsOf(data), [data.run.data, layout]);
  const history = useMemo(() => {
    const events = replay(data.events, moment);
    // Now, only the nodes with events are compared with their records.
    const all: View["history"] = new Map(at ? [] : records);
    for (const name of at ? new Set([...records.keys(), ...events.keys()]) : events.keys()) {
      const h = better(records.get(name), events.get(name), moment);
      if (h) all.set(name, h);
    }
    return all;
  }, [data.events, records, moment]);
  const states_ = layout?.nodes.map((n, i) => at ? states[history.get(n.node)?.state ?? "none"] : data.stateAt(i)) ?? [];
  const key = states_.map((s) => s.key).join();
  // There is no critical path before there are times.
  const critical = useMemo(() => layout && data.timed ? criticalPath(layout.edges, layout.nodes.map((n, i) => {
    const h = history.get(n.node);
    return { skipped: states_[i]!.key === "skipped", ended: h?.ended ?? 0, started: h?.segments[0]?.from ?? 0 };
  })) : { nodes: new Set<number>(), edges: new Set<number>() }, [layout, data.timed, history, key]);
  return { now: Math.min(moment, Date.now()), past: !!at, state: (i) => states_[i] ?? states.none, history, critical };
}

// recordsOf returns the histories of the nodes as their records have them.
function recordsOf(data: RunData): View["history"] {
  const all: View["history"] = new Map();
  const layout = data.layout.data;
  const run = data.run.data;
  if (!layout || !run) return all;
  const records = layout.nodes.map((n, i) => recordedOf(n.kind, data.nodes.get(n.node), layout.states?.[i]));
  const ready = readyTimes(layout.edges, Date.parse(run.starts_at ?? run.created_at), (i) => records[i]?.ended ?? 0);
  layout.nodes.forEach((n, i) => {
    const r = records[i];
    if (r) all.set(n.node, ofRecord(r, ready(i)));
  });
  return all;
}
