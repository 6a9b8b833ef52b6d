import { useState } from "preact/hooks";
import { ApiError, get, getTagged, put, remove, type Reply } from "../../api/client";
import type { Limit, LimitUse, Page, PlaceUse } from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { go, href, Link } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm, Dialog, type Act } from "../../ui/dialog";
import { Icon } from "../../ui/icon";
import { StateLabel, states } from "../../ui/state";
import { Took } from "../../ui/time";
import { usePolled } from "../../ui/polled";
import { limitHref, Places, usage } from "../lanes/page";
import { RunLink } from "../lanes/queue";

export const LimitsPage = ({ name, of }: { name: string | undefined; of: string | undefined }) =>
  name ? <One key={`${name}/${of ?? ""}`} name={name} of={of ?? ""} /> : <List />;

const stateOf = (l: Limit) => l.waiting ? states.blocked : l.running ? states.running : states.succeeded;

const StateOf = ({ l, pill }: { l: Limit; pill?: boolean }) => (
  <StateLabel state={stateOf(l)} word={l.waiting ? "Full" : l.running ? "In use" : "Free"} pill={!!pill} />
);

const resetAct = (l: Limit): Act => ({
  title: `Reset ${l.name}`, verb: "Reset limit", done: "Limit reset", what: "The numbers that the flow declares hold again.",
  run: () => remove(["limits", l.name], { key: l.key }),
});

// One shows who holds the places of a limit, and who gets the next ones.
function One({ name, of }: { name: string; of: string }) {
  const session = useSession();
  const limit = useLoad<Reply<Limit>>((s) => getTagged(["limits", name], { key: of }, s), [name, of]);
  const use = useLoad<LimitUse>((s) => get(["limits", name, "use"], { key: of }, s), [name, of]);
  const reload = () => (limit.reload(), use.reload());
  useFeed(reload);
  usePolled(limit.reload);
  usePolled(use.reload);
  const [change, setChange] = useState<{ limit: Limit; etag: string }>();
  const [act, setAct] = useState<Act>();
  const l = limit.data?.data;
  const u = use.data;
  const operate = session.may("operate");
  const unknown = !l && limit.error instanceof ApiError && limit.error.code === "limit_not_found";
  const first = unknown ? { limit: unused(name, of), etag: "" } : undefined;
  return (
    <>
      <Top crumbs={<><Link to={href(["limits"])}>Limits</Link> / <h1 class="mono">{name}</h1></>}>
        {operate && l?.set && <button type="button" class="btn" onClick={() => setAct(resetAct(l))}>Reset…</button>}
        {operate && l && <button type="button" class="btn primary" onClick={() => setChange({ limit: l, etag: limit.data!.etag })}>Change…</button>}
        {operate && first && <button type="button" class="btn primary" onClick={() => setChange(first)}>Set…</button>}
      </Top>
      <div class="page scroll">
        {unknown && (
          <Empty title="No node has used this limit yet.">
            <p>No published flow declares it{of ? ` for the key ${of}` : ""}, and nobody has set it. A limit that is set now applies from the first node on that has it.</p>
          </Empty>
        )}
        {limit.error && !l && !unknown && <Fault error={limit.error} retry={reload} />}
        {!l && !limit.error && <Loading />}
        {l && (
          <>
            <div class="row wrap"><StateOf l={l} pill />{of && <span class="tag">{of}</span>}<span class="soft">{usage(l)}</span>
              <span class="muted s">Set by {l.set ? "an operator" : "the flow"}</span></div>
            <Card title="Places" note={u ? plural(u.waiting, "node") + (u.waiting === 1 ? " waits" : " wait") : ""}><div class="pad"><Places limit={l} /></div></Card>
            <div class="columns">
              <Card title="Who holds a place" note={u && u.holding > u.holders.length ? `the ${u.holders.length} longest of ${u.holding}` : ""}>
                <Uses list={u?.holders} empty={u?.pools?.length ? "No node holds one on its own." : "Nobody holds a place."} since="Since" kind="holder" />
                {u?.pools?.map((p) => (
                  <p key={p.worker} class="row s pad" data-pool={p.worker}><Icon name="workers" /><span class="grow">A worker holds <b>{plural(p.places, "place")}</b> for its nodes, one after the other: <code>{p.worker}</code></span></p>
                ))}
              </Card>
              <Card title="Who waits" note={u && u.waiting > u.queue.length ? `the next ${u.queue.length} of ${u.waiting}` : "in the order in which they get a place"}>
                <Uses list={u?.queue} empty="Nobody waits." since="Age" kind="waiter" />
              </Card>
            </div>
          </>
        )}
      </div>
      {change && <Change {...change} onClose={() => (setChange(undefined), reload())} />}
      {act && <Confirm act={act} onClose={() => (setAct(undefined), reload())} />}
    </>
  );
}

interface UsesProps { list: PlaceUse[] | undefined; empty: string; since: string; kind: string }

function Uses({ list, empty, since, kind }: UsesProps) {
  if (!list) return <Loading />;
  if (list.length === 0) return <Empty title={empty} />;
  return (
    <table>
      <thead><tr><th>Node</th><th>Run</th>{kind === "waiter" && <th class="num w-prio">Priority</th>}<th class="num w-took">{since}</th></tr></thead>
      <tbody>
        {list.map((p) => (
          <tr key={p.execution} data-use={kind}>
            <td class="mono strong" title={p.activity}>{p.node ?? p.activity ?? "another namespace"}</td><td class="mono"><RunLink of={p} /></td>
            {kind === "waiter" && <td class="num">{p.priority ?? 0}</td>}
            <td class="num"><Took from={p.since} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function List() {
  const session = useSession();
  const loaded = useLoad<Page<Limit>>((s) => get(["limits"], {}, s), []);
  usePolled(loaded.reload);
  const [change, setChange] = useState<{ limit: Limit; etag: string }>();
  const [reset, setReset] = useState<Limit>();
  const list = loaded.data?.items;
  const [create, setCreate] = useState(false);
  const operate = session.may("operate");
  const open = async (l: Limit) => {
    const r = await getTagged(["limits", l.name], { key: l.key });
    setChange({ limit: r.data, etag: r.etag });
  };
  return (
    <>
      <Top crumbs={<h1>Limits</h1>}>
        {operate && <button type="button" class="btn" onClick={() => setCreate(true)}>Set a limit…</button>}
      </Top>
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No limits yet."><p>A limit bounds how many nodes run at once, or start per time. Flows declare limits with <code>activity.Limit</code>. Those with keys are listed once a node has used them.</p></Empty>}
        {list && list.length > 0 && (
          <Card title={plural(list.length, "limit")}>
            <table>
              <thead><tr><th class="w-state">State</th><th>Limit</th><th>In use</th><th class="num w-took">Waiting</th><th class="c2 w-state">Set by</th><th class="w-acts"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {list.map((l) => (
                  <tr key={l.name + l.key} data-limit={l.name}>
                    <td><StateOf l={l} /></td>
                    <td><Link class="mono strong" to={limitHref(l)}>{l.name}</Link> {l.key && <span class="tag">{l.key}</span>}</td>
                    <td>{usage(l)}</td><td class="num">{l.waiting}</td><td class="soft c2">{l.set ? "an operator" : "the flow"}</td>
                    <td class="num">
                      {operate && <button type="button" class="btn sm" onClick={() => open(l)}>Change…</button>}{" "}
                      {operate && l.set && <button type="button" class="btn sm" onClick={() => setReset(l)}>Reset…</button>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        )}
      </div>
      {change && <Change {...change} onClose={() => (setChange(undefined), loaded.reload())} />}
      {create && <Name onClose={() => setCreate(false)} />}
      {reset && <Confirm act={resetAct(reset)} onClose={() => (setReset(undefined), loaded.reload())} />}
    </>
  );
}

const unused = (name: string, key: string): Limit => ({ name, key, set: false, running: 0, started: 0, waiting: 0 });

// Name asks for the name of a limit, and leads to its page, which shows and sets it.
function Name({ onClose }: { onClose(): void }) {
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const submit = (e: Event) => {
    e.preventDefault();
    go(limitHref(unused(name.trim(), key.trim())));
  };
  return (
    <Dialog title="Set a limit" onClose={onClose}>
      <form class="gap" onSubmit={submit}>
        <p class="soft">A limit can be set before a node has used it.</p>
        <label class="field"><span>Name</span><input class="input mono" name="limit" required value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
        <label class="field"><span>Key <span class="muted">(of a limit with keys)</span></span><input class="input mono" name="key" value={key} onInput={(e) => setKey(e.currentTarget.value)} /></label>
        <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={onClose}>Back</button><button class="btn primary">Continue</button></footer>
      </form>
    </Dialog>
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
