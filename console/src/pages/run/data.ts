// What the page of a run loads and follows.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import { foldsOf } from "../../graph/folded";
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
  // log says whether the events are there. What the page shows of nodes and times does not depend on them.
  log: "loading" | "present" | "unavailable";
  // timed reports whether the states of all nodes are known, and so when each of them began and ended.
  timed: boolean;
  // folds are the folds that the nodes are in, by their places; undefined for a graph that is drawn as it is.
  folds: readonly number[] | undefined;
  // places are the places of the nodes in the layout by their names.
  places: ReadonlyMap<string, number>;
  // nodes are the nodes that are described in full, by their names.
  nodes: ReadonlyMap<string, RunNode>;
  stateAt(i: number): State;
  reload(): void;
}

// foldBeyond is how many nodes are drawn one by one, unless the reader wants all of them.
export const foldBeyond = 200;

// wrapAt is the width at which a graph continues in another row: that of the window, without what is beside the graph.
export function wrapAt(beside: number): number {
  const bars = innerWidth > 640 ? 56 : 0;
  return Math.max(320, Math.floor((innerWidth - bars - beside) / 20) * 20);
}

// patience is how long the first event may take, in milliseconds, until the page says that there are none. Every run has
// one, so a stream without any is one that something on its way holds back.
const patience = 5_000;

// later passes data on in another task, so that a frame can be drawn between parsing and rendering them.
const later = <T,>(data: T) => new Promise<T>((done) => setTimeout(done, 0, data));

export function useRun(flow: string, id: string, all: boolean, beside: number): RunData {
  const path = runPath(flow, id);
  const [wrap] = useState(() => wrapAt(beside));
  const how = { ...(all ? {} : { fold: foldBeyond }), wrap };
  const run = useLoad<RunDetail>((s) => get(path, { attempts: true }, s), [flow, id]);
  const placed = useLoad<Layout>((s) => get([...path, "layout"], how, s), [flow, id, all]);
  const large = (placed.data?.nodes.length ?? 0) > fullMost;
  // The graph of a large run is drawn before the states of its nodes are there.
  const states_ = useLoad<Layout | null>(
    (s) => large ? get([...path, "layout"], { ...how, states: true }, s).then(later) : Promise.resolve(null), [flow, id, large, all]);
  const layout = useMemo<Loaded<Layout>>(() => ({
    ...placed, reload: states_.reload,
    data: placed.data && { ...placed.data, ...(states_.data?.states && { states: states_.data.states }) },
  }), [placed.data, placed.error, states_.data]);
  const [events, setEvents] = useState<readonly RunEvent[]>([]);
  const [log, setLog] = useState<RunData["log"]>("loading");
  const held = useRef<RunEvent[]>([]);
  const timer = useRef(0);

  useEffect(() => {
    held.current = [];
    setEvents([]);
    setLog("loading");
    const late = window.setTimeout(setLog, patience, "unavailable");
    const flush = () => {
      timer.current = 0;
      const more = held.current;
      held.current = [];
      if (more.length === 0) return;
      clearTimeout(late);
      setLog("present");
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
      onConnection: (c) => {
        if (c.state === "lost" || c.state === "failed") setLog((old) => old === "present" ? old : "unavailable");
      },
    });
    return () => {
      stop();
      clearTimeout(late);
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [flow, id, large, restartOf(run.data)]);

  // The events of a run end with it; the feed tells when it goes on, is paused, or is gone.
  useFeed((all) => {
    if (all.some((e) => e.kind === "caught_up" || (e.flow === flow && e.run === id))) run.reload();
  });

  // Without events, a run that is open is read again from time to time.
  const blind = log === "unavailable" && run.data?.state === "running";
  useEffect(() => {
    if (!blind) return;
    const every = setInterval(() => document.hidden || (run.reload(), large && layout.reload()), 5_000);
    return () => clearInterval(every);
  }, [blind, large]);

  const folds = useMemo(() => layout.data && foldsOf(layout.data), [layout.data?.nodes, layout.data?.folds]);
  const timed = !!layout.data && !!run.data && (!!layout.data.states || run.data.nodes.length >= layout.data.nodes.length);
  const places = useMemo(
    () => new Map(layout.data?.nodes.map((n, i) => [n.node, i])), [layout.data?.nodes]);
  const nodes = useMemo(() => new Map(run.data?.nodes.map((n) => [n.node, n])), [run.data]);
  const stateAt = (i: number): State => {
    const node = layout.data?.nodes[i]?.node;
    const n = node !== undefined ? nodes.get(node) : undefined;
    return n ? stateOfNode(n) : stateNow(layout.data?.states?.[i] as NodeNow | undefined) ?? states.none;
  };
  return { run, layout, events, log, timed, folds, places, nodes, stateAt, reload: () => (run.reload(), layout.reload()) };
}

// restartOf changes when a run that was over goes on: its events are followed again then.
const restartOf = (run: RunDetail | undefined) => run?.reruns ?? 0;

// merged appends events. Of the progress of a node only the last one is kept.
function merged(old: readonly RunEvent[], more: RunEvent[]): readonly RunEvent[] {
  const ids = new Set(old.map((e) => e.id));
  return [...old, ...more.filter((e) => !ids.has(e.id))];
}
