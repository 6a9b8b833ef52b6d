package header

import (
	"slices"
	"testing"
)

func TestCollisionsGetContractNames(t *testing.T) {
	t.Parallel()
	l := &Library{Functions: []*Function{{Name: "ff_cancel_flow"}, {Name: "ffx_cancel_flow"}, {Name: "ff_claim_execution"}, {Name: "ff_x", GoName: "Other"}}}
	assignGoNames(l)
	var got []string
	for _, f := range l.Functions {
		got = append(got, f.GoName)
	}
	if want := []string{"ContractCancelFlow", "CancelFlow", "ClaimExecution", "Other"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
