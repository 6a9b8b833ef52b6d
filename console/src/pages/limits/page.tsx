import { useState } from "preact/hooks";
import { ApiError, get, getTagged, put, remove } from "../../api/client";
import type { Limit, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm } from "../../ui/dialog";
import { StateLabel, states } from "../../ui/state";
import { usage, usePolled } from "../lanes/page";

export function LimitsPage() {
  const session = useSession();
  const loaded = useLoad<Page<Limit>>((s) => get(["limits"], {}, s), []);
  usePolled(loaded.reload);
  const [change, setChange] = useState<{ limit: Limit; etag: string }>();
  const [reset, setReset] = useState<Limit>();
  const list = loaded.data?.items;
  const open = async (l: Limit) => {
    const r = await getTagged(["limits", l.name], { key: l.key });
    setChange({ limit: r.data, etag: r.etag });
  };
  const state = (l: Limit) => l.waiting ? states.blocked : l.running ? states.running : states.succeeded;
  return (
    <>
      <Top crumbs={<h1>Limits</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No limits yet."><p>A limit bounds how many nodes run at once, or start per time. Flows declare limits with <code>activity.AtOnce</code> and <code>activity.AtMost</code>.</p></Empty>}
        {list && list.length > 0 && (
          <Card title={plural(list.length, "limit")}>
            <table>
              <thead><tr><th class="w-state">State</th><th>Limit</th><th>In use</th><th class="num w-took">Waiting</th><th class="c2 w-state">Set by</th><th class="w-acts"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {list.map((l) => (
                  <tr key={l.name + l.key} data-limit={l.name}>
                    <td><StateLabel state={state(l)} word={l.waiting ? "Full" : l.running ? "In use" : "Free"} /></td>
                    <td><code class="strong">{l.name}</code> {l.key && <span class="tag">{l.key}</span>}</td>
                    <td>{usage(l)}</td><td class="num">{l.waiting}</td><td class="soft c2">{l.set ? "an operator" : "the flow"}</td>
                    <td class="num">
                      {session.may("operate") && <button type="button" class="btn sm" onClick={() => open(l)}>Change…</button>}{" "}
                      {session.may("operate") && l.set && <button type="button" class="btn sm" onClick={() => setReset(l)}>Reset…</button>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        )}
      </div>
      {change && <Change {...change} onClose={() => (setChange(undefined), loaded.reload())} />}
      {reset && <Confirm onClose={() => (setReset(undefined), loaded.reload())} act={{
        title: `Reset ${reset.name}`, verb: "Reset limit", done: "Limit reset", what: "The numbers that the flow declares hold again.",
        run: () => remove(["limits", reset.name], { key: reset.key }),
      }} />}
    </>
  );
}

// Change sets a limit against the version that was read. If it has changed meanwhile, both values are shown.
function Change({ limit, etag, onClose }: { limit: Limit; etag: string; onClose(): void }) {
  const [atOnce, setAtOnce] = useState(String(limit.at_once ?? ""));
  const [atMost, setAtMost] = useState(String(limit.at_most ?? ""));
  const [per, setPer] = useState(limit.per ?? "");
  const [tag, setTag] = useState(etag);
  const [other, setOther] = useState<Limit>();
  const more = Math.max(0, Math.min(limit.waiting, Number(atOnce || 0) - (limit.at_once ?? 0)));
  return (
    <Confirm onClose={onClose} act={{
      title: `Change ${limit.name}${limit.key ? ` (${limit.key})` : ""}`, verb: "Set limit", done: "Limit changed",
      what: <p>{limit.running} {limit.running === 1 ? "runs" : "run"}, {limit.waiting} wait. {limit.at_once ? `${more} would start at once.` : ""}{other && <b class="c-bad"> Somebody has changed it to {usage(other)} meanwhile. Set again to replace that.</b>}</p>,
      run: async () => {
        try {
          await put(["limits", limit.name], {
            ...(atOnce && { at_once: Number(atOnce) }), ...(atMost && { at_most: Number(atMost) }), ...(per && atMost && { per }),
          }, { key: limit.key }, tag);
        } catch (e) {
          if (e instanceof ApiError && e.status === 412) {
            const now = await getTagged(["limits", limit.name], { key: limit.key });
            setOther(now.data);
            setTag(now.etag);
            throw new Error("The limit was changed while you edited. Compare and set it again.");
          }
          throw e;
        }
      },
    }}>
      <label class="field"><span>At once <span class="muted">(empty for no bound)</span></span><input class="input" name="at_once" inputMode="numeric" value={atOnce} onInput={(e) => setAtOnce(e.currentTarget.value)} /></label>
      <div class="row">
        <label class="field grow"><span>Starts</span><input class="input" name="at_most" inputMode="numeric" value={atMost} onInput={(e) => setAtMost(e.currentTarget.value)} /></label>
        <label class="field grow"><span>Per, such as 1m0s</span><input class="input" name="per" value={per} onInput={(e) => setPer(e.currentTarget.value)} /></label>
      </div>
    </Confirm>
  );
}
