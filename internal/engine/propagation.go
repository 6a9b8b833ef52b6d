package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
)

// MaxCarried bounds the values that a run carries from the context of its start, in their stored form (bytes).
const MaxCarried = 4096

// Propagator carries values of a context to another one: interceptor.Propagator.
type Propagator interface {
	Inject(ctx context.Context) map[string]string
	Extract(ctx context.Context, values map[string]string) context.Context
}

// The propagated values of a run are stored with its trace context, and reach workers with it: the traceparent, and,
// if there are values, a line feed and the values as a JSON object.
const carriedSeparator = "\n"

// Carried returns the values that the propagators of the session take from a context, in their stored form; "" for
// none. The error wraps ErrInvalid or ErrTooLarge.
func (s *Session) Carried(ctx context.Context) (string, error) {
	if len(s.Propagators) == 0 {
		return "", nil
	}
	all := make(map[string]string)
	for _, p := range s.Propagators {
		for name, value := range p.Inject(ctx) {
			if _, twice := all[name]; twice || name == "" {
				return "", fmt.Errorf("%w: values of the context: name %q: must be given once, and not empty",
					ErrInvalid, name)
			}
			if !utf8.ValidString(name) || !utf8.ValidString(value) {
				return "", fmt.Errorf("%w: values of the context: %q: must be valid UTF-8", ErrInvalid, name)
			}
			all[name] = value
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	text, _ := json.Marshal(all) // texts have a JSON form
	if len(text) > MaxCarried {
		return "", fmt.Errorf("%w: values of the context have %d bytes, at most %d are allowed", ErrTooLarge, len(text),
			MaxCarried)
	}
	return string(text), nil
}

// WithCarried returns the stored form of a run's trace context and its propagated values.
func WithCarried(trace, carried string) string {
	if carried == "" {
		return trace
	}
	return trace + carriedSeparator + carried
}

// CarriedIn returns the propagated values in the output of WithCarried, in their stored form; "" for none.
func CarriedIn(stored string) string {
	_, carried, _ := strings.Cut(stored, carriedSeparator)
	return carried
}

// Resume returns ctx with the trace context and the values that a run carries.
func (s *Session) Resume(ctx context.Context, stored string) context.Context {
	if stored == "" {
		return ctx
	}
	trace, carried, _ := strings.Cut(stored, carriedSeparator)
	ctx = observe.ExtractTrace(ctx, trace)
	if carried == "" || len(s.Propagators) == 0 {
		return ctx
	}
	var values map[string]string
	if err := json.Unmarshal([]byte(carried), &values); err != nil {
		return ctx // another version has written it otherwise
	}
	for _, p := range s.Propagators {
		ctx = s.extract(ctx, p, maps.Clone(values))
	}
	return ctx
}

// extract lets a propagator, which is code of the program, add values to a context. If it panics, they are left out.
func (s *Session) extract(ctx context.Context, p Propagator, values map[string]string) (extended context.Context) {
	defer func() {
		if r := recover(); r != nil || extended == nil {
			s.Logger.LogAttrs(ctx, slog.LevelError,
				"flowfabric: a context propagator failed; the activity runs without its values",
				observe.EventPropagatorFailed.Attr(), slog.Any("panic", r))
			extended = ctx
		}
	}()
	return p.Extract(ctx, values)
}
