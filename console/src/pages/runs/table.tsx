import { useRef } from "preact/hooks";
import type { NodeCounts, Run, RunNow } from "../../api/types";
import { go, href, Link, runPath } from "../../app/router";
import { usePrefs } from "../../app/prefs";
import { firstLine, middle } from "../../lib/text";
import { Tags } from "../../ui/basic";
import { ended, StateLabel, stateOfRun } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import { brief, remedy, sentence } from "../../ui/why";
import type { Filters } from "./filters";

export const keyOf = (r: { flow: string; run: string }) => `${r.flow}\n${r.run}`;

interface Props {
  runs: Run[]; now: ReadonlyMap<string, RunNow>; filters: Filters; selectable: boolean; all: boolean;
  selected: ReadonlySet<string>; onSelect(s: ReadonlySet<string>): void;
}

// RunTable is the list. A row that no longer matches stays, dimmed.
export function RunTable({ runs, now, filters, selectable, selected, all, onSelect }: Props) {
  const last = useRef(-1);
  const pick = (i: number, on: boolean, range: boolean) => {
    const next = new Set(selected);
    const from = range && last.current >= 0 ? Math.min(last.current, i) : i;
    for (let k = from; k <= (range ? Math.max(last.current, i) : i); k++) {
      if (on) next.add(keyOf(runs[k]!));
      else next.delete(keyOf(runs[k]!));
    }
    last.current = i;
    onSelect(next);
  };
  const every = runs.every((r) => selected.has(keyOf(r)));
  return (
    <table class="runs">
      <thead>
        <tr>
          {selectable && (
            <th class="pick">
              <input type="checkbox" aria-label="Select all shown" checked={all || every}
                onChange={(e) => onSelect(new Set(e.currentTarget.checked ? runs.map(keyOf) : []))} />
            </th>
          )}
          <th class="w-state">State</th>
          <th class="w-run">Run and flow</th>
          <th>Now</th>
          <th class="w-nodes c3">Nodes</th>
          <th class="w-tags c4">Tags</th>
          <th class="num w-time c2">Started</th>
          <th class="num w-took c3">Took</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((r, i) => {
          const key = keyOf(r);
          const chosen = all || selected.has(key);
          const gone = filters.states.length > 0 && !filters.states.includes(r.state);
          return (
            <tr key={key} data-run={r.run} class={`${chosen ? "sel" : ""}${gone ? " gone" : ""}`}
              onClick={(e) => (e.target as Element).closest("a,input,button") || go(href(runPath(r.flow, r.run)))}>
              {selectable && (
                <td class="pick">
                  <input type="checkbox" aria-label={`Select ${r.run}`} checked={chosen}
                    onClick={(e) => pick(i, e.currentTarget.checked, e.shiftKey)} />
                </td>
              )}
              <td><StateLabel state={stateOfRun(r, now.get(key))} /></td>
              <td class="id two">
                <Link class="mono strong" to={href(runPath(r.flow, r.run))} title={r.run}>{middle(r.run, 24)}</Link>
                <small>{r.flow}</small>
              </td>
              <td class="now two"><Now run={r} now={now.get(key)} /></td>
              <td class="c3"><NodeBar n={r.nodes} /></td>
              <td class="c4"><Tags tags={r.tags} short /></td>
              <td class="num c2"><Time at={r.created_at} /></td>
              <td class="num c3"><Took from={r.began_at} to={ended(r.state) ? r.closed_at ?? r.began_at : undefined} /></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

// Now says in words what the run does: the column that saves a click.
function Now({ run, now }: { run: Run; now: RunNow | undefined }) {
  const node = now?.node ?? run.failed_node;
  const { zone } = usePrefs();
  const text = now?.waiting ? brief(now.waiting, zone, now.wait) : firstLine(now?.message ?? "");
  return (
    <span title={now?.waiting ? [sentence(now.waiting, zone, now.wait), remedy(now.waiting)].filter(Boolean).join("\n") : now?.message}>
      {node ? <code class="strong">{node}</code> : <span class="muted">–</span>}{text && <>{" "}<small class="soft">{text}</small></>}
    </span>
  );
}

// NodeBar shows how many nodes have ended, and how.
export function NodeBar({ n }: { n: NodeCounts }) {
  const bad = (n.failed ?? 0) + (n.expired ?? 0);
  const idle = (n.cancelled ?? 0) + (n.skipped ?? 0);
  const done = Math.max(0, n.all - n.open - bad - idle);
  const share = (part: number) => ({ width: `${n.all ? (part / n.all) * 100 : 0}%` });
  return (
    <span class="nodes">
      <span class="meter" aria-hidden="true">
        <i class="g-ok" style={share(done)} /><i class="g-bad" style={share(bad)} /><i class="g-idle" style={share(idle)} />
      </span>
      <span class="s muted">{n.all - n.open}/{n.all}<span class="sr"> nodes ended{bad ? `, ${bad} failed` : ""}</span></span>
    </span>
  );
}
