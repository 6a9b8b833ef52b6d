package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/dump"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// Exists reports whether an engine has been opened in a directory before. It changes nothing there. A missing directory
// is not an error.
func Exists(dir string) (bool, error) { return aof.Exists(dir) }

// openLog loads the data directory and opens its log.
func (e *Engine) openLog(ctx context.Context, o Options) error {
	policy := aof.Always
	switch o.Fsync {
	case FsyncEverySecond:
		policy = aof.EverySecond
	case FsyncNever:
		policy = aof.Never
	}
	e.store.BeginReplay()
	log, err := aof.Open(ctx, aof.Options{
		Dir: o.Dir, Policy: policy, Limit: o.LogLimit, Logger: e.logger, Fault: o.fault, RetryPause: o.retryPause,
	}, database{e})
	if err != nil {
		var damage *aof.CorruptError
		if errors.As(err, &damage) {
			return (*CorruptError)(damage)
		}
		return err
	}
	e.store.EndReplay()
	e.grown, e.published = nil, nil
	e.log = log
	return nil
}

// database is the engine as its log sees it.
type database struct{ e *Engine }

// Lock takes the gate.
func (d database) Lock() { d.e.gate.Lock() }

// Unlock releases the gate.
func (d database) Unlock() { d.e.gate.Unlock() }

// Data implements aof.Database.
func (d database) Data() aof.Data { return loggedData{&d.e.store, d.e.commands} }

// NewData implements aof.Database.
func (d database) NewData() aof.Data {
	store := &keyspace.Store{Random: d.e.store.Random}
	store.BeginReplay()
	return loggedData{store, d.e.commands}
}

// Resume implements aof.Database: calls find data from now on.
func (d database) Resume(data aof.Data, rewritten bool) {
	e := d.e
	if data != nil {
		store := data.(loggedData).store
		store.EndReplay()
		store.OnStreamAdd = e.store.OnStreamAdd
		e.store = *store
	}
	if rewritten {
		e.store.Expired = nil // the snapshot is without them
	}
	for _, sessions := range e.blocked {
		for s := range sessions {
			s.stir() // the data that it was woken for may be there now
		}
	}
}

// loggedData is a key space as the log keeps it.
type loggedData struct {
	store    *keyspace.Store
	commands map[string]*boundCommand
}

// Apply implements aof.Data: it runs one logged command, which is always one on data.
func (d loggedData) Apply(words []string) error {
	if dump.Only(words[0]) {
		return dump.Restore(d.store, words)
	}
	cmd := lookup(d.commands, words[0])
	if cmd == nil || !cmd.ArityOK(len(words)) || cmd.Flags&command.Write == 0 {
		return fmt.Errorf("%q is not a logged command", words[0])
	}
	d.store.Effects = d.store.Effects[:0]
	if err := cmd.Run(&command.Call{Store: d.store, Args: words}).Err(); err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}

// Dump implements aof.Data.
func (d loggedData) Dump(w *record.Writer) { dump.Keys(w, d.store) }

// Len implements aof.Data.
func (d loggedData) Len() int { return d.store.Keys.Len() }

// refusal is the reply to a call that is refused because the log has failed.
func refusal(failure *aof.Failure) resp.Reply { return resp.Error("MISCONF " + failure.Error()) }

// Err returns the reason why the engine refuses calls: ErrClosed after Close, and after the log could not be written an
// error that wraps the one of the operating system, until it can be written again. It is nil otherwise.
func (e *Engine) Err() error {
	if e == nil || e.isClosed() {
		return ErrClosed
	}
	if e.log != nil {
		if failure := e.log.Failure(); failure != nil {
			return fmt.Errorf("embedded: %w", failure)
		}
	}
	return nil
}

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
