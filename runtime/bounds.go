package runtime

import (
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Categories of failures that workers assign, in addition to the categories of package activity.
const (
	// CategoryPlan is the category of a node of flow.Expand whose plan cannot be run: it is malformed, or uses other
	// activities than flow.MayRun names.
	CategoryPlan = engine.CategoryPlan
	// CategoryTooDeep is the category of a node whose plan would be nested deeper than flow.ExpandDepth allows.
	CategoryTooDeep = engine.CategoryTooDeep
	// CategoryTooManyTurns is the category of a flow.Loop whose condition does not hold after its last turn.
	CategoryTooManyTurns = engine.CategoryTooManyTurns
	// CategoryTooLarge is the category of a result above MaxResult.
	CategoryTooLarge = engine.CategoryTooLarge
	// CategoryStepLimit is the category of an execution that could not record a step or a wait, because it has too many
	// of them or they are too large.
	CategoryStepLimit = engine.CategoryJournalFull
	// CategoryChild is the category of a map or sub-flow node whose child run was cancelled, expired, or no longer
	// exists. When a node of the child run failed, the category is the category of the failed node.
	CategoryChild = engine.CategoryChild
)

// Limits of a run that the client and the worker check before they send anything. In addition, the encoded definition
// of a flow has at most 8 MiB.
const (
	// MaxInput is the largest encoded input of a run: 1 MiB.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node: 1 MiB.
	MaxResult = 1 << 20
	// MaxRunID is the longest run id: 256 bytes.
	MaxRunID = 256
)
