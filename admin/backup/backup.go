package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/engineurl"
	"github.com/flowfabric/flowfabric-go/internal/keycopy"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Errors of this package, for errors.Is.
var (
	// ErrInUse is wrapped by errors about a server whose data programs use, or that changed while they were read.
	ErrInUse = keycopy.ErrInUse
	// ErrNotEmpty is wrapped by the error of Restore when the engine has data under the prefix.
	ErrNotEmpty = keycopy.ErrNotEmpty
	// ErrConflict is wrapped by the error of Restore when a move or the restore of another file has begun there.
	ErrConflict = keycopy.ErrConflict
	// ErrDamaged is wrapped by errors about a file that is not a backup, or that is incomplete.
	ErrDamaged = errors.New("damaged backup")
)

// Config configures Write and Restore. The zero value is usable.
type Config struct {
	// Prefix is OpenConfig.Prefix of the programs. Defaults to "ff" for Write; Restore uses the prefix in the
	// file and refuses another one.
	Prefix string
	// Progress is called at intervals with the current step ("read", "copy" or "compare") and the number of keys that
	// it has handled. Defaults to none.
	Progress func(step string, keys int)
}

// Info describes a backup.
type Info struct {
	// Source is the engine that was backed up: its URL without the password. CreatedAt is when.
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at"`
	// Prefix is the prefix of its keys.
	Prefix string `json:"prefix"`
	// Protocol is the oldest protocol whose programs can read the data; empty where only the contract was used. Library
	// is the build of the function library of the program that wrote the file. The library itself is not in the file.
	Protocol string `json:"protocol"`
	Library  string `json:"library"`
	// Partitions are the numbers of partitions, which stay.
	Partitions struct{ Flow, Budget, Quota int } `json:"partitions"`
	// Runs are all that there are, child runs included; OpenRuns those that are not over.
	Runs      int64 `json:"runs"`
	OpenRuns  int64 `json:"open_runs"`
	Schedules int64 `json:"schedules"`
}

// Report describes a backup that was written, checked or restored.
type Report struct {
	Info
	// Keys and Bytes are the amount of its data; Bytes is approximately the size of names and values.
	Keys  int   `json:"keys"`
	Bytes int64 `json:"bytes"`
	// Digest is the digest, in hex, of all keys that do not expire. Equal data have equal digests.
	Digest string `json:"digest"`
	// SHA256 is the checksum of the content of the file, in hex, without its compression.
	SHA256 string `json:"sha256"`
	// Written is the number of keys that Restore has written; fewer than Keys when it continued an interrupted restore.
	Written int `json:"written,omitempty"`
	// NotSeen lists the checks that the rights of the connection's user do not allow: programs that only these checks
	// find may be connected.
	NotSeen []string `json:"not_seen,omitempty"`
}

// Write writes the data of the engine at a URL of runtime.Open to a file, which replaces one of that name when it is
// whole and on disk. Only its owner may read it.
//
// The directory of an embedded engine may be in use: the file has all that the program had acknowledged before the
// call, and every call of the program either completely or not at all. A server must not be in use: Write fails with
// ErrInUse while programs are connected, and when a second reading finds that something has changed. It changes nothing
// in the engine. Write also returns the errors of runtime.Open. They match fs.ErrNotExist where no engine has the
// prefix, enginecore.ErrMoved for an engine whose data were moved away or are being moved, and enginecore.ErrIncomplete
// for one into which a move or restore is under way. A file of the name stays as it was after an error.
func Write(ctx context.Context, url, file string, config Config) (Report, error) {
	data, err := engineurl.OpenData(ctx, url, engineurl.ReadCopy)
	if err != nil {
		return Report{}, fmt.Errorf("backup: %w", err)
	}
	report, err := write(ctx, data, file, config)
	if err = errors.Join(err, data.Close()); err != nil {
		return report, fmt.Errorf("backup of %s: %w", data.Name, err)
	}
	return report, nil
}

func write(ctx context.Context, data *engineurl.Data, path string, config Config) (report Report, err error) {
	from, err := keycopy.NewDeployment(data.Client, cmp.Or(config.Prefix, keyprefix.Default))
	if err != nil {
		return Report{}, err
	}
	if report.Info, err = describe(ctx, from, data.Name, cmp.Or(config.Prefix, keyprefix.Default)); err != nil {
		return report, err
	}
	if !data.InProcess {
		if report.NotSeen, err = from.CheckUnused(ctx); err != nil {
			return report, err
		}
	}
	w, err := newWriter(path)
	if err != nil {
		return report, err
	}
	defer func() {
		if err != nil {
			w.drop()
		}
	}()
	if err = w.begin(report.Info); err != nil {
		return report, err
	}
	sum, err := keycopy.Sum(ctx, from, w.piece, config.Progress)
	if err != nil {
		return report, err
	}
	if !data.InProcess {
		if err = unchanged(ctx, from, sum, config); err != nil {
			return report, err
		}
	}
	end, err := w.finish(path, ending{Keys: sum.Keys, Bytes: sum.Bytes, Digest: fmt.Sprintf("%x", sum.Digest)})
	report.end(end)
	return report, err
}

// unchanged reads a server once more and returns an error if its data have changed: writes during the first reading may
// be in the file in part.
func unchanged(ctx context.Context, from *keycopy.Deployment, first keycopy.Report, config Config) error {
	second, err := keycopy.Sum(ctx, from, nil, config.Progress)
	if err != nil {
		return err
	}
	if second.Digest != first.Digest {
		return fmt.Errorf("%w: its data have changed while they were read: stop what writes to it, or use the "+
			"server's own snapshot", ErrInUse)
	}
	_, err = from.CheckUnused(ctx)
	return err
}

// describe returns the description of the engine to back up.
func describe(ctx context.Context, from *keycopy.Deployment, name, prefix string) (Info, error) {
	text, mark, err := from.Protocol(ctx)
	if err != nil {
		return Info{}, err
	}
	if mark != nil { // the data are not whole, or old
		return Info{}, mark.Err()
	}
	if text == "" { // as where only the contract was used
		if err := from.CheckEmpty(ctx); err == nil {
			return Info{}, fmt.Errorf("there is no engine with the prefix %s: look at the URL and the prefix of the "+
				"programs: %w", prefix, fs.ErrNotExist)
		} else if !errors.Is(err, ErrNotEmpty) {
			return Info{}, err
		}
	}
	if err := enginerpc.CheckProtocol(text); err != nil {
		return Info{}, err
	}
	counts, err := from.Count(ctx)
	return Info{
		Source: name, CreatedAt: time.Now().UTC(), Prefix: prefix, Protocol: text, Library: lualib.Build(),
		Partitions: counts.Partitions, Runs: counts.Runs, OpenRuns: counts.OpenRuns, Schedules: counts.Schedules,
	}, err
}

func (r *Report) end(e ending) {
	r.Keys, r.Bytes, r.Digest, r.SHA256 = e.Keys, e.Bytes, e.Digest, e.SHA256
}

// Check reads a whole file, verifies its checksum, counts and digest, and returns its report. The error wraps
// ErrDamaged, or comes from the file system.
func Check(ctx context.Context, file string) (Report, error) {
	report, err := check(ctx, file, nil)
	if err != nil {
		return report, fmt.Errorf("backup %s: %w", file, err)
	}
	return report, nil
}

func check(ctx context.Context, path string, progress keycopy.Progress) (report Report, err error) {
	file, r, info, err := open(path)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	report.Info = info
	if keyprefix.Check(info.Prefix) != nil {
		return report, fmt.Errorf("%w: its prefix is %q", ErrDamaged, info.Prefix)
	}
	var end *ending
	pieces := func(yield func(keycopy.Piece, error) bool) {
		for {
			p, e, err := r.next()
			if err == nil {
				err = ctx.Err()
			}
			if end = e; e != nil && err == nil || !yield(p, err) || err != nil {
				return
			}
		}
	}
	sum, err := keycopy.Sum(ctx, sequence(pieces), nil, progress)
	if err != nil {
		return report, damaged(err)
	}
	report.end(*end)
	if end.Keys != sum.Keys || end.Digest != fmt.Sprintf("%x", sum.Digest) {
		return report, fmt.Errorf("%w: it has %d keys, and says that it has %d", ErrDamaged, sum.Keys, end.Keys)
	}
	return report, nil
}

// Restore writes a backup into the engine at a URL of runtime.Open, which must not have data under the prefix; a
// directory is created when it is missing. It first checks the whole file. Until everything is there and was compared
// with the file, no program can open the engine: the error of runtime.Open matches enginecore.ErrIncomplete. A restore
// that was interrupted continues when Restore is called with the same file and URL. Records of workers that were live
// when a directory in use was backed up are left out, since those workers do not use the restored engine.
//
// It returns the errors of Check and runtime.Open, ErrNotEmpty, ErrConflict, ErrInUse while programs are connected, and
// enginecore.ErrIncompatibleLibrary for a file of a later version.
func Restore(ctx context.Context, file, url string, config Config) (Report, error) {
	report, err := check(ctx, file, config.Progress)
	if err == nil && config.Prefix != "" && config.Prefix != report.Prefix {
		err = fmt.Errorf("its prefix is %s, which cannot be changed to %s, since keys contain it", report.Prefix,
			config.Prefix)
	}
	if err == nil {
		err = enginerpc.CheckProtocol(report.Protocol)
	}
	if err != nil {
		return report, fmt.Errorf("backup %s: %w", file, err)
	}
	data, err := engineurl.OpenData(ctx, url, engineurl.Create)
	if err != nil {
		return report, fmt.Errorf("restore: %w", err)
	}
	err = restore(ctx, data, file, &report, config.Progress)
	if err = errors.Join(err, data.Close()); err != nil {
		return report, fmt.Errorf("restore %s into %s: %w", file, data.Name, err)
	}
	return report, nil
}

func restore(ctx context.Context, data *engineurl.Data, path string, report *Report, progress keycopy.Progress) error {
	to, err := keycopy.NewDeployment(data.Client, report.Prefix)
	if err != nil {
		return err
	}
	_, mark, err := to.Protocol(ctx)
	if err != nil {
		return err
	}
	resumes := mark != nil && mark.State == enginerpc.Restoring && mark.ID == report.SHA256
	if mark != nil && !resumes {
		return fmt.Errorf("%w: %w", ErrConflict, mark.Err())
	}
	if !resumes {
		if err := to.CheckEmpty(ctx); err != nil {
			return err
		}
		if !data.InProcess {
			if report.NotSeen, err = to.CheckUnused(ctx); err != nil {
				return err
			}
		}
		err := to.SetMark(ctx, enginerpc.Mark{
			State: enginerpc.Restoring, ID: report.SHA256, Other: filepath.Base(path), Since: time.Now().UTC(),
			Protocol: report.Protocol,
		})
		if err != nil {
			return err
		}
	}
	copied, err := keycopy.Copy(ctx, source{path}, to.Store, !resumes, progress)
	report.Written = copied.Written
	if err != nil {
		return err
	}
	if err := to.RemoveLiveWorkers(ctx); err != nil {
		return err
	}
	return to.EndMark(ctx, report.Protocol)
}

// sequence is a source that is read once.
type sequence func(yield func(keycopy.Piece, error) bool)
