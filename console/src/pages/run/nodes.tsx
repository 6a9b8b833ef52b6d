import { useState } from "preact/hooks";
import type { Attempt, Build, ChildRun, Node as RunNode } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { setQuery, useQuery } from "../../app/router";
import { exact, plural } from "../../lib/text";
import { Empty } from "../../ui/basic";
import { StateLabel, states as allStates, type StateKey } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import { sentence } from "../../ui/why";
import type { RunData } from "./data";
import type { View } from "./view";

interface Props { data: RunData; view: View; selected: string | undefined; onSelect(node: string): void }

const pageSize = 200;

const columns = ["node", "state", "attempts", "started", "took", "worker"] as const;
type Column = (typeof columns)[number];

const titles: Record<Column, string> = {
  node: "Node", state: "State", attempts: "Attempts", started: "Started", took: "Took", worker: "Worker",
};

// falling are the columns whose greatest values are of interest first.
const falling: readonly Column[] = ["attempts", "took"];

// attention are the states, what needs somebody first.
const attention: StateKey[] = ["late", "person", "signal", "unserved", "blocked", "paused", "retry", "failed", "expired", "delayed",
  "running", "children", "queued", "none", "cancelled", "skipped", "succeeded"];

// NodeTable lists the nodes: what the graph and the timeline show, in words. It is sorted by any column, and filtered by
// words and states.
export function NodeTable({ data, view, selected, onSelect }: Props) {
  const { zone } = usePrefs();
  const query = useQuery();
  const narrow = matchMedia("(max-width: 640px)").matches;
  const by = (columns.find((c) => c === query.get("sort")) ?? (narrow ? "state" : "node")) as Column;
  const down = query.has("down") ? query.get("down") === "1" : falling.includes(by);
  const [shown, setShown] = useState(pageSize);
  const [text, setText] = useState("");
  const state = query.get("node_state") ?? "";
  const layout = data.layout.data;
  const group = query.get("group");
  const at = group === null ? undefined : data.places.get(group);
  const fold = at === undefined ? undefined : layout?.folds?.[data.folds?.[at] ?? -1];
  const members = fold && new Set(fold.members);
  const names = layout?.nodes.length ? layout.nodes.map((n) => n.node) : data.run.data!.nodes.map((n) => n.node);
  const all = names.map((node, i) => {
    const n = data.nodes.get(node);
    const now = layout?.states?.[i];
    const h = view.history.get(node);
    const first = h?.segments.find((s) => s.phase !== "queued")?.from;
    const started = n?.started_at ?? now?.started_at ?? (first ? new Date(first).toISOString() : undefined);
    const ended = n?.completed_at ?? now?.ended_at;
    const last = n?.history?.[n.history.length - 1];
    const worker = n?.worker ?? last?.worker ?? now?.worker ?? "";
    const why = n?.waiting ? sentence(n.waiting, zone, n.waits?.[0]) : n?.reason?.split("\n")[0] ?? n?.message ?? "";
    const parts = n?.child?.total ? `${progressOf(n, n.child)}. ` : "";
    return {
      node, i, n, state: view.state(i), attempts: n?.attempts ?? now?.attempts ?? 0, started, ended, worker, build: last?.build,
      why: parts + why, took: started ? (ended ? Date.parse(ended) : view.now) - Date.parse(started) : -1,
    };
  });
  type Row = (typeof all)[number];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (r: Row) => (!members || members.has(r.i)) && (!state || r.state.key === state) &&
    words.every((w) => r.node.toLowerCase().includes(w) || r.why.toLowerCase().includes(w) || r.worker.toLowerCase().includes(w));
  const order: Record<Column, (a: Row, b: Row) => number> = {
    node: (a, b) => a.i - b.i,
    state: (a, b) => attention.indexOf(a.state.key as StateKey) - attention.indexOf(b.state.key as StateKey),
    attempts: (a, b) => a.attempts - b.attempts,
    started: (a, b) => (a.started ?? "~").localeCompare(b.started ?? "~"),
    took: (a, b) => a.took - b.took,
    worker: (a, b) => (a.worker || "~").localeCompare(b.worker || "~"),
  };
  const list = all.filter(matches).sort((a, b) => (down ? -1 : 1) * order[by](a, b) || a.i - b.i);
  const counts = new Map<string, number>();
  for (const r of all) counts.set(r.state.key, (counts.get(r.state.key) ?? 0) + 1);
  const sort = (key: Column) => setQuery(key === by ? { sort: key, down: down ? "0" : "1" } : { sort: key, down: undefined });
  const head = (key: Column, more = "") => (
    <th class={more} aria-sort={by === key ? (down ? "descending" : "ascending") : "none"}>
      <button type="button" class="bare" onClick={() => sort(key)}>{titles[key]}{by === key && <span aria-hidden="true"> {down ? "↓" : "↑"}</span>}</button>
    </th>
  );
  return (
    <>
      <div class="bar-top row">
        <label class="search small"><span class="sr">Find nodes by their name, error or worker</span>
          <input name="nodes" type="search" placeholder="Name, error or worker" value={text} onInput={(e) => (setText(e.currentTarget.value), setShown(pageSize))} /></label>
        <label class={`chip${state ? " on" : ""}`}><span class="sr">State</span>
          <select name="node_state" value={state} onChange={(e) => setQuery({ node_state: e.currentTarget.value || undefined })}>
            <option value="">Any state</option>
            {attention.filter((k) => counts.has(k) || k === state).map((k) => <option key={k} value={k}>{`${allStates[k].word} (${exact(counts.get(k) ?? 0)})`}</option>)}
          </select></label>
        {narrow && (
          <label class="chip"><span class="sr">Order</span>
            <select name="sort" value={by} onChange={(e) => setQuery({ sort: e.currentTarget.value, down: undefined })}>
              {columns.map((c) => <option key={c} value={c}>{`By ${titles[c].toLowerCase()}`}</option>)}
            </select></label>
        )}
        {fold && <button type="button" class="chip on" onClick={() => setQuery({ group: undefined })}>{fold.node} ×</button>}
        <span class="s muted" role="status">{list.length === all.length ? plural(all.length, "node") : `${exact(list.length)} of ${plural(all.length, "node")}`}</span>
      </div>
      <div class="scroll">
        {list.length === 0 && <Empty title="No node matches."><button type="button" class="btn" onClick={() => (setText(""), setQuery({ node_state: undefined, group: undefined }))}>Show all nodes</button></Empty>}
        {list.length > 0 && (
          <table class="nodes-table">
            <thead>
              <tr>
                {head("node", "w-run")}{head("state", "w-state")}<th>Why</th>
                {head("attempts", "num w-took c2")}{head("started", "num w-time c3")}{head("took", "num w-took c2")}{head("worker", "c3 w-worker")}
              </tr>
            </thead>
            <tbody>
              {list.slice(0, shown).map(({ node, state, attempts, started, ended, worker, build, why, i }) => (
                <tr key={node} data-node={node} class={node === selected ? "sel" : ""} onClick={() => onSelect(node)}>
                  <td>
                    <button type="button" class="bare mono strong" onClick={() => onSelect(node)}>{node}</button>
                    {view.critical.nodes.has(i) && <span class="tag">critical</span>}
                  </td>
                  <td><StateLabel state={state} /></td>
                  <td class="soft" title={why}>{why}</td>
                  <td class="num c2">{attempts || "–"}</td>
                  <td class="num c3"><Time at={started} /></td>
                  <td class="num c2">{started ? <Took from={started} to={ended} /> : "–"}</td>
                  <td class="mono s c3 ell" title={[worker, build && buildName(build)].filter(Boolean).join("\n")}>{workerName(worker)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {list.length > shown && (
          <div class="more"><button type="button" class="btn" onClick={() => setShown(shown + pageSize)}>Show {pageSize} more of {exact(list.length)}</button></div>
        )}
      </div>
    </>
  );
}

// workerName returns the name of a worker without the digits of its instance.
export const workerName = (worker: string) => worker.replace(/-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, "");

// partsOf says how many items of a map, or nodes of a child run, have ended.
export function partsOf(n: RunNode, c: ChildRun): string {
  const all = plural(c.total, n.kind === "map" ? "item" : "node");
  return c.open ? `${exact(c.total - c.open)} of ${all}` : all;
}

// progressOf says the same with the name of the child run.
function progressOf(n: RunNode, c: ChildRun): string {
  const run = n.kind === "map" ? "" : n.kind === "loop" ? `turn ${n.generation ?? 1}: ` : "child run: ";
  return run + partsOf(n, c);
}

// buildName says which program an attempt ran in.
export const buildName = (b: Build) => [b.path, b.version, b.revision?.slice(0, 12)].filter(Boolean).join(" ");

// generations groups attempts by the rerun that they belong to, the latest first, and numbers them from 1 in each.
export function generations(list: readonly Attempt[]): { replay: number; attempts: { a: Attempt; number: number }[] }[] {
  const out = new Map<number, Attempt[]>();
  for (const a of list) out.set(a.replay ?? 0, [...(out.get(a.replay ?? 0) ?? []), a]);
  return [...out].sort((x, y) => y[0] - x[0]).map(([replay, attempts]) => ({ replay, attempts: attempts.map((a, i) => ({ a, number: i + 1 })).reverse() }));
}
