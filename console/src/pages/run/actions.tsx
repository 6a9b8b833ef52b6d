import { useState } from "preact/hooks";
import { post, put, remove } from "../../api/client";
import type { RunPath } from "../../api/operations";
import type { RunDetail } from "../../api/types";
import { go, href, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { join, plural } from "../../lib/text";
import { Confirm, Menu, type Act, type MenuItem } from "../../ui/dialog";
import { ended } from "../../ui/state";
import type { RunData } from "./data";
import { downstream } from "./history";
import { SignalDialog } from "./signal";

interface Props { run: RunDetail; data: RunData; onRerun(node: string | undefined): void; onFork(): void }

// RunActions is the menu of what can be done with the run. What the reader may not do is not in it.
export function RunActions({ run, data, onRerun, onFork }: Props) {
  const session = useSession();
  const [act, setAct] = useState<Act>();
  const [priority, setPriority] = useState<boolean>(false);
  const [signal, setSignal] = useState(false);
  const path = runPath(run.flow, run.run);
  const over = ended(run.state);
  const open = (a: Act, mark?: string) => (setAct(a), onRerun(mark));
  const close = () => (setAct(undefined), onRerun(undefined));
  const operate = session.may("operate");
  const item = (label: string, a: () => void, danger = false): MenuItem => ({ label, run: a, danger });
  const groups: MenuItem[][] = [
    operate ? [
      item("Start like this…", () => go(href(["flows", run.flow, "start"], { like: run.run }))),
      ...(data.layout.data?.nodes.length ? [item("Fork…", onFork)] : []),
    ] : [],
    operate && !over ? [
      run.paused_at ? item("Resume…", () => open(resumeAct(path))) : item("Pause…", () => open(pauseAct(path, run))),
      item("Priority…", () => setPriority(true)),
    ] : [],
    session.may("approve") && !over ? [item("Signal…", () => setSignal(true))] : [],
    operate && over ? [
      item("Rerun failed…", () => open(rerunAct(path, data, "failed"), "")),
      item("Rerun all…", () => open(rerunAct(path, data, "all"))),
    ] : [],
    operate && !over ? [
      item("Cancel pending…", () => open(cancelAct(path, run, true))),
      item("Cancel run…", () => open(cancelAct(path, run, false)), true),
    ] : [],
    session.may("administer") && over ? [item("Purge…", () => open(purgeAct(path, run)), true)] : [],
  ];
  return (
    <>
      <Menu id="actions" label="Actions" groups={groups} />
      {act && <Confirm act={act} onClose={close} />}
      {signal && <SignalDialog run={run} data={data} onClose={() => setSignal(false)} />}
      {priority && <Priority path={path} onClose={() => setPriority(false)} />}
    </>
  );
}

const pauseAct = (path: RunPath, run: RunDetail): Act => ({
  title: "Pause run", verb: "Pause run", reason: true, done: "Run paused",
  what: `No further node starts until the run is resumed. ${plural(run.nodes.filter((n) => n.state === "active").length, "running node")} will finish.`,
  run: (reason) => post([...path, "pause"], { reason }),
});

export const resumeAct = (path: RunPath): Act => ({
  title: "Resume run", verb: "Resume run", done: "Run resumed", what: "Nodes that are ready start again.",
  run: () => post([...path, "resume"]),
});

function cancelAct(path: RunPath, run: RunDetail, pending: boolean): Act {
  const running = run.nodes.filter((n) => n.state === "active").length;
  return pending ? {
    title: "Cancel pending nodes", verb: "Cancel pending", keep: "Keep them", danger: true, reason: true,
    done: "Pending nodes cancelled",
    what: `${plural(run.open_nodes - running, "node")} will not run. ${plural(running, "running node")} will finish.`,
    run: (reason) => post([...path, "cancel"], { reason, pending_only: true }),
  } : {
    title: "Cancel run", verb: "Cancel run", keep: "Keep running", danger: true, reason: true, done: "Run cancelled",
    what: `${plural(running, "running node")} will be told to end, ${plural(run.open_nodes - running, "other node")} will not run. A cancelled run can be rerun.`,
    run: (reason) => post([...path, "cancel"], { reason }),
  };
}

// rerunAct says which nodes run again.
export function rerunAct(path: RunPath, data: RunData, scope: "failed" | "all" | "from", node = ""): Act {
  const layout = data.layout.data;
  const names = layout?.nodes.map((n) => n.node) ?? [];
  let again = names;
  if (scope === "from") again = [...downstream(layout?.edges ?? [], data.places.get(node) ?? -1)].map((i) => names[i]!);
  if (scope === "failed") {
    again = names.filter((_, i) => ["failed", "cancelled", "expired", "skipped"].includes(data.stateAt(i).key));
  }
  const listed = again.slice(0, 8);
  if (again.length > 8) listed.push(`${again.length - 8} more`);
  return {
    title: scope === "from" ? `Rerun from ${node}` : scope === "all" ? "Rerun all" : "Rerun failed",
    verb: scope === "from" ? "Rerun from here" : scope === "all" ? "Rerun all" : "Rerun failed", keep: "Keep as it is",
    done: "Run rerun", link: { to: href(path, { tab: "compare" }), text: "Before and after" },
    what: (
      <p data-rerun={again.length}>
        {plural(again.length, "node")} {again.length === 1 ? "runs" : "run"} again: {join(listed)}.{" "}
        {names.length - again.length} {names.length - again.length === 1 ? "keeps its result" : "keep their results"}.
      </p>
    ),
    run: () => post([...path, "rerun"], { scope, ...(node && { node }) }),
  };
}

const purgeAct = (path: RunPath, run: RunDetail): Act => ({
  title: "Purge run", verb: "Purge run", keep: "Keep it", danger: true, confirm: run.run, done: "Run purged",
  what: "The run, its values, logs and events are removed for good. This cannot be undone.",
  run: async () => {
    await remove(path);
    go(href(["runs"], { flow: run.flow }));
  },
});

function Priority({ path, onClose }: { path: RunPath; onClose(): void }) {
  const [text, setText] = useState("0");
  const act: Act = {
    title: "Priority of the run", verb: "Set priority", done: "Priority set",
    what: "Nodes with a higher priority are claimed first. It holds for all nodes that have not ended.",
    run: async () => {
      if (!/^\d+$/.test(text)) throw new Error("The priority must be a whole number from 0 to 9000.");
      await put([...path, "priority"], { priority: Number(text) });
    },
  };
  return (
    <Confirm act={act} onClose={onClose}>
      <label class="field"><span>Priority</span>
        <input class="input" name="priority" inputMode="numeric" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </label>
    </Confirm>
  );
}
