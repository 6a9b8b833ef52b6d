// Who spends from budgets, as far as the engine knows: runs with budgets of their own, keys of shared ones, and at present
// those that have reserved a part or wait.
import { get } from "../../api/client";
import type { Budget, BudgetUse, Reservation } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { count, exact, plural } from "../../lib/text";
import { Card } from "../../ui/basic";
import { StateLabel, states } from "../../ui/state";
import { Took } from "../../ui/time";
import { usePolled } from "../../ui/polled";
import { RunLink } from "../lanes/queue";
import { keyOf } from "./burndown";
import { parameters } from "./change";

const most = 10;

// fullness is the largest share of a hard limit that is spent or reserved.
export const fullness = (b: Budget) => Math.max(0, ...b.amounts.map((a) => a.hard ? (a.spent + a.reserved) / a.hard : 0));

export const byFullness = (list: Budget[]) => [...list].sort((a, b) => fullness(b) - fullness(a));

const RoomLabel = ({ b }: { b: Budget }) => b.used_up
  ? <StateLabel state={states.blocked} word="Used up" /> : <StateLabel state={states.succeeded} word="Room" />;

export const Spent = ({ b }: { b: Budget }) => (
  <span class="row"><span class="meter" aria-hidden="true"><i class="g-accent" style={{ width: `${Math.min(1, fullness(b)) * 100}%` }} /></span>
    <span class="ell">{b.amounts.map((a) => `${count(a.spent)}${a.hard ? ` of ${count(a.hard)}` : ""} ${a.dimension}`).join(", ")}</span></span>
);

// RunsOf shows which runs spend most of the budgets that they have of their own.
export function RunsOf({ list }: { list: Budget[] }) {
  const first = list[0]!;
  return (
    <Card title={<code>{first.name}</code>} note={`each run of ${first.flow} has its own`}>
      <table>
        <thead><tr><th class="w-time">Who spends</th><th>Spent</th><th class="w-act">State</th></tr></thead>
        <tbody>
          {byFullness(list).slice(0, most).map((b) => (
            <tr key={b.run} data-spender={b.run}>
              <td class="mono"><Link class="link" to={href(runPath(b.flow!, b.run!))}>{b.run}</Link></td>
              <td><Spent b={b} /></td><td><RoomLabel b={b} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.length > most && <p class="s muted pad">The {most} fullest of {list.length}.</p>}
    </Card>
  );
}

interface KeysProps { list: Budget[]; chosen: string; onChoose(key: string): void }

// KeysOf shows which keys spend most of a shared budget that has one for each key.
export function KeysOf({ list, chosen, onChoose }: KeysProps) {
  return (
    <Card title={<code>{list[0]!.name}</code>} note={`shared, ${plural(list.length, "key")}`}>
      <table>
        <thead><tr><th class="w-time">Who spends</th><th>Spent</th><th class="w-took">State</th></tr></thead>
        <tbody>
          {byFullness(list).slice(0, 5 * most).map((b) => (
            <tr key={b.key} data-key={b.key} class={keyOf(b) === chosen ? "sel" : ""} onClick={() => onChoose(keyOf(b))}>
              <td><button type="button" class="bare mono strong" aria-pressed={keyOf(b) === chosen} onClick={() => onChoose(keyOf(b))}>{b.key}</button></td>
              <td><Spent b={b} /></td><td><RoomLabel b={b} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.length > 5 * most && <p class="s muted pad">The {5 * most} fullest of {list.length}.</p>}
    </Card>
  );
}

interface Holder { of: Reservation; nodes: Set<string>; amounts: Map<string, number> }

// holders gathers reservations by their runs, the largest first.
function holders(use: BudgetUse): Holder[] {
  const out = new Map<string, Holder>();
  for (const r of use.reserved) {
    const key = r.run ? `${r.flow}/${r.run}` : r.execution;
    const h = out.get(key) ?? { of: r, nodes: new Set<string>(), amounts: new Map<string, number>() };
    out.set(key, h);
    h.nodes.add(r.node ?? r.activity ?? "another namespace");
    h.amounts.set(r.dimension, (h.amounts.get(r.dimension) ?? 0) + r.amount);
  }
  const size = (h: Holder) => Math.max(...h.amounts.values());
  return [...out.values()].sort((a, b) => size(b) - size(a)).slice(0, most);
}

// UseOf shows which runs have reserved most of a budget, and which wait for it.
export function UseOf({ budget: b }: { budget: Budget }) {
  const busy = !!b.used_up || b.amounts.some((a) => a.reserved > 0);
  const loaded = useLoad<BudgetUse | null>((s) => busy ? get(["budgets", b.name, "use"], parameters(b), s) : Promise.resolve(null), [keyOf(b), busy]);
  usePolled(loaded.reload);
  const use = loaded.data;
  const list = use ? holders(use) : [];
  return (
    <section class="gap" data-use-of={b.name}>
      <h3>Who spends</h3>
      {list.length > 0 && (
        <table class="plain">
          <thead><tr><th>Run</th><th>Node</th><th class="num">Reserved</th></tr></thead>
          <tbody>
            {list.map((h) => (
              <tr key={h.of.execution} data-holder={h.of.run ?? h.of.execution}>
                <td class="mono"><RunLink of={h.of} /></td><td class="mono">{[...h.nodes].join(", ")}</td>
                <td class="num">{[...h.amounts].map(([d, n]) => `${exact(n)} ${d}`).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {use && use.reserving > use.reserved.length && <p class="s muted">By the {use.reserved.length} largest of {exact(use.reserving)} reservations.</p>}
      {use && use.waiting > 0 && (
        <>
          <p class="s">{plural(use.waiting, "node")} {use.waiting === 1 ? "waits" : "wait"} until it has room:</p>
          <ul class="ev">
            {use.queue.slice(0, most).map((p) => (
              <li key={p.execution} data-waits={p.run ?? p.execution}><span class="mono"><RunLink of={p} /></span><span class="mono soft grow">{p.node ?? p.activity}</span><span class="muted"><Took from={p.since} /></span></li>
            ))}
          </ul>
        </>
      )}
      <p class="s muted">{list.length ? "These have reserved a part of it." : "Nobody has reserved a part of it at present."} Of what is spent, the engine keeps how much, not by whom.</p>
    </section>
  );
}
