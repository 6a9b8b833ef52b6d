package embedded

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
)

// OpenCopy creates an engine in memory with the data that a data directory holds at one moment, without functions. It
// changes nothing in the directory and takes no lock, so another process may be using it: all that the process has
// acknowledged before the call is in the copy, and every call either completely or not at all. The copy knows nothing
// of later changes.
//
// Of o, it uses Clock, Logger and Dir. The error matches fs.ErrNotExist if the directory has no engine, and ErrCorrupt
// if it is damaged. Cancelling ctx stops a load in progress.
func OpenCopy(ctx context.Context, o Options) (*Engine, error) {
	e, err := Open(ctx, Options{Clock: o.Clock, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	data, err := aof.Read(ctx, o.Dir, func() aof.Data { return database{e}.NewData() })
	if err != nil {
		e.lua.Close()
		var damage *aof.CorruptError
		if errors.As(err, &damage) {
			return nil, (*CorruptError)(damage)
		}
		return nil, err
	}
	database{e}.Resume(data, false)
	return e, nil
}
