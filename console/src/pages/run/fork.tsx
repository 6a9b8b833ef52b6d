import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { RunPath } from "../../api/operations";
import type { FlowDetail, RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { go, href, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { join, plural } from "../../lib/text";
import { Loading } from "../../ui/basic";
import { Confirm, Made } from "../../ui/dialog";
import { schemaOf } from "../../lib/schema";
import { isJson, SchemaEditor } from "../../ui/form";
import type { RunData } from "./data";
import { downstream } from "./history";

interface Props { run: RunDetail; data: RunData; from: string | undefined; onMark(nodes: Set<number>): void; onClose(): void }

interface Read { run: RunDetail; flow: FlowDetail | null }

// Fork starts a new run from this one: what is chosen runs again, the rest keeps its results. The run itself stays as it
// is, so that both can be compared.
export function Fork({ run, data, from: first, onMark, onClose }: Props) {
  const session = useSession();
  const path = runPath(run.flow, run.run);
  const read = useLoad<Read>(async (s) => ({
    run: await get(path, { values: session.reads, nodes: 1, value_bytes: 1 << 20 }, s),
    flow: await get(["flows", run.flow], {}, s).catch(() => null),
  }), [run.flow, run.run]);
  const layout = data.layout.data;
  const names = layout?.nodes.map((n) => n.node) ?? [];
  const [from, setFrom] = useState<string[]>(first ? [first] : []);
  const [id, setId] = useState("");
  const [input, setInput] = useState<string>();
  const [results, setResults] = useState<Record<string, string>>({});
  const mark = (nodes: string[], changed: Record<string, string>) => onMark(again(data, nodes, Object.keys(changed)));
  const choose = (list: string[]) => (setFrom(list), mark(list, results));
  const change = (all: Record<string, string>) => (setResults(all), mark(from, all));
  const runs = again(data, from, Object.keys(results));
  const listed = [...runs].slice(0, 8).map((i) => names[i]!);
  if (runs.size > 8) listed.push(`${runs.size - 8} more`);
  const present = read.data?.run.input?.json?.text;
  const schema = schemaOf(read.data?.flow?.input_schema);
  const start = async () => {
    const bad = Object.entries(results).filter(([, text]) => !isJson(text)).map(([node]) => node);
    if (bad.length) throw new Error(`The result of ${join(bad)} is no JSON.`);
    if (input !== undefined && !isJson(input)) throw new Error("The input is not complete yet: a field is empty or not of its type.");
    const parts: string[] = [];
    if (id.trim()) parts.push(`"id":${JSON.stringify(id.trim())}`);
    if (from.length) parts.push(`"from":${JSON.stringify(from)}`);
    if (input !== undefined) parts.push(`"input":${input}`);
    if (Object.keys(results).length) {
      parts.push(`"results":{${Object.entries(results).map(([node, text]) => `${JSON.stringify(node)}:${text}`).join(",")}}`);
    }
    const made = await post([...path, "fork"], `{${parts.join(",")}}`);
    go(href(runPath(made.flow, made.run)));
    return new Made({ to: href(runPath(made.flow, made.run)), text: made.run });
  };
  return (
    <Confirm wide onClose={onClose} act={{
      title: "A new run from here", verb: "Start the fork", done: "Fork started", run: start,
      what: (
        <p data-fork={runs.size}>
          {input !== undefined ? "What uses the input runs again, with all behind it. " : ""}
          {runs.size ? `${plural(runs.size, "node")} ${runs.size === 1 ? "runs" : "run"}: ${join(listed)}. ` : "Choose a node, another input or another result. "}
          {run.run} stays as it is.
        </p>
      ),
    }}>
      {!read.data && <Loading />}
      {read.data && (
        <div class="columns">
          <div class="gap">
            <NodePick label="Run again from" names={names} chosen={from} onChange={choose} />
            <label class="field"><span>Id of the new run <span class="muted">(made up if empty)</span></span>
              <input class="input mono" name="id" value={id} onInput={(e) => setId(e.currentTarget.value)} /></label>
            <Results data={data} path={path} names={names} results={results} onChange={change} />
          </div>
          <div class="gap">
            <label class="row check"><input type="checkbox" name="with_input" checked={input !== undefined}
              onChange={(e) => setInput(e.currentTarget.checked ? present ?? "" : undefined)} />Another input</label>
            {input !== undefined && <SchemaEditor schema={schema} text={input} onChange={setInput} errors={{}} name="Input" />}
          </div>
        </div>
      )}
    </Confirm>
  );
}

// again returns the nodes that run: those that are chosen, those behind changed results, those that have not succeeded,
// and all that depends on them. What was skipped is skipped again unless it is among these.
function again(data: RunData, from: string[], changed: string[]): Set<number> {
  const edges = data.layout.data?.edges ?? [];
  const out = new Set<number>();
  const kept = new Set(changed.map((n) => data.places.get(n) ?? -1));
  const add = (i: number) => downstream(edges, i).forEach((k) => out.add(k));
  for (const name of from) add(data.places.get(name) ?? -1);
  for (const i of kept) for (const e of edges) if (e.from === i) add(e.to);
  data.layout.data?.nodes.forEach((_, i) => ["succeeded", "skipped"].includes(data.stateAt(i).key) || kept.has(i) || add(i));
  out.delete(-1);
  kept.forEach((i) => out.delete(i));
  return out;
}

interface PickProps { label: string; names: string[]; chosen: string[]; onChange(list: string[]): void }

// NodePick chooses nodes by name.
function NodePick({ label, names, chosen, onChange }: PickProps) {
  const rest = names.filter((n) => !chosen.includes(n));
  return (
    <div class="field">
      <span>{label}</span>
      <span class="row wrap">
        {chosen.map((n) => (
          <button key={n} type="button" class="chip mono" aria-label={`Remove ${n}`} onClick={() => onChange(chosen.filter((c) => c !== n))}>{n} ×</button>
        ))}
        <select class="input" name={label.toLowerCase().replaceAll(" ", "_")} aria-label={label} value=""
          onChange={(e) => e.currentTarget.value && onChange([...chosen, e.currentTarget.value])}>
          <option value="">{chosen.length ? "And…" : "Choose a node…"}</option>
          {rest.slice(0, 500).map((n) => <option key={n} value={n}>{n}</option>)}
        </select>
      </span>
    </div>
  );
}

interface ResultsProps {
  data: RunData; path: RunPath; names: string[]; results: Record<string, string>;
  onChange(all: Record<string, string>): void;
}

// Results gives nodes other results than those that they had.
function Results({ path, names, results, onChange }: ResultsProps) {
  const session = useSession();
  const add = async (list: string[]) => {
    const name = list.find((n) => !(n in results));
    if (!name) return onChange(Object.fromEntries(Object.entries(results).filter(([n]) => list.includes(n))));
    const n = session.reads ? await get([...path, "nodes", name], { values: true }).catch(() => undefined) : undefined;
    onChange({ ...results, [name]: n?.result?.json?.text ?? "null" });
  };
  return (
    <>
      <NodePick label="Another result of" names={names} chosen={Object.keys(results)} onChange={(list) => void add(list)} />
      {Object.entries(results).map(([name, text]) => (
        <label key={name} class="field"><span>Result of <code>{name}</code></span>
          <textarea class="input mono" rows={4} name={`result-${name}`} value={text} aria-invalid={!isJson(text)}
            onInput={(e) => onChange({ ...results, [name]: e.currentTarget.value })} /></label>
      ))}
    </>
  );
}
