package engine

import (
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// Record holds fields of one stored hash; hashrecord.Read decodes it from the reply of an HMGET.
type Record = hashrecord.Record

// ReadError classifies the error of a read as those of calls are: a refusal of the server keeps its class, anything
// else is enginecore.ErrUnavailable. command names what was read.
func ReadError(command string, err error) error {
	if _, refused := rueidis.IsRedisErr(err); refused {
		return fmt.Errorf("%s: %w", command, enginerpc.ConnectError(err))
	}
	return fmt.Errorf("%s: %w: %w", command, enginecore.ErrUnavailable, err)
}

// Decimal writes a number as commands and texts have it.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// ClaimFields are what a claim has to know of an execution.
var ClaimFields = []string{
	"lifecycle_phase", "ownership_state", "eligibility_state", "attempt_state", "lane_id", "execution_kind",
	"required_capabilities", "flow_id", "current_attempt_index", "total_attempt_count", "retry_count", "created_at",
	"current_worker_instance_id", "current_lease_id", "current_lease_epoch", "current_attempt_id", "lease_expires_at", "delay_until",
}

// ExecutionIDs reads ids of executions.
func ExecutionIDs(texts []string) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, len(texts))
	for i, text := range texts {
		ids[i] = enginecore.ExecutionID(text)
	}
	return ids
}
