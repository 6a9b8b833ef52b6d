import type { Flow } from "../../api/types";
import { useState } from "preact/hooks";
import { setQuery } from "../../app/router";
import { Icon } from "../../ui/icon";
import { isFiltered, spans, type Filters } from "./filters";
import { Views } from "./views";

// Chips show what is set, and set it.
export function Chips({ filters, flows }: { filters: Filters; flows: Flow[] }) {
  const names = new Set([...flows.map((f) => f.name), ...(filters.flow ? [filters.flow] : [])]);
  const known = spans.some(([key]) => key === filters.from);
  const [picks, setPicks] = useState(false);
  const picked = picks || (!known && !!filters.before);
  return (
    <div class="row wrap" role="group" aria-label="Filters">
      <label class={`chip${filters.from ? " on" : ""}`}>
        <span class="sr">Time</span>
        <select name="from" value={picks ? "pick" : filters.from}
          onChange={(e) => {
            const to = e.currentTarget.value;
            setPicks(to === "pick");
            if (to !== "pick") setQuery({ from: to, before: undefined });
          }}>
          {spans.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
          {!known && <option value={filters.from}>Chosen times</option>}
          <option value="pick">From … to …</option>
        </select>
      </label>
      {picked && (
        <>
          <Moment name="begin" label="From" at={known ? "" : filters.from} onPick={(at) => setQuery({ from: at })} />
          <Moment name="end" label="To" at={filters.before} onPick={(at) => setQuery({ before: at, ...(known && filters.from ? { from: undefined } : {}) })} />
        </>
      )}
      <label class={`chip${filters.flow ? " on" : ""}`}>
        <span class="sr">Flow</span>
        <select name="flow" value={filters.flow} onChange={(e) => setQuery({ flow: e.currentTarget.value })}>
          <option value="">Any flow</option>
          {[...names].sort().map((n) => <option key={n} value={n}>{n}</option>)}
        </select>
      </label>
      {filters.tags.map((tag) => (
        <Chip key={tag} text={tag} onRemove={() => setQuery({ tag: filters.tags.filter((t) => t !== tag) })} />
      ))}
      {filters.key && <Chip text={`key:${filters.key}`} onRemove={() => setQuery({ key: undefined })} />}
      {filters.queued && <Chip text="is:queued" onRemove={() => setQuery({ queued: undefined })} />}
      {filters.q && <Chip text={`“${filters.q}”`} onRemove={() => setQuery({ q: undefined })} />}
      <Views filtered={isFiltered(filters)} />
    </div>
  );
}

interface MomentProps { name: string; label: string; at: string; onPick(at: string | undefined): void }

// Moment is a time that the reader picks, in local time.
function Moment({ name, label, at, onPick }: MomentProps) {
  const local = at ? new Date(new Date(at).getTime() - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "";
  return (
    <label class="chip">
      <span>{label}</span>
      <input type="datetime-local" name={name} class="bare" value={local}
        onChange={(e) => onPick(e.currentTarget.value ? new Date(e.currentTarget.value).toISOString() : undefined)} />
    </label>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove(): void }) {
  return (
    <span class="chip on">
      {text}
      <button type="button" aria-label={`Remove the filter ${text}`} onClick={onRemove}><Icon name="x" size={12} /></button>
    </span>
  );
}
