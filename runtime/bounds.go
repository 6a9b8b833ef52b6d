package runtime

import (
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Categories of failures that a worker gives besides those of package activity.
const (
	// CategoryTooLarge is the category of a result above MaxResult.
	CategoryTooLarge = engine.CategoryTooLarge
	// CategoryStepLimit is the category of a failure to record a step or a wait because the execution has too many, or
	// too large ones.
	CategoryStepLimit = engine.CategoryJournalFull
	// CategoryChild is the category of a node whose own run, of its sub-flow or its items, was cancelled, has expired,
	// or is not there any more. When a node of that run has failed, the category is that node's.
	CategoryChild = engine.CategoryChild
)

// Limits of a run that are checked before anything is sent. The encoded definition of a flow has at most 8 MiB besides.
const (
	// MaxInput is the largest encoded input of a run: 1 MiB.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node: 1 MiB.
	MaxResult = 1 << 20
	// MaxRunID is the longest run id: 256 bytes.
	MaxRunID = 256
)
