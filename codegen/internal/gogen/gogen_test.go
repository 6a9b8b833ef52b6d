package gogen

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
)

func TestGeneratedGoParses(t *testing.T) {
	t.Parallel()
	_, l := headertest.Sample(t)
	plans := makePlans(l)
	calls, err := emitCalls(plans)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"type EverythingCall struct {", "OldAttemptIndex enginecore.AttemptIndex", "IdempotencyKey string",
		"func (conn *Conn) Take(ctx context.Context, c TakeCall) (TakeReply, error)", "w.belongs(\"execution_id\", c.ExecutionID)",
		"Rest []EverythingRest", "RetryAfter time.Duration", "w.noKey()",
		"TTL time.Duration", // ttl_ms
	} {
		if !strings.Contains(strings.Join(strings.Fields(calls), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, calls)
		}
	}
	for name, emit := range map[string]func() (string, error){
		"keys":   func() (string, error) { return emitGoKeys(l) },
		"shared": func() (string, error) { return emitShared(l, plans) },
		"errors": func() (string, error) { return emitPublicErrors(l) },
		"codes":  func() (string, error) { return emitInternalErrors(l) },
		"golden": func() (string, error) { return emitGolden(plans) },
	} {
		if _, err := emit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := statusConst("ALREADY_SATISFIED"); got != "StatusAlreadySatisfied" {
		t.Error(got)
	}
}
