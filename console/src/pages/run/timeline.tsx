import { usePrefs } from "../../app/prefs";
import { clock, span } from "../../lib/time";
import { counts, together } from "../../graph/folded";
import { Empty, Loading } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import type { State } from "../../ui/state";
import { useNow } from "../../ui/time";
import type { RunData } from "./data";
import { lead, readyTimes, type Segment } from "./history";
import type { View } from "./view";

interface Props {
  data: RunData; view: View; selected: string | undefined; onSelect(node: string): void;
  // onFold opens the nodes that a row stands for, by the first one.
  onFold(first: string): void;
}

// Row is a node, or several that are alike: then it has the name of all of them and the first one's place.
interface Row { i: number; node: string; name: string; segments: Segment[]; state: State; critical: boolean; count: number }

const most = 500; // rows that are drawn; the table has all

// short are the steps of the axis of a time of seconds, in milliseconds; steps those of longer times, in seconds.
const short = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 604_800];

// Timeline draws how each node spent its time: waiting, queued and running look different.
export function Timeline({ data, view, selected, onSelect, onFold }: Props) {
  const { zone } = usePrefs();
  const run = data.run.data!;
  const open = run.state === "running" && !view.past;
  const tick = useNow(open);
  const now = view.past ? view.now : open ? tick.getTime() : run.closed_at ? Date.parse(run.closed_at) : view.now;
  if (!data.timed && data.events.length === 0) {
    const failed = data.layout.error;
    return failed ? <Empty title="The times of the nodes cannot be read."><p>{failed.message}</p></Empty> : <Loading />;
  }
  const all = rows(data, view, now);
  const list = all.slice(0, most);
  if (list.length === 0) return <Empty title="Nothing has started yet." />;
  const from = Math.min(Date.parse(run.starts_at ?? run.created_at), ...list.map((r) => r.segments[0]!.from));
  const to = Math.max(now, from + 10) + (now - from) * 0.04;
  const x = (t: number) => ((t - from) / (to - from)) * 100;
  const brief = to - from < 5000;
  const step = brief ? short.find((ms) => (to - from) / ms <= 6)! : (steps.find((s) => (to - from) / (s * 1000) <= 6) ?? 604_800) * 1000;
  const marks: number[] = [];
  for (let t = brief ? from : Math.ceil(from / step) * step; t < to; t += step) marks.push(t);
  if (marks.length < 3 && !brief) marks.splice(0, marks.length, from, (from + now) / 2, now);
  // A short time has marks from its begin, since its seconds are all the same.
  const label = (t: number, k: number) => brief && k > 0 ? `+${span(t - from)}` : clock(new Date(t), zone);
  const narrow = matchMedia("(max-width: 640px)").matches;
  const labelled = marks.map((t, k) => ({ t, k })).filter(({ t, k }) => x(t) < (narrow ? 80 : 94) &&
    (!narrow || k % Math.ceil(marks.length / 3) === 0) && (!open || x(now) - x(t) > (narrow ? 34 : 8)));
  return (
    <div class="timeline" role="group" data-log={data.log} aria-label="Timeline of the nodes. The tab Table shows the same.">
      <div class="axis" aria-hidden="true">
        {labelled.map(({ t, k }) => <span key={t} style={{ left: `${x(t)}%` }}>{label(t, k)}</span>)}
        {open && <b style={{ left: `${x(now)}%` }}>{clock(new Date(now), zone)}</b>}
      </div>
      <div class="lines" aria-hidden="true">
        {marks.map((t) => <i key={t} style={{ left: `${x(t)}%` }} />)}
        {open && <i class="now" style={{ left: `${x(now)}%` }} />}
      </div>
      {list.map((r) => {
        const { state, critical } = r;
        const last = r.segments[r.segments.length - 1]!;
        return (
          <button type="button" key={r.node} class={`bar${r.node === selected ? " on" : ""}`} onClick={() => r.count > 1 ? onFold(r.node) : onSelect(r.node)}
            data-bar={r.node} data-count={r.count > 1 ? r.count : undefined}>
            <span class="who ell"><span class={`c-${state.hue}`}><Icon name={state.icon} size={14} /></span><span class="ell" title={r.name}>{r.name}</span></span>
            <span class="sr">{spoken(r, state.word, now)}</span>
            <span class={`track${critical ? " critical" : ""}`}>
              {r.segments.map((s, k) => (
                <i key={k} class={`p-${s.phase}`} title={tip(s, now)}
                  style={{ left: `${x(s.from)}%`, width: `${Math.max(0.25, x(s.to || now) - x(s.from))}%` }} />
              ))}
              <span class="note-end ell" style={{ left: `min(${x(last.to || now) + 0.6}%, 88%)` }}>
                {span((last.to || now) - r.segments[0]!.from)}
              </span>
            </span>
          </button>
        );
      })}
      {all.length > most && <p class="s muted pad">The first {most} rows. The table has all nodes.</p>}
      {data.log === "unavailable" && <p class="s muted pad" data-timeline="attempts">From the attempts: the events of the run cannot be read.</p>}
    </div>
  );
}

function rows(data: RunData, view: View, now: number): Row[] {
  const layout = data.layout.data;
  const run = data.run.data!;
  if (!layout) return [];
  const begin = Date.parse(run.starts_at ?? run.created_at);
  const ready = readyTimes(layout.edges, begin, (i) => view.history.get(layout.nodes[i]!.node)?.ended ?? 0);
  const of = (i: number) => lead(data.nodes.get(layout.nodes[i]!.node) ?? layout.nodes[i]!, view.history.get(layout.nodes[i]!.node), ready(i), now);
  const out: Row[] = [];
  const groups = layout.folds?.map((f) => ({ name: f.node, members: f.members! })) ?? layout.nodes.map((n, i) => ({ name: n.node, members: [i] }));
  for (const { name, members } of groups) {
    const i = members[0]!;
    const parts = members.map(of);
    if (parts.every((p) => p.length === 0)) continue;
    const states = members.map((m) => view.state(m));
    const segments = parts.length === 1 ? parts[0]! : spread(parts, counts(states, 6), now);
    out.push({
      i, node: layout.nodes[i]!.node, name: members.length > 1 ? `${name} ×${members.length}` : name, segments, count: members.length,
      state: together(states), critical: members.some((m) => view.critical.nodes.has(m)),
    });
  }
  return out.sort((a, b) => a.segments[0]!.from - b.segments[0]!.from || a.i - b.i);
}

// order are the phases, the one that is drawn of several at a time first.
const order: readonly Segment["phase"][] = ["failed", "held", "person", "running", "children", "delay", "succeeded", "queued"];

// pieces is into how many parts the time of alike nodes is split.
const pieces = 48;

// spread draws alike nodes as one: in each piece of their time, what the node does that needs attention most.
function spread(all: Segment[][], note: string, now: number): Segment[] {
  const list = all.flat();
  if (list.length === 0) return [];
  const from = list.reduce((t, s) => Math.min(t, s.from), Infinity), to = list.reduce((t, s) => Math.max(t, s.to || now), 0);
  const size = Math.max(1, (to - from) / pieces);
  const best: number[] = [];
  for (const s of list) {
    const rank = order.indexOf(s.phase);
    const last = Math.min(pieces - 1, Math.floor(((s.to || now) - from) / size));
    for (let p = Math.min(pieces - 1, Math.floor((s.from - from) / size)); p <= last; p++) best[p] = Math.min(best[p] ?? 99, rank);
  }
  const open = list.some((s) => !s.to);
  const out: Segment[] = [];
  for (let p = 0; p < best.length; p++) {
    if (best[p] === undefined) continue;
    const phase = order[best[p]!]!, start = from + p * size, end = Math.min(to, start + size), before = out[out.length - 1];
    if (before?.phase === phase && before.to >= start - 1) before.to = end;
    else out.push({ phase, from: start, to: end, attempt: 0, note });
  }
  if (open) out[out.length - 1]!.to = 0;
  return out;
}

const words: Record<Segment["phase"], string> = {
  queued: "queued", running: "running", failed: "failed", succeeded: "ran", delay: "delayed", person: "waiting",
  held: "held back", children: "children ran",
};

const tip = (s: Segment, now: number) =>
  [`${words[s.phase]} for ${span((s.to || now) - s.from)}`, s.attempt ? `attempt ${s.attempt}` : "", s.note.split("\n")[0]]
    .filter(Boolean).join("\n");

const spoken = (r: Row, word: string, now: number) =>
  `${word.toLowerCase()}: ${r.segments.map((s) => `${words[s.phase]} ${span((s.to || now) - s.from)}`).join(", ")}`;
