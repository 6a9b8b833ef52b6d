import { usePrefs } from "../../app/prefs";
import { clock, span } from "../../lib/time";
import { Empty } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import { useNow } from "../../ui/time";
import type { RunData } from "./data";
import { lead, type Segment } from "./history";
import type { View } from "./view";

interface Props { data: RunData; view: View; selected: string | undefined; onSelect(node: string): void }

interface Row { i: number; node: string; segments: Segment[] }

const most = 500; // rows that are drawn; the table has all

const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 604_800];

// Timeline draws how each node spent its time: waiting, queued and running look different.
export function Timeline({ data, view, selected, onSelect }: Props) {
  const { zone } = usePrefs();
  const run = data.run.data!;
  const open = run.state === "running" && !view.past;
  const tick = useNow(open);
  const now = view.past ? view.now : open ? tick.getTime() : run.closed_at ? Date.parse(run.closed_at) : view.now;
  const list = rows(data, view, now).slice(0, most);
  if (list.length === 0) return <Empty title="Nothing has started yet." />;
  const from = Math.min(Date.parse(run.starts_at ?? run.created_at), ...list.map((r) => r.segments[0]!.from));
  const to = Math.max(now, from + 10) + (now - from) * 0.04;
  const x = (t: number) => ((t - from) / (to - from)) * 100;
  const step = steps.find((s) => (to - from) / (s * 1000) <= 6) ?? 604_800;
  const marks: number[] = [];
  for (let t = Math.ceil(from / (step * 1000)) * step * 1000; t < to; t += step * 1000) marks.push(t);
  if (marks.length < 3) marks.splice(0, marks.length, from, (from + now) / 2, now);
  return (
    <div class="timeline" role="group" aria-label="Timeline of the nodes. The tab Table shows the same.">
      <div class="axis" aria-hidden="true">
        {marks.filter((t) => x(t) < 94 && (!open || x(now) - x(t) > 8)).map((t) => <span key={t} style={{ left: `${x(t)}%` }}>{clock(new Date(t), zone)}</span>)}
        {open && <b style={{ left: `${x(now)}%` }}>{clock(new Date(now), zone)}</b>}
      </div>
      <div class="lines" aria-hidden="true">
        {marks.map((t) => <i key={t} style={{ left: `${x(t)}%` }} />)}
        {open && <i class="now" style={{ left: `${x(now)}%` }} />}
      </div>
      {list.map((r) => {
        const state = view.state(r.i);
        const critical = view.critical.nodes.has(r.i);
        const last = r.segments[r.segments.length - 1]!;
        return (
          <button type="button" key={r.node} class={`bar${r.node === selected ? " on" : ""}`} onClick={() => onSelect(r.node)}
            data-bar={r.node}>
            <span class="who ell"><span class={`c-${state.hue}`}><Icon name={state.icon} size={14} /></span>{r.node}</span>
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
      {(data.layout.data?.nodes.length ?? 0) > most && <p class="s muted pad">The first {most} rows. The table has all nodes.</p>}
    </div>
  );
}

function rows(data: RunData, view: View, now: number): Row[] {
  const layout = data.layout.data;
  const run = data.run.data!;
  const begin = Date.parse(run.starts_at ?? run.created_at);
  const ready = new Map<number, number>();
  for (const e of layout?.edges ?? []) {
    const ended = view.history.get(layout!.nodes[e.from]!.node)?.ended ?? 0;
    const old = ready.get(e.to) ?? begin;
    ready.set(e.to, ended && old ? Math.max(old, ended) : 0);
  }
  const out: Row[] = [];
  layout?.nodes.forEach((n, i) => {
    const segments = lead(data.nodes.get(n.node) ?? n, view.history.get(n.node), ready.get(i) ?? begin, now);
    if (segments.length) out.push({ i, node: n.node, segments });
  });
  return out.sort((a, b) => a.segments[0]!.from - b.segments[0]!.from || a.i - b.i);
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
