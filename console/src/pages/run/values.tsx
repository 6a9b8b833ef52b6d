import { get } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { runPath } from "../../app/router";
import { useSession } from "../../app/session";
import type { Raw } from "../../lib/raw";
import { Card, CopyButton, Fault, JsonText, Loading, ValueView } from "../../ui/basic";

// Values shows input and result of the run, and its note.
export function Values({ flow, run, memo, version }: { flow: string; run: string; memo: Raw | undefined; version: string }) {
  const session = useSession();
  const loaded = useLoad<RunDetail>(
    (s) => get(runPath(flow, run), { values: session.reads, nodes: 1, value_bytes: 1 << 20 }, s), [flow, run, version]);
  if (loaded.error) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const { input, result } = loaded.data;
  return (
    <div class="scroll pad columns">
      <Card title="Input" side={input?.json && <CopyButton text={input.json.text} />}>
        <div class="pad"><ValueView value={input} label="Input" /></div>
      </Card>
      <Card title="Result" side={result?.json && <CopyButton text={result.json.text} />}>
        <div class="pad"><ValueView value={result} label="Result" /></div>
      </Card>
      {memo && <Card title="Note"><div class="pad"><JsonText raw={memo} label="Note" /></div></Card>}
    </div>
  );
}
