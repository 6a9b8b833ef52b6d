package engine

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// CategoryWorkerLost is the category of an execution that failed because its worker was lost too often.
const CategoryWorkerLost = "worker_lost"

// plainFailures are the reasons that the contract's functions record, in the words of the documentation and with a
// category.
var plainFailures = map[string]struct{ reason, category string }{
	"max_reclaims_exceeded": {"its worker was lost too often", CategoryWorkerLost},
	"attempt_timeout":       {"the attempt ran longer than its start-to-close timeout", activityspec.CategoryTimeout},
	"execution_deadline":    {"the run exceeded its deadline", activityspec.CategoryTimeout},
	"flow_deadline":         {"the run exceeded its deadline", activityspec.CategoryTimeout},
	"finally_deadline":      {"it ran longer than flow.Finally allows", activityspec.CategoryTimeout},
}

// PlainFailure translates the reason and category that the engine recorded of a failure into the words of the
// documentation. Reasons that it does not know are returned as they are.
func PlainFailure(reason, category string) (string, string) {
	plain, found := plainFailures[reason]
	if !found {
		return reason, category
	}
	if category == "expired" { // an outcome, of which contract mode makes up for a category
		category = ""
	}
	return plain.reason, cmp.Or(category, plain.category)
}
