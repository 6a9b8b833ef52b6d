package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// MaxGrantTTL bounds enginecore.GrantRequest.TTL.
	MaxGrantTTL = time.Minute
	// maxGrantID is the longest id of a worker or of its instance, in bytes.
	maxGrantID = 256
)

// checkRequest validates a request and returns its capabilities as the engine takes them: sorted, without
// duplicates, comma-separated.
func checkRequest(r enginecore.GrantRequest) (csv string, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: grant request: "+format, append([]any{engine.ErrInvalid}, args...)...))
	}
	if _, err := keyspace.ParseLaneID(r.Lane); err != nil {
		fault("lane: %w", err)
	}
	for _, id := range []struct{ name, text string }{
		{"worker id", string(r.WorkerID)}, {"instance", string(r.Instance)},
	} {
		if id.text == "" || len(id.text) > maxGrantID || !utf8.ValidString(id.text) ||
			strings.ContainsFunc(id.text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			fault("%s %.80q: must have 1 to %d bytes, without white space and control characters", id.name,
				id.text, maxGrantID)
		}
	}
	if r.TTL < time.Millisecond || r.TTL > MaxGrantTTL {
		fault("ttl %s: must be 1ms to %s", r.TTL, MaxGrantTTL)
	}
	list, wrong := activityspec.Offered(r.Capabilities)
	for _, err := range wrong {
		fault("%w", err)
	}
	return strings.Join(list, ","), errors.Join(faults...)
}
