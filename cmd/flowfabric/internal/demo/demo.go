package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Try is a command that shows a run of the demo, without the name of the program.
const Try = `start demo-hello --input '"world"' --wait`

// Sample is the demo on an engine.
type Sample struct {
	engine *runtime.Engine
	client *runtime.Client
	flows  flows
	ready  chan struct{}
}

// Open publishes the flows.
func Open(ctx context.Context, engine *runtime.Engine) (*Sample, error) {
	f, err := build()
	if err != nil {
		return nil, err
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		return nil, err
	}
	s := &Sample{engine, client, f, make(chan struct{})}
	known, err := client.Flows(ctx)
	isOrder := func(f fabrictype.Flow) bool { return f.Name == s.flows.order.Name() }
	if err == nil && !slices.ContainsFunc(known, isOrder) {
		err = client.Publish(ctx, runtime.Publication{Flow: f.oldOrder, By: "demo 1.0"})
	}
	if err == nil {
		err = client.Publish(ctx, s.publications()...)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sample) publications() []runtime.Publication {
	f := s.flows
	list := []runtime.Publication{
		{Flow: f.hello}, {Flow: f.order}, {Flow: f.load}, {Flow: f.mail}, {Flow: f.video},
		{Flow: f.release}, {Flow: f.partner},
		{Flow: f.answered},
	}
	for i := range list {
		list[i].By = "demo 1.1"
	}
	return list
}

// Ready is closed when the runs have been started, or could not be.
func (s *Sample) Ready() <-chan struct{} { return s.ready }

// Run runs the workers until the context ends, and starts the runs, unless the engine has them.
func (s *Sample) Run(ctx context.Context) error {
	defer s.client.Close()
	f := s.flows
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		return s.work(ctx, "demo", "default", f.hello.Handlers(), f.order.Handlers(), f.load.Handlers(), f.release.Handlers(),
			f.partner.Handlers(), f.answered.Handlers())
	})
	running.Go(func() error { return s.work(ctx, "demo-mailer", mailLane, f.mail.Handlers()) })
	running.Go(func() error {
		defer close(s.ready)
		if err := s.furnish(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		return nil
	})
	return running.Wait()
}

// work runs a worker of a lane.
func (s *Sample) work(ctx context.Context, name, lane string, handlers ...[]activity.Handler) error {
	worker, err := runtime.NewWorker(s.engine, runtime.WorkerConfig{
		Name: name, Lanes: []string{lane}, NoKeeper: true, Grace: time.Millisecond, // calls of the partner never end
	})
	if err != nil {
		return err
	}
	for _, list := range handlers {
		if err := worker.Register(list...); err != nil {
			return err
		}
	}
	return worker.Run(ctx)
}

// furnish starts the runs of the demo and acts as its people. An engine that has the first run has all of them.
func (s *Sample) furnish(ctx context.Context) error {
	first, err := runtime.Start(ctx, s.client, s.flows.hello, "world", runtime.WithID("first"))
	if err != nil || first.Existed() {
		return err
	}
	for _, part := range []func(context.Context) error{
		s.orders, s.imports, s.releases, s.waiting, s.budgets, s.schedules, s.operators,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// decided is a start with the decision of a person, who answers before the question is asked.
func decided(node, person, choice, comment string) runtime.StartOption {
	return runtime.WithSignal(runtime.WaitName{Node: node}, runtime.Signal{
		Name: choice, Source: person, Payload: activity.Decision{Choice: choice, By: person, Comment: comment},
	})
}

func (s *Sample) orders(ctx context.Context) error {
	start := func(def *flow.Definition[Order, string], id, customer string, opts ...runtime.StartOption) error {
		in := Order{Customer: customer, Items: []string{"book", "pen"}}
		opts = append(opts, runtime.WithID(id), runtime.WithTag("demo.customer", customer), runtime.WithActor("web-shop"))
		_, err := runtime.Start(ctx, s.client, def, in, opts...)
		return err
	}
	now := s.flows.order
	return errors.Join(
		start(s.flows.oldOrder, "4708", "Grace", decided("approve", "ann", "approve", "")),
		start(now, "4709", "Grace", decided("approve", "ann", "approve", "a good customer")),
		start(now, "4710", "Nemo", decided("approve", "ben", "approve", "")),
		start(now, "4711", "Edsger", decided("approve", "ben", "reject", "out of stock")),
		start(now, "4712", "Barbara"),
		start(now, "4713", "Tony", runtime.StartAt(time.Now().Add(time.Hour))),
		start(now, "first", "Ada", runtime.WithPriority(500)),
	)
}

func (s *Sample) imports(ctx context.Context) error {
	for _, file := range []File{
		{"2026-03.csv", 800}, {"2026-04.csv", 3000}, {"broken-2026-05.csv", 900}, {"lost-2026-06.csv", 700},
		{"empty-2026-07.csv", 0},
		{"whole-year.csv", 9000}, {"2026-08.csv", 650},
	} {
		_, err := runtime.Start(ctx, s.client, s.flows.load, file,
			runtime.WithID(file.Name), runtime.WithTag("demo.source", "bank"))
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Sample) releases(ctx context.Context) error {
	for _, r := range []struct {
		version string
		people  []string
		choice  string
	}{
		{"v2.2", []string{"ann"}, "reject"}, {"v2.3", []string{"ann", "ben"}, "approve"},
		{"v2.4", []string{"ann"}, "approve"},
		{"v2.5", nil, ""},
	} {
		opts := []runtime.StartOption{runtime.WithID(r.version), runtime.WithActor("ci")}
		if len(r.people) > 0 {
			opts = append(opts, decided("go-live", r.people[0], r.choice, "as discussed"))
		}
		run, err := runtime.Start(ctx, s.client, s.flows.release, Release{r.version}, opts...)
		if err != nil {
			return err
		}
		for i := 1; i < len(r.people); i++ {
			_, err := s.client.As(r.people[i]).Run("demo-release", run.ID()).SignalWait(ctx, runtime.WaitName{Node: "go-live"}, runtime.Signal{
				Name: r.choice, Source: r.people[i], Payload: activity.Decision{Choice: r.choice, By: r.people[i]},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// waiting starts runs that wait for a lane, for a worker, and for a limit.
func (s *Sample) waiting(ctx context.Context) error {
	if err := s.client.As("olga").Lane(mailLane).Pause(ctx, "the provider refuses our mail"); err != nil {
		return err
	}
	for i, to := range []string{"ada@example.com", "grace@example.com", "edsger@example.com"} {
		_, err := runtime.Start(ctx, s.client, s.flows.mail, Mail{to}, runtime.WithID(to), runtime.WithPriority(100*i))
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"unboxing", "trailer"} {
		if _, err := runtime.Start(ctx, s.client, s.flows.video, Mail{name}, runtime.WithID(name)); err != nil {
			return err
		}
	}
	for i, customer := range []string{"atlas", "atlas", "atlas", "borealis", "cobalt"} {
		_, err := runtime.Start(ctx, s.client, s.flows.partner, Question{Customer: customer},
			runtime.WithID(fmt.Sprintf("call-%d", i+1)))
		if err != nil {
			return err
		}
	}
	return s.client.As("olga").Limit("demo-mail-provider", "").Set(ctx, activity.LimitConfig{AtMost: 100, Per: time.Minute})
}

func (s *Sample) budgets(ctx context.Context) error {
	err := s.client.Budget(fabrictype.BudgetName{Name: "demo-models"}).Create(ctx, flow.BudgetConfig{
		Hard: map[string]int64{"tokens": 1_000_000}, Soft: map[string]int64{"tokens": 800_000}, ResetEvery: 24 * time.Hour,
	})
	if err != nil {
		return err
	}
	all := []int64{60, 300, 150, 90} // the last one does not fit
	for i, words := range all {
		customer := []string{"borealis", "atlas"}[i%2]
		id := fmt.Sprintf("question-%d", i+1)
		run, err := runtime.Start(ctx, s.client, s.flows.answered, Question{customer, words}, runtime.WithID(id))
		if err != nil {
			return err
		}
		if i == len(all)-1 {
			break
		}
		if err := reserved(ctx, run.RunRef); err != nil {
			return err
		}
	}
	return nil
}

// reserved waits until a question has reserved its words, or has its answer.
func reserved(ctx context.Context, run *runtime.RunRef) error {
	for e, err := range run.Watch(ctx, "") {
		if err != nil || e.Kind == fabrictype.EventProgress {
			return err
		}
	}
	return nil
}

func (s *Sample) schedules(ctx context.Context) error {
	_, err := runtime.Schedule(ctx, s.client, "demo-nightly", s.flows.load, File{"nightly.csv", 500},
		runtime.ScheduleConfig{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
	if err != nil {
		return err
	}
	_, err = runtime.Schedule(ctx, s.client, "demo-weekly", s.flows.release, Release{"weekly"},
		runtime.ScheduleConfig{Cron: "0 9 * * 1", StartPaused: true, PauseReason: "no releases before the fair"})
	if err != nil {
		return err
	}
	_, err = runtime.Schedule(ctx, s.client, "demo-greet", s.flows.hello, "schedule", runtime.ScheduleConfig{Every: 10 * time.Minute})
	if err != nil {
		return err
	}
	_, err = s.client.As("olga").Schedule("demo-greet").Trigger(ctx)
	return err
}

// operators pause, cancel and rerun.
func (s *Sample) operators(ctx context.Context) error {
	broken := s.client.As("olga").Run("demo-import", "broken-2026-05.csv")
	for _, err := range broken.Watch(ctx, "") { // until it is over
		if err != nil {
			return err
		}
	}
	if err := broken.Rerun(ctx, fabrictype.RerunFailed); err != nil {
		return err
	}
	if err := s.client.As("olga").Run("demo-order", "4712").Pause(ctx, "the address is checked"); err != nil {
		return err
	}
	if err := s.client.As("ben").Run("demo-video", "trailer").Cancel(ctx, "it is published without a video"); err != nil {
		return err
	}
	_, err := s.client.As("olga").StartBulkJob(ctx, runtime.RunQuery{Flow: "demo-mail"},
		fabrictype.BulkAction{Kind: "priority", Priority: 800}, runtime.BulkOptions{ID: "demo-urgent-mail", Actor: "olga"})
	return err
}
