// What is known about how the nodes of a run spent their time, and their states at a moment: by their records and attempts,
// which the page has loaded, and in more detail by the events of the run.
import type { Attempt, NodeNow, PlacedEdge, Event as RunEvent, Node as RunNode } from "../../api/types";
import { nodeState, type StateKey } from "../../ui/state";

// Phase is how a node spends time.
export type Phase = "queued" | "running" | "failed" | "succeeded" | "delay" | "person" | "held" | "children";

export interface Segment { phase: Phase; from: number; to: number; attempt: number; note: string }

export interface NodeHistory { state: StateKey; segments: Segment[]; attempts: number; ended: number }

const ends: Record<string, StateKey> = {
  success: "succeeded", failed: "failed", cancelled: "cancelled", expired: "expired", skipped: "skipped",
};

// aside are the events by which an attempt is put aside, with what the node does then.
const aside: Record<string, [Phase, StateKey]> = {
  suspended: ["person", "person"], sleeping: ["delay", "delayed"], waiting_children: ["children", "children"],
  delayed: ["delay", "delayed"], released: ["queued", "queued"], lease_expired: ["held", "unserved"],
  lease_revoked: ["queued", "queued"],
};

// replay returns the histories of the nodes that the events up to a moment name.
export function replay(events: readonly RunEvent[], until: number): Map<string, NodeHistory> {
  const all = new Map<string, NodeHistory>();
  for (const e of events) {
    const at = Date.parse(e.at);
    if (at > until) break;
    if (!e.node) continue;
    let h = all.get(e.node);
    if (!h) all.set(e.node, (h = { state: "none", segments: [], attempts: 0, ended: 0 }));
    step(h, e, at);
  }
  return all;
}

function step(h: NodeHistory, e: RunEvent, at: number) {
  const begin = (phase: Phase, state: StateKey, note = "") => {
    close(h, at);
    h.state = state;
    h.segments.push({ phase, from: at, to: 0, attempt: e.attempt ?? h.attempts, note });
  };
  if (e.kind === "started" || e.kind === "resumed" || e.kind === "reclaimed") {
    h.attempts = Math.max(h.attempts, e.attempt ?? 0);
    begin("running", "running", e.detail ?? "");
  } else if (e.kind === "retry") {
    close(h, at, "failed", e.detail);
    begin("delay", "retry", e.detail);
  } else if (aside[e.kind]) {
    begin(...aside[e.kind]!, e.detail);
  } else if (ends[e.kind]) {
    h.state = ends[e.kind]!;
    h.ended = at;
    close(h, at, h.state === "succeeded" ? "succeeded" : "failed", e.detail);
  } else if (e.kind === "replayed") {
    h.ended = 0;
    begin("queued", "queued");
  }
}

// close ends the open segment. Of one that ran, the outcome is known then.
function close(h: NodeHistory, at: number, outcome?: "failed" | "succeeded", note?: string) {
  const last = h.segments[h.segments.length - 1];
  if (!last || last.to) return;
  last.to = at;
  if (last.phase !== "running") return;
  if (outcome) last.phase = outcome;
  else last.phase = "succeeded"; // it went on later
  if (note) last.note = note;
}

const held = new Set(["limit", "rate_window", "budget", "lane_paused", "activity_paused", "run_paused", "operator",
  "unserved", "unregistered", "capability"]);

// Recorded is what the record of a node says: in full, or in short for a node of a large run.
export interface Recorded {
  kind: string;
  state: string;
  reason: string | undefined; // of the wait
  since: number;
  attempts: number;
  started: number;
  ended: number;
  opened: number; // of its first wait for signals
  tries: readonly Attempt[];
}

const time = (text: string | undefined) => (text ? Date.parse(text) : 0);

export function recordedOf(kind: string, n: RunNode | undefined, now: NodeNow | undefined): Recorded | undefined {
  if (n) {
    return {
      kind, state: n.state, reason: n.waiting?.reason, since: time(n.waiting?.since), attempts: n.attempts,
      started: time(n.started_at), ended: time(n.completed_at), tries: n.history ?? [],
      opened: Math.min(...(n.waits ?? []).map((w) => time(w.opened_at)).filter(Boolean)) || 0,
    };
  }
  return now && {
    kind, state: now.state, reason: now.waiting, since: 0, attempts: now.attempts ?? 0, started: time(now.started_at),
    ended: time(now.ended_at), opened: 0, tries: [],
  };
}

// waits are the phases of nodes that are put aside, by the reason of the wait.
const waits: Record<string, Phase> = {
  signals: "person", escalated: "person", child_run: "children", retry: "delay", delay: "delay", timer: "delay",
};

const phaseOf = (reason: string | undefined): Phase => waits[reason ?? ""] ?? (held.has(reason ?? "") ? "held" : "queued");

// ofRecord returns the history of a node as its record has it. ready is when the last of its upstreams ended.
export function ofRecord(r: Recorded, ready: number): NodeHistory {
  const h: NodeHistory = { state: nodeState(r.state, r.reason).key as StateKey, segments: [], attempts: r.attempts, ended: r.ended };
  const add = (phase: Phase, from: number, to: number, attempt = r.attempts, note = "") => {
    if (from && (!to || to >= from)) h.segments.push({ phase, from, to, attempt, note });
  };
  if (!r.started && !r.ended && r.tries.length === 0 && !waits[r.reason ?? ""]) return h; // it has not begun, as most have not
  const tries = r.tries.filter((a) => a.begun);
  tries.forEach((a, i) => {
    const from = time(a.begun), to = time(a.ended), next = tries[i + 1];
    if (a.outcome) add(a.outcome === "success" ? "succeeded" : "failed", from, to, a.number, a.error);
    else if (a.aside && r.since > from) (add("succeeded", from, r.since, a.number), add(phaseOf(r.reason), r.since, 0, a.number));
    else add(a.aside ? phaseOf(r.reason) : "running", from, to || (next ? time(next.begun) : r.ended), a.number);
    if (!to) return;
    if (next && (next.replay ?? 0) === (a.replay ?? 0)) add("delay", to, time(next.begun), a.number, a.error);
    else if (!next && !r.ended && h.state !== "none") add(phaseOf(r.reason), Math.max(to, r.since), 0, a.number);
  });
  if (tries.length > 0) return h;
  const since = Math.max(r.since, r.started); // of the wait, if the node was put aside
  if (r.started && !r.ended && r.reason && r.state !== "active") {
    if (since > r.started) add("succeeded", r.started, since);
    add(phaseOf(r.reason), since, 0);
  } else if (r.started) add(r.ended ? (h.state === "succeeded" ? "succeeded" : "failed") : "running", r.started, r.ended);
  else if (r.ended && h.state !== "skipped" && ["waitpoint", "timer"].includes(r.kind)) add(r.kind === "timer" ? "delay" : "person", r.opened || ready, r.ended);
  else if (!r.ended && waits[r.reason ?? ""]) add(waits[r.reason!]!, r.opened || r.since || ready, 0);
  return h;
}

// until returns a history as it was at a moment.
function until(h: NodeHistory, moment: number): NodeHistory {
  if (moment === Infinity) return h;
  const segments = h.segments.filter((s) => s.from <= moment).map((s) => (s.to > moment ? { ...s, to: 0 } : s));
  if (h.ended && h.ended <= moment) return { ...h, segments };
  return { ...h, segments, ended: 0, state: segments.length ? "running" : "none" };
}

// near is how far apart the times of an event and of the record of the same thing may be, in milliseconds.
const near = 50;

// better returns what is known about a node: by the events, unless they have less of it than the record.
export function better(record: NodeHistory | undefined, events: NodeHistory | undefined, moment: number): NodeHistory | undefined {
  if (!record || !events) return events ?? (record && until(record, moment));
  const first = record.segments[0]?.from ?? Infinity;
  const whole = (events.segments[0]?.from ?? Infinity) <= first + near || (events.segments.length === 0 && first > moment);
  if (moment !== Infinity) return whole ? events : until(record, moment);
  return whole && events.attempts >= record.attempts && (!!events.ended || !record.ended) ? events : record;
}

// readyTimes returns when the last upstream of each node ended: the begin of the run for a node without any, 0 for one
// that still waits.
export function readyTimes(edges: readonly PlacedEdge[], begin: number, endOf: (i: number) => number): (i: number) => number {
  const ready: number[] = [];
  for (const e of edges) {
    const ended = endOf(e.from);
    const old = ready[e.to] ?? begin;
    ready[e.to] = ended && old ? Math.max(old, ended) : 0;
  }
  return (i) => ready[i] ?? begin;
}

// lead adds the time between the end of the upstreams of a node and its first attempt.
export function lead(
  n: { node: string; waiting?: RunNode["waiting"] }, h: NodeHistory | undefined, ready: number, now: number,
): Segment[] {
  const first = h?.segments[0];
  const end = first ? first.from : h?.ended ? h.ended : now;
  if (!ready || end - ready < 1) return h?.segments ?? [];
  if (h?.state === "skipped" || (!first && (n.waiting?.reason ?? "upstreams") === "upstreams")) return h?.segments ?? [];
  const blocked = !first && held.has(n.waiting?.reason ?? "");
  return [
    { phase: blocked ? "held" : "queued", from: ready, to: first ? end : 0, attempt: 0, note: n.waiting?.sentence ?? "" },
    ...(h?.segments ?? []),
  ];
}

// Path is the critical path: the nodes and edges that decided, or decide, when the run ends.
export interface Path { nodes: Set<number>; edges: Set<number> }

interface Times { ended: number; started: number; skipped: boolean }

// criticalPath walks back from the last node by the upstream that kept it waiting longest.
export function criticalPath(edges: readonly PlacedEdge[], times: readonly Times[]): Path {
  const path: Path = { nodes: new Set(), edges: new Set() };
  const into: number[][] = [];
  const out = new Set<number>();
  edges.forEach((e, i) => {
    (into[e.to] ??= []).push(i);
    if (!times[e.to]!.skipped) out.add(e.from);
  });
  const weight = (i: number) => {
    const t = times[i]!;
    if (t.skipped) return -1;
    if (t.ended) return t.ended;
    return t.started ? 4e15 - t.started : 3e15; // an open node decides; the longest one first
  };
  let at = -1;
  times.forEach((t, i) => {
    if (!t.skipped && !out.has(i) && (at < 0 || weight(i) > weight(at))) at = i;
  });
  while (at >= 0 && !path.nodes.has(at)) {
    path.nodes.add(at);
    let best = -1;
    for (const e of into[at] ?? []) {
      const w = weight(edges[e]!.from);
      if (w >= 0 && (best < 0 || w > weight(edges[best]!.from))) best = e;
    }
    if (best < 0) break;
    path.edges.add(best);
    at = edges[best]!.from;
  }
  return path;
}

// downstream returns the nodes that a rerun from a node runs again: it and all behind it.
export function downstream(edges: readonly PlacedEdge[], from: number): Set<number> {
  const next: number[][] = [];
  for (const e of edges) (next[e.from] ??= []).push(e.to);
  const found = new Set([from]);
  for (const at of found) for (const to of next[at] ?? []) found.add(to);
  return found;
}
