package engine

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
