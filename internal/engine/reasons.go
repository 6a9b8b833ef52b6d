package engine

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Bounds of texts for the record, in bytes.
const (
	// MaxReason bounds the reason of a cancel, a pause or the end of a wait. The text of a failure is cut to it, with
	// a mark that states its full length.
	MaxReason = 2048
	// MaxStack bounds the stack of a function that panicked, which is cut to it likewise.
	MaxStack = 8192
	// MaxActor bounds the name of an actor: the argument of runtime.WithActor and ScheduleConfig.Actor.
	MaxActor = 256
)

// CheckReason returns an error that wraps [ErrInvalid] unless reason is valid UTF-8 of at most [MaxReason] bytes
// without control characters.
func CheckReason(reason string) error { return CheckText("reason", reason, MaxReason) }

// CheckText returns an error that wraps [ErrInvalid] unless text is valid UTF-8 of at most limit bytes without control
// characters. The error names the text as thing.
func CheckText(thing, text string, limit int) error {
	if err := recordtext.Check(thing, text, limit); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
