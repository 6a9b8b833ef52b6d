import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { RunDiff as Comparison, NodeSide, Page, Run, RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { runPath, setQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { goDuration, span } from "../../lib/time";
import { Card, Empty, Fault, Hidden, Loading, ValueView } from "../../ui/basic";
import { nodeState, StateLabel, stateOfRun } from "../../ui/state";
import type { RunData } from "./data";
import { BeforeAndAfter } from "./rerun";

// Compare shows what differs between this run and another one.
export function Compare({ detail, data, other }: { detail: RunDetail; data: RunData; other: string }) {
  const { flow, run } = detail;
  const session = useSession();
  const [typed, setTyped] = useState(other);
  useEffect(() => setTyped(other), [other]);
  const near = useLoad<Page<Run>>((s) => get(["runs"], { flow, limit: 6 }, s), [flow]);
  const others = near.data?.items.filter((r) => r.run !== run).slice(0, 5) ?? [];
  if (!session.reads) return <div class="pad"><Hidden /></div>;
  return (
    <div class="scroll pad gap">
      <form class="row" onSubmit={(e) => (e.preventDefault(), setQuery({ with: typed.trim() }))}>
        <label class="field grow">
          <span>Compare with the run</span>
          <input class="input mono" name="with" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
        </label>
        <button class="btn end" disabled={!typed.trim()}>Compare</button>
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
      {other && <Difference key={other} flow={flow} run={run} other={other} />}
      {!other && others.length === 0 && !detail.reruns && <Empty title="There is no other run of this flow." />}
    </div>
  );
}

function Difference({ flow, run, other }: { flow: string; run: string; other: string }) {
  const loaded = useLoad<Comparison>((s) => get([...runPath(flow, run), "compare"], { other_run: other }, s), [flow, run, other]);
  const [all, setAll] = useState(false);
  if (loaded.error) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const d = loaded.data;
  const nodes = d.nodes.filter((n) => all || n.differs?.length || !n.a || !n.b);
  const parts = [d.graph_differs && "graphs", d.input_differs && "inputs", d.result_differs && "results"].filter(Boolean);
  return (
    <>
      <p>{parts.length ? `The ${parts.join(", ")} differ.` : "Graph, input and result are the same."} {nodes.length} of {d.nodes.length} nodes differ.</p>
      <Card title="Nodes" side={<label class="row check s"><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> all</label>}>
        <table>
          <thead><tr><th class="w-run">Node</th><th>Differs</th><th>{run}</th><th>{other}</th></tr></thead>
          <tbody>
            {nodes.map((n) => (
              <tr key={n.node}>
                <td class="mono strong">{n.node}</td><td class="soft">{n.differs?.join(", ") ?? ""}</td>
                <td><Side side={n.a} /></td><td><Side side={n.b} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      <div class="columns">
        {(["a", "b"] as const).map((k) => (
          <Card key={k} title={d[k].run} side={<StateLabel state={stateOfRun(d[k])} />}>
            <div class="pad gap">
              <h3>Input</h3><ValueView value={d[k].input} label={`Input of ${d[k].run}`} />
              <h3>Result</h3><ValueView value={d[k].result} label={`Result of ${d[k].run}`} />
            </div>
          </Card>
        ))}
      </div>
    </>
  );
}

const Side = ({ side }: { side: NodeSide | undefined }) => side
  ? <><StateLabel state={nodeState(side.state)} /> <span class="s muted">{side.took ? span(goDuration(side.took)) : ""}</span></>
  : <span class="muted">not there</span>;
