import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { Lane, Page, Worker } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm } from "../../ui/dialog";
import { Icon } from "../../ui/icon";
import { StateLabel, states } from "../../ui/state";
import { Ago, Took } from "../../ui/time";
import { usePolled } from "../../ui/polled";

// buildOf names the program and its code: two programs of one module are two groups, and so are two revisions of one.
const buildOf = ({ build: b }: Worker) => [b.package ?? b.path, b.version, b.revision && b.revision.slice(0, 12) + (b.modified ? "+" : "")]
  .filter(Boolean).join(" ") || "unknown build";

export function WorkersPage() {
  const session = useSession();
  const loaded = useLoad<Page<Worker>>((s) => get(["workers"], {}, s), []);
  const lanes = useLoad<Page<Lane>>((s) => get(["lanes"], {}, s), []);
  usePolled(loaded.reload, 1000);
  usePolled(lanes.reload);
  const [drain, setDrain] = useState<Worker>();
  const list = loaded.data?.items;
  const unserved = lanes.data?.items.filter((l) => l.health.state === "unserved") ?? [];
  const groups = new Map<string, Worker[]>();
  for (const w of list ?? []) groups.set(buildOf(w), [...(groups.get(buildOf(w)) ?? []), w]);
  return (
    <>
      <Top crumbs={<h1>Workers</h1>} />
      <div class="page scroll">
        {unserved.map((l) => (
          <section key={l.name} class="why w-lost" data-unserved={l.name}>
            <span class="c-lost"><Icon name="unserved" /></span>
            <p class="grow"><b>No worker takes {plural(l.health.nodes ?? 0, "node")}</b> of lane <code>{l.name}</code>: {l.health.reason}.{" "}
              <small class="soft">{l.health.remedy}</small></p>
            <Link class="btn" to={href(["lanes", l.name])}>Show the lane</Link>
          </section>
        ))}
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No worker is connected."><p>Nodes wait until a program runs a worker: <code>runtime.NewWorker</code>.</p></Empty>}
        {[...groups].map(([build, workers]) => (
          <Card key={build} title={<code>{build}</code>} note={plural(workers.length, "worker")}>
            <table>
              <thead><tr><th class="w-state">State</th><th class="w-run">Worker</th><th class="w-slots">Slots</th><th class="c2 w-lanes">Lanes</th><th class="c4">Capabilities</th><th class="num w-time c3">Last report</th><th class="num w-took c3">Up for</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {workers.map((w) => {
                  const drains = w.state === "draining" || !!w.drain_requested_at;
                  return (
                    <tr key={w.instance} data-worker={w.name}>
                      <td><StateLabel state={drains ? states.paused : w.used ? states.running : states.succeeded} word={drains ? "Draining" : w.used ? "Busy" : "Idle"} /></td>
                      <td class="two"><b class="mono" title={w.instance}>{w.name || w.instance.slice(0, 16)}</b><small>{w.host} {w.pid}</small></td>
                      <td><Slots w={w} /></td>
                      <td class="mono s c2" title={(w.lanes ?? []).join(", ")}>{(w.lanes ?? []).join(", ")}</td>
                      <td class="mono s c4">{(w.capabilities ?? []).join(", ")}</td>
                      <td class="num c3"><Ago at={w.reported_at} /></td><td class="num c3"><Took from={w.since} /></td>
                      <td class="num">{session.may("operate") && !drains && <button type="button" class="btn sm" onClick={() => setDrain(w)}>Drain…</button>}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </Card>
        ))}
      </div>
      {drain && <Confirm onClose={() => (setDrain(undefined), loaded.reload())} act={{
        title: `Drain ${drain.name || drain.instance}`, verb: "Drain worker", danger: true, done: "Drain requested",
        what: `It takes no more work and finishes ${plural(drain.used, "node")}. Only a restart of the program lets it work again.`,
        run: () => post(["workers", drain.instance, "drain"]),
      }} />}
    </>
  );
}

const Slots = ({ w }: { w: Worker }) => (
  <span class="row">
    {w.slots <= 40 && <span class="places small" aria-hidden="true">{Array.from({ length: w.slots }, (_, i) => <i key={i} class={i < w.used ? "on" : ""} />)}</span>}
    <span class="s muted nw">{w.used} of {w.slots} busy</span>
  </span>
);
