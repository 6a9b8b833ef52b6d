import { Fragment } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { RunDiff as Comparison, NodeSide, Page, Run, RunDetail, Value } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath, setQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { changesOf, linesOf, marksOf, type Line } from "../../lib/difference";
import { exact, plural } from "../../lib/text";
import { goDuration, span } from "../../lib/time";
import { Card, Empty, Fault, Hidden, Loading, ValueView } from "../../ui/basic";
import { nodeState, StateLabel, stateOfRun } from "../../ui/state";
import type { RunData } from "./data";
import { BeforeAndAfter } from "./rerun";

// lastSuccess stands in the address for the run that the server finds: the latest other one of the flow that succeeded.
const lastSuccess = "last-success";

// Compare shows what differs between this run and another one.
export function Compare({ detail, data, other }: { detail: RunDetail; data: RunData; other: string }) {
  const { flow, run } = detail;
  const session = useSession();
  const named = other === lastSuccess ? "" : other;
  const [typed, setTyped] = useState(named);
  useEffect(() => setTyped(named), [named]);
  const near = useLoad<Page<Run>>((s) => get(["runs"], { flow, limit: 6 }, s), [flow]);
  const others = near.data?.items.filter((r) => r.run !== run).slice(0, 5) ?? [];
  if (!session.reads) return <div class="pad"><Hidden /></div>;
  return (
    <div class="scroll pad gap">
      <form class="row wrap" onSubmit={(e) => (e.preventDefault(), setQuery({ with: typed.trim() }))}>
        <label class="field grow">
          <span>Compare with the run</span>
          <input class="input mono" name="with" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
        </label>
        <button class="btn end" disabled={!typed.trim()}>Compare</button>
        <button type="button" class="btn end" onClick={() => setQuery({ with: lastSuccess })}>Last success of this flow</button>
      </form>
      {!other && others.length > 0 && (
        <p class="row wrap s">
          Latest runs of {flow}:
          {others.map((r) => <button key={r.run} type="button" class="chip mono" onClick={() => setQuery({ with: r.run })}>{r.run}</button>)}
        </p>
      )}
      {detail.forked_from && !other && (
        <p class="row s">This run is a fork. <button type="button" class="chip mono" onClick={() => setQuery({ with: detail.forked_from })}>Compare with {detail.forked_from}</button></p>
      )}
      {!other && !!detail.reruns && <BeforeAndAfter run={detail} data={data} />}
      {other && <Difference key={other} flow={flow} run={run} other={named} />}
      {!other && others.length === 0 && !detail.reruns && <Empty title="There is no other run of this flow." />}
    </div>
  );
}

function Difference({ flow, run, other: named }: { flow: string; run: string; other: string }) {
  const loaded = useLoad<Comparison>((s) => get([...runPath(flow, run), "compare"], { other_run: named }, s), [flow, run, named]);
  const [all, setAll] = useState(false);
  const [open, setOpen] = useState<string>();
  if (loaded.error) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const d = loaded.data;
  const other = d.b.run;
  const nodes = d.nodes.filter((n) => all || n.differs?.length || !n.a || !n.b);
  const parts = [d.graph_differs && "graphs", d.input_differs && "inputs", d.result_differs && "results"].filter(Boolean);
  return (
    <>
      <p data-other={other}>Compared with <Link class="link mono" to={href(runPath(d.b.flow, other))}>{other}</Link>{named ? "" : ", the latest that succeeded"}.{" "}
        {parts.length ? `The ${parts.join(", ")} differ.` : "Graph, input and result are the same."} {nodes.length} of {d.nodes.length} nodes differ.</p>
      <Card title="Nodes" side={<label class="row check s"><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> all</label>}>
        <table>
          <thead><tr><th class="w-run">Node</th><th>Differs</th><th>{run}</th><th>{other}</th></tr></thead>
          <tbody>
            {nodes.map((n) => {
              const values = !!(n.a?.result?.json && n.b?.result?.json) && n.differs?.includes("result");
              return (
                <Fragment key={n.node}>
                  <tr onClick={() => values && setOpen(open === n.node ? undefined : n.node)}>
                    <td class="mono strong">{values ? <button type="button" class="bare mono strong" aria-expanded={open === n.node} data-differs={n.node}>{n.node}</button> : n.node}</td>
                    <td class="soft">{n.differs?.join(", ") ?? ""}</td>
                    <td><Side side={n.a} /></td><td><Side side={n.b} /></td>
                  </tr>
                  {values && open === n.node && <tr class="detail"><td colSpan={4}><Values what="Result" a={n.a!.result} b={n.b!.result} names={[run, other]} /></td></tr>}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      </Card>
      <Card title="Input" note={`${run} and ${other}`}><div class="pad"><Values what="Input" a={d.a.input} b={d.b.input} names={[run, other]} /></div></Card>
      <Card title="Result" note={`${run} and ${other}`} side={<span class="row"><StateLabel state={stateOfRun(d.a)} /><StateLabel state={stateOfRun(d.b)} /></span>}>
        <div class="pad"><Values what="Result" a={d.a.result} b={d.b.result} names={[run, other]} /></div>
      </Card>
    </>
  );
}

// mostChanges is how many differences are listed above two values.
const mostChanges = 20;

interface ValuesProps { what: string; a: Value | undefined; b: Value | undefined; names: [string, string] }

// Values shows two values beside each other, with their differences listed and marked.
function Values({ what, a, b, names }: ValuesProps) {
  if (!a?.json || !b?.json) {
    return (
      <div class="columns">
        {[a, b].map((v, i) => <section key={i} class="gap"><h3 class="mono">{names[i]}</h3><ValueView value={v} label={`${what} of ${names[i]}`} /></section>)}
      </div>
    );
  }
  const lines = [linesOf(a.json.text), linesOf(b.json.text)] as const;
  const changes = changesOf(lines[0], lines[1]);
  return (
    <div class="gap">
      {changes.length === 0 ? <p class="s muted">The same in both runs.</p> : (
        <ul class="ev" data-changes={changes.length}>
          {changes.slice(0, mostChanges).map((c) => (
            <li key={c.at}><code class="strong">{c.at || "(all of it)"}</code><span class="lines">{c.a === undefined ? <>only in {names[1]}: <ins>{c.b}</ins></>
              : c.b === undefined ? <>only in {names[0]}: <del>{c.a}</del></> : <><del>{c.a}</del> and <ins>{c.b}</ins></>}</span></li>
          ))}
          {changes.length > mostChanges && <li class="muted">and {plural(changes.length - mostChanges, "more difference")}</li>}
        </ul>
      )}
      <div class="columns">
        {([0, 1] as const).map((i) => (
          <section key={i} class="gap"><h3 class="mono">{names[i]}</h3><Marked lines={lines[i]} other={lines[1 - i]!} label={`${what} of ${names[i]}`} side={i} /></section>
        ))}
      </div>
    </div>
  );
}

// mostLines is how many lines of a value are shown.
const mostLines = 2000;

function Marked({ lines, other, label, side }: { lines: readonly Line[]; other: readonly Line[]; label: string; side: 0 | 1 }) {
  const marks = marksOf(lines, other);
  return (
    <pre class="json" tabIndex={0} role="region" aria-label={label}>
      {lines.slice(0, mostLines).map((l, i) => (
        <span key={i} class={`line${marks[i] === "same" ? "" : side ? " added" : " removed"}`} data-mark={marks[i] === "same" ? undefined : marks[i]}>{l.text}{"\n"}</span>
      ))}
      {lines.length > mostLines && `… ${exact(lines.length - mostLines)} more lines`}
    </pre>
  );
}

const Side = ({ side }: { side: NodeSide | undefined }) => side
  ? <><StateLabel state={nodeState(side.state)} /> <span class="s muted">{side.took ? span(goDuration(side.took)) : ""}</span></>
  : <span class="muted">not there</span>;
