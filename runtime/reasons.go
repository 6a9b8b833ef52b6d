package runtime

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/activity"
)

// plainFailures say in plain words, with a category, what the contract's functions know by words of their own.
var plainFailures = map[string]struct{ reason, category string }{
	"max_reclaims_exceeded": {"its worker was lost too often", CategoryWorkerLost},
	"attempt_timeout":       {"the attempt ran longer than its start-to-close timeout", activity.CategoryTimeout},
	"execution_deadline":    {"the run exceeded its deadline", activity.CategoryTimeout},
	"flow_deadline":         {"the run exceeded its deadline", activity.CategoryTimeout},
}

// plainFailure is how the failure of a node is told: a reason and a category as the engine has recorded them, in the words of
// the documentation.
func plainFailure(reason, category string) (string, string) {
	plain, found := plainFailures[reason]
	if !found {
		return reason, category
	}
	if category == "expired" { // an outcome, of which contract mode makes up for a category
		category = ""
	}
	return plain.reason, cmp.Or(category, plain.category)
}
