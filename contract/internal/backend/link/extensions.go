package link

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// extensions remembers whether the server's library has the edge-group functions. It is safe for concurrent use.
type extensions struct {
	mu      sync.Mutex
	present bool
	asked   time.Time
}

// rememberExtensions is how long an answer of the server counts. A library that is replaced within that time by one
// without the functions fails the calls of those.
const rememberExtensions = 30 * time.Second

func (e *extensions) get() (present, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.present, !e.asked.IsZero() && time.Since(e.asked) < rememberExtensions
}

func (e *extensions) set(present bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.present, e.asked = present, time.Now()
}

// IsExtended reports whether the server has a library with the edge-group functions.
func (c *Link) IsExtended(ctx context.Context) (bool, error) {
	if present, known := c.extended.get(); known {
		return present, nil
	}
	present, err := c.hasFunction(ctx, enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{}))
	if err == nil {
		c.extended.set(present)
	}
	return present, err
}

// RequireExtended returns the refusal of a construct if the server's library lacks the edge-group functions.
func (c *Link) RequireExtended(ctx context.Context, construct string) error {
	if extended, err := c.IsExtended(ctx); err != nil || extended {
		return err
	}
	return contractcheck.Refused(construct)
}

// hasFunction reports whether a library of the server has a function.
func (c *Link) hasFunction(ctx context.Context, wanted string) (bool, error) {
	libraries, err := c.Client.Do(ctx, c.Client.B().FunctionList().Build()).ToArray()
	if err != nil {
		return false, engine.ReadError(ctx, "FUNCTION LIST", err)
	}
	for _, library := range libraries {
		fields, err := library.AsMap()
		if err != nil {
			return false, engine.ReadError(ctx, "FUNCTION LIST", err)
		}
		listed := fields["functions"]
		functions, _ := listed.ToArray()
		for _, function := range functions {
			names, _ := function.AsMap()
			text := names["name"]
			if name, err := text.ToString(); err == nil && name == wanted {
				return true, nil
			}
		}
	}
	return false, nil
}
