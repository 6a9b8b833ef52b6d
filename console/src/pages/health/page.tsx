import type { Finding } from "../../api/types";
import { href, Link } from "../../app/router";
import { faults, useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural } from "../../lib/text";
import { Card, Fault, Loading } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import { StateLabel, states, type State } from "../../ui/state";

// HealthPage shows what the inspection of the engine has found: what loses or stops work now, with the remedy.
export function HealthPage() {
  const { health } = useSession();
  const bad = faults(health), rest = (health.data?.findings ?? []).filter((f) => f.severity === "info");
  return (
    <>
      <Top crumbs={<h1>Health</h1>} />
      <div class="page scroll">
        {health.error && <Fault error={health.error} retry={health.reload} />}
        {!health.data && !health.error && <Loading />}
        {health.data && (
          <>
            <Card title={bad.length ? plural(bad.length, "fault") : "No faults"} note="by the inspection of the engine">
              {bad.length === 0 && <p class="row pad c-ok"><Icon name="ok" /> Nothing loses or stops work.</p>}
              {bad.map((f) => <One key={f.code + f.subject} f={f} />)}
            </Card>
            {rest.length > 0 && <Card title="In order" note="the current state">{rest.map((f) => <One key={f.code + f.subject} f={f} />)}</Card>}
          </>
        )}
      </div>
    </>
  );
}

const marks: Record<string, State> = { error: states.failed, warning: states.late, info: states.succeeded };

function One({ f }: { f: Finding }) {
  const page = pageOf(f);
  return (
    <div class="limit" data-finding={f.code}>
      <p class="row wrap">
        <StateLabel state={marks[f.severity] ?? states.failed} word={f.severity} />
        <code class="strong">{f.subject}</code><span class="grow">{f.found}</span>
        {page && <Link class="btn sm" to={href(page.path)}>{page.label}</Link>}
      </p>
      {f.remedy && <p class="s soft">{f.remedy}</p>}
    </div>
  );
}

// pageOf is the page that shows the subject of a finding.
function pageOf(f: Finding): { path: string[]; label: string } | undefined {
  const [kind, name] = [f.subject.split(" ", 1)[0], f.subject.slice(f.subject.indexOf(" ") + 1)];
  if (f.code.startsWith("keeper")) return { path: ["keepers"], label: "Show keepers" };
  if (kind === "lane") return { path: ["lanes", name], label: "Show the lane" };
  if (f.code.startsWith("worker")) return { path: ["workers"], label: "Show workers" };
  return undefined;
}
