package answer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// A call whose reply was lost is sent again; its result must not name another, earlier signal.
func TestSignalResult_OwnRepeatIsNotADuplicate(t *testing.T) {
	t.Parallel()
	reply := enginerpc.SignalReply{Outcome: "duplicate", SignalID: "mine", FirstOutcome: "resumed", Matched: true}
	for sent, want := range map[enginecore.SignalID]fabrictype.SignalResult{
		"mine":  {Outcome: fabrictype.SignalResumed, SignalID: "mine", Counts: true},
		"other": {Outcome: fabrictype.SignalDuplicate, SignalID: "mine", First: fabrictype.SignalResumed, Counts: true},
	} {
		got, err := resultOf(reply, &enginerpc.OutgoingSignal{SignalID: sent})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
