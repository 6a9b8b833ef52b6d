package conformance_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/conformance"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
	"github.com/flowfabric/flowfabric-go/lua"
)

// allowedMissing are functions of the traces that the library need not have
// yet. The list only gets shorter.
var allowedMissing = []string{
	"ff_append_frame",
	"ff_block_execution_for_admission",
	"ff_buffer_signal_for_pending_waitpoint",
	"ff_change_priority",
	"ff_check_admission_and_record",
	"ff_close_waitpoint",
	"ff_create_budget",
	"ff_create_pending_waitpoint",
	"ff_create_quota_policy",
	"ff_deliver_signal",
	"ff_evaluate_flow_eligibility",
	"ff_expire_suspension",
	"ff_list_waitpoint_hmac_kids",
	"ff_move_to_waiting_children",
	"ff_promote_blocked_to_eligible",
	"ff_read_attempt_stream",
	"ff_release_admission",
	"ff_replay_execution",
	"ff_report_usage_and_check",
	"ff_reset_budget",
	"ff_resume_execution",
	"ff_revoke_lease",
	"ff_rotate_waitpoint_hmac_secret",
	"ff_set_execution_tags",
	"ff_set_flow_tags",
	"ff_suspend_execution",
	"ff_unblock_execution",
}

const data = "../../testdata/conformance"

// workers is the number of databases that one engine's traces are spread over.
const workers = 2

// TestLibrary replays all traces against the library on every engine.
func TestLibrary(t *testing.T) {
	traces, err := conformance.LoadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			testLibrary(t, traces, openers(t, kind))
		})
	}
}

func openers(t *testing.T, kind testserver.Kind) []conformance.Opener {
	t.Helper()
	open := make([]conformance.Opener, workers)
	for i := range open {
		if kind == testserver.Embedded {
			open[i] = conformance.NewEmbedded()
		} else {
			open[i] = conformance.NewAddress(testserver.Start(t, testserver.Options{Kind: kind}).Addr(), false)
		}
	}
	return open
}

func testLibrary(t *testing.T, traces []*conformance.Trace, open []conformance.Opener) {
	t.Helper()
	deviations, err := conformance.LoadDeviations(filepath.Join(data, "deviations.json"))
	if err != nil {
		t.Fatal(err)
	}
	options := conformance.Options{KeepGoing: true, Deviations: deviations}
	results, err := conformance.Run(t.Context(), traces, open, lua.Source(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	summary := conformance.Summarize(results)
	const shown = 10
	for i, f := range summary.Failures {
		if i == shown {
			t.Errorf("%d more steps differ; see go run ./internal/conformance/replay -keep-going", len(summary.Failures)-i)
			break
		}
		var text strings.Builder
		f.Write(&text, 20)
		t.Error(text.String())
	}
	for _, row := range deviations.Unused(summary.Functions()) {
		t.Errorf("deviation %s for %s matches nothing", row.Name(), strings.Join(row.Functions, ", "))
	}
	missing := summary.Missing()
	for _, name := range missing {
		if !slices.Contains(allowedMissing, name) {
			t.Errorf("the library lacks %s", name)
		}
	}
	for _, name := range allowedMissing {
		if !slices.Contains(missing, name) {
			t.Errorf("the library has %s, so allowedMissing must not list it", name)
		}
	}
	var text strings.Builder
	summary.Write(&text)
	t.Log("\n" + text.String())
}
