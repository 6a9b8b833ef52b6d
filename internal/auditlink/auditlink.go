package auditlink

import (
	"errors"
	"fmt"
)

// Entry is an action as it is recorded.
type Entry struct {
	// Actor performs Action on the object called Name; Detail contains the values or the reason.
	Actor, Action, Name, Detail string
}

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
