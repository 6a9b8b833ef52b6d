package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// grace is how long running nodes may continue after Ctrl-C before they are released unfinished.
const grace = 500 * time.Millisecond

// deployCommand starts or continues a deployment, and works on it until it has ended.
func deployCommand(ctx context.Context, p program, o options) error {
	return withEngine(ctx, p, o, func(engine *runtime.Engine, client *runtime.Client) error {
		started, err := start(ctx, client, o)
		if err != nil {
			return err
		}
		if started.Existed() {
			fmt.Fprintf(p.stdout, "Deployment of %s goes on. What was finished does not run again.\n", o.version)
		} else {
			fmt.Fprintf(p.stdout, "Deployment of %s begins.\n", o.version)
		}
		deployed, err := work(ctx, engine, client, started, p, o)
		switch {
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(p.stdout, "\nInterrupted; what was running is released. The same command goes on with %s.\n",
				o.version)
			return errInterrupted
		case err != nil:
			return failure(o, err)
		}
		fmt.Fprintf(p.stdout, "%s is live, approved by %s.\n", deployed.Version,
			strings.Join(deployed.ApprovedBy, " and "))
		return nil
	})
}

// start starts the run of a version, or finds the one that there is.
func start(ctx context.Context, client *runtime.Client, o options) (*runtime.Run[Deployed], error) {
	def, err := Deployment(o.escalation, o.plain)
	if err != nil {
		return nil, err
	}
	change := Change{Site: string(o.site), Version: o.version, Defect: o.defect}
	started, err := runtime.Start(ctx, client, def, change, runtime.WithID(o.version))
	if errors.Is(err, runtime.ErrConflict) {
		return nil, fmt.Errorf("version %s was begun before with another -dir, -defect, -escalate or -plain: "+
			"repeat these, or choose a new version: %w", o.version, err)
	}
	return started, err
}

// failure is the error of a failed deployment, with the release that the site serves now.
func failure(o options, err error) error {
	var failed *runtime.RunError
	if !errors.As(err, &failed) {
		return err
	}
	live, liveErr := o.site.Live()
	if live == "" {
		live = "nothing"
	}
	return errors.Join(fmt.Errorf("%s is not deployed: %s: %s; the site serves %s", o.version, failed.Node,
		failed.Reason, live), liveErr)
}

// work runs a worker and the web server of the site, and shows the events of the run, until it is over.
func work(
	ctx context.Context, engine *runtime.Engine, client *runtime.Client, started *runtime.Run[Deployed], p program,
	o options,
) (Deployed, error) {
	pages, err := net.Listen("tcp", o.pagesAddress)
	if err != nil {
		return Deployed{}, fmt.Errorf("-site: %w", err)
	}
	if err := o.site.note(siteURL, "http://"+pages.Addr().String()); err != nil {
		return Deployed{}, errors.Join(err, pages.Close())
	}
	fmt.Fprintf(p.stdout, "The site is at http://%s/\n", pages.Addr())
	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{Name: "approval", Grace: grace})
	if err == nil {
		err = worker.Register(build, test, count, deploy, verify, rollback, clean)
	}
	if err != nil {
		return Deployed{}, errors.Join(err, pages.Close())
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, pages, o.site.server()) })
	group.Go(func() error { return share(ctx, engine, o) })
	group.Go(func() error { return worker.Run(ctx) })
	out := &console{out: p.stdout}
	var deployed Deployed
	over := false
	group.Go(func() (err error) {
		defer stop()
		if err := follow(ctx, client, o, out, newAsker(client, p.stdin, out, o)); err != nil {
			return err
		}
		deployed, err = started.Result(ctx)
		over = err == nil
		return err
	})
	if err := group.Wait(); !over {
		return Deployed{}, err
	}
	// Once the result is known, errors of the others do not matter.
	return deployed, nil
}

// watchCommand follows a deployment that other processes work on.
func watchCommand(ctx context.Context, p program, o options) error {
	return withEngine(ctx, p, o, func(engine *runtime.Engine, client *runtime.Client) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return share(ctx, engine, o) })
		group.Go(func() error {
			defer stop()
			return follow(ctx, client, o, &console{out: p.stdout}, nil)
		})
		return group.Wait()
	})
}

// follow shows the events of a run, from its start to its end, and lets the asker, if there is one, ask for the answers
// that the run waits for.
func follow(ctx context.Context, client *runtime.Client, o options, out *console, ask *asker) error {
	show := display{console: out}
	if ask != nil {
		defer ask.stop()
	}
	for event, err := range client.Run(flowName, o.version).Watch(ctx, "") {
		if err != nil {
			return err
		}
		show.event(event)
		if event.Node == approval && ask != nil {
			ask.event(ctx, event)
		}
	}
	return nil
}
