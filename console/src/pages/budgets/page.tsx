import { useState } from "preact/hooks";
import { get, getTagged } from "../../api/client";
import type { Budget, BudgetHistory, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { goDuration, span } from "../../lib/time";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { StateLabel, states } from "../../ui/state";
import { Time } from "../../ui/time";
import { usePolled } from "../../ui/polled";
import { Amount, keyOf, pointsOf, useSeen, type Point } from "./burndown";
import { Change, deleteAct, effects, parameters, resetAct } from "./change";
import { byFullness, KeysOf, RunsOf, UseOf } from "./use";

interface Changed { budget: Budget; etag: string }

// BudgetsPage shows what is spent of budgets, how fast and by whom, and changes them.
export function BudgetsPage() {
  const query = useQuery();
  const loaded = useLoad<Page<Budget>>((s) => get(["budgets"], {}, s), []);
  usePolled(loaded.reload, 2000);
  const seen = useSeen(loaded.data?.items);
  const [act, setAct] = useState<Act>();
  const [change, setChange] = useState<Changed>();
  const list = loaded.data?.items;
  const shared = list?.filter((b) => !b.run) ?? [];
  const keys = grouped(shared.filter((b) => b.key), (b) => b.name).filter((g) => g.length > 1);
  const one = (b: Budget) => (
    <One key={keyOf(b)} budget={b} seen={seen} onAct={setAct} onChange={setChange} reload={loaded.reload} />
  );
  return (
    <>
      <Top crumbs={<h1>Budgets</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No budgets yet."><p>A budget bounds what nodes spend together: tokens, calls, money. Flows declare budgets with <code>flow.Budget</code>.</p></Empty>}
        {keys.map((g) => {
          const chosen = g.find((b) => b.name === query.get("name") && b.key === query.get("key")) ?? byFullness(g)[0]!;
          return (
            <div key={g[0]!.name} class="columns">
              <KeysOf list={g} chosen={keyOf(chosen)} onChoose={(k) => setQuery({ name: g[0]!.name, key: g.find((b) => keyOf(b) === k)!.key })} />
              {one(chosen)}
            </div>
          );
        })}
        <div class="columns broad">
          {grouped(list?.filter((b) => b.run) ?? [], (b) => `${b.name}\n${b.flow}`).map((g) => <RunsOf key={`${g[0]!.name}\n${g[0]!.flow}`} list={g} />)}
          {shared.filter((b) => !keys.some((g) => g.includes(b))).map(one)}
        </div>
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
      {change && <Change {...change} onClose={() => (setChange(undefined), loaded.reload())} />}
    </>
  );
}

// grouped gathers budgets that have the same key.
function grouped(list: Budget[], key: (b: Budget) => string): Budget[][] {
  const out = new Map<string, Budget[]>();
  for (const b of list) out.set(key(b), [...(out.get(key(b)) ?? []), b]);
  return [...out.values()];
}

interface OneProps {
  budget: Budget; seen: Map<string, Point[]>; onAct(act: Act): void; onChange(c: Changed): void; reload(): void;
}

// One is a budget of a flow, or a shared one.
function One({ budget: b, seen, onAct, onChange, reload }: OneProps) {
  const session = useSession();
  const past = useLoad<BudgetHistory>((s) => get(["budgets", b.name, "history"], parameters(b), s), [keyOf(b)]);
  const change = async () => {
    const r = await getTagged(["budgets", b.name], parameters(b));
    onChange({ budget: r.data, etag: r.etag });
  };
  return (
    <Card title={<code>{b.name}</code>} note={noteOf(b)} side={
      <span class="row">
        {session.may("operate") && <button type="button" class="btn sm" onClick={change}>Change…</button>}
        {session.may("operate") && <button type="button" class="btn sm" onClick={() => onAct(resetAct(b, reload))}>Reset…</button>}
        {session.may("administer") && <button type="button" class="btn sm danger" onClick={() => onAct(deleteAct(b, reload))}>Delete…</button>}
      </span>
    }>
      <div class="pad gap" data-budget={b.name}>
        {b.used_up ? <p><StateLabel state={states.blocked} word="Used up" /> <span class="s soft">{b.used_up}</span></p> : <StateLabel state={states.succeeded} word="There is room" />}
        {b.amounts.map((a) => <Amount key={a.dimension} budget={b} amount={a} seen={pointsOf(past.data?.samples, a.dimension, seen.get(`${keyOf(b)}\n${a.dimension}`) ?? [])} />)}
        <UseOf budget={b} />
        <dl class="kv">
          {b.resets_at && <><dt>Resets</dt><dd><Time at={b.resets_at} />, every {span(goDuration(b.reset_every))}</dd></>}
          <dt>When used up</dt><dd>{effects[b.effect ?? ""] ?? b.effect}</dd>
          <dt>Breaches</dt><dd>{b.breaches} hard, {b.soft_breaches} soft</dd>
        </dl>
      </div>
    </Card>
  );
}

const noteOf = (b: Budget) => [b.key && `key ${b.key}`, b.run ? "of one run" : b.flow ? `of ${b.flow}` : "shared", b.set && "set by an operator"].filter(Boolean).join(" · ");
