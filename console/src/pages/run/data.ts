// What the page of a run loads and follows.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import { follow } from "../../api/stream";
import type { RunLayout as Layout, NodeNow, RunDetail, Event as RunEvent, Node as RunNode } from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad, type Loaded } from "../../app/load";
import { runPath } from "../../app/router";
import { stateNow, stateOfNode, type State, states } from "../../ui/state";

// largeMost is how many nodes are described in full. Of more, only states and the nodes that are looked at are.
export const fullMost = 500;

export interface RunData {
  run: Loaded<RunDetail>;
  layout: Loaded<Layout>;
  events: readonly RunEvent[];
  // places are the places of the nodes in the layout by their names.
  places: ReadonlyMap<string, number>;
  // nodes are the nodes that are described in full, by their names.
  nodes: ReadonlyMap<string, RunNode>;
  stateAt(i: number): State;
  reload(): void;
}

export function useRun(flow: string, id: string): RunData {
  const path = runPath(flow, id);
  const run = useLoad<RunDetail>((s) => get(path, { attempts: true }, s), [flow, id]);
  const placed = useLoad<Layout>((s) => get([...path, "layout"], {}, s), [flow, id]);
  const large = (placed.data?.nodes.length ?? 0) > fullMost;
  // The graph of a large run is drawn before the states of its nodes are there.
  const states_ = useLoad<Layout | null>(
    (s) => large ? get([...path, "layout"], { states: true }, s) : Promise.resolve(null), [flow, id, large]);
  const layout = useMemo<Loaded<Layout>>(() => ({
    ...placed, reload: states_.reload,
    data: placed.data && { ...placed.data, ...(states_.data?.states && { states: states_.data.states }) },
  }), [placed.data, placed.error, states_.data]);
  const [events, setEvents] = useState<readonly RunEvent[]>([]);
  const held = useRef<RunEvent[]>([]);
  const timer = useRef(0);

  useEffect(() => {
    held.current = [];
    setEvents([]);
    const flush = () => {
      timer.current = 0;
      const more = held.current;
      held.current = [];
      if (more.length === 0) return;
      setEvents((old) => merged(old, more));
      run.reload();
      if (large) layout.reload();
    };
    const seen = new Set<string>();
    const stop = follow([...path, "events"], {
      onItem: (e) => {
        if (e.kind !== "progress" && seen.has(e.id)) return;
        seen.add(e.id);
        held.current.push(e);
        timer.current ||= window.setTimeout(flush, 250);
      },
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [flow, id, large, restartOf(run.data)]);

  // The events of a run end with it; the feed tells when it goes on, is paused, or is gone.
  useFeed((all) => {
    if (all.some((e) => e.kind === "caught_up" || (e.flow === flow && e.run === id))) run.reload();
  });

  const places = useMemo(
    () => new Map(layout.data?.nodes.map((n, i) => [n.node, i])), [layout.data?.nodes]);
  const nodes = useMemo(() => new Map(run.data?.nodes.map((n) => [n.node, n])), [run.data]);
  const stateAt = (i: number): State => {
    const node = layout.data?.nodes[i]?.node;
    const n = node !== undefined ? nodes.get(node) : undefined;
    return n ? stateOfNode(n) : stateNow(layout.data?.states?.[i] as NodeNow | undefined) ?? states.none;
  };
  return { run, layout, events, places, nodes, stateAt, reload: () => (run.reload(), layout.reload()) };
}

// restartOf changes when a run that was over goes on: its events are followed again then.
const restartOf = (run: RunDetail | undefined) => run?.reruns ?? 0;

// merged appends events. Of the progress of a node only the last one is kept.
function merged(old: readonly RunEvent[], more: RunEvent[]): readonly RunEvent[] {
  const ids = new Set(old.map((e) => e.id));
  return [...old, ...more.filter((e) => !ids.has(e.id))];
}
