package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Workers returns the live workers of all programs, sorted by host and instance: those that have reported within about
// 125 s and have not stopped. Workers report when they begin, every 60 s, while they drain every 30 s, and when they
// stop. Workers of earlier versions report nothing. In contract mode the error matches ErrNotInContract.
func (c *Client) Workers(ctx context.Context) ([]fabrictype.Worker, error) {
	store, err := library(ctx, c, "records of workers")
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	found := make(map[enginecore.WorkerInstanceID]fabrictype.Worker)
	call := enginerpc.ListWorkersCall{Partition: engine.Directory()}
	for {
		reply, err := store.ListWorkers(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("list workers: %w", err)
		}
		for _, r := range reply.Workers {
			found[r.WorkerInstanceID] = readWorker(r)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			break
		}
	}
	list := make([]fabrictype.Worker, 0, len(found))
	for _, w := range found {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b fabrictype.Worker) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Instance, b.Instance))
	})
	return list, nil
}

// DrainWorker makes a live worker take no more work. Its running functions continue until they end, and the worker
// stays in the list, as draining, until its program stops it. The worker receives the request at once, and with its
// next report, within about 30 s, if the message is lost. A drain cannot be undone: start another worker. Draining a
// worker that drains changes nothing.
//
// The error matches enginecore.ErrWorkerNotFound if no live worker has that instance, and in contract mode
// ErrNotInContract.
func (c *Client) DrainWorker(
	ctx context.Context, instance string, opts ...ActionOption,
) error {
	store, err := library(ctx, c, "records of workers")
	if err != nil {
		return fmt.Errorf("drain worker: %w", err)
	}
	a, err := c.actionOf(opts)
	if err != nil {
		return fmt.Errorf("drain worker: %w", err)
	}
	if instance == "" {
		return fmt.Errorf("drain worker: %w", invalid("the instance is empty"))
	}
	entry := fabrictype.AuditEntry{Actor: a.actor, Action: auditlink.DrainWorker, Name: instance}
	err = c.audited(ctx, entry, func(ctx context.Context) error {
		_, err := store.DrainWorker(ctx, enginerpc.DrainWorkerCall{
			Partition: engine.Directory(), WorkerInstanceID: enginecore.WorkerInstanceID(instance), Actor: a.actor,
		})
		if errors.Is(err, enginecore.ErrWorkerNotFound) {
			return engine.Reworded(err, "there is no live worker of this instance")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drain worker %s: %w", instance, err)
	}
	return nil
}

func readWorker(r enginerpc.WorkerRecord) fabrictype.Worker {
	about := readAbout(r.About)
	var started map[string]int64
	_ = json.Unmarshal(r.Started, &started)
	w := fabrictype.Worker{
		Instance: string(r.WorkerInstanceID), Name: about.Name, State: fabrictype.WorkerState(r.State),
		Host: about.Host, PID: about.PID, Build: about.Build,
		Lanes: elementsOf(r.Lanes), Capabilities: about.Capabilities, Slots: about.Slots, Used: int(r.Used),
		Started: started,
		Since:   about.Since, ReportedAt: r.ReportedAt, DrainRequestedAt: r.DrainRequestedAt,
		DrainRequestedBy: r.DrainBy,
	}
	for _, name := range elementsOf(r.Kinds) {
		if name != submit.MapKind && name != submit.SubKind {
			w.Activities = append(w.Activities, name)
		}
	}
	return w
}

// readAbout reads a worker's metadata, without fields of another form by another version.
func readAbout(text []byte) (about engine.WorkerAbout) {
	_ = json.Unmarshal(text, &about)
	return about
}

// elementsOf returns the elements of a set, sorted.
func elementsOf(set string) []string { return slices.Sorted(strings.FieldsFuncSeq(set, isLineFeed)) }

func isLineFeed(r rune) bool { return r == '\n' }

// aboutProgram is the metadata about this program in the records of its workers.
var aboutProgram = sync.OnceValue(func() engine.WorkerAbout {
	about := engine.WorkerAbout{PID: os.Getpid(), Build: fabrictype.Build{Library: lualib.Build()}}
	about.Host, _ = os.Hostname() // a machine may have no name
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return about
	}
	about.Path, about.Version = info.Main.Path, info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			about.Revision = s.Value
		case "vcs.modified":
			about.Modified = s.Value == "true"
		}
	}
	return about
})
