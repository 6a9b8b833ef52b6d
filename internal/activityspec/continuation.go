package activityspec

import (
	"fmt"
	"reflect"
)

// Continuation is the error of a function that continues as new with a state.
type Continuation struct {
	State any
	// Type is the type of the state. It must equal the type of the function's input.
	Type reflect.Type
}

// Error returns a text with the type of the state.
func (c *Continuation) Error() string {
	return fmt.Sprintf("the activity goes on as new, with a state of type %s", c.Type)
}
