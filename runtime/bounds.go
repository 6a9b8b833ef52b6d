package runtime

import (
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Categories of failures that a worker gives besides those of package activity.
const (
	// CategoryTooLarge is the category of a result above MaxResult.
	CategoryTooLarge = engine.CategoryTooLarge
	// CategoryStepLimit is the category of a failure to record a step or a wait because the execution has too many, or too
	// large ones.
	CategoryStepLimit = engine.CategoryJournalFull
	// CategoryChild is the category of a node whose own run, of its sub-flow or its items, was cancelled, has expired, or is not
	// there any more. When a node of that run has failed, the category is that node's.
	CategoryChild = engine.CategoryChild
)

const (
	// MaxGrantTTL bounds GrantRequest.TTL.
	MaxGrantTTL = admission.MaxGrantTTL
)

// Limits of a run that are checked before anything is sent.
const (
	// MaxInput is the largest encoded input of a run, in bytes: 1 MiB.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node, in bytes: 1 MiB.
	MaxResult = 1 << 20
	// MaxDefinition is the largest encoded definition of a flow, in bytes.
	MaxDefinition = submit.MaxDefinition
	// MaxRunID is the longest run id, in bytes.
	MaxRunID = 256
)

// Bounds of texts for the record, in bytes.
const (
	// MaxReason bounds the reason of a cancel, a pause or the end of a wait. The text of a failure is cut to it, with a mark
	// that says how long it was.
	MaxReason = engine.MaxReason
	// MaxActor bounds the name of who acts: that of By, Creator and ScheduledBy.
	MaxActor = engine.MaxActor
)

// DefaultRetention is how long a run is kept after its end where neither the flow nor the engine says otherwise.
const (
	DefaultRetention = submit.DefaultRetention
)
