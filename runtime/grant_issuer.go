package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ClaimForWorker grants one execution to a worker that is not trusted with admission: it checks budgets, quotas, limits
// and capabilities for it. Its grants are grants of the contract, so workers and schedulers of other FlowFabric
// programs can use the same lanes, and it works in contract mode. An execution that it may not grant is blocked, with
// the reason in its record, and considered again when the reason no longer applies.
//
// ClaimForWorker grants the execution that a claim by the worker itself would lease next in that partition: fairness
// keys, aging, priorities, pauses and budgets apply as they do to workers that claim for themselves. Of the partitions
// that a call probes, it uses the one from which this Engine has granted nothing for the longest time. In contract mode
// it follows the contract: the first partition that has an execution, then priority, then age.
//
// It reads the first waiting executions of each partition that it probes, reserves room in their budgets and quotas,
// and writes one grant. It returns enginecore.ErrNoGrant when it found nothing; since it may not probe every partition,
// others can have work, so call it again. Other errors match ErrInvalid for an invalid request, or are errors of the
// engine. When a budget or a quota cannot be read, nothing is granted.
func (e *Engine) ClaimForWorker(ctx context.Context, r enginecore.GrantRequest) (enginecore.Grant, error) {
	if err := e.ready(ctx); err != nil {
		return enginecore.Grant{}, fmt.Errorf("claim for worker: %w", err)
	}
	return e.grants.ClaimForWorker(ctx, r)
}
