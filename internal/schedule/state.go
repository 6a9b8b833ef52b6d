package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// Version is the version of the stored form that this program writes. Schedules of a later version are left
// to newer programs (see ErrScheduleVersion).
const Version = 1

const (
	// MaxMadeUp bounds the fires that are made up for after a time without keepers.
	MaxMadeUp = 100
	// MaxScheduleJitter bounds the jitter of a schedule: the delay of each fire after its time.
	MaxScheduleJitter = time.Hour
	// ScheduleHistory is the number of latest fires whose outcome is stored.
	ScheduleHistory = 50
	// ScheduleTag is the key of the tag that names the schedule of a run.
	ScheduleTag = "flowfabric.schedule"
)

// Spec is the stored declaration of a schedule. Times are Unix ms, 0 for none. Either Cron with Zone or
// EveryMS defines the timetable.
type Spec struct {
	Version    int                      `json:"version"`
	Namespace  string                   `json:"namespace"`
	Name       string                   `json:"name"`
	Flow       string                   `json:"flow"`
	GraphHash  string                   `json:"graph_hash"`
	InputHash  string                   `json:"input_hash"`
	Cron       string                   `json:"cron,omitempty"`
	Zone       string                   `json:"zone,omitempty"`
	EveryMS    int64                    `json:"every_ms,omitempty"`
	StartMS    int64                    `json:"start,omitempty"`
	EndMS      int64                    `json:"end,omitempty"`
	JitterMS   int64                    `json:"jitter_ms,omitempty"`
	Overlap    fabrictype.OverlapPolicy `json:"overlap"`
	QueueLimit int                      `json:"queue_limit,omitempty"`
	CatchUpMS  int64                    `json:"catch_up_ms"`
	Retention  string                   `json:"retention,omitempty"`
	Tags       map[string]string        `json:"tags,omitempty"`
	FireField  string                   `json:"fire_field,omitempty"`
	Creator    string                   `json:"creator"`
	// Carried are the values that runs carry to activities, in their stored form.
	Carried string `json:"carried,omitempty"`
}

// ID returns the id of the schedule, which follows from namespace and name.
func (s *Spec) ID() keyspace.ScheduleID {
	return keyspace.ScheduleIDFor(keyspace.Namespace(s.Namespace), s.Name)
}

// Timetable returns the timetable of the spec, or an error if the spec defines none.
func (s *Spec) Timetable() (*timetable.Timetable, error) {
	return timetable.New(timetable.Spec{
		Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.EveryMS) * time.Millisecond, Start: UnixTime(s.StartMS),
		End: UnixTime(s.EndMS), Jitter: time.Duration(s.JitterMS) * time.Millisecond,
	})
}

// sameTimes reports whether two specs define the same times, disregarding the jitter.
func (s *Spec) sameTimes(as *Spec) bool {
	return s.Cron == as.Cron && s.Zone == as.Zone && s.EveryMS == as.EveryMS && s.StartMS == as.StartMS &&
		s.EndMS == as.EndMS
}

// CatchUp returns how late a fire may be made up for.
func (s *Spec) CatchUp() time.Duration { return time.Duration(s.CatchUpMS) * time.Millisecond }

// UnixTime converts stored Unix ms to a UTC time; 0 is the zero time.
func UnixTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return recordtext.Time(ms)
}

// State is the stored progress of a schedule. Times are Unix ms of the engine's clock, 0 for none. Started,
// Skipped, Missed and Failed count fires by outcome.
type State struct {
	CreatedAt int64 `json:"created_at"`
	UpdatedAt int64 `json:"updated_at"`
	// Plan is the current revision of definition and input; Plans are all stored revisions.
	Plan  int   `json:"plan"`
	Plans []int `json:"plans"`
	// Due is the next time of the timetable, without jitter; 0 if there is none.
	Due         int64  `json:"due,omitempty"`
	PausedAt    int64  `json:"paused_at,omitempty"`
	PauseReason string `json:"pause_reason,omitempty"`
	// Serial is the highest number that a fire has been given. It never decreases.
	Serial int64 `json:"serial"`
	// Waiting are the fires without a run, in order.
	Waiting []PendingFire `json:"waiting,omitempty"`
	// Last is the last started run; nil before the first.
	Last *StartedRun `json:"last,omitempty"`
	// LastFire is the time of the last fire, of any outcome.
	LastFire int64 `json:"last_fire,omitempty"`
	// Fired are the latest spans of the timetable whose times have fired.
	Fired   []FiredSpan `json:"fired,omitempty"`
	Started int64       `json:"started,omitempty"`
	Skipped int64       `json:"skipped,omitempty"`
	Missed  int64       `json:"missed,omitempty"`
	Failed  int64       `json:"failed,omitempty"`
	// Backfills are the past intervals whose times are still to be started, in order.
	Backfills []Backfill `json:"backfills,omitempty"`
	// Requests are the latest requests that had an id, the newest last.
	Requests []DoneRequest `json:"requests,omitempty"`
	// Deleting marks a schedule that is removed once the fire being started has its run.
	Deleting bool `json:"deleting,omitempty"`
}

// PendingFire is a fire without a run. At is its time in Unix ms, Serial its number within the schedule, Triggered
// whether it was triggered rather than due by the timetable.
type PendingFire struct {
	At        int64 `json:"at"`
	Serial    int64 `json:"serial"`
	Triggered bool  `json:"triggered,omitempty"`
	// StartBefore is set while a keeper starts the run, with the content of revision Plan: the engine accepts that
	// submission until then, in Unix ms of its clock. Afterwards another keeper may start the fire. 0 for a fire that
	// no keeper has begun.
	StartBefore int64 `json:"start_before,omitempty"`
	Plan        int   `json:"plan,omitempty"`
	// Backfill marks a fire of the first backfill. Such a fire waits only while a keeper starts its run.
	Backfill bool `json:"backfill,omitempty"`
}

// DoneRequest is a request with an id that was executed: a trigger, with time and serial of its fire, or a backfill,
// with the number of its times.
type DoneRequest struct {
	ID     string `json:"id"`
	At     int64  `json:"at,omitempty"`
	Serial int64  `json:"serial,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// maxRequests is the number of latest requests that a schedule knows.
const maxRequests = 32

// request returns the effect of a request; nil for one that is not known or has no id.
func (s *State) request(id string) *DoneRequest {
	i := slices.IndexFunc(s.Requests, func(d DoneRequest) bool { return id != "" && d.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Requests[i]
}

// remember adds a request that has an id, and forgets the oldest ones.
func (s *State) remember(done DoneRequest) {
	if done.ID == "" {
		return
	}
	s.Requests = append(s.Requests, done)
	s.Requests = s.Requests[max(0, len(s.Requests)-maxRequests):]
}

// StartedRun is a run that a schedule has started, with the time of its fire in Unix ms. Cancelled is set once the
// schedule has cancelled it.
type StartedRun struct {
	Flow      string `json:"flow"`
	Run       string `json:"run"`
	At        int64  `json:"at"`
	Cancelled bool   `json:"cancelled,omitempty"`
}

// StoredFire is an entry of the history: one fire, or several missed ones.
type StoredFire struct {
	At      int64                  `json:"at"`
	Until   int64                  `json:"until,omitempty"`
	Count   int64                  `json:"count,omitempty"`
	Done    int64                  `json:"done"`
	Outcome fabrictype.FireOutcome `json:"outcome"`
	Flow    string                 `json:"flow,omitempty"`
	Run     string                 `json:"run,omitempty"`
	Reason  string                 `json:"reason,omitempty"`
	Manual  bool                   `json:"triggered,omitempty"`
	// Backfill is set for a time of a past interval that was started later.
	Backfill bool `json:"backfill,omitempty"`
}

// ReadFire decodes an entry of the history.
func ReadFire(text string) (StoredFire, error) {
	var entry StoredFire
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return entry, fmt.Errorf("history: %w", err)
	}
	return entry, nil
}

// RunOf returns the run id of a fire, which is the same for all processes that start it. A triggered fire never has
// the id of a time of the timetable.
func RunOf(schedule string, fire PendingFire) string {
	at := UnixTime(fire.At)
	if fire.Triggered {
		return schedule + "@" + at.Format("2006-01-02T15:04:05.000Z07:00") + "#" + strconv.FormatInt(fire.Serial, 10)
	}
	return schedule + "@" + at.Format(time.RFC3339Nano)
}

// ErrScheduleVersion reports a schedule whose stored form is of a later version.
var ErrScheduleVersion = errors.New("the schedule is of a later release")

// Record is a schedule as it was read. Its methods change it in memory; the store writes it unless another
// process has written it since. It is not safe for concurrent use.
type Record struct {
	id      keyspace.ScheduleID
	part    keyspace.Partition
	version int64
	Spec    Spec
	State   State
	// now is the engine's clock at the time of the read.
	now     time.Time
	times   *timetable.Timetable
	history []string // entries to be added
	// urgent makes the schedule due at once for keepers.
	urgent bool
	// keeper is the runner that works on the record; empty for changes by clients.
	keeper string
}

// readSpec decodes a stored spec. The error wraps ErrScheduleVersion for a later version.
func readSpec(id keyspace.ScheduleID, stored []byte) (Spec, error) {
	var spec Spec
	if err := json.Unmarshal(stored, &spec); err != nil {
		return spec, fmt.Errorf("schedule %s: %w", id, err)
	}
	if spec.Version > Version {
		return spec, fmt.Errorf("schedule %s: %w: its form is %d, this program reads %d", spec.Name, ErrScheduleVersion,
			spec.Version, Version)
	}
	return spec, nil
}

// ReadRecord decodes a stored schedule of a partition, read when the engine's clock was now. The error wraps
// ErrScheduleVersion for a later version.
func ReadRecord(p keyspace.Partition, now time.Time, stored enginerpc.ScheduleRecord) (*Record, error) {
	r := &Record{id: stored.ScheduleID, part: p, version: stored.Version, now: now}
	var err error
	if r.Spec, err = readSpec(stored.ScheduleID, stored.Spec); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(stored.State, &r.State); err != nil {
		return nil, fmt.Errorf("schedule %s: %w", r.Spec.Name, err)
	}
	if r.times, err = r.Spec.Timetable(); err != nil {
		return nil, fmt.Errorf("schedule %s: %w", r.Spec.Name, err)
	}
	return r, nil
}

// note adds an entry to the history, which is written with the record.
func (r *Record) note(entry StoredFire) {
	entry.Done = r.now.UnixMilli()
	text, _ := json.Marshal(entry) // of texts and numbers only
	r.history = append(r.history, string(text))
}

// usedPlans returns the revisions that a fire may still start.
func (s *State) usedPlans() []int {
	used := map[int]bool{s.Plan: true}
	for _, fire := range s.Waiting {
		if fire.StartBefore > 0 {
			used[fire.Plan] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// dropPlans removes revisions that no fire can start from the state, and returns them in the form of the call.
func (s *State) dropPlans() string {
	used := s.usedPlans()
	var dropped []string
	for _, revision := range s.Plans {
		if !slices.Contains(used, revision) {
			dropped = append(dropped, strconv.Itoa(revision))
		}
	}
	s.Plans = used
	return strings.Join(dropped, ",")
}

// WithFireTime returns the input, a JSON object, with the fire time in a field, in RFC 3339 and UTC. It fails for any
// other input.
func WithFireTime(input []byte, field string, at time.Time) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(input, &fields); err != nil || fields == nil {
		return nil, errors.New("the input is not a JSON object, so it cannot have a field for the time of the fire")
	}
	fields[field], _ = json.Marshal(at.UTC().Format(time.RFC3339Nano))
	return json.Marshal(fields)
}

// DecodeStrictly decodes JSON and rejects fields that the target does not have.
func DecodeStrictly(data []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}
