package runtime

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/fleet"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Workers returns the live workers of all programs, sorted by host and instance: those that have reported within about
// 125 s and have not stopped. Workers report when they begin, every 60 s, while they drain every 30 s, and when they
// stop. Workers of earlier versions report nothing. In contract mode the error matches ErrNotInContract.
func (c *Client) Workers(ctx context.Context) ([]fabrictype.Worker, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	list, err := fleet.Workers(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
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
		return fleet.Drain(ctx, store, instance, a.actor)
	})
	if err != nil {
		return fmt.Errorf("drain worker %s: %w", instance, err)
	}
	return nil
}

// aboutProgram is the metadata about this program in the records of its workers.
var aboutProgram = sync.OnceValue(func() engine.WorkerAbout {
	about := engine.WorkerAbout{PID: os.Getpid(), Build: fabrictype.Build{Library: lualib.Build()}}
	about.Host, _ = os.Hostname() // a machine may have no name
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return about
	}
	about.Package, about.Path, about.Version = info.Path, info.Main.Path, info.Main.Version
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
