import { useState } from "preact/hooks";
import { usePrefs } from "../../app/prefs";
import { StateLabel, type StateKey } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import { sentence } from "../../ui/why";
import type { RunData } from "./data";
import type { View } from "./view";

interface Props { data: RunData; view: View; selected: string | undefined; onSelect(node: string): void }

const pageSize = 200;
type Column = "node" | "state" | "attempts" | "started" | "took";

// attention are the states, what needs somebody first.
const attention: StateKey[] = ["late", "person", "signal", "unserved", "blocked", "paused", "retry", "failed", "expired", "delayed",
  "running", "children", "queued", "none", "cancelled", "skipped", "succeeded"];

// NodeTable lists the nodes: what the graph and the timeline show, in words.
export function NodeTable({ data, view, selected, onSelect }: Props) {
  const { zone } = usePrefs();
  const [by, setBy] = useState<Column>(() => matchMedia("(max-width: 640px)").matches ? "state" : "node");
  const [shown, setShown] = useState(pageSize);
  const layout = data.layout.data;
  const names = layout?.nodes.length ? layout.nodes.map((n) => n.node) : data.run.data!.nodes.map((n) => n.node);
  const list = names.map((node, i) => {
    const n = data.nodes.get(node);
    const now = layout?.states?.[i];
    const h = view.history.get(node);
    const started = n?.started_at ?? now?.started_at;
    const ended = n?.completed_at ?? now?.ended_at;
    return {
      node, i, n, state: view.state(i), attempts: n?.attempts ?? now?.attempts ?? 0, started, ended,
      queued: h?.segments[0] && n?.created_at ? h.segments[0].from - Date.parse(n.created_at) : undefined,
      took: started ? (ended ? Date.parse(ended) : view.now) - Date.parse(started) : -1,
    };
  });
  const sorted = by === "node" ? list : [...list].sort((a, b) => {
    if (by === "state") return attention.indexOf(a.state.key as StateKey) - attention.indexOf(b.state.key as StateKey) || a.i - b.i;
    if (by === "attempts") return b.attempts - a.attempts;
    if (by === "took") return b.took - a.took;
    return (a.started ?? "~").localeCompare(b.started ?? "~");
  });
  const head = (key: Column, text: string, more = "") => (
    <th class={more} aria-sort={by === key ? (key === "attempts" || key === "took" ? "descending" : "ascending") : "none"}>
      <button type="button" class="bare" onClick={() => setBy(key)}>{text}</button>
    </th>
  );
  return (
    <div class="scroll">
      <table class="nodes-table">
        <thead>
          <tr>
            {head("node", "Node", "w-run")}{head("state", "State", "w-state")}<th>Why</th>
            {head("attempts", "Attempts", "num w-took c2")}{head("started", "Started", "num w-time c3")}
            {head("took", "Took", "num w-took c2")}<th class="c4">Worker</th>
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, shown).map(({ node, n, state, attempts, started, ended, i }) => (
            <tr key={node} data-node={node} class={node === selected ? "sel" : ""} onClick={() => onSelect(node)}>
              <td>
                <button type="button" class="bare mono strong" onClick={() => onSelect(node)}>{node}</button>
                {view.critical.nodes.has(i) && <span class="tag">critical</span>}
              </td>
              <td><StateLabel state={state} /></td>
              <td class="soft" title={n?.waiting ? sentence(n.waiting, zone, n.waits?.[0]) : n?.reason}>
                {n?.child ? `${n.child.total - n.child.open} of ${n.child.total} items. ` : ""}
                {n?.waiting ? sentence(n.waiting, zone, n.waits?.[0]) : n?.reason?.split("\n")[0] ?? n?.message ?? ""}
              </td>
              <td class="num c2">{attempts || "–"}</td>
              <td class="num c3"><Time at={started} /></td>
              <td class="num c2">{started ? <Took from={started} to={ended} /> : "–"}</td>
              <td class="mono s c4 ell">{n?.worker ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > shown && (
        <div class="more"><button type="button" class="btn" onClick={() => setShown(shown + pageSize)}>Show {pageSize} more of {sorted.length}</button></div>
      )}
    </div>
  );
}

