package service

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/queueread"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/history"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/push"
	"github.com/flowfabric/flowfabric-go/server/internal/taskpool"
)

// Item is an item of a stream with the cursor after which the stream continues.
type Item[T any] struct {
	Cursor string
	Value  T
	// Idle marks an item without a value: the stream has begun, and nothing more is there at present.
	Idle bool
}

// Items are the items of a stream. The sequence ends when nothing follows; an error is yielded last.
type Items[T any] = iter.Seq2[Item[T], error]

// Service has the operations. Its methods are the handlers of the operations of the HTTP API with the same names. The
// principal of the context is the actor of their changes.
type Service struct {
	engine *runtime.Engine
	client *runtime.Client
	admin  *admin.Client
	queues *queueread.Reader
	store  *serverstore.Store
	info   api.ServerInfo
	now    func() time.Time
	past   *history.Recorder
	tasks  *taskpool.Pool
	pushes *push.Registry
}

// New returns the service of an engine. GetServer returns info, to which it adds the principal.
func New(engine *runtime.Engine, info api.ServerInfo, config Config) (*Service, error) {
	client, err := runtime.NewClient(engine)
	if err != nil {
		return nil, err
	}
	operator, err := admin.New(engine)
	if err != nil {
		return nil, err
	}
	s := &Service{
		engine: engine, client: client, admin: operator, queues: queueread.New(engine),
		store: serverstore.New(engine.Internal(), info.Namespace), info: info,
		past: history.New(history.Config{Client: client, Admin: operator, Every: config.SampleEvery}),
		now:  time.Now, tasks: taskpool.New(taskpool.Config{Engine: engine, Logger: config.Logger}),
	}
	s.pushes = push.New(push.Config{Tasks: s, Allow: config.PushTo, Logger: config.Logger})
	return s, nil
}

// Config configures a service.
type Config struct {
	// Logger receives the events of workers and pushed tasks; required.
	Logger *slog.Logger
	// PushTo are the origins to which tasks may be sent.
	PushTo []string
	// SampleEvery is the time between two samples of the engine; required.
	SampleEvery time.Duration
}

// Sample samples the engine for the operations that show the past, until ctx ends.
func (s *Service) Sample(ctx context.Context) { s.past.Run(ctx) }

// Close ends the streams of the service and the workers over HTTP, which release their tasks.
func (s *Service) Close() {
	s.pushes.Close()
	s.tasks.Close()
	s.client.Close()
}

// Store returns the store of tokens and replies.
func (s *Service) Store() *serverstore.Store { return s.store }

// as returns a client that acts in the name of the caller.
func (s *Service) as(ctx context.Context) *runtime.Client {
	if name := login.From(ctx).Name; name != "" {
		return s.client.As(name)
	}
	return s.client
}

func (s *Service) run(ctx context.Context, name httpapi.RunName) *runtime.RunRef {
	return s.as(ctx).Run(name.Flow, name.Run)
}

// whole returns a page of a list that is always whole.
func whole[T any](list []T) *fabrictype.Page[T] {
	return &fabrictype.Page[T]{Items: append([]T{}, list...)}
}

// gather reads a sequence to its end.
func gather[T any](seq iter.Seq2[T, error]) (*fabrictype.Page[T], error) {
	return collect(seq, func(element T) T { return element })
}

// pageOf returns a page of one list that is always whole.
func pageOf[From, To any](list []From, convert func(From) To) *fabrictype.Page[To] {
	items := make([]To, len(list))
	for i, from := range list {
		items[i] = convert(from)
	}
	return &fabrictype.Page[To]{Items: items}
}

// collect reads a sequence to its end.
func collect[From, To any](seq iter.Seq2[From, error], convert func(From) To) (*fabrictype.Page[To], error) {
	items := []To{}
	for from, err := range seq {
		if err != nil {
			return nil, err
		}
		items = append(items, convert(from))
	}
	return &fabrictype.Page[To]{Items: items}, nil
}

func done(err error) (*httpapi.Empty, error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Empty{}, nil
}

// faultAt returns an error about one part of the body.
func faultAt(pointer, format string, args ...any) error {
	return &fabrictype.ValueError{
		Subject: "request", Faults: []fabrictype.ValueFault{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}},
	}
}
