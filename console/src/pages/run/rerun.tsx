import { get } from "../../api/client";
import type { Attempt, Node as RunNode, RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { runPath } from "../../app/router";
import { plural, words } from "../../lib/text";
import { span } from "../../lib/time";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { nodeState, StateLabel } from "../../ui/state";
import { Time } from "../../ui/time";

// BeforeAndAfter compares the nodes that ran again in the last rerun with what they did before. The engine keeps the
// attempts of former times, but not their results.
export function BeforeAndAfter({ run }: { run: RunDetail }) {
  const loaded = useLoad<RunDetail>(
    (s) => get(runPath(run.flow, run.run), { attempts: true }, s), [run.flow, run.run, run.reruns ?? 0, run.closed_at ?? ""]);
  if (loaded.error && !loaded.data) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const rows = loaded.data.nodes.filter((n) => n.replays).map((n) => ({ n, before: last(n, n.replays! - 1), after: last(n, n.replays!) }));
  const r = run.last_rerun;
  const better = rows.filter(({ before, after }) => before?.outcome !== "success" && after?.outcome === "success").length;
  const worse = rows.filter(({ before, after }) => before?.outcome === "success" && after?.outcome && after.outcome !== "success").length;
  return (
    <Card title="Before and after the last rerun" note={r && <>{words(r.scope)}, <Time at={r.at} />{r.by ? ` by ${r.by}` : ""}</>}>
      <p class="s pad soft" data-rerun-nodes={rows.length}>
        {plural(rows.length, "node")} ran again: {better} {better === 1 ? "succeeds" : "succeed"} now that did not, {worse} the other way round.
        {" "}Former attempts are kept, former results are not.
      </p>
      {rows.length === 0 ? <Empty title="No node has run again yet." /> : (
        <table>
          <thead><tr><th class="w-run">Node</th><th>Before</th><th>After</th><th class="num w-took">Difference</th></tr></thead>
          <tbody>
            {rows.map(({ n, before, after }) => (
              <tr key={n.node} data-node={n.node}>
                <td class="mono strong">{n.node}</td><td><Side a={before} /></td>
                <td>{after ? <Side a={after} /> : <StateLabel state={nodeState(n.state, n.waiting?.reason)} />}</td>
                <td class="num">{difference(before, after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

// last returns the last attempt of a node before its rerun of a number, or after it.
const last = (n: RunNode, replay: number): Attempt | undefined =>
  (n.history ?? []).filter((a) => (a.replay ?? 0) === replay).at(-1);

const took = (a: Attempt | undefined) => a?.begun && a.ended ? Date.parse(a.ended) - Date.parse(a.begun) : undefined;

const outcomes: Record<string, string> = { success: "completed", retry: "failed", lost: "failed", panicked: "failed" };

function Side({ a }: { a: Attempt | undefined }) {
  if (!a) return <span class="muted">did not run</span>;
  const ms = took(a);
  return (
    <span class="row" title={a.error}>
      <StateLabel state={a.outcome ? nodeState(outcomes[a.outcome] ?? a.outcome) : nodeState("active")} />
      <span class="s muted ell">attempt {a.number}{ms === undefined ? "" : `, ${span(ms)}`}{a.error ? `: ${a.error.split("\n")[0]}` : ""}</span>
    </span>
  );
}

function difference(before: Attempt | undefined, after: Attempt | undefined): string {
  const a = took(before), b = took(after);
  if (a === undefined || b === undefined) return "–";
  return b === a ? "the same" : b > a ? `+${span(b - a)}` : `−${span(a - b)}`;
}
