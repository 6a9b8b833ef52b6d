import type { NodeNow, Run, Node as RunNode, RunNow } from "../api/types";
import { Icon, type IconName } from "./icon";

// Hue says who has to move: nobody yet, a worker, a person, the clock or an operator, nobody can, and how it ended.
export type Hue = "idle" | "run" | "person" | "held" | "lost" | "ok" | "bad";

export interface State { key: string; word: string; icon: IconName; hue: Hue }

const s = (key: string, word: string, icon: IconName, hue: Hue): State => ({ key, word, icon, hue });

export const states = {
  none: s("none", "Not started", "none", "idle"),
  queued: s("queued", "Queued", "queued", "idle"),
  running: s("running", "Running", "running", "run"),
  children: s("children", "Waiting for children", "running", "run"),
  person: s("person", "Waiting for person", "person", "person"),
  signal: s("signal", "Waiting for signal", "person", "person"),
  late: s("late", "Late answer", "late", "bad"),
  delayed: s("delayed", "Delayed", "delayed", "held"),
  retry: s("retry", "Retrying", "retry", "held"),
  blocked: s("blocked", "Blocked", "blocked", "held"),
  paused: s("paused", "Paused", "paused", "held"),
  unserved: s("unserved", "No worker", "unserved", "lost"),
  succeeded: s("succeeded", "Succeeded", "ok", "ok"),
  failed: s("failed", "Failed", "failed", "bad"),
  cancelled: s("cancelled", "Cancelled", "cancelled", "idle"),
  skipped: s("skipped", "Skipped", "skipped", "idle"),
  expired: s("expired", "Expired", "expired", "lost"),
} as const;

export type StateKey = keyof typeof states;

const byReason: Record<string, StateKey> = {
  upstreams: "none", join: "none", settling: "queued", child_run: "children", signals: "person", escalated: "late",
  worker: "queued", unserved: "unserved", unregistered: "unserved", capability: "unserved", worker_lost: "unserved",
  lease_revoked: "queued", undecodable: "unserved", lane_paused: "paused", activity_paused: "paused", run_paused: "paused",
  operator: "blocked", limit: "blocked", rate_window: "blocked", budget: "blocked", timer: "delayed", delay: "delayed",
  start: "delayed", queue: "queued", retry: "retry", keeper_overdue: "unserved", submission: "queued",
  run_over: "queued", other: "blocked",
};

const byNode: Record<string, StateKey> = {
  completed: "succeeded", failed: "failed", cancelled: "cancelled", expired: "expired", skipped: "skipped",
  active: "running", suspended: "signal", delayed: "delayed", rate_limited: "blocked", waiting: "queued",
  waiting_children: "none",
};

// nodeState returns the state of a node by the API's state and the reason of its wait.
export function nodeState(state: string, reason?: string): State {
  if (reason && byReason[reason]) return states[byReason[reason]];
  return states[byNode[state] ?? "none"];
}

export function stateOfNode(n: RunNode): State {
  const state = nodeState(n.state, n.waiting?.reason);
  const asks = n.waits?.some((w) => w.title || w.question || w.audience?.length);
  return state.key === "person" && n.waits && !asks ? states.signal : state;
}

export const stateNow = (n: NodeNow | undefined): State => (n ? nodeState(n.state, n.waiting) : states.none);

// stateOfRun returns the state of a run: of its node that needs attention most, or how it ended.
export function stateOfRun(run: Pick<Run, "state" | "paused_at" | "closed_at" | "starts_at">, now?: RunNow): State {
  if (run.state !== "running") return states[run.state as StateKey] ?? states.none;
  const byNow = now?.node_state ? nodeState(now.node_state, now.waiting?.reason) : undefined;
  if (byNow && ["person", "late", "unserved", "blocked"].includes(byNow.key)) return byNow;
  if (run.paused_at) return states.paused;
  if (byNow && byNow.key !== "none") return byNow.key === "children" ? states.running : byNow;
  return states.running;
}

export const ended = (state: string) => state !== "running";

export function StateLabel({ state, pill, word }: { state: State; pill?: boolean; word?: string }) {
  return (
    <span class={`st c-${state.hue}${pill ? " pill" : ""}`}>
      <Icon name={state.icon} />
      {word ?? state.word}
    </span>
  );
}
