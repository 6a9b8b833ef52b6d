import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { LaneQueue, PartitionQueue, QueuedPlace } from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Icon, type IconName } from "../../ui/icon";
import { Time, Took } from "../../ui/time";
import { usePolled } from "../../ui/polled";

// NextUp shows who is next in a lane: for each place the rule that gives it.
export function NextUp({ lane, paused }: { lane: string; paused: boolean }) {
  const loaded = useLoad<LaneQueue>((s) => get(["lanes", lane, "queue"], { places: 20 }, s), [lane]);
  useFeed(() => loaded.reload());
  usePolled(loaded.reload);
  const [at, setAt] = useState<number>();
  const q = loaded.data;
  const parts = q?.partitions ?? [];
  const part = parts.find((p) => p.partition === at) ?? parts[0];
  const note = parts.length > 1 ? "the order within a partition; workers take the partitions in turn"
    : loaded.at ? <>one order for the whole lane, as of <Time at={loaded.at.toISOString()} /></> : "";
  return (
    <Card title="Who is next, and why" note={note} side={parts.length > 1 && (
      <label class="chip"><span class="sr">Partition</span>
        <select name="partition" value={part?.partition} onChange={(e) => setAt(Number(e.currentTarget.value))}>
          {parts.map((p) => <option key={p.partition} value={p.partition}>Partition {p.partition}: {p.waiting}</option>)}
        </select></label>
    )}>
      {loaded.error && !q && <Fault error={loaded.error} retry={loaded.reload} />}
      {!q && !loaded.error && <Loading />}
      {q && !part && <Empty title="Nothing waits for a worker." />}
      {part && (paused || part.paused) && <p class="note w-held">The lane is paused: nothing is claimed until it is resumed. Then this is the order.</p>}
      {part && part.turns && part.turns.length > 1 && <Turns part={part} />}
      {part && <Places part={part} />}
    </Card>
  );
}

// Turns lists the tenants by whose turn comes first.
const Turns = ({ part }: { part: PartitionQueue }) => (
  <p class="row wrap s pad turns">
    <span class="soft">Turns go to</span>
    {part.turns!.map((t, i) => (
      <span key={t.key} class="tag" data-turn={t.key}>{i + 1}. {t.key || "without a key"} <b>{t.waiting}</b></span>
    ))}
  </p>
);

function Places({ part }: { part: PartitionQueue }) {
  const fair = part.next.some((p) => p.key !== undefined || p.rule === "turn");
  return (
    <>
      <table class="queue">
        <thead>
          <tr>
            <th class="w-place num">#</th><th>Node</th><th>Run</th>{fair && <th class="w-key c2">Tenant</th>}
            <th class="num w-prio c3">Priority</th><th class="num w-took">Age</th><th class="w-why">Why this place</th>
          </tr>
        </thead>
        <tbody>
          {part.next.map((p, i) => (
            <tr key={p.execution} data-place={i + 1} data-rule={p.rule}>
              <td class="num muted">{i + 1}</td>
              <td class="mono strong" title={p.activity}>{p.node ?? p.activity ?? "another namespace"}</td>
              <td class="mono"><RunLink of={p} /></td>
              {fair && <td class="c2">{p.key ? <span class="tag">{p.key}</span> : <span class="muted">–</span>}</td>}
              <td class="num c3">{p.priority}</td>
              <td class="num"><Took from={p.since} /></td>
              <td title={why(p, i, part)}><span class="row c-run"><Icon name={icons[p.rule] ?? "queued"} size={14} /><span class="soft ell">{why(p, i, part)}</span></span></td>
            </tr>
          ))}
        </tbody>
      </table>
      {part.waiting > part.next.length && <p class="s muted pad">And {plural(part.waiting - part.next.length, "more node", "more nodes")} behind these. What becomes ready later can come before them.</p>}
    </>
  );
}

const icons: Record<string, IconName> = { priority: "up", turn: "turn", longest_wait: "delayed", age: "queued" };

// why says which rule gives a node its place.
function why(p: QueuedPlace, i: number, part: PartitionQueue): string {
  switch (p.rule) {
    case "priority":
      return "Higher priority than others that wait";
    case "longest_wait":
      return "Every 8th claim takes what has waited longest";
    case "turn": {
      const before = part.next.slice(0, i).filter((o) => o.key === p.key).length;
      if (p.key === undefined) return "Fair turn of its tenant";
      const who = p.key || "nodes without a tenant";
      return before ? `Turn ${before + 1} of ${who}` : `Fair turn of ${who}`;
    }
    default:
      return i === 0 ? "Has waited longest" : "Next by age";
  }
}

// RunLink leads to a node of a run, as far as it is known.
export const RunLink = ({ of }: { of: Pick<QueuedPlace, "execution" | "flow" | "run" | "node"> }) => of.flow && of.run
  ? <Link class="link" to={href(runPath(of.flow, of.run), { node: of.node })} title={of.flow}>{of.run}</Link>
  : <span class="muted" title={of.execution}>no run</span>;
