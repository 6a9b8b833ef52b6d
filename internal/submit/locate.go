package submit

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// LocateRun finds where the engine keeps a run of the session's namespace. It sends nothing, and the run need not
// exist. Its error matches [engine.ErrInvalid] for an id that no run can have.
func LocateRun(s *engine.Session, flow, run string) (engine.Run, error) {
	if err := CheckRunID(run); err != nil {
		return engine.Run{}, fmt.Errorf("flow %s: %w", flow, err)
	}
	id := keyspace.FlowIDFor(s.Namespace, flow, run)
	partition, err := s.Core.FlowPartition(id)
	return engine.Run{Flow: flow, ID: run, FlowID: id, Partition: partition}, err
}
