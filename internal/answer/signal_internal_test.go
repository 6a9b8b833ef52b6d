package answer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// A call whose reply was lost is sent again; its result must not name another, earlier signal.
func TestSignalResult_OwnRepeatIsNotADuplicate(t *testing.T) {
	t.Parallel()
	reply := enginerpc.SignalReply{Outcome: "duplicate", SignalID: "mine", FirstOutcome: "resumed", Matched: true}
	require.Equal(t, fabrictype.SignalResult{Outcome: fabrictype.SignalResumed, SignalID: "mine", Counts: true}, resultOf(reply, "mine"))
	require.Equal(t, fabrictype.SignalResult{Outcome: fabrictype.SignalDuplicate, SignalID: "mine", First: fabrictype.SignalResumed, Counts: true}, resultOf(reply, "other"))
}
