import { useState } from "preact/hooks";
import { get, post, remove, token } from "../../api/client";
import type { Page, Role, Token } from "../../api/types";
import { useLoad } from "../../app/load";
import { setPrefs, usePrefs } from "../../app/prefs";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { Card, CopyButton, Empty, Fault, Segmented } from "../../ui/basic";
import { Confirm, Dialog } from "../../ui/dialog";
import { zoneName } from "../../lib/time";
import { Time } from "../../ui/time";

export function SettingsPage() {
  const session = useSession();
  const prefs = usePrefs();
  const { server } = session;
  return (
    <>
      <Top crumbs={<h1>Settings</h1>} />
      <div class="page scroll">
        <div class="columns">
          <Card title="How it looks">
            <div class="pad gap">
              <p class="row"><span class="grow">Theme</span><Segmented label="Theme" value={prefs.theme} onChange={(theme) => setPrefs({ theme })} options={[["system", "System"], ["light", "Light"], ["dark", "Dark"]]} /></p>
              <p class="row"><span class="grow">Times</span><Segmented label="Times" value={prefs.zone} onChange={(zone) => setPrefs({ zone })} options={[["local", `Local (${zoneName("local")})`], ["utc", "UTC"]]} /></p>
              <p class="row"><span class="grow">Rows</span><Segmented label="Rows" value={prefs.density} onChange={(density) => setPrefs({ density })} options={[["dense", "Dense"], ["roomy", "Roomy"]]} /></p>
              <label class="row check"><input type="checkbox" checked={prefs.keys} onChange={(e) => setPrefs({ keys: e.currentTarget.checked })} /> Single keys do something (<kbd class="kbd">?</kbd> lists them)</label>
            </div>
          </Card>
          <Card title="Who you are">
            <div class="pad gap">
              <dl class="kv">
                <dt>Name</dt><dd>{server.principal.name}</dd><dt>Login</dt><dd>{server.principal.login}</dd>
                <dt>Rights</dt><dd>{(server.principal.rights ?? []).join(", ") || "none"}</dd>
                {server.principal.flows && <><dt>Flows</dt><dd class="mono">{server.principal.flows}</dd></>}
                <dt>Namespace</dt><dd class="mono">{server.namespace}</dd><dt>Engine</dt><dd>{server.engine}</dd><dt>Version</dt><dd class="mono">{server.version || "unknown"}</dd>
              </dl>
              {token.get() && <button type="button" class="btn" onClick={() => (token.set(""), location.reload())}>Sign out</button>}
            </div>
          </Card>
        </div>
        {session.may("administer") && <Tokens />}
      </div>
    </>
  );
}

function Tokens() {
  const loaded = useLoad<Page<Token>>((s) => get(["tokens"], {}, s), []);
  const [create, setCreate] = useState(false);
  const [made, setMade] = useState<string>();
  const [gone, setGone] = useState<Token>();
  const list = loaded.data?.items;
  return (
    <Card title="Tokens" side={<button type="button" class="btn sm" onClick={() => setCreate(true)}>New token…</button>}>
      {loaded.error && <Fault error={loaded.error} retry={loaded.reload} />}
      {list?.length === 0 && <Empty title="No tokens yet."><p>A token lets a program or a person use the API.</p></Empty>}
      {list && list.length > 0 && (
        <table>
          <thead><tr><th class="w-run">Name</th><th>Role</th><th class="c2">Flows</th><th class="num w-time c3">Created</th><th class="num w-time">Expires</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
          <tbody>{list.map((t) => <tr key={t.name}><td class="mono strong">{t.name}</td><td>{[t.role, ...(t.rights ?? [])].join(", ")}</td><td class="mono c2">{t.flows ?? "all"}</td><td class="num c3"><Time at={t.created_at} /></td><td class="num">{t.expires_at ? <Time at={t.expires_at} /> : "never"}</td><td class="num"><button type="button" class="btn sm danger" onClick={() => setGone(t)}>Delete…</button></td></tr>)}</tbody>
        </table>
      )}
      {create && <NewToken onClose={() => (setCreate(false), loaded.reload())} onMade={setMade} />}
      {made && (
        <Dialog title="The token, shown once" onClose={() => setMade(undefined)}>
          <p class="soft">Copy it now. It cannot be shown again.</p>
          <pre class="json" tabIndex={0} role="region" aria-label="Token">{made}</pre>
          <CopyButton text={made} />
        </Dialog>
      )}
      {gone && <Confirm onClose={() => (setGone(undefined), loaded.reload())} act={{ title: `Delete ${gone.name}`, verb: "Delete token", keep: "Keep it", danger: true, done: "Token deleted", what: "Requests with it are refused at once.", run: () => remove(["tokens", gone.name]) }} />}
    </Card>
  );
}

function NewToken({ onClose, onMade }: { onClose(): void; onMade(text: string): void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [expires, setExpires] = useState("720h");
  return (
    <Confirm onClose={onClose} act={{
      title: "New token", verb: "Create token", done: "Token created", what: "Whoever has its text may use the API with these rights.",
      run: async () => onMade((await post(["tokens"], { name, role, ...(expires && { expires }) })).text),
    }}>
      <label class="field"><span>Name</span><input class="input" name="token-name" value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
      <label class="field"><span>Role</span><select class="input" name="role" value={role} onChange={(e) => setRole(e.currentTarget.value as Role)}>{["viewer", "operator", "admin"].map((r) => <option key={r}>{r}</option>)}</select></label>
      <label class="field"><span>Valid for <span class="muted">(such as 720h; empty for ever)</span></span><input class="input" name="expires" value={expires} onInput={(e) => setExpires(e.currentTarget.value)} /></label>
    </Confirm>
  );
}
