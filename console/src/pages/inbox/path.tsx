import { get } from "../../api/client";
import type { Node as RunNode, PlacedEdge, RunDetail, RunLayout, Wait } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { Card } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import { stateOfNode, states, type State } from "../../ui/state";
import { Took } from "../../ui/time";
import { criticalPath } from "../run/history";

// longest is how many nodes before the one that asks are shown.
const longest = 4;

interface Step { name: string; node: RunNode | undefined; state: State }

// AskPath holds the nodes that an ask waited for longest, those behind it, and which others these wait for.
export interface AskPath { before: Step[]; behind: Step[]; others: string[] }

// useAskPath reads the graph of the run of an ask. It is undefined until that is there, for asks of nodes that the graph
// does not have, and for runs with more nodes than one page describes.
export function useAskPath(wait: Wait, run: RunDetail | undefined): AskPath | undefined {
  const whole = !!run && !run.next;
  const layout = useLoad<RunLayout | undefined>(
    (s) => whole ? get([...runPath(wait.flow, wait.run), "layout"], {}, s) : Promise.resolve(undefined), [wait.flow, wait.run, whole]);
  const names = layout.data?.nodes.map((n) => n.node) ?? [];
  const at = names.indexOf(wait.node);
  if (!run || !layout.data || at < 0) return undefined;
  const known = new Map(run.nodes.map((n) => [n.node, n]));
  const step = (i: number): Step => {
    const node = known.get(names[i]!);
    return { name: names[i]!, node, state: node ? stateOfNode(node) : states.none };
  };
  const { edges } = layout.data;
  const next = [...new Set(edges.filter((e) => e.from === at && e.kind !== "on_failure").map((e) => e.to))].map(step);
  const behind = next.filter((s) => s.state.key !== "skipped");
  const open = (i: number) => i !== at && !step(i).node?.completed_at;
  const others = edges.filter((e) => e.kind !== "on_failure" && behind.some((s) => names[e.to] === s.name) && open(e.from));
  return { before: leading(edges, at, names.map((_, i) => step(i))), behind, others: [...new Set(others.map((e) => names[e.from]!))] };
}

// leading returns the critical path that ends with a node.
function leading(edges: readonly PlacedEdge[], at: number, steps: readonly Step[]): Step[] {
  const ahead = new Set([at]);
  for (let grew = true; grew;) {
    grew = false;
    for (const e of edges) {
      if (ahead.has(e.to) && !ahead.has(e.from)) grew = !!ahead.add(e.from);
    }
  }
  const path = criticalPath(edges.filter((e) => ahead.has(e.to)), steps.map(({ node, state }, i) => ({
    ended: node?.completed_at ? Date.parse(node.completed_at) : 0,
    started: node?.started_at ? Date.parse(node.started_at) : 0,
    skipped: !ahead.has(i) || state.key === "skipped",
  })));
  return [...path.nodes].slice(0, longest + 1).reverse().map((i) => steps[i]!);
}

// PathToAsk is the path to an ask, and its next node.
export function PathToAsk({ wait, path }: { wait: Wait; path: AskPath }) {
  const after = path.behind.slice(0, 1);
  return (
    <Card class="all" title="How it got here" note="what it waited for longest" side={<Link class="link" to={href(runPath(wait.flow, wait.run))}>Open run</Link>}>
      <ol class="path">
        {[...path.before, ...after].map(({ name, node, state }) => (
          <li key={name} class={name === wait.node ? "on" : node?.started_at ? "" : "off"} aria-current={name === wait.node ? "step" : undefined}>
            <span class={`c-${state.hue}`}><Icon name={state.icon} /></span>
            <b>{name}</b>
            <span class="muted s">{node?.started_at ? <Took from={node.started_at} to={node.completed_at} /> : state.word}</span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

// ThenRuns says which nodes an answer lets run.
export function ThenRuns({ path }: { path: AskPath }) {
  if (path.behind.length === 0) return null;
  return (
    <div class="card pad">
      <h3>Then runs</h3>
      <p>
        <span class="mono">{path.behind.map((s) => s.name).join(", ")}</span>
        {path.others.length > 0 && <> once <span class="mono">{path.others.join(", ")}</span> {path.others.length > 1 ? "have" : "has"} ended</>}
      </p>
    </div>
  );
}
