package engine

import (
	"cmp"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Categories of failures that a worker gives in addition to the categories of package activity.
const (
	// CategoryTooLarge is the category of a result above MaxResult.
	CategoryTooLarge = "too_large"
	// CategoryJournalFull is the category of a failure to record a step or a wait because the execution has too many,
	// or too large ones.
	CategoryJournalFull = "journal_full"
	// CategoryChild is the category of a node whose own run, of its sub-flow or its items, was cancelled, has expired,
	// or no longer exists. When a node of that run has failed, the category is that node's.
	CategoryChild = "child_run"
	// CategoryPlan is the category of a node whose plan cannot be run: it is malformed, or uses other activities than
	// flow.MayRun names.
	CategoryPlan = "plan"
	// CategoryTooDeep is the category of a node whose plan would be nested deeper than flow.ExpandDepth allows.
	CategoryTooDeep = "too_deep"
	// CategoryTooManyTurns is the category of a loop whose condition does not hold after its last turn.
	CategoryTooManyTurns = "too_many_turns"
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
