// Package auditlink lets packages of this module write into the audit log of an engine of package runtime.
package auditlink

import (
	"context"
	"errors"
	"fmt"
)

// Entry is an action as it is recorded.
type Entry struct {
	// Actor is who acts, Action what is done, Name what it is done to, Detail the values or the reason.
	Actor, Action, Name, Detail string
}

// Audited writes an entry into the audit log of a *runtime.Engine, or of a *runtime.Client in its namespace, then
// carries the action out, and records its failure. In contract mode, which has no log, it only carries the action out.
// Package runtime sets it when it is initialised.
var Audited func(ctx context.Context, engine any, e Entry, act func() error) error

// Refusal returns why an answer to a wait counts as one that was not recorded: it failed, or the wait took it neither
// as recorded nor as its end. It is nil for others. invalid is the error that those match whose text quotes the answer.
func Refusal(outcome string, err, invalid error) error {
	switch {
	case errors.Is(err, invalid):
		return errors.New("nothing was recorded: the answer is not valid")
	case err != nil:
		return err
	case outcome != "accepted" && outcome != "resumed":
		return fmt.Errorf("nothing was recorded: the answer is %s", outcome)
	}
	return nil
}
