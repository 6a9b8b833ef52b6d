import { useState } from "preact/hooks";
import { setPrefs, usePrefs } from "../../app/prefs";
import { go, href } from "../../app/router";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icon";

// Views are filters that the reader keeps under a name, on this machine.
export function Views({ filtered }: { filtered: boolean }) {
  const { views } = usePrefs();
  const [naming, setNaming] = useState(false);
  const here = location.search;
  const known = views.find((v) => v.query === here);
  const open = (query: string) => go(href(["runs"], new URLSearchParams(query)));
  return (
    <>
      {views.map((v) => (
        <span key={v.name} class={`chip${v === known ? " on" : ""}`} data-view={v.name}>
          <button type="button" class="bare" aria-pressed={v === known} onClick={() => open(v.query)}>{v.name}</button>
          <button type="button" aria-label={`Forget the view ${v.name}`}
            onClick={() => setPrefs({ views: views.filter((o) => o !== v) })}><Icon name="x" size={12} /></button>
        </span>
      ))}
      {filtered && !known && <button type="button" class="link s" onClick={() => setNaming(true)}>Save this view…</button>}
      {naming && <Naming onClose={() => setNaming(false)} />}
    </>
  );
}

function Naming({ onClose }: { onClose(): void }) {
  const { views } = usePrefs();
  const [name, setName] = useState("");
  const save = (e: Event) => {
    e.preventDefault();
    const kept = views.filter((v) => v.name !== name.trim());
    setPrefs({ views: [...kept, { name: name.trim(), query: location.search }] });
    onClose();
  };
  return (
    <Dialog title="Save this view" onClose={onClose}>
      <form class="gap" onSubmit={save}>
        <p class="soft">The filters that are set now, kept in this browser. To give them to others, send the address of the page.</p>
        <label class="field"><span>Name</span><input class="input" name="view" value={name} maxLength={40} onInput={(e) => setName(e.currentTarget.value)} /></label>
        <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={onClose}>Back</button>
          <button class="btn primary" disabled={!name.trim()}>Save view</button></footer>
      </form>
    </Dialog>
  );
}
