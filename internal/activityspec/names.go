package activityspec

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

const (
	// MaxName is the longest name of an activity, a node or a flow, in bytes.
	MaxName = 128
	// MaxSignalText is the longest name, source, category, correlation id and idempotency key of a signal, in bytes.
	MaxSignalText = 256
	// MaxSignalSum bounds the signals of one wait together, in bytes: their payloads and the texts that come with them.
	// The library of the engine has the same bound.
	MaxSignalSum = 1 << 20

	maxLane             = 64
	maxCapabilities     = 256
	maxCapabilitiesText = 4096
)

// CheckName validates the name of an activity, a node or a flow: 1 to 128 characters out of A-Z, a-z,
// 0-9, '.', '_' and '-', but neither "." nor "..". It returns nil for a valid name.
func CheckName(name string) error {
	if len(name) == 0 {
		return fmt.Errorf("name is empty; it has 1 to %d characters out of A-Z a-z 0-9 . _ -", MaxName)
	}
	if len(name) > MaxName {
		return fmt.Errorf("name %q… is %d bytes long, the limit is %d", name[:32], len(name), MaxName)
	}
	for _, r := range name {
		if !nameRune(r) {
			return fmt.Errorf("name %q has the character %q; allowed are A-Z a-z 0-9 . _ -", name, r)
		}
	}
	if err := recordtext.PathFault(name); err != nil {
		return fmt.Errorf("name %w", err)
	}
	return nil
}

// CheckText validates a text that is shown on one line, such as a tag or the source of a signal: it must be UTF-8
// without control characters. It returns nil for a valid text, and does not check the length.
func CheckText(text string) error { return recordtext.Fault(text) }

// TooManySignals returns why a wait takes no further signal, with which its signals would have the given number of
// bytes.
func TooManySignals(bytes string) string {
	return fmt.Sprintf("the signals of the wait would have %s bytes together, their payloads and texts; "+
		"at most %d are allowed", bytes, MaxSignalSum)
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// CheckLane returns the fault of a lane's name: it has 1 to 64 printable ASCII characters without a space, and is a
// valid segment of a path.
func CheckLane(name string) error {
	if len(name) == 0 || len(name) > maxLane {
		return fmt.Errorf("lane %.80q is %d bytes long, not 1 to %d", name, len(name), maxLane)
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return fmt.Errorf("lane %q has other than printable ASCII characters, or a space", name)
		}
	}
	if err := recordtext.PathFault(name); err != nil {
		return fmt.Errorf("lane %w", err)
	}
	return nil
}

// Offered returns the capabilities that a worker offers, sorted and without duplicates, and their faults.
func Offered(names []string) (list []string, faults []error) {
	list = slices.Compact(slices.Sorted(slices.Values(names)))
	return list, checkCapabilities(list)
}

func checkCapabilities(names []string) []error {
	var errs []error
	if len(names) > maxCapabilities {
		errs = append(errs, fmt.Errorf("%d capabilities, the limit is %d", len(names), maxCapabilities))
	}
	size := max(0, len(names)-1)
	for _, name := range names {
		size += len(name)
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf("a capability is empty"))
		case strings.ContainsFunc(name, badCapabilityRune):
			errs = append(errs, fmt.Errorf("capability %q has a comma, white space or a control character", name))
		}
	}
	if size > maxCapabilitiesText {
		errs = append(errs, fmt.Errorf("capabilities are %d bytes long together, the limit is %d", size,
			maxCapabilitiesText))
	}
	return errs
}

func badCapabilityRune(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }
