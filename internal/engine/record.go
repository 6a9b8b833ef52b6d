package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// Record holds fields of one stored hash; hashrecord.Read decodes it from the reply of an HMGET.
type Record = hashrecord.Record

// ReadError classifies the error of a plain read: a refusal of the server keeps its class, the error of a read that
// ctx ended wraps the cause of ctx, and everything else is [enginecore.ErrUnavailable], and [enginecore.ErrClosed]
// too after Session.Close. The error names the command.
func ReadError(ctx context.Context, command string, err error) error {
	if _, refused := rueidis.IsRedisErr(err); refused {
		return fmt.Errorf("%s: %w", command, enginerpc.ConnectError(err))
	}
	if ended := enginerpc.Unanswered(ctx, err); ended != nil {
		return fmt.Errorf("%s: %w", command, ended)
	}
	if errors.Is(err, rueidis.ErrClosing) {
		err = fmt.Errorf("%w: %w", enginecore.ErrClosed, err)
	}
	return fmt.Errorf("%s: %w: %w", command, enginecore.ErrUnavailable, err)
}

// Decimal formats a number in base 10, as commands and records have it.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// ClaimFields are the fields of an execution's record that a claim reads.
var ClaimFields = []string{
	"lifecycle_phase", "ownership_state", "eligibility_state", "attempt_state", "lane_id", "execution_kind",
	"required_capabilities", "flow_id", "current_attempt_index", "total_attempt_count", "retry_count", "created_at",
	"current_worker_instance_id", "current_lease_id", "current_lease_epoch", "current_attempt_id", "lease_expires_at",
	"delay_until",
}

// ExecutionIDs converts texts to ids of executions without checking them.
func ExecutionIDs(texts []string) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, len(texts))
	for i, text := range texts {
		ids[i] = enginecore.ExecutionID(text)
	}
	return ids
}
