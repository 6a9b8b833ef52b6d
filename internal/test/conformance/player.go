package conformance

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	defaultTolerance = 1500 * time.Millisecond

	// earliness is how far a replay may run ahead of its recording.
	earliness = 200 * time.Millisecond

	// smallSpace is the number of keys up to which all of them are read after
	// every step. In larger key spaces only related keys are, and the rest
	// every fullEvery steps.
	smallSpace = 150
	fullEvery  = 50
)

// Options configure a replay.
type Options struct {
	// Functions are those to call; calls of all others are bridged with their
	// recorded effect. Nil means: all that the server has.
	Functions map[string]bool

	// Deviations are the accepted differences; nil accepts none.
	Deviations *Deviations

	// KeepGoing continues a trace after a difference that is not accepted,
	// from the recorded state.
	KeepGoing bool

	// Before and After, when not nil, are called around every call of a
	// function. The client sends nothing else between them.
	Before func(ctx context.Context) error
	After  func(ctx context.Context, function string, reply any) error

	// Tolerance is the tolerance of times; zero means 1.5 seconds.
	Tolerance time.Duration
}

// A Result is the result of replaying one trace.
type Result struct {
	Trace    *Trace
	Called   map[string]int // calls of functions that were made
	Bridged  map[string]int // calls whose recorded effect was written instead
	Commands int            // plain commands
	Accepted int            // steps with differences, all described by deviations
	Failures []*Failure
	Elapsed  time.Duration
}

// A Failure is a step that did not go as recorded.
type Failure struct {
	Trace       *Trace
	Step        *Step
	Keys, Args  []string // as sent
	Reply       any
	Messages    []Message
	Differences []Difference
	Problems    []string // other than differences

	clocks []int64
}

// player replays one trace.
type player struct {
	store    *store
	messages *listener
	trace    *Trace
	options  Options
	result   *Result

	scope  scope
	tokens *tokens
	step   *Step
	clock  clock // nil if the engine has its own clock
	paced  int64 // recorded time (ms) of the latest step
	last   int64 // the latest time that the present step can have written

	model keyspace // the recorded contents, as templates
	live  keyspace // the present contents, concrete

	known    map[string]bool            // keys that are in one of the next two
	keysByID map[string]map[string]bool // keys that contain an id
	plain    map[string]bool            // keys that contain none
}

// Replay replays a trace. It empties the database first and expects the
// library to be loaded. An error means that the replay itself did not work;
// differences are in the result.
func Replay(ctx context.Context, client rueidis.Client, trace *Trace, options Options) (*Result, error) {
	p := &player{
		store:   &store{client: client},
		trace:   trace,
		options: options,
		result:  &Result{Trace: trace, Called: map[string]int{}, Bridged: map[string]int{}},
		tokens:  newTokens(),
		model:   keyspace{}, live: keyspace{},
		known: map[string]bool{}, keysByID: map[string]map[string]bool{}, plain: map[string]bool{},
	}
	if options.Tolerance == 0 {
		options.Tolerance = defaultTolerance
	}
	p.scope.tolerance = float64(options.Tolerance.Milliseconds())
	if p.options.Functions == nil {
		present, err := p.store.functions(ctx)
		if err != nil {
			return nil, err
		}
		p.options.Functions = present
	}
	if err := p.store.do(ctx, "FLUSHDB").Error(); err != nil {
		return nil, err
	}
	var err error
	if p.messages, err = listen(ctx, client); err != nil {
		return nil, err
	}
	defer p.messages.close()
	start := time.Now()
	p.clock = clockOf(client)
	for _, step := range trace.Steps {
		if err := p.pace(ctx, start, step); err != nil {
			return nil, err
		}
		proceed, err := p.play(ctx, step)
		if err != nil {
			return nil, fmt.Errorf("trace %s, step %d (%s): %w", trace.Name, step.Index, step.Name(), err)
		}
		if !proceed {
			break
		}
	}
	p.result.Elapsed = time.Since(start)
	return p.result, nil
}

func (p *player) clockNow() int64 { return p.scope.now }

// pace waits for the time of the step, and when the replay is too early.
func (p *player) pace(ctx context.Context, start time.Time, step *Step) error {
	wait := time.Duration(step.SleepMS) * time.Millisecond
	if p.clock != nil {
		// Due times are measured from the replayed times of earlier steps, so steps follow each other with at least the
		// recorded distance, even if the clock is ahead of the recording.
		since := step.SleepMS
		if p.paced > 0 {
			since = max(since, step.NowMS-p.paced-(p.clock.now()-p.scope.now))
		}
		p.paced = step.NowMS
		return p.setClock(ctx, p.clock.now()+since)
	}
	recorded := time.Duration(step.NowMS-p.trace.Steps[0].NowMS) * time.Millisecond
	if early := recorded - time.Since(start); early > wait+earliness {
		wait = early - earliness
	}
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setClock moves the clock of the replay on.
func (p *player) setClock(ctx context.Context, to int64) error {
	var lapsed []string
	for key, v := range p.live {
		if at, err := strconv.ParseInt(v.expires, 10, 64); err == nil && at <= to {
			lapsed = append(lapsed, key)
		}
	}
	return p.clock.advance(ctx, to, lapsed)
}

// readClock is the time (ms) that calls see.
func (p *player) readClock(ctx context.Context) (int64, error) {
	if p.clock != nil {
		return p.clock.now(), nil
	}
	return p.store.clock(ctx)
}

// play makes one step and checks it. It reports whether to continue.
func (p *player) play(ctx context.Context, step *Step) (bool, error) {
	now, err := p.tick(ctx)
	if err != nil {
		return false, err
	}
	p.last = now
	p.step, p.scope.now = step, now
	p.scope.clocks = append(p.scope.clocks, now)
	texts := step.Args
	if step.Function == "" {
		texts = step.Command
	}
	args := make([]string, len(texts))
	for i, text := range texts {
		if args[i], err = p.scope.render(text); err != nil {
			return false, err
		}
	}
	p.tokens.learn(step, args)
	if step.Function != "" && !p.options.Functions[step.Function] {
		return true, p.bridge(ctx)
	}
	return p.call(ctx, args)
}

// bridge writes the recorded effect of a step.
func (p *player) bridge(ctx context.Context) error {
	if !p.trace.hasDeltas {
		return fmt.Errorf("%s is missing and the trace does not contain its effects", p.step.Function)
	}
	p.result.Bridged[p.step.Function]++
	if err := p.advance(); err != nil {
		return err
	}
	keys := slices.Collect(maps.Keys(p.step.Delta))
	p.remember(keys)
	if p.step.State != nil {
		// Keys that ran out are in no delta.
		if err := p.refresh(ctx, p.allKeys(), true); err != nil {
			return err
		}
	}
	if err := p.restore(ctx, keys); err != nil {
		return err
	}
	p.wrote()
	reply, err := p.concreteReply(p.step.reply)
	p.scope.replies = append(p.scope.replies, reply)
	return err
}

// advance updates the model to the state after the step.
func (p *player) advance() error {
	if p.step.State != nil {
		p.model = newKeyspace(p.step.State)
		p.remember(slices.Collect(maps.Keys(p.model)))
		return nil
	}
	return p.model.apply(p.step.Delta)
}

// call makes the step on the server and judges it.
func (p *player) call(ctx context.Context, args []string) (bool, error) {
	step := p.step
	view := &stepView{player: p, step: step, keys: step.Keys, args: args}
	view.rows = p.options.Deviations.applicable(view)
	var result rueidis.RedisResult
	if step.Function != "" {
		p.result.Called[step.Function]++
		if p.options.Before != nil {
			if err := p.options.Before(ctx); err != nil {
				return false, err
			}
		}
		words := append([]string{"FCALL", step.Function, fmt.Sprint(len(step.Keys))}, step.Keys...)
		result = p.store.do(ctx, append(words, args...)...)
	} else {
		p.result.Commands++
		result = p.store.plain(ctx, args)
	}
	got, err := replyOf(result)
	if err != nil {
		return false, err
	}
	if step.Function != "" && p.options.After != nil {
		if err := p.options.After(ctx, step.Function, got); err != nil {
			return false, err
		}
	}
	if p.last, err = p.readClock(ctx); err != nil {
		return false, err
	}
	if view.messages, err = p.messages.take(ctx, messageWait); err != nil {
		return false, err
	}
	view.reply = got
	p.scope.replies = append(p.scope.replies, got)

	diffs, err := p.compareState(ctx, view)
	if err != nil {
		return false, err
	}
	replyDiffers := !p.fitsReply(step, step.reply, got)
	if replyDiffers {
		want, have := compactJSON(step.reply), compactJSON(got)
		diffs = append(diffs, Difference{Part: PartReply, Want: &want, Got: &have})
	}
	if !p.fitsMessages(step.Publish, view.messages) {
		want, have := compactJSON(step.Publish), compactJSON(view.messages)
		diffs = append(diffs, Difference{Part: PartPublish, Want: &want, Got: &have})
	}
	if len(diffs) == 0 && len(view.rows) == 0 {
		return true, nil
	}
	view.diffs = diffs
	rest, problems := p.options.Deviations.explain(view, view.rows)
	if len(diffs) > 0 {
		if err := p.putBack(ctx, diffs, replyDiffers); err != nil {
			return false, err
		}
	}
	if len(rest)+len(problems) == 0 {
		if len(diffs) > 0 {
			p.result.Accepted++
		}
		return true, nil
	}
	p.result.Failures = append(p.result.Failures, &Failure{
		Trace: p.trace, Step: step, Keys: step.Keys, Args: args, Reply: got, Messages: view.messages,
		Differences: rest, Problems: problems, clocks: p.scope.clocks,
	})
	return p.options.KeepGoing, nil
}

// putBack restores the recorded content on the replayed side, after differences.
func (p *player) putBack(ctx context.Context, diffs []Difference, reply bool) error {
	keys := map[string]bool{}
	for _, d := range diffs {
		if d.Key != "" {
			keys[d.Key] = true
		}
	}
	if err := p.restore(ctx, slices.Collect(maps.Keys(keys))); err != nil {
		return err
	}
	p.wrote()
	if !reply {
		return nil
	}
	recorded, err := p.concreteReply(p.step.reply)
	p.scope.replies[p.step.Index] = recorded
	return err
}

// concreteReply makes a recorded reply concrete, for the steps that refer to
// it.
func (p *player) concreteReply(reply any) (any, error) {
	switch v := reply.(type) {
	case string:
		return p.concreteText(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if text, ok := e.(string); ok {
				if kid, ok := tokenKID(text); ok {
					list[i], err = p.tokenFor(kid, v)
				} else {
					list[i], err = p.concreteText(text)
				}
			} else {
				list[i], err = p.concreteReply(e)
			}
			if err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return reply, nil
}

// compareState advances the model, reads the keys that the step may have changed, and returns the differences.
func (p *player) compareState(ctx context.Context, view *stepView) ([]Difference, error) {
	step := p.step
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.trace.hasDeltas && step.State == nil {
		return nil, nil
	}
	all := step.State != nil || len(p.live) <= smallSpace || step.Index%fullEvery == 0
	var keys []string
	if all {
		keys = p.allKeys()
	} else {
		keys = p.relatedKeys(view)
	}
	p.remember(keys)
	view.before = maps.Clone(p.live)
	if err := p.refresh(ctx, keys, all); err != nil {
		return nil, err
	}
	diffs := p.compareKeys(p.touched(keys, view.before), p.model, p.live)
	if step.Function == "" && step.Delta == nil && p.trace.hasDeltas && step.State == nil {
		// The command is literal, so its effect cannot be a mistake of the
		// library. The next recorded state contains it.
		for _, d := range diffs {
			p.adopt(d.Key)
		}
		return nil, nil
	}
	return p.withoutLate(ctx, append(diffs, p.staleTimes(view.before)...))
}

// adopt copies the present content into the model.
func (p *player) adopt(key string) {
	if v := p.live[key]; v != nil {
		p.model[key] = v.escaped()
	} else {
		delete(p.model, key)
	}
}

// withoutLate removes the differences in keys that the recording has not seen
// yet. They are compared when it sees them.
func (p *player) withoutLate(ctx context.Context, diffs []Difference) ([]Difference, error) {
	// The step that created the key may have had other effects here than in the recording.
	excused := len(p.result.Bridged) > 0 || p.result.Accepted > 0
	var rest []Difference
	for _, d := range diffs {
		switch seen, late := p.trace.late[d.Key]; {
		case late && p.step.Index < seen:
			p.adopt(d.Key)
		case late && p.step.Index == seen && p.live[d.Key] == nil && excused:
			if err := p.restore(ctx, []string{d.Key}); err != nil {
				return nil, err
			}
		default:
			rest = append(rest, d)
		}
	}
	return rest, nil
}

// touched adds the keys that turned out to have appeared or vanished.
func (p *player) touched(keys []string, before keyspace) []string {
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		seen[key] = true
	}
	for key := range p.live {
		if !seen[key] && before[key] == nil {
			keys = append(keys, key)
		}
	}
	for key := range before {
		if !seen[key] && p.live[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// refresh reads keys into the live key space, and all those that appeared or
// vanished.
func (p *player) refresh(ctx context.Context, keys []string, all bool) error {
	if err := p.load(ctx, keys); err != nil {
		return err
	}
	size, err := p.store.size(ctx)
	if err != nil || !all && size == int64(len(p.live)) {
		return err
	}
	names, err := p.store.names(ctx)
	if err != nil {
		return err
	}
	var unknown []string
	for name := range names {
		if p.live[name] == nil {
			unknown = append(unknown, name)
		}
	}
	for key := range p.live {
		if !names[key] {
			delete(p.live, key)
		}
	}
	p.remember(unknown)
	return p.load(ctx, unknown)
}

func (p *player) load(ctx context.Context, keys []string) error {
	read, err := p.store.read(ctx, keys, func(key string) string {
		if v := p.model[key]; v != nil {
			return v.typ
		}
		if v := p.live[key]; v != nil {
			return v.typ
		}
		return ""
	})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if v := read[key]; v != nil {
			p.live[key] = v
		} else {
			delete(p.live, key)
		}
	}
	return nil
}

func (p *player) allKeys() []string {
	keys := slices.Collect(maps.Keys(p.model))
	for key := range p.live {
		if p.model[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// remember indexes keys by the ids in them.
func (p *player) remember(keys []string) {
	for _, key := range keys {
		if p.known[key] {
			continue
		}
		p.known[key] = true
		ids := uuid.FindAllString(key, -1)
		if ids == nil {
			p.plain[key] = true
		}
		for _, id := range ids {
			if p.keysByID[id] == nil {
				p.keysByID[id] = map[string]bool{}
			}
			p.keysByID[id][key] = true
		}
	}
}

// relatedKeys returns the keys that a step can be expected to touch: those it
// names, those that share an id with it or with the records it names, the
// indexes, and those that a deviation speaks of.
func (p *player) relatedKeys(view *stepView) []string {
	keys := maps.Clone(p.plain)
	ids := map[string]bool{}
	collect := func(text string) {
		for _, id := range uuid.FindAllString(text, -1) {
			ids[id] = true
		}
	}
	declared := slices.Concat(view.keys, slices.Collect(maps.Keys(view.step.Delta)))
	p.remember(declared)
	for _, key := range declared {
		keys[key] = true
		collect(key)
		if v := p.live[key]; v != nil && v.typ == "hash" {
			for _, text := range v.fields {
				collect(text)
			}
		}
	}
	for _, arg := range view.args {
		collect(arg)
	}
	for _, row := range view.rows {
		for _, change := range row.Changes {
			if key, ok := view.expand(change.Key.text); ok {
				keys[key] = true
			}
		}
	}
	for id := range ids {
		maps.Copy(keys, p.keysByID[id])
	}
	return slices.Collect(maps.Keys(keys))
}
