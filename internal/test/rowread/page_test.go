package rowread

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

var update = flag.Bool("update", false, "write the dump on the page of the stored form")

// TestDumpOnThePage compares the bytes of a run on the page about the stored form with the bytes of the same run.
func TestDumpOnThePage(t *testing.T) {
	const created, now, expires = 1763806399000, 1763806400000, 1763806430000
	class := runrecord.Class{
		Graph: "23b960fa981a8c20d34af6e04ae1705d", GraphHash: "5e1c81f4a55b6e8a50a5f2a1c4c7d2e0", FlowName: "orders", Namespace: "default",
	}.Encode()
	id := sha1.Sum(class)
	b := RunHead{
		Form: RunHeadForm, State: 1, Outcome: 1, Flags: RunHeadPlain | RunHeadInput, Open: 2, Count: 2, Created: created, Class: string(id[:8]),
		Origin: "K3QX7A2M", Events: 2,
	}.Append(nil)
	active := NodeRow{
		Phase: 2, Owner: 2, Elig: 9, Why: 1, Outcome: 1, Attempt: 3, Public: 5, Flags: NodeRowLeased, Index: 0, Total: 1, Epoch: 1,
		Expires: expires, Acquired: now, Started: now, Changed: now, Worker: 3, Lease: "9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
	}
	waiting := NodeRow{
		Phase: 1, Owner: 1, Elig: 3, Why: 6, Outcome: 1, Attempt: 2, Public: 4, Index: noAttempt, Open: 1, Lease: noLease,
	}
	b = append(b, 2, 0, 0, 0, 0, 0, 0, 0) // the first node has started
	b = waiting.Append(active.Append(b))
	data := stored(stored(nil, string(runrecord.Record{RunID: "order-7", InputHash: "00112233445566778899aabbccddeeff"}.Encode())), `"order"`)

	head, rows, err := Parse(string(b))
	require.NoError(t, err)
	require.Equal(t, Head{Nodes: 2, Flags: 72, Open: 2, Created: created, Class: string(id[:8]), Events: 2}, head)
	require.Equal(t, `"order"`, DataOf(string(b), string(data)).Input)
	require.Equal(t, Row{
		Phase: "active", Ownership: "leased", Eligibility: "not_applicable", Reason: "none", Outcome: "none", Attempt: "running_attempt",
		Public: "active", Flags: NodeRowLeased, Attempts: 1, Epoch: 1, Expires: expires, Acquired: now, Started: now, Changed: now,
		Worker: 3, Lease: active.Lease,
	}, rows[0])
	require.Equal(t, Row{
		Phase: "runnable", Ownership: "unowned", Eligibility: "blocked_by_dependencies", Reason: "waiting_for_children", Outcome: "none",
		Attempt: "pending_first_attempt", Public: "waiting_children", Index: -1, Open: 1, Changed: created,
	}, rows[1])

	require.Equal(t, []Event{{Kind: "flow_submitted", At: created}, {Kind: "started", Ordinal: 1, At: now, Worker: 3}}, Events(string(b), head, rows))

	for title, bytes := range map[string][]byte{"The rows": b, "The record and the input": data, "The class": class} {
		comparePage(t, title, bytes)
	}
}

// stored appends a text with its length before it.
func stored(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// comparePage compares bytes with the dump under a title on the page.
func comparePage(t *testing.T, title string, b []byte) {
	t.Helper()
	page := filepath.Join("..", "..", "..", "docs", "reference", "stored-form.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	begin := "<!-- A dump, which a test compares: " + title + " -->\n```\n"
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, closed := strings.Cut(rest, "```\n")
	require.True(t, found && closed, "the page lacks the dump: %s", title)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+hex.Dump(b)+"```\n"+after), 0o644))
		return
	}
	require.Equal(t, hex.Dump(b), shown, "go test ./internal/test/rowread -update writes it")
}
