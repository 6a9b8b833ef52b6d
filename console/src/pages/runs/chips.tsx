import type { Flow } from "../../api/types";
import { setQuery } from "../../app/router";
import { Icon } from "../../ui/icon";
import { isFiltered, spans, type Filters } from "./filters";
import { Views } from "./views";

// Chips show what is set, and set it.
export function Chips({ filters, flows }: { filters: Filters; flows: Flow[] }) {
  const names = new Set([...flows.map((f) => f.name), ...(filters.flow ? [filters.flow] : [])]);
  const known = spans.some(([key]) => key === filters.from);
  return (
    <div class="row wrap" role="group" aria-label="Filters">
      <label class={`chip${filters.from ? " on" : ""}`}>
        <span class="sr">Time</span>
        <select name="from" value={filters.from}
          onChange={(e) => setQuery({ from: e.currentTarget.value, before: undefined })}>
          {spans.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
          {!known && <option value={filters.from}>One hour</option>}
        </select>
      </label>
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

function Chip({ text, onRemove }: { text: string; onRemove(): void }) {
  return (
    <span class="chip on">
      {text}
      <button type="button" aria-label={`Remove the filter ${text}`} onClick={onRemove}><Icon name="x" size={12} /></button>
    </span>
  );
}
