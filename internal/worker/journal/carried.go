package journal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// carriedEntry is the name of the journal entry of a function that continues as new: the number of its generation, a
// blank, and its state.
const carriedEntry = "carried"

// Carried returns the generation of a function, counted from 1, and the state that it continues with; nil for the
// first.
func (j *Journal) Carried() (generation int64, state []byte, err error) {
	data, ok := j.Get(carriedEntry)
	if !ok {
		return 1, nil, nil
	}
	number, text, ok := strings.Cut(string(data), " ")
	generation, err = strconv.ParseInt(number, 10, 64)
	if err != nil || !ok {
		return 0, nil, completion.Undecodable(fmt.Errorf("the state that the function goes on with is %q", data))
	}
	return generation, []byte(text), nil
}
