import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { AuditEntry } from "../../api/types";
import { setQuery, useQuery } from "../../app/router";
import { Top } from "../../app/shell";
import { words } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Time } from "../../ui/time";

const pageSize = 100;

// AuditPage lists who has changed what. Its filters are in the address.
export function AuditPage() {
  const query = useQuery();
  const filters = { actor: query.get("by") ?? "", action: query.get("action") ?? "", name: query.get("on") ?? "" };
  const [list, setList] = useState<AuditEntry[]>();
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<Error>();
  const load = (cursor?: string) => get(["audit"], { ...filters, limit: pageSize, cursor }).then(
    (p) => (setList((old) => cursor ? [...(old ?? []), ...p.items] : p.items), setNext(p.next), setError(undefined)), setError);
  useEffect(() => void load(), [filters.actor, filters.action, filters.name]);
  const field = (name: string, label: string, value: string) => (
    <label class="field"><span>{label}</span><input class="input" name={name} value={value} onChange={(e) => setQuery({ [name]: e.currentTarget.value.trim() })} /></label>
  );
  const save = () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(list, null, 2)], { type: "application/json" }));
    const a = Object.assign(document.createElement("a"), { href: url, download: "audit.json" });
    a.click();
    URL.revokeObjectURL(url);
  };
  return (
    <>
      <Top crumbs={<h1>Audit</h1>}>{list && list.length > 0 && <button type="button" class="btn desk" onClick={save}>Export what is shown</button>}</Top>
      <div class="page scroll">
        <div class="row wrap">{field("by", "Who", filters.actor)}{field("action", "What", filters.action)}{field("on", "On what", filters.name)}</div>
        {error && <Fault error={error} retry={() => load()} />}
        {!list && !error && <Loading />}
        {list?.length === 0 && <Empty title="Nothing was changed." ><p>Who changes what, by this console, the API, or the command, is listed here.</p></Empty>}
        {list && list.length > 0 && (
          <Card title="Actions" note="the latest first">
            <table>
              <thead><tr><th class="w-time">Time</th><th class="w-state">Who</th><th class="w-state">What</th><th>On what</th><th class="c2">Detail</th><th class="c3">Result</th></tr></thead>
              <tbody>
                {list.map((e) => (
                  <tr key={e.id} data-action={e.action}>
                    <td><Time at={e.at} /></td><td>{e.actor}</td><td>{words(e.action)}</td><td class="mono s" title={e.name}>{e.name}</td>
                    <td class="soft c2" title={e.detail}>{e.detail}</td><td class={`c3 ${e.failure ? "c-bad" : "muted"}`}>{e.failure ?? "done"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {next && <div class="more"><button type="button" class="btn" onClick={() => load(next)}>Show {pageSize} more</button></div>}
          </Card>
        )}
      </div>
    </>
  );
}
