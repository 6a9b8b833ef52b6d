// Package connect reaches the engine or the server that a command is about. Either way the commands call operations of
// the HTTP API: a server performs them over HTTP, an engine in this process.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// ErrInvalid matches errors about where to connect to.
var ErrInvalid = errors.New("invalid location")

// DefaultActor is the actor of commands on an engine that name none.
const DefaultActor = "flowfabric"

// Where identifies an engine or a server.
type Where struct {
	// URL is a URL of runtime.Open, or the http or https URL of a server.
	URL string
	// Prefix and Namespace are for an engine.
	Prefix, Namespace string
	// Actor is who acts on an engine. A server knows that by the login.
	Actor string
	// Token is for a server.
	Token string
	// Logger receives the reason why an operation on an engine failed, where its error does not contain it. Defaults to
	// none.
	Logger *slog.Logger
}

// IsServer reports whether the URL belongs to a server.
func (w Where) IsServer() bool {
	return strings.HasPrefix(w.URL, "http://") || strings.HasPrefix(w.URL, "https://")
}

// Check returns an error for settings that contradict each other, before anything is opened.
func (w Where) Check() error {
	switch {
	case w.URL == "":
		return fmt.Errorf("%w: no engine or server is named: give --url or --profile, or set FLOWFABRIC_URL",
			ErrInvalid)
	case w.IsServer() && w.Prefix+w.Namespace != "":
		return fmt.Errorf("%w: --prefix and --namespace are for engines; a server has its own", ErrInvalid)
	case w.IsServer() && w.Actor != "":
		return fmt.Errorf("%w: --actor %q is for engines; a server knows the actor by the login", ErrInvalid, w.Actor)
	}
	return nil
}

// answersWithin bounds the question whether a server answers.
const answersWithin = 2 * time.Second

// Answers returns why no server of FlowFabric answers at an address; nil if one does.
func Answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	client, err := httpclient.New(address, httpclient.Config{})
	if err != nil {
		return err
	}
	info, err := client.GetServer(ctx)
	switch {
	case httpclient.Code(err) == "unauthorized":
		return nil // a server with a login
	case err == nil && info.Protocol == 0, httpclient.Code(err) == "not_a_server":
		return errors.New("another program answers there")
	case err == nil:
		return nil
	}
	var failed *net.OpError
	if errors.As(err, &failed) {
		return failed.Err // which leaves the address out
	}
	return err
}

// Session is a connection.
type Session struct {
	// Client calls operations.
	Client *httpclient.Client
	// Engine is the engine; nil for a server.
	Engine *runtime.Engine
	// Close ends it.
	Close func()
}

// Open connects. It creates no engine.
func Open(ctx context.Context, w Where) (*Session, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	if w.IsServer() {
		client, err := httpclient.New(w.URL, httpclient.Config{Token: w.Token})
		return &Session{Client: client, Close: func() {}}, err
	}
	engine, err := runtime.Open(ctx, w.URL, runtime.OpenConfig{
		Prefix: w.Prefix, Namespace: w.Namespace, Logger: slog.New(slog.DiscardHandler), MustExist: true,
		Backend: contract.Backend(contract.Config{}),
	})
	if err != nil {
		return nil, err
	}
	s, err := InProcess(engine, w)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	end := s.Close
	s.Close = func() {
		end()
		_ = engine.Close() // everything has been answered
	}
	return s, nil
}

// InProcess returns a session of an engine that is open. It does not close the engine.
func InProcess(engine *runtime.Engine, w Where) (*Session, error) {
	srv, err := server.New(server.Config{
		Engine: engine, Namespace: w.Namespace, EngineName: EngineName(w.URL), Version: Version(),
		Logger: cmp.Or(w.Logger, slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return nil, err
	}
	client, err := srv.ClientAs(cmp.Or(w.Actor, DefaultActor))
	if err != nil {
		srv.Close()
		return nil, err
	}
	return &Session{Client: client, Engine: engine, Close: srv.Close}, nil
}

// EngineName is how a server names its engine: without address and password.
func EngineName(address string) string {
	if address == "" {
		return "in memory"
	}
	if scheme, _, found := strings.Cut(address, ":"); found {
		return scheme
	}
	if u, err := url.Parse(address); err == nil {
		return cmp.Or(u.Scheme, "unknown")
	}
	return "unknown"
}

// ShownURL is the URL of an engine for people: without user and password.
func ShownURL(address string) string {
	at := strings.LastIndex(address, "@")
	if at < 0 || strings.HasPrefix(address, "embedded:") {
		return cmp.Or(address, "in memory")
	}
	scheme, _, found := strings.Cut(address[:at], "://")
	if !found {
		return address[at+1:]
	}
	return scheme + "://" + address[at+1:]
}

// Revision is the revision of the sources of this program, with a plus sign for changes since; empty where the build
// does not know it.
func Revision() string {
	revision, changed := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// Version is the version of this program by its build information.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
