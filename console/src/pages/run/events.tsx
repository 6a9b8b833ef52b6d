import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery } from "../../app/router";
import { words } from "../../lib/text";
import { Empty } from "../../ui/basic";
import { Time } from "../../ui/time";
import type { RunData } from "./data";

const pageSize = 300;

// Events lists what happened, the latest first.
export function Events({ data, query, onSelect }: { data: RunData; query: URLSearchParams; onSelect(n: string): void }) {
  const [kind, setKind] = useState("");
  const [shown, setShown] = useState(pageSize);
  const node = query.get("node") ?? "";
  const marked = query.get("event");
  const row = useRef<HTMLTableRowElement>(null);
  useEffect(() => row.current?.scrollIntoView({ block: "center" }), [marked, data.events.length > 0]);
  const kinds = [...new Set(data.events.map((e) => e.kind))].sort();
  const list = data.events.filter((e) => (!node || e.node === node) && (!kind || e.kind === kind)).reverse();
  return (
    <>
      <div class="bar-top row">
        <label class="chip">
          <span class="sr">Kind of event</span>
          <select name="kind" value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
            <option value="">Any kind</option>
            {kinds.map((k) => <option key={k} value={k}>{words(k)}</option>)}
          </select>
        </label>
        {node && <button type="button" class="chip on" onClick={() => setQuery({ node: undefined })}>{node} ×</button>}
        <span class="s muted">{list.length} events</span>
      </div>
      <Scrubber data={data} />
      <div class="scroll">
        {list.length === 0 && <Empty title="No event matches." />}
        {list.length > 0 && (
          <table class="events">
            <thead><tr><th class="w-time">Time</th><th class="w-run">Node</th><th class="w-state">What</th><th>Detail</th></tr></thead>
            <tbody>
              {list.slice(0, shown).map((e) => (
                <tr key={e.id} ref={e.id === marked ? row : null} class={e.id === marked ? "sel" : ""} data-event={e.kind}>
                  <td>
                    <button type="button" class="bare" title="Show the run as of then"
                      onClick={() => setQuery({ at: e.at, event: e.id })}><Time at={e.at} /></button>
                  </td>
                  <td>{e.node ? <button type="button" class="bare mono strong" onClick={() => onSelect(e.node!)}>{e.node}</button> : <span class="muted">run</span>}</td>
                  <td>{words(e.kind)}{e.attempt ? <span class="muted"> #{e.attempt}</span> : null}</td>
                  <td class="soft ell" title={e.detail}>
                    {e.percent ? `${Math.round(e.percent)} % ` : ""}{e.message ?? ""}{(e.detail ?? "").split("\n")[0]}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {list.length > shown && <div class="more"><button type="button" class="btn" onClick={() => setShown(shown + pageSize)}>Show more</button></div>}
      </div>
    </>
  );
}

// Scrubber moves the page through the time of the run, from event to event.
export function Scrubber({ data }: { data: RunData }) {
  const at = new URLSearchParams(location.search).get("at");
  const n = data.events.length;
  if (n < 2) return null;
  let place = n - 1;
  if (at) {
    const t = Date.parse(at);
    place = Math.max(0, data.events.findLastIndex((e) => Date.parse(e.at) <= t));
  }
  const set = (i: number) => setQuery({ at: i >= n - 1 ? undefined : data.events[i]!.at });
  const e = data.events[place]!;
  return (
    <div class="scrubber desk">
      <input type="range" name="moment" aria-label="Moment of the run" min={0} max={n - 1} value={place}
        aria-valuetext={`${words(e.kind)} ${e.node ?? ""}`} onInput={(ev) => set(Number(ev.currentTarget.value))} />
      <span class="s muted ell">{at ? <>{words(e.kind)} {e.node}, <Time at={e.at} /></> : "Now. Move back to see an earlier moment."}</span>
    </div>
  );
}
