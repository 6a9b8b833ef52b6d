package enginerpc

import (
	"fmt"
	"strings"
)

// JoinSame joins the errors of the same call in different places. Its text has equal errors once, with their number
// and the plural of the place: "64 partitions: ...". It wraps all errors that are not nil, and is nil if all are.
func JoinSame(places string, errs []error) error {
	var faults []error
	for _, err := range errs {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if faults == nil {
		return nil
	}
	return &sameErrors{places, faults}
}

type sameErrors struct {
	places string
	errs   []error
}

// Error implements error.
func (e *sameErrors) Error() string {
	var texts []string
	count := make(map[string]int)
	for _, err := range e.errs {
		text := err.Error()
		if count[text]++; count[text] == 1 {
			texts = append(texts, text)
		}
	}
	for i, text := range texts {
		if n := count[text]; n > 1 {
			texts[i] = fmt.Sprintf("%d %s: %s", n, e.places, text)
		}
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors.
func (e *sameErrors) Unwrap() []error { return e.errs }
