// Code generated from the table of operations by `make generate`. DO NOT EDIT.
//
// Types of the HTTP API: the schemas of openapi.json, then what each operation takes and returns, then the table.
import type { Raw } from "../lib/raw";

/** A page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; absent on the last one. */
  next?: string;
  /** Older items may be missing: the index of the words keeps the newest runs. */
  incomplete?: boolean;
}

/** A page of a stream. */
export interface Events<T> {
  items: T[];
  /** Cursor after the last item. */
  next?: string;
  /** Nothing follows. */
  end?: boolean;
}

export interface ActivityReasonInputBody {
  reason?: string;
}

export interface AppendFramesInputBody {
  frames: TaskFrame[];
}

export interface AppendLogsInputBody {
  lines: TaskLine[];
}

export interface Attempt {
  number: number;
  replay?: number;
  worker?: string;
  build?: Build;
  begun?: string;
  ended?: string;
  outcome?: string;
  error?: string;
  category?: string;
  stack?: string;
  aside?: string;
  percent?: number;
  message?: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  actor: string;
  action: string;
  name?: string;
  detail?: string;
  /** Why the action was not carried out, or not all of it. */
  failure?: string;
}

export interface Backfill {
  /** The next time. */
  from: string;
  until: string;
  overlap: string;
}

export interface BackfillScheduleInputBody {
  /** First time, inclusive. */
  from: string;
  /** Last time, inclusive, in the past. */
  until: string;
  /** queue: each run starts when the one before has ended, which is the default; allow: all at once. */
  overlap?: "queue" | "allow";
}

export interface Backfilled {
  /** Times of the interval whose runs keepers start. */
  times: number;
}

export interface Budget {
  name: string;
  key?: string;
  flow?: string;
  run?: string;
  flow_id?: string;
  effect?: string;
  reset_every?: string;
  resets_at?: string;
  /** An operator has set its limits. */
  set: boolean;
  /** Why nodes that use it do not start. */
  used_up?: string;
  amounts: BudgetAmount[];
  breaches: number;
  soft_breaches: number;
  resets: number;
}

export interface BudgetAmount {
  dimension: string;
  spent: number;
  reserved: number;
  hard?: number;
  soft?: number;
}

export interface BudgetHistory {
  /** The oldest first; none of budgets of runs. */
  samples: BudgetSample[];
}

export interface BudgetSample {
  at: string;
  /** By dimension. */
  spent: Record<string, number>;
}

export interface BudgetSettings {
  /** Hard limit of each dimension; 0 is none. */
  hard?: Record<string, number>;
  /** Soft limit of each dimension; 0 is none. */
  soft?: Record<string, number>;
  /** Interval after which the usage becomes 0; never if absent. */
  reset_every?: string;
  /** Effect of a hard limit: fail, block or cancel; fail if absent. */
  effect?: string;
}

export interface BudgetUse {
  /** Reservations that are open. */
  reserving: number;
  /** Nodes that wait until the budget has room. */
  waiting: number;
  /** The largest reservations. */
  reserved: Reservation[];
  /** Nodes that wait, those with the highest priority first. */
  queue: PlaceUse[];
}

export interface Build {
  package?: string;
  path?: string;
  version?: string;
  revision?: string;
  modified?: boolean;
  library?: string;
}

export interface BulkAction {
  kind: string;
  reason?: string;
  scope?: string;
  priority?: number;
  signal?: string;
  payload?: unknown;
}

export interface BulkFailure {
  flow: string;
  run: string;
  error: string;
}

export interface BulkInputBody {
  /** Selects the runs, with the parameters of list-runs: flow=order&state=failed. */
  query?: string;
  /** Required if the query selects all runs. */
  every_run?: boolean;
  action: BulkAction;
  /** Id of the job; the same job again with the same id has no further effect. */
  id?: string;
  /** Most runs a second; 0 sets no bound. */
  rate?: number;
  /** Most runs; 0 is all. */
  most?: number;
}

export interface BulkJob {
  id: string;
  action: BulkAction;
  query: string;
  rate?: number;
  most?: number;
  actor: string;
  state: string;
  created_at: string;
  closed_at?: string;
  stopped_by?: string;
  progress: BulkProgress;
}

export interface BulkPreview {
  runs: number;
  states: Record<string, number>;
  sample: Run[];
  /** There are more runs than were counted. */
  more?: boolean;
}

export interface BulkProgress {
  done: number;
  skipped: number;
  failed: number;
  failures?: BulkFailure[];
}

export interface CancelRunInputBody {
  reason?: string;
  /** Let running nodes finish. */
  pending_only?: boolean;
}

export interface CancelWaitInputBody {
  reason?: string;
}

export interface ChildRun {
  /** Of a loop, the number of the turn, from 1 on. */
  turn?: number;
  flow: string;
  run: string;
  flow_id?: string;
  state?: string;
  total: number;
  open: number;
  succeeded: number;
  failed?: number;
  expired?: number;
  cancelled?: number;
  skipped?: number;
}

export interface ClaimTaskInputBody {
  /** Name of the process that claims. It is unique to the process, such as host and process id. */
  worker: string;
  /** Names of the activities that the worker runs. */
  activities: string[];
  /** Lanes that the worker serves; absent for the lane default. */
  lanes?: string[];
  /** Capabilities that the worker offers to nodes that require some. */
  capabilities?: string[];
  /** Most tasks of this worker at a time; absent for 16. */
  slots?: number;
  /** How long a task stays with the worker without renewal, 300ms to 1h; absent for 30s. */
  lease?: string;
  /** How long to wait for a task, at most 30s. */
  wait?: string;
}

export interface ClaimedTask {
  /** Instance of the worker, as in list-workers. */
  instance: string;
  /** The task; absent if there was none in time. */
  task?: Task;
}

export interface CompleteTaskInputBody {
  /** The result of the activity; null for none. */
  result: unknown;
}

export interface CreateTokenInputBody {
  /** Is part of URLs: no white space, control characters and slashes, and neither . nor .. */
  name: string;
  role: Role;
  rights?: ("approve" | "payloads:read" | "work")[];
  flows?: string;
  /** How long it is valid; absent for ever. */
  expires?: string;
}

export interface CreatedToken {
  name: string;
  role: Role;
  /** Rights in addition to the rights of the role. */
  rights?: ("approve" | "payloads:read" | "work")[];
  /** Pattern of the flows that it may see and act on, such as billing-*; absent for all. */
  flows?: string;
  created_at: string;
  created_by?: string;
  expires_at?: string;
  /** The token. It cannot be shown again. */
  text: string;
}

export interface Drawing {
  format: string;
  text: string;
}

export interface EditScheduleInputBody {
  /** Replaces the whole timetable of the schedule. */
  timing?: Timing;
  input?: unknown;
  catch_up?: string;
  overlap?: string;
  queue_limit?: number;
  fire_time_field?: string;
  /** Replaces all tags. */
  tags?: Record<string, string>;
}

export interface Event {
  id: string;
  at: string;
  kind: string;
  node?: string;
  attempt?: number;
  detail?: string;
  category?: string;
  percent?: number;
  message?: string;
}

export interface ExceededBudget {
  budget: string;
  key?: string;
  dimension: string;
  asked: number;
  spent: number;
  reserved: number;
  hard: number;
}

export interface Execution {
  id: string;
  flow_id?: string;
  /** The name of the flow; listings leave it out. */
  flow?: string;
  /** The id of the run; listings leave it out. */
  run?: string;
  node?: string;
  kind: string;
  lane: string;
  namespace?: string;
  priority: number;
  state: string;
  phase?: string;
  ownership?: string;
  eligibility?: string;
  /** Reason why the execution waits. */
  detail?: string;
  attempts: number;
  retries?: number;
  reclaims?: number;
  replays?: number;
  worker?: string;
  lease_expires_at?: string;
  failure?: string;
  cancel_reason?: string;
  created_at?: string;
  started_at?: string;
  completed_at?: string;
  tags?: Record<string, string>;
}

export interface ExplainRunsInputBody {
  runs: RunNamed[];
}

export interface Explanation {
  reason: string;
  sentence: string;
  remedy?: string;
  since?: string;
  until?: string;
  by?: string;
  subject?: string;
  key?: string;
  names?: string[];
  have?: number;
  need?: number;
  detail?: string;
}

export interface ExportedRun {
  lines: unknown[];
}

export interface FailTaskBody {
  /** Reason of the failure, in English. */
  reason: string;
  /** Kind of failure, by which retry policies choose. */
  category?: string;
  /** No other attempt can succeed; otherwise the retry policy of the node decides. */
  non_retryable?: boolean;
  /** Pause before the next attempt in place of the policy's pause. */
  retry_after?: string;
  /** Named errors, for errors.As of Go programs. */
  details?: TaskDetail[];
}

export interface FailedTask {
  /** Another attempt follows. */
  retries: boolean;
}

export interface FeedEvent {
  cursor: string;
  kind: string;
  flow: string;
  run: string;
  flow_id?: string;
  child?: boolean;
  node?: string;
  detail?: string;
  at: string;
}

export interface Finding {
  code: string;
  severity: string;
  subject: string;
  found: string;
  remedy?: string;
}

export interface Flow {
  name: string;
  hash: string;
  doc?: string;
  codec: string;
  input_type: string;
  result_type: string;
  nodes: number;
  published_at: string;
  published_by?: string;
}

export interface FlowDetail {
  name: string;
  hash: string;
  doc?: string;
  codec: string;
  input_type: string;
  result_type: string;
  nodes: number;
  published_at: string;
  published_by?: string;
  input_schema?: Raw;
  result_schema?: Raw;
  definition: Raw;
  history: FlowVersion[];
}

export interface FlowStatistics {
  /** Runs that were read. Of a flow with many nodes, these are fewer than requested. */
  runs: number;
  /** Creation of the oldest one of them. */
  since?: string;
  /** There are older runs. */
  more?: boolean;
  nodes: NodeStatistics[];
  /** Versions that the runs have, the latest run first. */
  versions: VersionRuns[];
}

export interface FlowVersion {
  hash: string;
  published_at: string;
  published_by?: string;
}

export interface ForkRunInputBody {
  /** Id of the fork; a random one if it is absent. */
  id?: string;
  /** Nodes that run again, with all that depends on them. */
  from?: string[];
  /** Another input. */
  input?: unknown;
  /** Results of nodes, instead of their results in the run. */
  results?: Record<string, unknown>;
  tags?: Record<string, string>;
}

export interface Frame {
  cursor: string;
  attempt: number;
  kind: string;
  at: string;
  /** Time by the clock of the worker. */
  produced_at?: string;
  /** Frames before this one that are not kept any more. */
  dropped?: number;
  json?: Raw;
  data?: string;
  encoding: string;
  correlation_id?: string;
}

export interface Inspection {
  worst: string;
  findings: Finding[];
}

export interface KeeperLag {
  behind: string;
  /** The worst of each minute, the latest last. */
  minutes: string[];
}

export interface KeeperTask {
  name: string;
  summary: string;
  /** Longest time between two steps in a partition. */
  every: string;
  lag?: KeeperLag;
}

export interface KeeperTaskReport {
  task: string;
  partitions: number;
  steps: number;
  done: number;
  lag: string;
  remaining: number;
  repaired?: Record<string, number>;
  took: string;
}

export interface Lane {
  name: string;
  paused_at?: string;
  paused_by?: string;
  pause_reason?: string;
  /** Nodes that wait for a worker. */
  eligible: number;
  delayed: number;
  active: number;
  suspended: number;
  blocked: LaneBlocked;
  /** Creation of the oldest node that waits for a worker. */
  oldest?: string;
  health: LaneHealth;
}

export interface LaneBlocked {
  dependencies: number;
  budget: number;
  quota: number;
  /** No worker has registered the activity or offers the capabilities. */
  route: number;
  operator: number;
}

export interface LaneHealth {
  /** Whether the work of the lane proceeds. */
  state: "paused" | "unserved" | "blocked" | "late" | "ok";
  /** Nodes that wait for this reason. */
  nodes?: number;
  since?: string;
  reason?: string;
  remedy?: string;
  /** Programs whose workers listen to the lane. */
  programs: number;
}

export interface LaneHistory {
  /** The oldest first; none of a lane that the server has not met. */
  samples: LaneSample[];
}

export interface LaneQueue {
  lane: string;
  /** Nodes that wait for a worker. */
  waiting: number;
  /** One on a single server. Workers of a cluster take the partitions in turn; the order is exact within each. */
  partitions: PartitionQueue[];
}

export interface LaneReasonInputBody {
  reason?: string;
}

export interface LaneSample {
  at: string;
  /** Nodes that wait for a worker. */
  eligible: number;
  /** Nodes that something holds back: a time, limit, budget or pause. */
  held_back: number;
  /** Nodes that run. */
  active: number;
  /** Attempts that workers have reported since the sample before. */
  started: number;
}

export interface LaneTurn {
  /** Empty for nodes of flows without fairness keys. */
  key: string;
  waiting: number;
}

export interface Layout {
  width: number;
  height: number;
  /** All nodes. They have no places if the drawing is folded. */
  nodes: PlacedNode[];
  /** All edges. They have no points if the drawing is folded. */
  edges: PlacedEdge[];
  folds?: PlacedNode[];
  fold_edges?: PlacedEdge[];
}

export interface Limit {
  name: string;
  key?: string;
  at_most?: number;
  per?: string;
  at_once?: number;
  /** An operator has set it. */
  set: boolean;
  running: number;
  /** Starts within the last per, and permits reserved for one. */
  started: number;
  waiting: number;
}

export interface LimitUse {
  /** Nodes that hold a place on their own. */
  holding: number;
  waiting: number;
  /** Those that have held a place longest. */
  holders: PlaceUse[];
  /** Those that get the next places, in their order. */
  queue: PlaceUse[];
  /** Places that workers hold for several of their nodes in turn. */
  pools?: PlacePool[];
}

export interface LiveValue {
  key: string;
  at: string;
  attempt: number;
  /** Bytes of the value. */
  size: number;
  /** The value, of get-live-value. */
  json?: Raw;
}

export interface LogLine {
  cursor: string;
  attempt: number;
  at?: string;
  level: string;
  message: string;
  attrs?: Raw;
  shortened?: boolean;
  /** Frames before this line that are not kept any more. */
  dropped?: number;
  /** Lines that were not stored, in the last line of an attempt that logged too much. */
  cut?: number;
}

export interface MapItem {
  index: number;
  name: string;
  state: string;
  attempts: number;
  result?: Value;
  reason?: string;
  category?: string;
}

export interface MoveStartInputBody {
  start_at: string;
}

export interface MoveTimerInputBody {
  /** When the sleep ends. */
  until: string;
}

export interface NewRun {
  /** Id of the run, 1 to 256 bytes; a random one if it is absent. The same id and input again is the same run. */
  id?: string;
  /** Input of the flow, checked against its schema. */
  input?: unknown;
  tags?: Record<string, string>;
  priority?: number;
  /** Longest time from start to end, instead of the flow's deadline. */
  deadline?: string;
  /** When the run begins; absent for at once. */
  start_at?: string;
  /** Begin after this time instead of at once. */
  delay?: string;
  /** A note for people, any JSON of at most 16 KiB. */
  memo?: unknown;
  /** Few runs of the flow with this key are open at a time. */
  key?: StartKey;
  /** Few runs of the flow with this key start within a time. */
  throttle?: StartThrottle;
  /** One run for all calls with this key that come close to each other. */
  debounce?: StartDebounce;
}

export interface Node {
  node: string;
  kind: string;
  activity?: string;
  lane?: string;
  capabilities?: string[];
  execution: string;
  state: string;
  /** Why the node does not run. */
  waiting?: Explanation;
  attempts: number;
  retries?: number;
  /** Attempts after the loss of a worker. */
  reclaims?: number;
  replays?: number;
  worker?: string;
  percent?: number;
  message?: string;
  reason?: string;
  category?: string;
  created_at?: string;
  started_at?: string;
  claimed_at?: string;
  completed_at?: string;
  /** Next attempt, or end of a delay. */
  due_at?: string;
  lease_expires_at?: string;
  overdue?: string;
  /** The child run of a map or sub-flow. */
  child?: ChildRun;
  waits?: Wait[];
  sleeps_until?: string;
  /** 1, and one more each time that the function continued as new; of a loop, its turn. */
  generation?: number;
  /** Values that the node has published, without the values themselves. */
  live_values?: LiveValue[];
  input?: Value;
  result?: Value;
  history?: Attempt[];
}

export interface NodeCounts {
  all: number;
  open: number;
  failed?: number;
  cancelled?: number;
  expired?: number;
  skipped?: number;
}

export interface NodeDiff {
  node: string;
  a?: NodeSide;
  b?: NodeSide;
  /** State, result, reason, or parts of the declaration. */
  differs?: string[];
}

export interface NodeNow {
  state: string;
  /** Reason of the wait. */
  waiting?: string;
  attempts?: number;
  started_at?: string;
  ended_at?: string;
  /** Instance of the worker that runs it, or ran it last if that is known. */
  worker?: string;
}

export interface NodePriorityInputBody {
  priority: number;
}

export interface NodeReasonInputBody {
  reason?: string;
}

export interface NodeSide {
  state: string;
  attempts: number;
  took?: string;
  result?: Value;
  reason?: string;
}

export interface NodeStatistics {
  node: string;
  /** Runs in which it succeeded or failed. */
  ended: number;
  /** Runs in which it failed or expired. */
  failed?: number;
  skipped?: number;
  /** Runs in which it was retried, since it was last run again. */
  retried?: number;
  /** From its start to its end, in the last run of it where it was run again. */
  median?: string;
  /** It took at most this long in 95 of 100 runs. */
  p95?: string;
  slowest?: string;
}

export interface PartitionQueue {
  partition: number;
  waiting: number;
  paused?: boolean;
  /**
   * Fairness keys, by whose turn comes first; absent while none has one, and for callers who may not read payloads.
   */
  turns?: LaneTurn[];
  /** The first nodes in the order of claims, as far as nothing with precedence arrives. */
  next: QueuedPlace[];
}

export interface Pause {
  lane?: string;
  activity?: string;
  since: string;
  by?: string;
  reason?: string;
}

export interface PlacePool {
  worker: string;
  places: number;
  since?: string;
}

export interface PlaceUse {
  execution: string;
  flow?: string;
  run?: string;
  node?: string;
  activity?: string;
  /** When it got its place; of a node that waits, when it was created. */
  since?: string;
  priority?: number;
}

export interface PlacedEdge {
  from: number;
  to: number;
  /** success_only, on_failure, always, unless_failed or when */
  kind: string;
  /** Case of the condition that the edge belongs to. */
  case?: string;
  /** The node uses the result of the upstream. */
  data?: boolean;
  points?: number[];
}

export interface PlacedNode {
  node: string;
  kind: string;
  /** The activity of the node, or the event that it waits for. */
  text?: string;
  /** How many upstreams it needs, such as 2 of 3; absent for all of them. */
  join?: string;
  /** It runs however the run ends. */
  finally?: boolean;
  x: number;
  y: number;
  /** In pixels; absent for 46. */
  height?: number;
  members?: number[];
}

export interface Principal {
  name: string;
  /** How they logged in: none, token, oidc, certificate, proxy or in-process. */
  login: string;
  rights: Right[];
  /** Groups that they are in, as the login knows them. */
  groups?: string[];
  /** Pattern of the flows that they may see; absent for all. */
  flows?: string;
}

export interface PriorityInputBody {
  priority: number;
}

export interface Problem {
  /** Always about:blank; code identifies the problem. */
  type: string;
  title: string;
  status: number;
  /** Description of the fault, in English. */
  detail?: string;
  /** Id of the request, which the server's log has too. */
  instance?: string;
  /** Identifies the problem for programs, such as run_not_found. */
  code: string;
  /** The same request can succeed later. */
  retryable: boolean;
  errors?: ProblemFault[];
}

export interface ProblemFault {
  pointer?: string;
  in?: "path" | "query" | "header" | "body";
  name?: string;
  message: string;
}

export interface PushWorker {
  worker: string;
  principal?: string;
  /** How the principal has logged in; another one may have the same name. */
  login: string;
  url: string;
  activities: string[];
  expires_at: string;
  /** Tasks that were sent. */
  sent: number;
  /** Why the last task could not be sent; the server tries again. */
  failure?: string;
}

export interface QueuedPlace {
  execution: string;
  flow?: string;
  run?: string;
  node?: string;
  activity?: string;
  /** The rule that gives the node its place. */
  rule: "age" | "priority" | "turn" | "longest_wait";
  /** Fairness key. */
  key?: string;
  priority: number;
  /** Time of creation, by which its age counts. */
  since: string;
}

export interface ReasonInputBody {
  reason?: string;
}

export interface ReceivedSignal {
  id: string;
  name: string;
  category?: string;
  source_type?: string;
  source?: string;
  correlation_id?: string;
  at: string;
  counts: boolean;
  json?: Raw;
  data?: string;
}

export interface RecordStepInputBody {
  /** Any JSON of at most 1 MiB. */
  result: unknown;
}

export interface RegisterPushWorkerInputBody {
  /** Where tasks are sent. The configuration of the server lists the allowed hosts. */
  url: string;
  /** Key of the signatures, at least 32 characters, known to server and worker only. */
  secret: string;
  activities: string[];
  /** Absent for the lane default. */
  lanes?: string[];
  capabilities?: string[];
  /** Most tasks at a time; absent for 16. */
  slots?: number;
  /** As with claim-task; absent for 30s. */
  lease?: string;
  /** How long tasks are sent unless the worker registers again, 1s to 24h; absent for 1h. */
  lasts?: string;
}

export interface RenewedTask {
  /** held: continue. Otherwise stop; reports are refused. */
  state: TaskState;
  reason?: string;
  lease_ends_at?: string;
  lease_left?: string;
}

export interface ReportProgressInputBody {
  percent: number;
  message?: string;
}

export interface ReportUsageInputBody {
  /** Amount of each dimension, such as tokens or requests. */
  usage: Record<string, number>;
  /** The report counts once for the node, also in later attempts; without it a repeated request counts again. */
  key?: string;
}

export interface ReportedUsage {
  /**
   * The budget whose hard limit the usage would exceed: it has not counted it. Fail the task with the category
   * budget for the effect that the budget defines.
   */
  exceeded?: ExceededBudget;
}

export interface Rerun {
  at: string;
  by?: string;
  scope: string;
  nodes: number;
}

export interface RerunInputBody {
  /** Nodes that did not succeed; a node and its downstreams; all nodes. */
  scope: "failed" | "from" | "all";
  /** The node of scope from. */
  node?: string;
}

export interface Reservation {
  execution: string;
  flow?: string;
  run?: string;
  node?: string;
  activity?: string;
  dimension: string;
  amount: number;
}

export interface Result {
  state: string;
  value?: Value;
  failed_node?: string;
  reason?: string;
  category?: string;
}

export interface ResumeWaitInputBody {
  payload?: unknown;
}

export interface RotateSecretsInputBody {
  /** How long tokens signed with the old secret are valid; absent for a day. */
  grace?: string;
}

export interface RotatedSecrets {
  /** Partitions with the new secret. */
  rotated: number;
  failed?: number;
}

export interface Run {
  flow: string;
  run: string;
  flow_id?: string;
  /** running, succeeded, failed, cancelled or expired */
  state: string;
  created_at: string;
  /** When a run that was started for later begins. */
  starts_at?: string;
  /** When it last began: with its start, or with its last rerun. */
  began_at: string;
  /** When its last node ended. */
  closed_at?: string;
  paused_at?: string;
  /** The node that failed first. */
  failed_node?: string;
  /** Error of the node that failed first. */
  reason?: string;
  /** Category of that error, such as error, timeout or panic. */
  category?: string;
  nodes: NodeCounts;
  tags?: Record<string, string>;
  /** Key that bounds the arrival of runs. */
  key?: string;
  /** The run waits in the queue of its key. */
  queued?: boolean;
}

export interface RunCount {
  flow?: string;
  state?: string;
  hour?: string;
  /** Runs; absent in a count of ends. */
  runs?: number;
  /** Ends of runs, with finished_from: a run that was run again has several. */
  ends?: number;
}

export interface RunDetail {
  flow: string;
  run: string;
  flow_id: string;
  state: string;
  failed_node?: string;
  reason?: string;
  category?: string;
  started_by?: string;
  cancel_reason?: string;
  cancelled_by?: string;
  created_at: string;
  starts_at?: string;
  /** When it last began: with its start, or with its last rerun. */
  began_at: string;
  closed_at?: string;
  /** When the run expires. */
  deadline_at?: string;
  /** When its finally nodes expire, which run. */
  finally_deadline_at?: string;
  memo?: Raw;
  /** How far the run is past its deadline without having expired. */
  overdue?: string;
  /** Something is overdue and no keeper is connected. */
  no_keeper?: boolean;
  paused_at?: string;
  paused_by?: string;
  pause_reason?: string;
  reruns?: number;
  last_rerun?: Rerun;
  schedule?: string;
  fire_at?: string;
  /** Execution of the node whose child run it is. */
  parent?: string;
  /** Key that bounds the arrival of runs. */
  key?: string;
  /** Place in the queue of the key, from 1 on. */
  queue_place?: number;
  /** Id of the run that this one is a fork of. */
  forked_from?: string;
  /** Nodes whose results the fork has kept. */
  kept_nodes?: number;
  open_nodes: number;
  budgets?: Budget[];
  input?: Value;
  result?: Value;
  nodes: Node[];
  /** Cursor of the next page of nodes. */
  next?: string;
}

export interface RunDiff {
  a: RunSide;
  b: RunSide;
  input_differs: boolean;
  result_differs: boolean;
  graph_differs: boolean;
  nodes: NodeDiff[];
}

export interface RunLayout {
  width: number;
  height: number;
  /** All nodes. They have no places if the drawing is folded. */
  nodes: PlacedNode[];
  /** All edges. They have no points if the drawing is folded. */
  edges: PlacedEdge[];
  folds?: PlacedNode[];
  fold_edges?: PlacedEdge[];
  hash?: string;
  states?: NodeNow[];
}

export interface RunNamed {
  flow: string;
  run: string;
}

export interface RunNow {
  flow: string;
  run: string;
  state: string;
  began_at: string;
  closed_at?: string;
  paused_at?: string;
  nodes: NodeCounts;
  node?: string;
  node_state?: string;
  waiting?: Explanation;
  wait?: Wait;
  message?: string;
  waits?: Record<string, number>;
}

export interface RunSide {
  flow: string;
  run: string;
  state: string;
  forked_from?: string;
  took?: string;
  input?: Value;
  result?: Value;
}

export interface Schedule {
  name: string;
  flow: string;
  cron?: string;
  time_zone?: string;
  every?: string;
  starting_at?: string;
  ending_at?: string;
  jitter?: string;
  catch_up?: string;
  overlap?: string;
  queue_limit?: number;
  tags?: Record<string, string>;
  created_at: string;
  updated_at?: string;
  paused_at?: string;
  pause_reason?: string;
  next_fire?: string;
  last_fire?: string;
  last_run?: string;
  last_run_flow?: string;
  last_run_state?: string;
  backfills?: Backfill[];
  /** Fires whose runs have not been started yet. */
  waiting?: number;
  started: number;
  skipped: number;
  missed: number;
  failed: number;
  history?: ScheduleFire[];
  /** Input of its runs, of get-schedule with values. */
  input?: Value;
}

export interface ScheduleFire {
  at: string;
  until?: string;
  count: number;
  done_at?: string;
  outcome: string;
  flow?: string;
  run?: string;
  reason?: string;
  triggered?: boolean;
  backfilled?: boolean;
}

export interface ScheduleReasonInputBody {
  reason?: string;
}

export interface ServerInfo {
  version: string;
  /** Build of the function library that the server carries. */
  library: string;
  /** Version of the agreement between programs and the function library. */
  protocol: number;
  namespace: string;
  /** embedded, in memory, or the scheme of its URL */
  engine: string;
  read_only?: boolean;
  /** time between two comments of a stream in which nothing happens */
  heartbeat: string;
  principal: Principal;
}

export interface Session {
  id: string;
  principal: string;
  /** How the principal has logged in: oidc. */
  login: string;
  /** Groups of the principal that grants name. */
  groups?: string[];
  created_at: string;
  expires_at: string;
}

export interface SetLimitInputBody {
  /** Functions that begin within any time of the length per; 0 sets no bound. */
  at_most?: number;
  per?: string;
  /** Executions at a time; 0 sets no bound. */
  at_once?: number;
}

export interface SetScheduleInputBody {
  /** Name of a published flow. */
  flow: string;
  /** Input of the runs, checked against the schema of the flow. */
  input?: unknown;
  /** Expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly. */
  cron?: string;
  /** IANA name of the time zone of cron; UTC if it is absent. */
  time_zone?: string;
  /** Interval between fires, at least 1s. */
  every?: string;
  /** Earliest fire. */
  starting_at?: string;
  /** Latest fire. */
  ending_at?: string;
  /** Bound of the delay of each fire. */
  jitter?: string;
  /** How far back missed fires are made up; 1h if it is absent. */
  catch_up?: string;
  /**
   * Treatment of a fire while the last run is open: skip, queue, cancel_previous or allow; skip if it is absent.
   */
  overlap?: string;
  /** Most fires that wait with overlap queue. */
  queue_limit?: number;
  /** A new schedule begins paused. */
  start_paused?: boolean;
  pause_reason?: string;
  /** Field of the input that is set to the time of the fire. */
  fire_time_field?: string;
  tags?: Record<string, string>;
}

export interface SignalChoice {
  signal: string;
  /** Whether the signal agrees or refuses; absent for any other. */
  meaning?: "yes" | "no";
  /**
   * Fields of the payload that say the same as the signal, with their values. A payload that contradicts them is
   * refused.
   */
  sets?: Record<string, unknown>;
}

export interface SignalResult {
  /** accepted, resumed, duplicate, closed or expired */
  outcome: string;
  signal_id?: string;
  /** Outcome of the first delivery of a duplicate. */
  first?: string;
  /** The signal counts towards the end of the wait. */
  counts: boolean;
}

export interface SignalRunInputBody {
  node: string;
  step?: string;
  /**
   * Id of the wait that is answered: no other wait takes the answer, and the audit log has it. Absent for a signal
   * to the latest wait of that name, which may not have begun.
   */
  wait?: string;
  /** Kind of signal, such as approve. */
  name: string;
  payload?: unknown;
  /** Who answers; the name of the principal if it is absent. Another name needs the right to operate. */
  source?: string;
  category?: string;
  correlation_id?: string;
  /** A second signal with the same key gets the result of the first. */
  idempotency_key?: string;
}

export interface SignalTokenInputBody {
  token: string;
  /** Kind of signal, such as approve. */
  name: string;
  payload?: unknown;
  /** Who answers; the name of the principal if it is absent. Another name needs the right to operate. */
  source?: string;
  category?: string;
  correlation_id?: string;
  /** A second signal with the same key gets the result of the first. */
  idempotency_key?: string;
}

export interface StartDebounce {
  /** 1 to 256 bytes. */
  key: string;
  /** The run starts when no call has come for this time. */
  quiet: string;
  /** It starts at the latest this time after the first call; absent for ten times quiet. */
  at_most?: string;
  /** The input of the run is the list of the inputs of the calls, instead of the last one. */
  collect?: boolean;
  /** Most inputs that are collected, up to 10000; absent for 1000. */
  max_inputs?: number;
}

export interface StartKey {
  /** 1 to 256 bytes, such as a customer or a file. */
  key: string;
  /** How many runs may be open, up to 1000; absent for one, or for any number with unique_for alone. */
  at_once?: number;
  /**
   * Treatment of a run without a place: it is refused with key_taken, waits for its turn, is the open one, or
   * replaces the oldest. Absent for reject.
   */
  when_taken?: "reject" | "queue" | "join" | "cancel";
  /** For this time after its start, the first run of the key is returned, also when it is over. */
  unique_for?: string;
}

export interface StartOutcome {
  flow: string;
  run: string;
  existed?: boolean;
  delivery?: SignalResult;
  problem?: Problem;
}

export interface StartRunInputBody {
  /** Id of the run, 1 to 256 bytes; a random one if it is absent. The same id and input again is the same run. */
  id?: string;
  /** Input of the flow, checked against its schema. */
  input?: unknown;
  tags?: Record<string, string>;
  priority?: number;
  /** Longest time from start to end, instead of the flow's deadline. */
  deadline?: string;
  /** When the run begins; absent for at once. */
  start_at?: string;
  /** Begin after this time instead of at once. */
  delay?: string;
  /** A note for people, any JSON of at most 16 KiB. */
  memo?: unknown;
  /** Few runs of the flow with this key are open at a time. */
  key?: StartKey;
  /** Few runs of the flow with this key start within a time. */
  throttle?: StartThrottle;
  /** One run for all calls with this key that come close to each other. */
  debounce?: StartDebounce;
  /**
   * Delivered to the run of the id, which is started if there is none: both in one step. Requires the right answer
   * as well.
   */
  signal?: StartSignal;
}

export interface StartRunsInputBody {
  runs: NewRun[];
}

export interface StartSignal {
  node: string;
  step?: string;
  /** Kind of signal, such as approve. */
  name: string;
  payload?: unknown;
  /** Who answers; the name of the principal if it is absent. Another name needs the right to operate. */
  source?: string;
  category?: string;
  correlation_id?: string;
  /** A second signal with the same key gets the result of the first. */
  idempotency_key?: string;
}

export interface StartThrottle {
  /** Absent for all runs of the flow that are started with a throttle without a key. */
  key?: string;
  /** How many runs start in any span of the length per, 1 to 10000. */
  starts: number;
  per: string;
  /** Further numbers and times in which there must be room, up to 7: 100 an hour in addition to 10 a minute. */
  also?: StartWindow[];
  /** Refuse a run that would be one too many with throttled, instead of starting it later. */
  reject?: boolean;
}

export interface StartWindow {
  /** 1 to 10000. */
  starts: number;
  per: string;
}

export interface StartedRun {
  flow: string;
  run: string;
  existed?: boolean;
  delivery?: SignalResult;
}

export interface StartedRuns {
  runs: StartOutcome[];
}

export interface Step {
  /** The step had a result before this request. */
  recorded: boolean;
  /** The result that was recorded first. */
  result?: unknown;
}

export interface SuspendTaskBody {
  /** Names of the signals that count; absent if all do. */
  signals?: string[];
  /** One signal of each name is required. */
  all?: boolean;
  /** Number of signals that end the wait; absent for 1. */
  needed?: number;
  /**
   * Number of different people who have to approve, or one rejects: takes the signals approve and reject in place
   * of signals, all, needed and decisive.
   */
  approvers?: number;
  /** Names of which one signal ends the wait at once. */
  decisive?: string[];
  timeout?: string;
  /** Effect of the timeout; required with one. */
  on_timeout?: "fail" | "cancel" | "expire" | "resume" | "escalate";
  title?: string;
  question?: string;
  audience?: string[];
  /** JSON Schema that the payload of an answer must satisfy. */
  answer_schema?: unknown;
}

export interface SuspendedTask {
  /** Token of the wait, with which signal-token answers it. */
  token: string;
}

export interface Task {
  /** Names the task in requests, and proves that the caller holds its lease. */
  token: string;
  /** When the task is lost unless its lease is renewed, by the clock of the server. */
  lease_ends_at: string;
  /** The same as a time from now, for programs with another clock. */
  lease_left: string;
  /** Absent for an execution outside runs. */
  flow?: string;
  run?: string;
  node?: string;
  execution: string;
  activity: string;
  lane: string;
  /** Counts from 1. */
  attempt: number;
  /** Grows with each lease of the node: a fencing token for other systems. */
  lease_epoch: number;
  /** When the attempt ends at the latest. */
  deadline?: string;
  tags?: Record<string, string>;
  /** The input, which the flow composes for the node from its upstreams. */
  input: unknown;
  /** The signals that ended the last wait of the attempt. */
  signals?: ReceivedSignal[];
}

export interface TaskDetail {
  name: string;
  value?: unknown;
}

export interface TaskFrame {
  /** Name of the kind of frame. */
  kind: string;
  json?: unknown;
  /** Content in place of JSON. */
  text?: string;
  correlation_id?: string;
}

export interface TaskLine {
  /** Absent for info. */
  level?: "debug" | "info" | "warn" | "error";
  message: string;
  /** A JSON object with the attributes of the line. */
  attrs?: unknown;
  /** When it was logged; without it, the time of the request. */
  at?: string;
}

export interface Timing {
  /** Expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly. */
  cron?: string;
  /** IANA name of the time zone of cron; UTC if it is absent. */
  time_zone?: string;
  /** Interval between fires, at least 1s. */
  every?: string;
  /** Earliest fire. */
  starting_at?: string;
  /** Latest fire. */
  ending_at?: string;
  /** Bound of the delay of each fire. */
  jitter?: string;
}

export interface Token {
  name: string;
  role: Role;
  /** Rights in addition to the rights of the role. */
  rights?: ("approve" | "payloads:read" | "work")[];
  /** Pattern of the flows that it may see and act on, such as billing-*; absent for all. */
  flows?: string;
  created_at: string;
  created_by?: string;
  expires_at?: string;
}

export interface TokenInputBody {
  token: string;
}

export interface Value {
  /** Name of the codec of the value. */
  codec: string;
  /** Bytes of the whole value; -1 if it is not known. */
  size: number;
  /** The value, if it is whole and JSON. */
  json?: Raw;
  /** The beginning of JSON that is truncated. */
  text?: string;
  /** Anything else, in base64. */
  data?: string;
  truncated?: boolean;
}

export interface VersionRuns {
  /** Beginning of the hash of the graph, 32 digits. */
  hash: string;
  runs: number;
  open?: number;
  /** Creation of its latest run. */
  last: string;
  /** Its latest runs, at most 10, the open ones first. */
  latest: Run[];
}

export interface Wait {
  id: string;
  flow: string;
  run: string;
  flow_id?: string;
  node: string;
  /** Name of the wait in the activity; absent for a waitpoint node. */
  step?: string;
  execution?: string;
  /** pending, open or closed */
  state: string;
  opened_at?: string;
  timeout_at?: string;
  on_timeout?: string;
  /** The timeout has passed and the wait continues. */
  escalated?: boolean;
  /** Names of the signals that count; absent if all do. */
  signals?: string[];
  /** The answers that people can give, in the order of the signals. */
  choices?: SignalChoice[];
  /** Names among the signals of which one ends the wait at once. */
  decisive?: string[];
  /** One signal of each name is required. */
  all?: boolean;
  /** Only one signal of each source counts. */
  distinct?: boolean;
  needed: number;
  received: number;
  title?: string;
  question?: string;
  audience?: string[];
  /** JSON Schema that the payload of an answer must satisfy. */
  answer_schema?: Raw;
  tags?: Record<string, string>;
}

export interface Worker {
  instance: string;
  name: string;
  state: string;
  host?: string;
  pid?: number;
  build: Build;
  lanes: string[];
  activities: string[];
  capabilities?: string[];
  slots: number;
  used: number;
  since: string;
  reported_at: string;
  drain_requested_at?: string;
  drain_requested_by?: string;
  /** Attempts that it has begun, by lane. */
  started?: Record<string, number>;
}

export type Right = "view" | "payloads:read" | "approve" | "operate" | "work" | "administer";

export type Role = "viewer" | "operator" | "admin" | "worker";

export type TaskState = "held" | "cancelled" | "timed_out";

/** list-runs: Find runs */
export interface ListRunsInput {
  query?: {
    /** Name of the flow. Tags have parameters of their own: tag.KEY. */
    flow?: string;
    /** State; may be given several times. */
    state?: string[];
    /**
     * Words: a state, a time, tag.key:VALUE, error:TEXT, run:ID, flow:NAME, or any value of a tag or word of an
     * error. A word that means nothing is an error.
     */
    search?: string;
    /** Moment from which search counts times, with a time zone: 2026-11-28T15:04:05+01:00[Europe/Berlin]. */
    search_at?: string;
    /** A run by name, flow/run; may be given several times, up to 500. */
    run?: string[];
    /** Part of the id of the run or of the name of its flow. */
    text?: string;
    /** Key of the run. */
    key?: string;
    /** Only runs that wait in the queue of their key. */
    queued?: boolean;
    /** RFC 3339. */
    created_from?: string;
    /** RFC 3339. */
    created_before?: string;
    /** RFC 3339. */
    finished_from?: string;
    /** RFC 3339. */
    finished_before?: string;
    /** -created, created, -finished or finished. */
    sort?: string;
    /** With child runs. */
    children?: boolean;
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
    /** Only with this tag. */
    [tag: `tag.${string}`]: string;
  };
}

export type ListRunsOutput = Page<Run>;

/** complete-search: Complete the last word of the search of list-runs */
export interface CompleteSearchInput {
  query?: {
    /** The word that is being typed, such as customer.id:b. */
    word?: string;
  };
}

export type CompleteSearchOutput = Page<string>;

/** start-run: Start a run of a published flow; the same id and input again is the same run */
export interface StartRunInput {
  path: {
    /** Name of a published flow. */
    flow: string;
  };
  body: StartRunInputBody;
}

export type StartRunOutput = StartedRun;

/** start-runs: Start many runs of a published flow; each is started whole or not at all */
export interface StartRunsInput {
  path: {
    /** Name of a published flow. */
    flow: string;
  };
  body: StartRunsInputBody;
}

export type StartRunsOutput = StartedRuns;

/** get-run: Describe a run, its nodes, and the reasons why nodes wait */
export interface GetRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** With inputs and results; requires the right payloads:read. */
    values?: boolean;
    /** Most bytes of each value; 0 is 4096. */
    value_bytes?: number;
    /** With the attempts of each node. */
    attempts?: boolean;
    /** Where the page of nodes begins. */
    cursor?: string;
    /** Most nodes of a page; 0 is 500. */
    nodes?: number;
  };
}

export type GetRunOutput = RunDetail;

/** get-result: Wait for the end of a run and return its result */
export interface GetResultInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** How long to wait for the end, at most 30s. */
    wait?: string;
  };
}

export type GetResultOutput = Result;

/** follow-run: Follow the events of a run */
export interface FollowRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** Cursor after which to begin; empty for the beginning. */
    after?: string;
    /** How long a request for JSON waits for the first item, at most 30s. */
    wait?: string;
    /** Most items of a page of JSON. */
    limit?: number;
  };
  header?: {
    /** The same for server-sent events; it takes precedence. */
    "Last-Event-ID"?: string;
  };
}

export type FollowRunOutput = Events<Event>;

/** get-run-graph: Draw the graph of a run */
export interface GetRunGraphInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    format?: "mermaid" | "dot" | "outline" | "svg";
  };
}

export type GetRunGraphOutput = Drawing;

/** get-run-layout: Place the graph of a run for drawing, with the states of its nodes */
export interface GetRunLayoutInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** With the states of the nodes. */
    states?: boolean;
    /** Graphs of more nodes are drawn folded: more than 12 nodes that are alike become one; 0 draws every node. */
    fold?: number;
    /** Width in pixels at which a drawing continues in another row; 0 draws one row. */
    wrap?: number;
  };
}

export type GetRunLayoutOutput = RunLayout;

/** compare-runs: Compare a run with another one: states, results and durations of their nodes */
export interface CompareRunsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** Flow of the other run; the same one if it is absent. */
    other_flow?: string;
    /** Id of the other run; the latest one of the flow that succeeded, other than this one, if it is absent. */
    other_run?: string;
  };
}

export type CompareRunsOutput = RunDiff;

/** fork-run: Start a run from another one, with results of it */
export interface ForkRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: ForkRunInputBody;
}

export type ForkRunOutput = StartedRun;

/** export-run: Export a run with its values, as package runcheck reads it */
export interface ExportRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
}

export type ExportRunOutput = ExportedRun;

/** cancel-run: Cancel a run */
export interface CancelRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: CancelRunInputBody;
}

export type CancelRunOutput = void;

/** rerun-run: Run nodes of an ended run again */
export interface RerunRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: RerunInputBody;
}

export type RerunRunOutput = void;

/** pause-run: Keep nodes of a run from starting */
export interface PauseRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: ReasonInputBody;
}

export type PauseRunOutput = void;

/** resume-run: End the pause of a run */
export interface ResumeRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
}

export type ResumeRunOutput = void;

/** set-run-priority: Change the priority of all nodes of a run that have not ended */
export interface SetRunPriorityInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: PriorityInputBody;
}

export type SetRunPriorityOutput = void;

/** move-run-start: Move the start of a run that has not started */
export interface MoveRunStartInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: MoveStartInputBody;
}

export type MoveRunStartOutput = void;

/** purge-run: Remove a run that is over */
export interface PurgeRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
}

export type PurgeRunOutput = void;

/** get-node: Describe a node with its attempts */
export interface GetNodeInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  query?: {
    /** With input and result, whole; requires the right payloads:read. */
    values?: boolean;
  };
}

export type GetNodeOutput = Node;

/** list-items: List the items of a map */
export interface ListItemsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  query?: {
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
  };
}

export type ListItemsOutput = Page<MapItem>;

/** list-turns: List the turns of a loop */
export interface ListTurnsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
}

export type ListTurnsOutput = Page<ChildRun>;

/** get-live-value: Show a value that the function of a node has published */
export interface GetLiveValueInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
    /** Key of the value. */
    key: string;
  };
}

export type GetLiveValueOutput = LiveValue;

/** follow-logs: Follow the log lines of a node's attempts */
export interface FollowLogsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  query?: {
    /** Cursor after which to begin; empty for the beginning. */
    after?: string;
    /** How long a request for JSON waits for the first item, at most 30s. */
    wait?: string;
    /** Most items of a page of JSON. */
    limit?: number;
    /** Only this attempt; 0 is all of them. */
    attempt?: number;
    /** End after the lines that there are. */
    present?: boolean;
  };
  header?: {
    /** The same for server-sent events; it takes precedence. */
    "Last-Event-ID"?: string;
  };
}

export type FollowLogsOutput = Events<LogLine>;

/** follow-frames: Follow the frames that a node emits */
export interface FollowFramesInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  query?: {
    /** Cursor after which to begin; empty for the beginning. */
    after?: string;
    /** How long a request for JSON waits for the first item, at most 30s. */
    wait?: string;
    /** Most items of a page of JSON. */
    limit?: number;
    /** End after the frames that there are. */
    present?: boolean;
  };
  header?: {
    /** The same for server-sent events; it takes precedence. */
    "Last-Event-ID"?: string;
  };
}

export type FollowFramesOutput = Events<Frame>;

/** cancel-node: Cancel a node */
export interface CancelNodeInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  body: NodeReasonInputBody;
}

export type CancelNodeOutput = void;

/** set-node-priority: Change the priority of a node */
export interface SetNodePriorityInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  body: NodePriorityInputBody;
}

export type SetNodePriorityOutput = void;

/** move-timer: Move the end of a node that sleeps */
export interface MoveTimerInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
  body: MoveTimerInputBody;
}

export type MoveTimerOutput = void;

/** skip-timer: End the sleep of a node now */
export interface SkipTimerInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Name of the node. */
    node: string;
  };
}

export type SkipTimerOutput = void;

/** list-waits: List the open waits of all runs */
export interface ListWaitsInput {
  query?: {
    /** Name of the flow. Tags have parameters of their own: tag.KEY. */
    flow?: string;
    /** Audience of the wait. */
    audience?: string;
    /** Part of title or question. */
    text?: string;
    /** RFC 3339. */
    from?: string;
    /** RFC 3339. */
    before?: string;
    /** opened, -opened or due. */
    sort?: string;
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
    /** Only with this tag. */
    [tag: `tag.${string}`]: string;
  };
}

export type ListWaitsOutput = Page<Wait>;

/** list-run-waits: List the waits of a run and its child runs */
export interface ListRunWaitsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  query?: {
    /** With those that are over; only open ones if it is absent. */
    closed?: boolean;
  };
}

export type ListRunWaitsOutput = Page<Wait>;

/** signal-run: Answer a wait of a run, by node and step */
export interface SignalRunInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
  };
  body: SignalRunInputBody;
}

export type SignalRunOutput = SignalResult;

/** signal-token: Answer a wait by its token */
export interface SignalTokenInput {
  body: SignalTokenInputBody;
}

export type SignalTokenOutput = SignalResult;

/** get-token-wait: Describe the wait that a token belongs to */
export interface GetTokenWaitInput {
  body: TokenInputBody;
}

export type GetTokenWaitOutput = Wait;

/** list-signals: List the signals that a wait has received */
export interface ListSignalsInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Id of the wait. */
    wait: string;
  };
}

export type ListSignalsOutput = Page<ReceivedSignal>;

/** resume-wait: End a wait with a payload, without regard to its condition */
export interface ResumeWaitInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Id of the wait. */
    wait: string;
  };
  body: ResumeWaitInputBody;
}

export type ResumeWaitOutput = void;

/** cancel-wait: Cancel the node that waits */
export interface CancelWaitInput {
  path: {
    /** Name of the flow. */
    flow: string;
    /** Id of the run, percent-encoded. */
    run: string;
    /** Id of the wait. */
    wait: string;
  };
  body: CancelWaitInputBody;
}

export type CancelWaitOutput = void;

/** list-flows: List the published flows */
export interface ListFlowsInput {
}

export type ListFlowsOutput = Page<Flow>;

/** get-flow: Show a published flow with its graph, schemas and history */
export interface GetFlowInput {
  path: {
    /** Name of the flow. */
    flow: string;
  };
}

export type GetFlowOutput = FlowDetail;

/** get-flow-graph: Draw the graph of a published flow */
export interface GetFlowGraphInput {
  path: {
    /** Name of the flow. */
    flow: string;
  };
  query?: {
    format?: "mermaid" | "dot" | "outline" | "svg";
  };
}

export type GetFlowGraphOutput = Drawing;

/** get-flow-layout: Place the graph of a published flow for drawing */
export interface GetFlowLayoutInput {
  path: {
    /** Name of the flow. */
    flow: string;
  };
  query?: {
    /** Graphs of more nodes are drawn folded: more than 12 nodes that are alike become one; 0 draws every node. */
    fold?: number;
    /** Width in pixels at which a drawing continues in another row; 0 draws one row. */
    wrap?: number;
  };
}

export type GetFlowLayoutOutput = Layout;

/** get-flow-statistics: Show how the nodes of a flow did in its last runs, and which versions these have */
export interface GetFlowStatisticsInput {
  path: {
    /** Name of the flow. */
    flow: string;
  };
  query?: {
    /** Most runs that are read, the newest first. */
    runs?: number;
    /**
     * Words that select the runs, as in list-runs: a time such as yesterday, 2h or 2026-11-20..2026-11-25, states,
     * tags.
     */
    search?: string;
    /** Moment and time zone of the times in search. */
    search_at?: string;
    /** Order of the nodes: as the flow has them, the most failures first, or the slowest first. */
    sort?: "flow" | "failures" | "median" | "p95";
  };
}

export type GetFlowStatisticsOutput = FlowStatistics;

/** withdraw-flow: Remove a flow from the catalogue; its runs stay */
export interface WithdrawFlowInput {
  path: {
    /** Name of the flow. */
    flow: string;
  };
}

export type WithdrawFlowOutput = void;

/** list-schedules: List the schedules */
export interface ListSchedulesInput {
}

export type ListSchedulesOutput = Page<Schedule>;

/** get-schedule: Describe a schedule with its last fires */
export interface GetScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  query?: {
    /** With the input of its runs, whole; requires the right payloads:read. */
    values?: boolean;
  };
}

export type GetScheduleOutput = Schedule;

/** list-fires: List the next times of a schedule, or its next times with another timing */
export interface ListFiresInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  query?: {
    /** Most times; fewer if the schedule ends before. */
    limit?: number;
    /** List the times of this expression instead of the schedule's times. */
    cron?: string;
    /** Time zone of cron. */
    time_zone?: string;
    /** List the times of this interval instead of the schedule's times. */
    every?: string;
    /** Earliest time of cron or every. */
    starting_at?: string;
    /** Latest time of cron or every. */
    ending_at?: string;
  };
}

export type ListFiresOutput = Page<string>;

/** set-schedule: Create a schedule of a published flow, or replace the one of that name */
export interface SetScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  body: SetScheduleInputBody;
}

export type SetScheduleOutput = Schedule;

/** edit-schedule: Change the given settings of a schedule, and keep the others */
export interface EditScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  body: EditScheduleInputBody;
}

export type EditScheduleOutput = Schedule;

/** backfill-schedule: Start runs for past times of a schedule */
export interface BackfillScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  body: BackfillScheduleInputBody;
}

export type BackfillScheduleOutput = Backfilled;

/** pause-schedule: Keep a schedule from firing */
export interface PauseScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
  body: ScheduleReasonInputBody;
}

export type PauseScheduleOutput = void;

/** resume-schedule: End the pause of a schedule */
export interface ResumeScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
}

export type ResumeScheduleOutput = void;

/** trigger-schedule: Start a run of a schedule now */
export interface TriggerScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
}

export type TriggerScheduleOutput = StartedRun;

/** delete-schedule: Delete a schedule; its runs stay */
export interface DeleteScheduleInput {
  path: {
    /** Name of the schedule. */
    schedule: string;
  };
}

export type DeleteScheduleOutput = void;

/** list-lanes: List the lanes with the work that waits in them */
export interface ListLanesInput {
}

export type ListLanesOutput = Page<Lane>;

/** get-lane-queue: Show which nodes workers take next from a lane, and why */
export interface GetLaneQueueInput {
  path: {
    /** Name of the lane. */
    lane: string;
  };
  query?: {
    /** Most places of each partition. */
    places?: number;
  };
}

export type GetLaneQueueOutput = LaneQueue;

/** get-lane-history: Show how many nodes waited and ran in a lane during the last hour */
export interface GetLaneHistoryInput {
  path: {
    /** Name of the lane. */
    lane: string;
  };
}

export type GetLaneHistoryOutput = LaneHistory;

/** list-pauses: List the paused lanes and activities */
export interface ListPausesInput {
}

export type ListPausesOutput = Page<Pause>;

/** pause-lane: Keep workers from claiming from a lane */
export interface PauseLaneInput {
  path: {
    /** Name of the lane. */
    lane: string;
  };
  body: LaneReasonInputBody;
}

export type PauseLaneOutput = void;

/** resume-lane: End the pause of a lane */
export interface ResumeLaneInput {
  path: {
    /** Name of the lane. */
    lane: string;
  };
}

export type ResumeLaneOutput = void;

/** pause-activity: Keep an activity from starting */
export interface PauseActivityInput {
  path: {
    /** Name of the activity. */
    activity: string;
  };
  body: ActivityReasonInputBody;
}

export type PauseActivityOutput = void;

/** resume-activity: End the pause of an activity */
export interface ResumeActivityInput {
  path: {
    /** Name of the activity. */
    activity: string;
  };
}

export type ResumeActivityOutput = void;

/** list-limits: List the limits */
export interface ListLimitsInput {
}

export type ListLimitsOutput = Page<Limit>;

/** get-limit: Show a limit; its ETag is for changes */
export interface GetLimitInput {
  path: {
    /** Name of the limit. */
    limit: string;
  };
  query?: {
    /** Key of a limit with keys. */
    key?: string;
  };
}

export type GetLimitOutput = Limit;

/** get-limit-use: Show which nodes hold places of a limit, and which wait for one */
export interface GetLimitUseInput {
  path: {
    /** Name of the limit. */
    limit: string;
  };
  query?: {
    /** Key of a limit with keys. */
    key?: string;
    /** Most nodes of each list. */
    most?: number;
  };
}

export type GetLimitUseOutput = LimitUse;

/** set-limit: Set a limit in place of the one that flows declare */
export interface SetLimitInput {
  path: {
    /** Name of the limit. */
    limit: string;
  };
  query?: {
    /** Key of a limit with keys. */
    key?: string;
  };
  header?: {
    /** ETag of the state that the change is based on; another state is refused with status 412. */
    "If-Match"?: string;
  };
  body: SetLimitInputBody;
}

export type SetLimitOutput = Limit;

/** reset-limit: Return to the limit that flows declare */
export interface ResetLimitInput {
  path: {
    /** Name of the limit. */
    limit: string;
  };
  query?: {
    /** Key of a limit with keys. */
    key?: string;
  };
}

export type ResetLimitOutput = void;

/** list-budgets: List the budgets */
export interface ListBudgetsInput {
}

export type ListBudgetsOutput = Page<Budget>;

/** get-budget: Show a budget; its ETag is for changes */
export interface GetBudgetInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
  };
}

export type GetBudgetOutput = Budget;

/** get-budget-use: Show which nodes have reserved parts of a budget, and which wait for it */
export interface GetBudgetUseInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
    /** Most nodes of each list. */
    most?: number;
  };
}

export type GetBudgetUseOutput = BudgetUse;

/** get-budget-history: Show how much was spent of a budget during the last hour */
export interface GetBudgetHistoryInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
  };
}

export type GetBudgetHistoryOutput = BudgetHistory;

/** set-budget: Set the limits of a budget */
export interface SetBudgetInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
  };
  header?: {
    /** ETag of the state that the change is based on; another state is refused with status 412. */
    "If-Match"?: string;
  };
  body: BudgetSettings;
}

export type SetBudgetOutput = Budget;

/** reset-budget: Set the spent amount of a budget to zero */
export interface ResetBudgetInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
  };
}

export type ResetBudgetOutput = void;

/** delete-budget: Delete a budget */
export interface DeleteBudgetInput {
  path: {
    /** Name of the budget. */
    budget: string;
  };
  query?: {
    /** Key of a shared budget with keys. */
    key?: string;
    /** Flow that owns the budget. */
    flow?: string;
    /** Run that owns the budget. */
    run?: string;
  };
}

export type DeleteBudgetOutput = void;

/** list-workers: List the live workers */
export interface ListWorkersInput {
}

export type ListWorkersOutput = Page<Worker>;

/** drain-worker: Let a worker take no more work */
export interface DrainWorkerInput {
  path: {
    /** Instance of the worker. */
    worker: string;
  };
}

export type DrainWorkerOutput = void;

/** claim-task: Claim a node of some activities and get its input; waits for one */
export interface ClaimTaskInput {
  body: ClaimTaskInputBody;
}

export type ClaimTaskOutput = ClaimedTask;

/** renew-task: Renew the lease of a task, and learn whether it was cancelled */
export interface RenewTaskInput {
  path: {
    /** Token of the task. */
    task: string;
  };
}

export type RenewTaskOutput = RenewedTask;

/** complete-task: End a task with a result */
export interface CompleteTaskInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: CompleteTaskInputBody;
}

export type CompleteTaskOutput = void;

/** fail-task: Report that the attempt of a task has failed */
export interface FailTaskInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: FailTaskBody;
}

export type FailTaskOutput = FailedTask;

/** suspend-task: Give a task up until signals arrive */
export interface SuspendTaskInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: SuspendTaskBody;
}

export type SuspendTaskOutput = SuspendedTask;

/** release-task: Give a task back, without spending its attempt */
export interface ReleaseTaskInput {
  path: {
    /** Token of the task. */
    task: string;
  };
}

export type ReleaseTaskOutput = void;

/** append-frames: Append frames to the stream of a task */
export interface AppendFramesInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: AppendFramesInputBody;
}

export type AppendFramesOutput = void;

/** report-progress: Report the progress of a task; counts as a heartbeat */
export interface ReportProgressInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: ReportProgressInputBody;
}

export type ReportProgressOutput = void;

/** append-logs: Append lines to the log of a task */
export interface AppendLogsInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: AppendLogsInputBody;
}

export type AppendLogsOutput = void;

/** report-usage: Count the usage of a task in the budgets of its run */
export interface ReportUsageInput {
  path: {
    /** Token of the task. */
    task: string;
  };
  body: ReportUsageInputBody;
}

export type ReportUsageOutput = ReportedUsage;

/** get-step: Read the result of a step that an attempt of the node has recorded */
export interface GetStepInput {
  path: {
    /** Token of the task. */
    task: string;
    /** Name of the step, as names of activities. */
    step: string;
  };
}

export type GetStepOutput = Step;

/** record-step: Record the result of a step, unless it has one; later attempts can read it */
export interface RecordStepInput {
  path: {
    /** Token of the task. */
    task: string;
    /** Name of the step, as names of activities. */
    step: string;
  };
  body: RecordStepInputBody;
}

export type RecordStepOutput = Step;

/** register-push-worker: Let the server send tasks to a URL, for some time */
export interface RegisterPushWorkerInput {
  path: {
    /** Name of the worker; each principal has names of its own. */
    worker: string;
  };
  body: RegisterPushWorkerInputBody;
}

export type RegisterPushWorkerOutput = PushWorker;

/** list-push-workers: List the URLs to which this server sends tasks */
export interface ListPushWorkersInput {
}

export type ListPushWorkersOutput = Page<PushWorker>;

/** remove-push-worker: Send no more tasks to a URL; administrators end the registrations of others, too */
export interface RemovePushWorkerInput {
  path: {
    /** Name of the worker; each principal has names of its own. */
    worker: string;
  };
  query?: {
    /**
     * Whose registration it is, as list-push-workers has it; absent for the caller. The registrations of others
     * need the right administer.
     */
    principal?: string;
    /** How that principal has logged in, as list-push-workers has it. */
    login?: string;
  };
}

export type RemovePushWorkerOutput = void;

/** list-bulk-jobs: List the bulk jobs */
export interface ListBulkJobsInput {
}

export type ListBulkJobsOutput = Page<BulkJob>;

/** get-bulk-job: Describe a bulk job with its progress */
export interface GetBulkJobInput {
  path: {
    /** Id of the job. */
    job: string;
  };
}

export type GetBulkJobOutput = BulkJob;

/** preview-bulk-job: Count the runs that a bulk job would handle; changes nothing */
export interface PreviewBulkJobInput {
  body: BulkInputBody;
}

export type PreviewBulkJobOutput = BulkPreview;

/** start-bulk-job: Act on all runs that a query selects; purge needs the right administer, signal the right approve */
export interface StartBulkJobInput {
  body: BulkInputBody;
}

export type StartBulkJobOutput = BulkJob;

/** stop-bulk-job: Stop a bulk job */
export interface StopBulkJobInput {
  path: {
    /** Id of the job. */
    job: string;
  };
}

export type StopBulkJobOutput = void;

/** count-runs: Count runs by flow, state and hour */
export interface CountRunsInput {
  query?: {
    /** Name of the flow. Tags have parameters of their own: tag.KEY. */
    flow?: string;
    /** State; may be given several times. */
    state?: string[];
    /**
     * Words: a state, a time, tag.key:VALUE, error:TEXT, run:ID, flow:NAME, or any value of a tag or word of an
     * error. A word that means nothing is an error.
     */
    search?: string;
    /** Moment from which search counts times, with a time zone: 2026-11-28T15:04:05+01:00[Europe/Berlin]. */
    search_at?: string;
    /** A run by name, flow/run; may be given several times, up to 500. */
    run?: string[];
    /** Part of the id of the run or of the name of its flow. */
    text?: string;
    /** Key of the run. */
    key?: string;
    /** Only runs that wait in the queue of their key. */
    queued?: boolean;
    /** RFC 3339. */
    created_from?: string;
    /** RFC 3339. */
    created_before?: string;
    /** RFC 3339. */
    finished_from?: string;
    /** RFC 3339. */
    finished_before?: string;
    /** -created, created, -finished or finished. */
    sort?: string;
    /** With child runs. */
    children?: boolean;
    /** Fields to group by; absent for one count. */
    by?: ("flow" | "state" | "hour")[];
    /** Only with this tag. */
    [tag: `tag.${string}`]: string;
  };
}

export type CountRunsOutput = Page<RunCount>;

/** explain-runs: Name the node that needs attention most in each of up to 100 runs, and why */
export interface ExplainRunsInput {
  body: ExplainRunsInputBody;
}

export type ExplainRunsOutput = Page<RunNow>;

/** follow-feed: Follow the events of all runs */
export interface FollowFeedInput {
  query?: {
    /** Cursor after which to begin; empty for the beginning. */
    after?: string;
    /** How long a request for JSON waits for the first item, at most 30s. */
    wait?: string;
    /** Most items of a page of JSON. */
    limit?: number;
    /** Only runs of this flow. */
    flow?: string;
    /** Only events of these kinds. */
    kind?: string[];
    /** With child runs of maps and sub-flows. */
    children?: boolean;
  };
  header?: {
    /** The same for server-sent events; it takes precedence. */
    "Last-Event-ID"?: string;
  };
}

export type FollowFeedOutput = Events<FeedEvent>;

/** list-audit: List changes and their authors, the latest first */
export interface ListAuditInput {
  query?: {
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
    actor?: string;
    action?: string;
    /** Name of the changed object. */
    name?: string;
    from?: string;
    before?: string;
  };
}

export type ListAuditOutput = Page<AuditEntry>;

/** inspect: Find problems that can lose or stop work */
export interface InspectInput {
}

export type InspectOutput = Inspection;

/** list-keeper-tasks: List the tasks of keepers */
export interface ListKeeperTasksInput {
}

export type ListKeeperTasksOutput = Page<KeeperTask>;

/** run-keeper-task: Run a task of keepers now */
export interface RunKeeperTaskInput {
  path: {
    /** Name of the task. */
    task: string;
  };
}

export type RunKeeperTaskOutput = KeeperTaskReport;

/** list-executions: List executions, in no particular order */
export interface ListExecutionsInput {
  query?: {
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
    /** Only executions of this lane. */
    lane?: string;
    /** Only executions in these public states. */
    state?: string[];
    /** Only members of the flow with this id. */
    flow_id?: string;
    /** Only executions in this index of the lane, such as eligible. */
    index?: string;
    /** Only executions with this tag, key=value; may be given several times. */
    tag?: string[];
  };
}

export type ListExecutionsOutput = Page<Execution>;

/** get-execution: Show an execution */
export interface GetExecutionInput {
  path: {
    /** Id of the execution. */
    execution: string;
  };
}

export type GetExecutionOutput = Execution;

/** get-server: Describe the server and the principal that calls */
export interface GetServerInput {
}

export type GetServerOutput = ServerInfo;

/** list-tokens: List the tokens, without their secrets */
export interface ListTokensInput {
}

export type ListTokensOutput = Page<Token>;

/** create-token: Create a token; its text is shown once */
export interface CreateTokenInput {
  body: CreateTokenInputBody;
}

export type CreateTokenOutput = CreatedToken;

/** delete-token: Delete a token; it ends at once */
export interface DeleteTokenInput {
  path: {
    /** Name of the token. */
    token: string;
  };
}

export type DeleteTokenOutput = void;

/** list-sessions: List the sessions of browsers that have logged in */
export interface ListSessionsInput {
  query?: {
    /** Only sessions of this principal. */
    principal?: string;
    /** Where the page begins; empty for the first page. */
    cursor?: string;
    /** Most items of a page. */
    limit?: number;
  };
}

export type ListSessionsOutput = Page<Session>;

/** delete-session: End a session; its streams end within some seconds */
export interface DeleteSessionInput {
  path: {
    /** Id of the session, as list-sessions has it. */
    session: string;
  };
}

export type DeleteSessionOutput = void;

/** rotate-secrets: Sign the tokens of waits with a new secret */
export interface RotateSecretsInput {
  body: RotateSecretsInputBody;
}

export type RotateSecretsOutput = RotatedSecrets;

/** The operations by their names. Parts of a path that are not literals are its parameters. */
export interface Operations {
  "list-runs": {
    method: "GET"; path: readonly ["runs"];
    right: "view"; effect: "reads"; input: ListRunsInput; output: ListRunsOutput;
  };
  "complete-search": {
    method: "GET"; path: readonly ["search-words"];
    right: "view"; effect: "reads"; input: CompleteSearchInput; output: CompleteSearchOutput;
  };
  "start-run": {
    method: "POST"; path: readonly ["flows", string, "runs"];
    right: "operate"; effect: "changes"; input: StartRunInput; output: StartRunOutput;
  };
  "start-runs": {
    method: "POST"; path: readonly ["flows", string, "runs", "batch"];
    right: "operate"; effect: "changes"; input: StartRunsInput; output: StartRunsOutput;
  };
  "get-run": {
    method: "GET"; path: readonly ["runs", string, string];
    right: "view"; effect: "reads"; input: GetRunInput; output: GetRunOutput;
  };
  "get-result": {
    method: "GET"; path: readonly ["runs", string, string, "result"];
    right: "payloads:read"; effect: "reads"; input: GetResultInput; output: GetResultOutput;
  };
  "follow-run": {
    method: "GET"; path: readonly ["runs", string, string, "events"];
    right: "view"; effect: "reads"; input: FollowRunInput; output: FollowRunOutput;
    event: Event;
  };
  "get-run-graph": {
    method: "GET"; path: readonly ["runs", string, string, "graph"];
    right: "view"; effect: "reads"; input: GetRunGraphInput; output: GetRunGraphOutput;
  };
  "get-run-layout": {
    method: "GET"; path: readonly ["runs", string, string, "layout"];
    right: "view"; effect: "reads"; input: GetRunLayoutInput; output: GetRunLayoutOutput;
  };
  "compare-runs": {
    method: "GET"; path: readonly ["runs", string, string, "compare"];
    right: "payloads:read"; effect: "reads"; input: CompareRunsInput; output: CompareRunsOutput;
  };
  "fork-run": {
    method: "POST"; path: readonly ["runs", string, string, "fork"];
    right: "operate"; effect: "changes"; input: ForkRunInput; output: ForkRunOutput;
  };
  "export-run": {
    method: "GET"; path: readonly ["runs", string, string, "export"];
    right: "payloads:read"; effect: "reads"; input: ExportRunInput; output: ExportRunOutput;
  };
  "cancel-run": {
    method: "POST"; path: readonly ["runs", string, string, "cancel"];
    right: "operate"; effect: "destroys"; input: CancelRunInput; output: CancelRunOutput;
  };
  "rerun-run": {
    method: "POST"; path: readonly ["runs", string, string, "rerun"];
    right: "operate"; effect: "changes"; input: RerunRunInput; output: RerunRunOutput;
  };
  "pause-run": {
    method: "POST"; path: readonly ["runs", string, string, "pause"];
    right: "operate"; effect: "changes"; input: PauseRunInput; output: PauseRunOutput;
  };
  "resume-run": {
    method: "POST"; path: readonly ["runs", string, string, "resume"];
    right: "operate"; effect: "changes"; input: ResumeRunInput; output: ResumeRunOutput;
  };
  "set-run-priority": {
    method: "PUT"; path: readonly ["runs", string, string, "priority"];
    right: "operate"; effect: "changes"; input: SetRunPriorityInput; output: SetRunPriorityOutput;
  };
  "move-run-start": {
    method: "PUT"; path: readonly ["runs", string, string, "start"];
    right: "operate"; effect: "changes"; input: MoveRunStartInput; output: MoveRunStartOutput;
  };
  "purge-run": {
    method: "DELETE"; path: readonly ["runs", string, string];
    right: "administer"; effect: "destroys"; input: PurgeRunInput; output: PurgeRunOutput;
  };
  "get-node": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string];
    right: "view"; effect: "reads"; input: GetNodeInput; output: GetNodeOutput;
  };
  "list-items": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string, "items"];
    right: "payloads:read"; effect: "reads"; input: ListItemsInput; output: ListItemsOutput;
  };
  "list-turns": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string, "turns"];
    right: "view"; effect: "reads"; input: ListTurnsInput; output: ListTurnsOutput;
  };
  "get-live-value": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string, "values", string];
    right: "payloads:read"; effect: "reads"; input: GetLiveValueInput; output: GetLiveValueOutput;
  };
  "follow-logs": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string, "logs"];
    right: "payloads:read"; effect: "reads"; input: FollowLogsInput; output: FollowLogsOutput;
    event: LogLine;
  };
  "follow-frames": {
    method: "GET"; path: readonly ["runs", string, string, "nodes", string, "stream"];
    right: "payloads:read"; effect: "reads"; input: FollowFramesInput; output: FollowFramesOutput;
    event: Frame;
  };
  "cancel-node": {
    method: "POST"; path: readonly ["runs", string, string, "nodes", string, "cancel"];
    right: "operate"; effect: "destroys"; input: CancelNodeInput; output: CancelNodeOutput;
  };
  "set-node-priority": {
    method: "PUT"; path: readonly ["runs", string, string, "nodes", string, "priority"];
    right: "operate"; effect: "changes"; input: SetNodePriorityInput; output: SetNodePriorityOutput;
  };
  "move-timer": {
    method: "PUT"; path: readonly ["runs", string, string, "nodes", string, "timer"];
    right: "operate"; effect: "changes"; input: MoveTimerInput; output: MoveTimerOutput;
  };
  "skip-timer": {
    method: "POST"; path: readonly ["runs", string, string, "nodes", string, "timer", "skip"];
    right: "operate"; effect: "changes"; input: SkipTimerInput; output: SkipTimerOutput;
  };
  "list-waits": {
    method: "GET"; path: readonly ["waits"];
    right: "view"; effect: "reads"; input: ListWaitsInput; output: ListWaitsOutput;
  };
  "list-run-waits": {
    method: "GET"; path: readonly ["runs", string, string, "waits"];
    right: "view"; effect: "reads"; input: ListRunWaitsInput; output: ListRunWaitsOutput;
  };
  "signal-run": {
    method: "POST"; path: readonly ["runs", string, string, "signals"];
    right: "approve"; effect: "changes"; input: SignalRunInput; output: SignalRunOutput;
  };
  "signal-token": {
    method: "POST"; path: readonly ["signals"];
    right: "approve"; effect: "changes"; input: SignalTokenInput; output: SignalTokenOutput;
  };
  "get-token-wait": {
    method: "POST"; path: readonly ["waits", "by-token"];
    right: "approve"; effect: "reads"; input: GetTokenWaitInput; output: GetTokenWaitOutput;
  };
  "list-signals": {
    method: "GET"; path: readonly ["runs", string, string, "waits", string, "signals"];
    right: "payloads:read"; effect: "reads"; input: ListSignalsInput; output: ListSignalsOutput;
  };
  "resume-wait": {
    method: "POST"; path: readonly ["runs", string, string, "waits", string, "resume"];
    right: "operate"; effect: "changes"; input: ResumeWaitInput; output: ResumeWaitOutput;
  };
  "cancel-wait": {
    method: "POST"; path: readonly ["runs", string, string, "waits", string, "cancel"];
    right: "operate"; effect: "destroys"; input: CancelWaitInput; output: CancelWaitOutput;
  };
  "list-flows": {
    method: "GET"; path: readonly ["flows"];
    right: "view"; effect: "reads"; input: ListFlowsInput; output: ListFlowsOutput;
  };
  "get-flow": {
    method: "GET"; path: readonly ["flows", string];
    right: "view"; effect: "reads"; input: GetFlowInput; output: GetFlowOutput;
  };
  "get-flow-graph": {
    method: "GET"; path: readonly ["flows", string, "graph"];
    right: "view"; effect: "reads"; input: GetFlowGraphInput; output: GetFlowGraphOutput;
  };
  "get-flow-layout": {
    method: "GET"; path: readonly ["flows", string, "layout"];
    right: "view"; effect: "reads"; input: GetFlowLayoutInput; output: GetFlowLayoutOutput;
  };
  "get-flow-statistics": {
    method: "GET"; path: readonly ["flows", string, "statistics"];
    right: "view"; effect: "reads"; input: GetFlowStatisticsInput; output: GetFlowStatisticsOutput;
  };
  "withdraw-flow": {
    method: "DELETE"; path: readonly ["flows", string];
    right: "administer"; effect: "destroys"; input: WithdrawFlowInput; output: WithdrawFlowOutput;
  };
  "list-schedules": {
    method: "GET"; path: readonly ["schedules"];
    right: "view"; effect: "reads"; input: ListSchedulesInput; output: ListSchedulesOutput;
  };
  "get-schedule": {
    method: "GET"; path: readonly ["schedules", string];
    right: "view"; effect: "reads"; input: GetScheduleInput; output: GetScheduleOutput;
  };
  "list-fires": {
    method: "GET"; path: readonly ["schedules", string, "fires"];
    right: "view"; effect: "reads"; input: ListFiresInput; output: ListFiresOutput;
  };
  "set-schedule": {
    method: "PUT"; path: readonly ["schedules", string];
    right: "operate"; effect: "changes"; input: SetScheduleInput; output: SetScheduleOutput;
  };
  "edit-schedule": {
    method: "PATCH"; path: readonly ["schedules", string];
    right: "operate"; effect: "changes"; input: EditScheduleInput; output: EditScheduleOutput;
  };
  "backfill-schedule": {
    method: "POST"; path: readonly ["schedules", string, "backfill"];
    right: "operate"; effect: "changes"; input: BackfillScheduleInput; output: BackfillScheduleOutput;
  };
  "pause-schedule": {
    method: "POST"; path: readonly ["schedules", string, "pause"];
    right: "operate"; effect: "changes"; input: PauseScheduleInput; output: PauseScheduleOutput;
  };
  "resume-schedule": {
    method: "POST"; path: readonly ["schedules", string, "resume"];
    right: "operate"; effect: "changes"; input: ResumeScheduleInput; output: ResumeScheduleOutput;
  };
  "trigger-schedule": {
    method: "POST"; path: readonly ["schedules", string, "trigger"];
    right: "operate"; effect: "changes"; input: TriggerScheduleInput; output: TriggerScheduleOutput;
  };
  "delete-schedule": {
    method: "DELETE"; path: readonly ["schedules", string];
    right: "administer"; effect: "destroys"; input: DeleteScheduleInput; output: DeleteScheduleOutput;
  };
  "list-lanes": {
    method: "GET"; path: readonly ["lanes"];
    right: "view"; effect: "reads"; input: ListLanesInput; output: ListLanesOutput;
  };
  "get-lane-queue": {
    method: "GET"; path: readonly ["lanes", string, "queue"];
    right: "view"; effect: "reads"; input: GetLaneQueueInput; output: GetLaneQueueOutput;
  };
  "get-lane-history": {
    method: "GET"; path: readonly ["lanes", string, "history"];
    right: "view"; effect: "reads"; input: GetLaneHistoryInput; output: GetLaneHistoryOutput;
  };
  "list-pauses": {
    method: "GET"; path: readonly ["pauses"];
    right: "view"; effect: "reads"; input: ListPausesInput; output: ListPausesOutput;
  };
  "pause-lane": {
    method: "POST"; path: readonly ["lanes", string, "pause"];
    right: "operate"; effect: "changes"; input: PauseLaneInput; output: PauseLaneOutput;
  };
  "resume-lane": {
    method: "POST"; path: readonly ["lanes", string, "resume"];
    right: "operate"; effect: "changes"; input: ResumeLaneInput; output: ResumeLaneOutput;
  };
  "pause-activity": {
    method: "POST"; path: readonly ["activities", string, "pause"];
    right: "operate"; effect: "changes"; input: PauseActivityInput; output: PauseActivityOutput;
  };
  "resume-activity": {
    method: "POST"; path: readonly ["activities", string, "resume"];
    right: "operate"; effect: "changes"; input: ResumeActivityInput; output: ResumeActivityOutput;
  };
  "list-limits": {
    method: "GET"; path: readonly ["limits"];
    right: "view"; effect: "reads"; input: ListLimitsInput; output: ListLimitsOutput;
  };
  "get-limit": {
    method: "GET"; path: readonly ["limits", string];
    right: "view"; effect: "reads"; input: GetLimitInput; output: GetLimitOutput;
  };
  "get-limit-use": {
    method: "GET"; path: readonly ["limits", string, "use"];
    right: "view"; effect: "reads"; input: GetLimitUseInput; output: GetLimitUseOutput;
  };
  "set-limit": {
    method: "PUT"; path: readonly ["limits", string];
    right: "operate"; effect: "changes"; input: SetLimitInput; output: SetLimitOutput;
  };
  "reset-limit": {
    method: "DELETE"; path: readonly ["limits", string];
    right: "operate"; effect: "changes"; input: ResetLimitInput; output: ResetLimitOutput;
  };
  "list-budgets": {
    method: "GET"; path: readonly ["budgets"];
    right: "view"; effect: "reads"; input: ListBudgetsInput; output: ListBudgetsOutput;
  };
  "get-budget": {
    method: "GET"; path: readonly ["budgets", string];
    right: "view"; effect: "reads"; input: GetBudgetInput; output: GetBudgetOutput;
  };
  "get-budget-use": {
    method: "GET"; path: readonly ["budgets", string, "use"];
    right: "view"; effect: "reads"; input: GetBudgetUseInput; output: GetBudgetUseOutput;
  };
  "get-budget-history": {
    method: "GET"; path: readonly ["budgets", string, "history"];
    right: "view"; effect: "reads"; input: GetBudgetHistoryInput; output: GetBudgetHistoryOutput;
  };
  "set-budget": {
    method: "PUT"; path: readonly ["budgets", string];
    right: "operate"; effect: "changes"; input: SetBudgetInput; output: SetBudgetOutput;
  };
  "reset-budget": {
    method: "POST"; path: readonly ["budgets", string, "reset"];
    right: "operate"; effect: "changes"; input: ResetBudgetInput; output: ResetBudgetOutput;
  };
  "delete-budget": {
    method: "DELETE"; path: readonly ["budgets", string];
    right: "administer"; effect: "destroys"; input: DeleteBudgetInput; output: DeleteBudgetOutput;
  };
  "list-workers": {
    method: "GET"; path: readonly ["workers"];
    right: "view"; effect: "reads"; input: ListWorkersInput; output: ListWorkersOutput;
  };
  "drain-worker": {
    method: "POST"; path: readonly ["workers", string, "drain"];
    right: "operate"; effect: "destroys"; input: DrainWorkerInput; output: DrainWorkerOutput;
  };
  "claim-task": {
    method: "POST"; path: readonly ["tasks", "claim"];
    right: "work"; effect: "changes"; input: ClaimTaskInput; output: ClaimTaskOutput;
  };
  "renew-task": {
    method: "POST"; path: readonly ["tasks", string, "renew"];
    right: "work"; effect: "changes"; input: RenewTaskInput; output: RenewTaskOutput;
  };
  "complete-task": {
    method: "POST"; path: readonly ["tasks", string, "complete"];
    right: "work"; effect: "changes"; input: CompleteTaskInput; output: CompleteTaskOutput;
  };
  "fail-task": {
    method: "POST"; path: readonly ["tasks", string, "fail"];
    right: "work"; effect: "changes"; input: FailTaskInput; output: FailTaskOutput;
  };
  "suspend-task": {
    method: "POST"; path: readonly ["tasks", string, "suspend"];
    right: "work"; effect: "changes"; input: SuspendTaskInput; output: SuspendTaskOutput;
  };
  "release-task": {
    method: "POST"; path: readonly ["tasks", string, "release"];
    right: "work"; effect: "changes"; input: ReleaseTaskInput; output: ReleaseTaskOutput;
  };
  "append-frames": {
    method: "POST"; path: readonly ["tasks", string, "frames"];
    right: "work"; effect: "changes"; input: AppendFramesInput; output: AppendFramesOutput;
  };
  "report-progress": {
    method: "POST"; path: readonly ["tasks", string, "progress"];
    right: "work"; effect: "changes"; input: ReportProgressInput; output: ReportProgressOutput;
  };
  "append-logs": {
    method: "POST"; path: readonly ["tasks", string, "logs"];
    right: "work"; effect: "changes"; input: AppendLogsInput; output: AppendLogsOutput;
  };
  "report-usage": {
    method: "POST"; path: readonly ["tasks", string, "usage"];
    right: "work"; effect: "changes"; input: ReportUsageInput; output: ReportUsageOutput;
  };
  "get-step": {
    method: "GET"; path: readonly ["tasks", string, "steps", string];
    right: "work"; effect: "reads"; input: GetStepInput; output: GetStepOutput;
  };
  "record-step": {
    method: "PUT"; path: readonly ["tasks", string, "steps", string];
    right: "work"; effect: "changes"; input: RecordStepInput; output: RecordStepOutput;
  };
  "register-push-worker": {
    method: "PUT"; path: readonly ["push-workers", string];
    right: "work"; effect: "changes"; input: RegisterPushWorkerInput; output: RegisterPushWorkerOutput;
  };
  "list-push-workers": {
    method: "GET"; path: readonly ["push-workers"];
    right: "view"; effect: "reads"; input: ListPushWorkersInput; output: ListPushWorkersOutput;
  };
  "remove-push-worker": {
    method: "DELETE"; path: readonly ["push-workers", string];
    right: "work"; effect: "changes"; input: RemovePushWorkerInput; output: RemovePushWorkerOutput;
  };
  "list-bulk-jobs": {
    method: "GET"; path: readonly ["bulk"];
    right: "view"; effect: "reads"; input: ListBulkJobsInput; output: ListBulkJobsOutput;
  };
  "get-bulk-job": {
    method: "GET"; path: readonly ["bulk", string];
    right: "view"; effect: "reads"; input: GetBulkJobInput; output: GetBulkJobOutput;
  };
  "preview-bulk-job": {
    method: "POST"; path: readonly ["bulk", "preview"];
    right: "view"; effect: "reads"; input: PreviewBulkJobInput; output: PreviewBulkJobOutput;
  };
  "start-bulk-job": {
    method: "POST"; path: readonly ["bulk"];
    right: "operate"; effect: "destroys"; input: StartBulkJobInput; output: StartBulkJobOutput;
  };
  "stop-bulk-job": {
    method: "POST"; path: readonly ["bulk", string, "stop"];
    right: "operate"; effect: "changes"; input: StopBulkJobInput; output: StopBulkJobOutput;
  };
  "count-runs": {
    method: "GET"; path: readonly ["counts"];
    right: "view"; effect: "reads"; input: CountRunsInput; output: CountRunsOutput;
  };
  "explain-runs": {
    method: "POST"; path: readonly ["runs", "explain"];
    right: "view"; effect: "reads"; input: ExplainRunsInput; output: ExplainRunsOutput;
  };
  "follow-feed": {
    method: "GET"; path: readonly ["feed"];
    right: "view"; effect: "reads"; input: FollowFeedInput; output: FollowFeedOutput;
    event: FeedEvent;
  };
  "list-audit": {
    method: "GET"; path: readonly ["audit"];
    right: "view"; effect: "reads"; input: ListAuditInput; output: ListAuditOutput;
  };
  "inspect": {
    method: "GET"; path: readonly ["inspection"];
    right: "view"; effect: "reads"; input: InspectInput; output: InspectOutput;
  };
  "list-keeper-tasks": {
    method: "GET"; path: readonly ["keeper-tasks"];
    right: "view"; effect: "reads"; input: ListKeeperTasksInput; output: ListKeeperTasksOutput;
  };
  "run-keeper-task": {
    method: "POST"; path: readonly ["keeper-tasks", string, "run"];
    right: "administer"; effect: "changes"; input: RunKeeperTaskInput; output: RunKeeperTaskOutput;
  };
  "list-executions": {
    method: "GET"; path: readonly ["executions"];
    right: "view"; effect: "reads"; input: ListExecutionsInput; output: ListExecutionsOutput;
  };
  "get-execution": {
    method: "GET"; path: readonly ["executions", string];
    right: "view"; effect: "reads"; input: GetExecutionInput; output: GetExecutionOutput;
  };
  "get-server": {
    method: "GET"; path: readonly ["server"];
    right: "view"; effect: "reads"; input: GetServerInput; output: GetServerOutput;
  };
  "list-tokens": {
    method: "GET"; path: readonly ["tokens"];
    right: "administer"; effect: "reads"; input: ListTokensInput; output: ListTokensOutput;
  };
  "create-token": {
    method: "POST"; path: readonly ["tokens"];
    right: "administer"; effect: "changes"; input: CreateTokenInput; output: CreateTokenOutput;
  };
  "delete-token": {
    method: "DELETE"; path: readonly ["tokens", string];
    right: "administer"; effect: "destroys"; input: DeleteTokenInput; output: DeleteTokenOutput;
  };
  "list-sessions": {
    method: "GET"; path: readonly ["sessions"];
    right: "administer"; effect: "reads"; input: ListSessionsInput; output: ListSessionsOutput;
  };
  "delete-session": {
    method: "DELETE"; path: readonly ["sessions", string];
    right: "administer"; effect: "destroys"; input: DeleteSessionInput; output: DeleteSessionOutput;
  };
  "rotate-secrets": {
    method: "POST"; path: readonly ["secrets", "rotate"];
    right: "administer"; effect: "changes"; input: RotateSecretsInput; output: RotateSecretsOutput;
  };
}

// rawKeys are the properties of replies whose values are kept as Raw.
export const rawKeys: readonly string[] = [
  "answer_schema",
  "attrs",
  "definition",
  "input_schema",
  "json",
  "memo",
  "payload",
  "result_schema",
];
