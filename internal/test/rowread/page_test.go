package rowread

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the dump on the page of the stored form")

// TestDumpOnThePage compares the bytes of a run on the page about the stored form with the bytes of the same run.
func TestDumpOnThePage(t *testing.T) {
	const created, now, expires = 1763806399000, 1763806400000, 1763806430000
	b := RunHead{
		Form: RunHeadForm, Count: 2, Flags: RunHeadPlain | RunHeadInput, Open: 2, Created: created, Events: 2,
		Graph: "23b960fa981a8c20d34af6e04ae1705d", Origin: "K3QX7A2M",
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
	b = append(b, "\x07\x00\x00\x00\"order\""...)

	head, rows, err := Parse(string(b))
	require.NoError(t, err)
	require.Equal(t, Head{Nodes: 2, Flags: 72, Open: 2, Created: created, Graph: "23b960fa981a8c20d34af6e04ae1705d", Events: 2}, head)
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

	page := filepath.Join("..", "..", "..", "docs", "reference", "stored-form.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- A dump, which a test compares: -->\n```\n")
	shown, after, closed := strings.Cut(rest, "```\n")
	require.True(t, found && closed, "the page lacks the dump")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+"<!-- A dump, which a test compares: -->\n```\n"+hex.Dump(b)+"```\n"+after), 0o644))
		return
	}
	require.Equal(t, hex.Dump(b), shown, "go test ./internal/test/rowread -update writes it")
}
