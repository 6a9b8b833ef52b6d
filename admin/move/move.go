package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/engineurl"
	"github.com/flowfabric/flowfabric-go/internal/keycopy"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
)

// Why an engine cannot be moved, for errors.Is.
var (
	// ErrInUse is wrapped by the error of Run when programs are connected to one of the engines, or write to the old
	// one while its data are read. The text names the programs or the changes that were found.
	ErrInUse = keycopy.ErrInUse
	// ErrNotEmpty is wrapped by the error of Run when the new engine has data under the prefix that are not of this
	// move.
	ErrNotEmpty = keycopy.ErrNotEmpty
	// ErrConflict is wrapped by errors about an engine that has part in another move or a restore, or was moved
	// elsewhere, and by the error of Cancel without a move to cancel.
	ErrConflict = keycopy.ErrConflict
)

// Config configures Run, Plan and Cancel. The zero value is usable.
type Config struct {
	// Prefix is OpenConfig.Prefix of the programs. It stays the same, since keys contain it. Defaults to "ff".
	Prefix string
	// Progress is called at intervals with the current step ("mark", "copy" or "compare") and the number of keys that
	// it has handled. Defaults to none.
	Progress func(step string, keys int)
}

// Report is the result of a move, or of the plan of one.
type Report struct {
	// Keys and Bytes are the amount of data in the old engine. Bytes is approximately the size of names and values,
	// without the overhead of a server.
	Keys  int   `json:"keys"`
	Bytes int64 `json:"bytes"`
	// Runs are all that there are, child runs included; OpenRuns those that are not over.
	Runs      int64 `json:"runs"`
	OpenRuns  int64 `json:"open_runs"`
	Schedules int64 `json:"schedules"`
	// Partitions are the numbers of partitions, which stay.
	Partitions struct{ Flow, Budget, Quota int } `json:"partitions"`
	// Written is the number of keys that this call has written; fewer than Keys when it continued an interrupted move.
	Written int `json:"written"`
	// Digest is the digest, in hex, of all keys that do not expire: the same at both ends after a move.
	Digest string `json:"digest"`
	// NotSeen lists the checks that the rights of the connections' users do not allow: programs that only these checks
	// find may be connected.
	NotSeen []string `json:"not_seen,omitempty"`
	// Already reports that the move was complete before.
	Already bool `json:"already,omitempty"`
}

// Run moves the data of the engine at the URL from to the one at the URL to. It marks both engines so that no program
// can open them, copies all keys of the prefix, compares both ends key by key, and lets programs open the new engine
// alone. The old engine keeps its data, and a mark with the name of the new engine.
//
// A move that was interrupted, at any point, continues when Run is called with the same URLs, and a complete one is
// reported as such. Before it marks anything, Run fails with ErrInUse while programs are connected to one of the
// engines, with ErrNotEmpty when the new one has data under the prefix, and with ErrConflict when one of them has part
// in another move or restore. Run also returns the errors of runtime.Open.
//
// A client that is connected and does not wait for anything is not found. Its writes during the move are copied, or
// fail the move with ErrInUse; its later writes, until it notices the mark, are lost. So stop all programs.
func Run(ctx context.Context, from, to string, config Config) (Report, error) {
	m, err := open(ctx, from, to, config, engineurl.Change, engineurl.Create)
	if err != nil {
		return Report{}, fmt.Errorf("move: %w", err)
	}
	report, err := m.run(ctx)
	if err = errors.Join(err, m.close()); err != nil {
		return report, fmt.Errorf("move %s to %s: %w", m.from.name, m.to.name, err)
	}
	return report, nil
}

// Plan returns the report of the move that Run would make, and fails where Run would. It changes nothing.
func Plan(ctx context.Context, from, to string, config Config) (Report, error) {
	missing, err := missingDirectory(ctx, to)
	if err != nil {
		return Report{}, fmt.Errorf("move: %w", err)
	}
	if missing {
		to = ""
	}
	m, err := open(ctx, from, to, config, engineurl.Change, engineurl.ReadCopy)
	if err != nil {
		return Report{}, fmt.Errorf("move: %w", err)
	}
	report, err := m.plan(ctx)
	if err = errors.Join(err, m.close()); err != nil {
		return report, fmt.Errorf("plan to move %s: %w", m.from.name, err)
	}
	return report, nil
}

// Cancel gives up a move that has begun and is not complete: programs can open the old engine again, and Cancel removes
// the copied keys from the new one. The error wraps ErrConflict without such a move.
func Cancel(ctx context.Context, from, to string, config Config) error {
	m, err := open(ctx, from, to, config, engineurl.Change, engineurl.Change)
	if err != nil {
		return fmt.Errorf("cancel the move: %w", err)
	}
	if err := errors.Join(m.cancel(ctx), m.close()); err != nil {
		return fmt.Errorf("cancel the move of %s to %s: %w", m.from.name, m.to.name, err)
	}
	return nil
}

// end is one of the engines of a move.
type end struct {
	*keycopy.Deployment
	data *engineurl.Data
	name string
	text string // of the key of the protocol
	mark *enginerpc.Mark
}

type mover struct {
	from, to *end // to is nil for a directory that does not exist yet
	progress keycopy.Progress
	notSeen  []string
}

func open(ctx context.Context, from, to string, config Config, fromAccess, toAccess engineurl.Access) (*mover, error) {
	m := &mover{progress: config.Progress}
	prefix := cmp.Or(config.Prefix, keyprefix.Default)
	var err error
	if m.from, err = openEnd(ctx, from, prefix, fromAccess); err != nil {
		return nil, err
	}
	if to != "" {
		m.to, err = openEnd(ctx, to, prefix, toAccess)
	}
	if err == nil && to != "" && m.from.name == m.to.name {
		err = fmt.Errorf("%w: %s is both the old and the new engine", ErrConflict, m.to.name)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func openEnd(ctx context.Context, url, prefix string, access engineurl.Access) (*end, error) {
	data, err := engineurl.OpenData(ctx, url, access)
	if err != nil {
		return nil, err
	}
	e := &end{data: data, name: data.Name}
	if e.Deployment, err = keycopy.NewDeployment(data.Client, prefix); err == nil {
		e.text, e.mark, err = e.Protocol(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return e, nil
}

func (m *mover) close() (err error) {
	for _, e := range []*end{m.from, m.to} {
		if e != nil {
			err = errors.Join(err, e.data.Close())
		}
	}
	return err
}

// progressOf is how far a move of this pair has come.
type progressOf int

const (
	notBegun progressOf = iota
	prepared            // the new engine has the mark, the old one not: no data were copied
	begun
	moved // the old engine is marked as moved, and the new one may still have its mark
)

// stage finds out how far the move is. The error wraps ErrConflict or ErrNotEmpty.
func (m *mover) stage(ctx context.Context) (progressOf, error) {
	from, to := m.from.mark, (*enginerpc.Mark)(nil)
	if m.to != nil {
		to = m.to.mark
	}
	arriving := to != nil && to.State == enginerpc.Arriving
	switch {
	case from != nil && from.State != enginerpc.Leaving && from.State != enginerpc.Moved:
		return 0, fmt.Errorf("%w: the old engine: %w", ErrConflict, from.Err())
	case to != nil && !arriving:
		return 0, fmt.Errorf("%w: the new engine: %w", ErrConflict, to.Err())
	case from == nil && arriving && to.Other != m.from.name:
		return 0, fmt.Errorf("%w: the new engine: %w", ErrConflict, to.Err())
	case from == nil && arriving:
		return prepared, m.empty(ctx)
	case from == nil:
		return notBegun, m.empty(ctx)
	case arriving && to.ID == from.ID && from.State == enginerpc.Leaving:
		return begun, nil
	case to == nil && from.State == enginerpc.Leaving && m.to != nil && from.Other == m.to.name:
		return begun, m.empty(ctx) // the new engine has been emptied
	case arriving && to.ID == from.ID,
		to == nil && from.State == enginerpc.Moved && m.to != nil && from.Other == m.to.name:
		return moved, nil
	}
	return 0, fmt.Errorf("%w: the old engine: %w", ErrConflict, from.Err())
}

// empty returns an error unless the new engine has no data.
func (m *mover) empty(ctx context.Context) error {
	if m.to == nil {
		return nil
	}
	return m.to.CheckEmpty(ctx)
}

// unused returns an error while programs use one of the engines.
func (m *mover) unused(ctx context.Context) error {
	m.notSeen = nil
	for _, e := range []*end{m.from, m.to} {
		if e == nil || e.data.InProcess {
			continue // a directory can be open in one process only
		}
		notSeen, err := e.CheckUnused(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		for _, what := range notSeen {
			m.notSeen = append(m.notSeen, e.name+": "+what)
		}
	}
	return nil
}

func (m *mover) plan(ctx context.Context) (Report, error) {
	stage, err := m.stage(ctx)
	if err != nil {
		return Report{}, err
	}
	if stage < begun {
		if err := m.unused(ctx); err != nil {
			return Report{}, err
		}
	}
	sum, err := keycopy.Sum(ctx, m.from, nil, m.progress)
	if err != nil {
		return Report{}, err
	}
	report, err := m.report(ctx, sum)
	report.Already = stage == moved
	return report, err
}

// report completes the report of a copy.
func (m *mover) report(ctx context.Context, c keycopy.Report) (Report, error) {
	counts, err := m.from.Count(ctx)
	return Report{
		Keys: c.Keys, Bytes: c.Bytes, Runs: counts.Runs, OpenRuns: counts.OpenRuns, Schedules: counts.Schedules,
		Partitions: counts.Partitions, Written: c.Written, Digest: fmt.Sprintf("%x", c.Digest), NotSeen: m.notSeen,
	}, err
}

func (m *mover) run(ctx context.Context) (Report, error) {
	stage, err := m.stage(ctx)
	if err != nil {
		return Report{}, err
	}
	if stage == moved {
		return m.finish(ctx, keycopy.Report{}, true)
	}
	if stage < begun {
		if err := m.begin(ctx); err != nil {
			return Report{}, err
		}
	}
	if m.to.mark == nil && stage == begun {
		mark := *m.from.mark
		mark.State, mark.Other = enginerpc.Arriving, m.from.name
		if err := m.to.SetMark(ctx, mark); err != nil {
			return Report{}, err
		}
	}
	copied, err := keycopy.Copy(ctx, m.from, m.to.Store, stage < begun, m.progress)
	if err != nil {
		report, countErr := m.report(ctx, copied)
		return report, errors.Join(err, countErr)
	}
	return m.finish(ctx, copied, false)
}

// begin marks both engines, the new one first: until the old one has its mark, nothing is copied.
func (m *mover) begin(ctx context.Context) error {
	if err := m.unused(ctx); err != nil {
		return err
	}
	if err := enginerpc.CheckProtocol(m.from.text); err != nil {
		return err
	}
	mark := enginerpc.Mark{
		State: enginerpc.Arriving, ID: uuid.NewString(), Other: m.from.name, Since: time.Now().UTC(),
		Protocol: m.from.text,
	}
	if err := m.to.SetMark(ctx, mark); err != nil {
		return err
	}
	m.progress.Report("mark", 0)
	mark.State, mark.Other = enginerpc.Leaving, m.to.name
	if err := m.from.SetMark(ctx, mark); err != nil {
		return err
	}
	m.from.mark = &mark
	if err := m.unused(ctx); err != nil { // a program may have connected before the mark
		return errors.Join(err, m.reopen(ctx))
	}
	return nil
}

// finish opens the new engine for programs, and marks the old one with the new place of its data.
func (m *mover) finish(ctx context.Context, copied keycopy.Report, already bool) (Report, error) {
	report, err := m.report(ctx, copied)
	if err != nil {
		return report, err
	}
	report.Already = already && m.to.mark == nil
	mark := *m.from.mark
	if mark.State != enginerpc.Moved {
		mark.State, mark.Since = enginerpc.Moved, time.Now().UTC()
		if err := m.from.SetMark(ctx, mark); err != nil {
			return report, err
		}
	}
	if report.Already {
		return report, nil
	}
	m.progress.Report("mark", report.Keys)
	return report, m.to.EndMark(ctx, mark.Protocol)
}

// reopen removes both marks, the mark of the old engine first: with the other one alone, the move is only prepared.
func (m *mover) reopen(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := m.from.EndMark(ctx, m.from.mark.Protocol); err != nil {
		return err
	}
	return m.to.EndMark(ctx, "")
}

func (m *mover) cancel(ctx context.Context) error {
	stage, err := m.stage(ctx)
	switch {
	case err != nil:
		return err
	case stage == notBegun:
		return fmt.Errorf("%w: no move between them has begun", ErrConflict)
	case stage == moved:
		return fmt.Errorf("%w: the move is complete, and programs may have used the new engine: move it back instead",
			ErrConflict)
	case stage == prepared:
		return m.to.EndMark(ctx, "")
	}
	if _, err := m.to.Clear(ctx); err != nil {
		return err
	}
	return m.reopen(ctx)
}

// missingDirectory reports whether a URL names a directory without an engine, which Run would create.
func missingDirectory(ctx context.Context, url string) (bool, error) {
	data, err := engineurl.OpenData(ctx, url, engineurl.ReadCopy)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, data.Close()
}
