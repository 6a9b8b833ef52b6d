package goname

import (
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ got, want string }{
		{Exported("worker_instance_id"), "WorkerInstanceID"},
		{Exported("lease_ttl"), "LeaseTTL"},
		{Exported("lane.eligible"), "LaneEligible"},
		{Unexported("execution_id"), "executionID"},
		{Unexported("type"), "typeValue"},
		{Field("lease_ttl_ms", "ms"), "LeaseTTL"},
		{Field("max_ms", "int"), "MaxMs"},
		{Singular("executions"), "execution"},
		{Singular("capabilities"), "capability"},
		{Singular("progress"), "progress"},
	} {
		if x.got != x.want {
			t.Errorf("got %s, want %s", x.got, x.want)
		}
	}
}
