package output

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

const (
	// A batch of lines becomes a frame when it has logBatchLines or logBatchBytes, or after logPause.
	logBatchLines = 100
	logBatchBytes = 32 << 10
	logPause      = 250 * time.Millisecond
	// maxLogLine is the longest line that is stored whole. A batch and one more line fit into a frame.
	maxLogLine = 16 << 10
	// maxLogMessage is the length to which longer messages are cut. JSON may need six bytes for one byte.
	maxLogMessage = 2 << 10
)

// LogConfig defines which lines of the logs of activities are stored.
type LogConfig struct {
	Off          bool
	Level        slog.Leveler
	Lines, Bytes int
}

// logOutput gathers the lines that the function of a task logs, and emits them as frames. The zero value is ready once
// its output is set. Its parts are created when the function first uses its logger.
type logOutput struct {
	output *Output

	once   sync.Once
	logger *slog.Logger

	mu     sync.Mutex
	batch  bytes.Buffer // lines, with commas between them
	lines  int          // of the batch
	stored struct{ lines, bytes int }
	cut    int // lines that were not stored
	timer  *time.Timer
}

// Logger returns the logger of the attempt.
func (o *logOutput) Logger() *slog.Logger {
	o.once.Do(func() {
		a := o.output.attempt
		program := a.Run.Session.Logger.With(slog.String("flow", a.Claimed.FlowName),
			slog.String("run", a.Claimed.RunID), slog.String("node", a.Claimed.Node),
			slog.Int("attempt", int(a.Claimed.AttemptIndex)+1)).Handler()
		o.logger = slog.New(program)
		if store := o.store(); store != nil {
			o.logger = slog.New(logHandler{program, store})
		}
	})
	return o.logger
}

// store returns the handler that stores lines with the attempt; nil if none are stored.
func (o *logOutput) store() slog.Handler {
	config := o.output.config
	if config.Off {
		return nil
	}
	return slog.NewJSONHandler(o, &slog.HandlerOptions{Level: config.Level}).WithGroup(activitycontext.LogAttrs)
}

// Write takes one line of the handler that stores. It never fails, and waits for nothing.
func (o *logOutput) Write(line []byte) (int, error) {
	n := len(line)
	if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > maxLogLine {
		line = shortened(line)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	config := o.output.config
	switch {
	case o.output.attempt.Settled.Load(): // logged by a goroutine that outlived the function
	case o.stored.lines >= config.Lines || o.stored.bytes+len(line) > config.Bytes:
		o.cut++
	default:
		o.add(line)
		o.stored.lines++
		o.stored.bytes += len(line)
	}
	return n, nil
}

// add puts a line into the batch, which is sent when it is large enough, or later.
func (o *logOutput) add(line []byte) {
	if o.lines > 0 {
		o.batch.WriteByte(',')
	}
	o.batch.Write(line)
	o.lines++
	if o.lines >= logBatchLines || o.batch.Len() >= logBatchBytes {
		o.send()
	} else if o.timer == nil {
		o.timer = time.AfterFunc(logPause, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.send()
		})
	}
}

// send emits the batch. If the batch does not fit in with the unsent frames, its lines are cut.
func (o *logOutput) send() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if o.lines == 0 {
		return
	}
	payload := make([]byte, 0, o.batch.Len()+2)
	payload = append(append(append(payload, '['), o.batch.Bytes()...), ']')
	frame := activitycontext.Frame{
		Kind: activitycontext.LogKind, Payload: payload, Encoding: activitycontext.JSONEncoding,
	}
	lines := o.lines
	refused := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.cut += lines
	}
	if !o.output.emitter().offer(frame, refused) {
		o.cut += lines
	}
	o.batch.Reset()
	o.lines = 0
}

// finish emits the remaining lines and a line with the number of cut ones, and reports whether any were cut. It is
// called when the function has returned, before the frames are awaited, and again afterwards, as the engine may have
// refused some.
func (o *logOutput) finish() (cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send()
	if o.cut == 0 {
		return false
	}
	line, err := json.Marshal(activitycontext.LogLine{
		Time: time.Now(), Level: slog.LevelWarn, Cut: o.cut,
		Message: fmt.Sprintf("%d more lines were logged and not stored", o.cut),
	})
	if o.cut = 0; err == nil {
		o.add(line)
		o.send()
	}
	return true
}

// panicked stores the stack of a panic in the function.
func (o *logOutput) panicked(value any, stack string) {
	config := o.output.config
	if config.Off {
		return
	}
	const most = 12 << 10
	text := strings.ToValidUTF8(stack[:min(len(stack), most)], "")
	attrs, err := json.Marshal(map[string]string{"stack": text})
	if err != nil {
		return
	}
	line, err := json.Marshal(activitycontext.LogLine{
		Time: time.Now(), Level: slog.LevelError, Message: cutText(fmt.Sprintf("panic: %v", value)), Attrs: attrs,
	})
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.add(line)
	}
}

// shortened returns a line that is too long without its attributes and the end of its message.
func shortened(line []byte) []byte {
	var l activitycontext.LogLine
	if json.Unmarshal(line, &l) != nil {
		l = activitycontext.LogLine{Time: time.Now()}
	}
	l.Message, l.Attrs, l.Shortened = cutText(l.Message), nil, true
	short, err := json.Marshal(l)
	if err != nil {
		return []byte(`{"level":"INFO","msg":"","shortened":true}`)
	}
	return short
}

func cutText(text string) string {
	if len(text) <= maxLogMessage {
		return text
	}
	end := maxLogMessage
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// logHandler passes records to the handler of the program and to the one that stores.
type logHandler struct{ program, store slog.Handler }

// Enabled implements slog.Handler.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.program.Enabled(ctx, level) || h.store.Enabled(ctx, level)
}

// Handle implements slog.Handler. It returns the error of the program's handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.store.Enabled(ctx, r.Level) {
		_ = h.store.Handle(ctx, r.Clone()) // Write never fails
	}
	if !h.program.Enabled(ctx, r.Level) {
		return nil
	}
	return h.program.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.program.WithAttrs(attrs), h.store.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.program.WithGroup(name), h.store.WithGroup(name)}
}
