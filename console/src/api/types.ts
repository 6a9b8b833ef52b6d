// Types of the HTTP API that the console uses; see openapi.json of module server.
import type { Raw } from "../lib/json";

export type Right = "view" | "payloads:read" | "approve" | "operate" | "administer";

export interface Page<T> { items: T[]; next?: string }

export interface ServerInfo {
  version: string;
  namespace: string;
  engine: string;
  read_only?: boolean;
  principal: { name: string; login: string; rights: Right[] | null; flows?: string };
}

export interface NodeCounts {
  all: number; open: number; failed?: number; cancelled?: number; expired?: number; skipped?: number;
}

export interface Run {
  flow: string; run: string; state: string;
  created_at: string; starts_at?: string; closed_at?: string; paused_at?: string;
  failed_node?: string; nodes: NodeCounts; tags?: Record<string, string>;
}

export interface RunNow {
  flow: string; run: string; state: string;
  node?: string; node_state?: string; waiting?: Explanation; wait?: Wait; message?: string;
  waits?: Record<string, number>; closed_at?: string; paused_at?: string; nodes: NodeCounts;
}

export interface Value {
  codec: string; size: number; json?: Raw; text?: string; data?: string; truncated?: boolean;
}

export interface Explanation {
  reason: string; sentence: string; remedy?: string; since?: string; until?: string; by?: string;
  subject?: string; key?: string; names?: string[]; have?: number; need?: number; detail?: string;
}

export interface Wait {
  id: string; flow: string; run: string; node: string; step?: string; state: string;
  opened_at?: string; timeout_at?: string; on_timeout?: string; escalated?: boolean;
  signals?: string[]; all?: boolean; distinct?: boolean; needed: number; received: number;
  title?: string; question?: string; audience?: string[]; answer_schema?: Raw; tags?: Record<string, string>;
}

export interface Attempt {
  number: number; replay?: number; worker?: string; begun?: string; ended?: string; outcome?: string; error?: string;
  stack?: string; aside?: string; percent?: number; message?: string;
}

export interface Child {
  flow: string; run: string; state?: string; total: number; open: number; succeeded: number;
  failed?: number; expired?: number; cancelled?: number; skipped?: number;
}

export interface RunNode {
  node: string; kind: string; activity?: string; lane?: string; capabilities?: string[]; execution: string;
  state: string; waiting?: Explanation; attempts: number; retries?: number; reclaims?: number; replays?: number;
  worker?: string; percent?: number; message?: string; reason?: string; category?: string;
  created_at?: string; started_at?: string; claimed_at?: string; completed_at?: string; due_at?: string;
  child?: Child; waits?: Wait[]; input?: Value; result?: Value; history?: Attempt[];
}

export interface BudgetAmount { dimension: string; spent: number; reserved: number; hard?: number; soft?: number }

export interface Budget {
  name: string; key?: string; flow?: string; run?: string; effect?: string; reset_every?: string; resets_at?: string;
  set: boolean; used_up?: string; amounts: BudgetAmount[]; breaches: number; soft_breaches: number; resets: number;
}

export interface RunDetail {
  flow: string; run: string; flow_id: string; state: string; failed_node?: string; reason?: string; category?: string;
  started_by?: string; cancel_reason?: string; cancelled_by?: string; created_at: string; starts_at?: string;
  closed_at?: string; deadline_at?: string; memo?: Raw; overdue?: string; no_keeper?: boolean;
  paused_at?: string; paused_by?: string; pause_reason?: string;
  reruns?: number; last_rerun?: { at: string; by?: string; scope: string; nodes: number };
  schedule?: string; fire_at?: string; parent?: string; open_nodes: number; budgets?: Budget[];
  input?: Value; result?: Value; nodes: RunNode[]; next?: string;
}

export interface RunEvent {
  id: string; at: string; kind: string; node?: string; attempt?: number; detail?: string; percent?: number;
  message?: string;
}

export interface PlacedNode {
  node: string; kind: string; text?: string; join?: string; finally?: boolean; x: number; y: number;
}

export interface PlacedEdge { from: number; to: number; kind: string; case?: string; data?: boolean; points: number[] }

export interface NodeNow { state: string; waiting?: string; attempts?: number; started_at?: string; ended_at?: string }

export interface Layout {
  width: number; height: number; nodes: PlacedNode[]; edges: PlacedEdge[]; states?: NodeNow[];
}

export interface Item {
  index: number; name: string; state: string; attempts: number; result?: unknown; reason?: string; category?: string;
}

export interface LogLine {
  cursor: string; attempt: number; at?: string; level: string; message: string; attrs?: Raw; cut?: number;
}

export interface Frame {
  cursor: string; attempt: number; kind: string; at: string; json?: Raw; data?: string; encoding: string;
}

export interface Flow {
  name: string; hash: string; doc?: string; codec: string; input_type: string; result_type: string; nodes: number;
  published_at: string; published_by?: string;
}

export interface FlowDetail extends Flow {
  input_schema?: Raw; result_schema?: Raw;
  history: { hash: string; published_at: string; published_by?: string }[];
}

export interface Fire {
  at: string; until?: string; count: number; done_at?: string; outcome: string; flow?: string; run?: string;
  reason?: string; triggered?: boolean;
}

export interface Schedule {
  name: string; flow: string; cron?: string; time_zone?: string; every?: string; jitter?: string; catch_up?: string;
  overlap?: string; queue_limit?: number; tags?: Record<string, string>; created_at: string; paused_at?: string;
  pause_reason?: string; next_fire?: string; last_fire?: string; last_run?: string; last_run_flow?: string;
  last_run_state?: string; waiting?: number; started: number; skipped: number; missed: number; failed: number;
  history?: Fire[];
}

export interface Lane {
  name: string; paused_at?: string; paused_by?: string; pause_reason?: string;
  eligible: number; delayed: number; active: number; suspended: number;
  blocked: { dependencies: number; budget: number; quota: number; route: number; operator: number }; oldest?: string;
}

export interface Pause { lane?: string; activity?: string; since: string; by?: string; reason?: string }

export interface Limit {
  name: string; key?: string; at_most?: number; per?: string; at_once?: number; set: boolean;
  running: number; started: number; waiting: number;
}

export interface Worker {
  instance: string; name: string; state: string; host?: string; pid?: number;
  build: { path?: string; version?: string; revision?: string; modified?: boolean };
  lanes: string[] | null; activities: string[] | null; capabilities?: string[]; slots: number; used: number;
  since: string; reported_at: string; drain_requested_at?: string; drain_requested_by?: string;
}

export interface BulkAction {
  kind: string; reason?: string; scope?: string; priority?: number; signal?: string;
}

export interface BulkJob {
  id: string; action: BulkAction; query: string; rate?: number; most?: number; actor: string; state: string;
  created_at: string; closed_at?: string; stopped_by?: string;
  progress: {
    done: number; skipped: number; failed: number; failures?: { flow: string; run: string; error: string }[];
  };
}

export interface BulkPreview {
  runs: number; states: Record<string, number>; more?: boolean;
  sample: { flow: string; run: string; state: string; created_at: string }[];
}

export interface RunCount { flow?: string; state?: string; hour?: string; runs: number }

export interface FeedEvent {
  cursor: string; kind: string; flow: string; run: string; child?: boolean; node?: string; detail?: string; at: string;
}

export interface AuditEntry {
  id: string; at: string; actor: string; action: string; name?: string; detail?: string; failure?: string;
}

export interface Finding { code: string; severity: string; subject: string; found: string; remedy?: string }

export interface KeeperTask { name: string; summary: string; every: string }

export interface Token {
  name: string; role: string; rights?: Right[]; flows?: string; created_at: string; created_by?: string;
  expires_at?: string;
}

export interface Signal {
  id: string; name: string; category?: string; source?: string; at: string; counts: boolean; json?: Raw;
}

export interface RunSide { flow: string; run: string; state: string; took?: string; input?: Value; result?: Value }

export interface NodeSide { state: string; attempts: number; took?: string; result?: Value; reason?: string }

export interface Comparison {
  a: RunSide; b: RunSide; input_differs: boolean; result_differs: boolean; graph_differs: boolean;
  nodes: { node: string; a?: NodeSide; b?: NodeSide; differs?: string[] }[];
}

export interface Problem {
  status: number; code: string; title: string; detail?: string; instance?: string; retryable: boolean;
  errors?: { pointer?: string; in?: string; name?: string; message: string }[];
}
