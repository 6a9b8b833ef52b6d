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

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/timetable"
)

// scheduleVersion is the version of the stored form. A keeper leaves schedules of a later one to others.
const ScheduleVersion = 1

// overlapPolicy says what becomes of a fire while the run that the schedule started last is open. Its text is part of the
// stored form.
type OverlapPolicy string

const (
	OverlapSkip           OverlapPolicy = "skip"
	OverlapQueue          OverlapPolicy = "queue"
	OverlapCancelPrevious OverlapPolicy = "cancel_previous"
	OverlapAllow          OverlapPolicy = "allow"
)

// fireOutcome is what became of a fire. Its text is part of the stored form.
type fireOutcome string

const (
	FireStarted fireOutcome = "started"
	FireSkipped fireOutcome = "skipped"
	FireMissed  fireOutcome = "missed"
	FireFailed  fireOutcome = "failed"
)

const (
	// maxMadeUp bounds the fires that are made up after a time without keepers.
	MaxMadeUp = 100
	// maxScheduleJitter bounds the delay of a fire.
	MaxScheduleJitter = time.Hour
	// scheduleHistory is the number of fires of which the outcome is kept.
	ScheduleHistory = 50
	// scheduleTag is the key of the tag with which runs of a schedule are started.
	ScheduleTag = "flowfabric.schedule"
)

// scheduleSpec is what a schedule was declared to be, as it is stored. Times are Unix ms.
type ScheduleSpec struct {
	Version    int               `json:"version"`
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Flow       string            `json:"flow"`
	GraphHash  string            `json:"graph_hash"`
	InputHash  string            `json:"input_hash"`
	Cron       string            `json:"cron,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	EveryMS    int64             `json:"every_ms,omitempty"`
	StartMS    int64             `json:"start,omitempty"`
	EndMS      int64             `json:"end,omitempty"`
	JitterMS   int64             `json:"jitter_ms,omitempty"`
	Overlap    OverlapPolicy     `json:"overlap"`
	QueueLimit int               `json:"queue_limit,omitempty"`
	CatchUpMS  int64             `json:"catch_up_ms"`
	Retention  string            `json:"retention,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	FireField  string            `json:"fire_field,omitempty"`
	Creator    string            `json:"creator"`
}

// id is that of the schedule.
func (s *ScheduleSpec) Id() enginecore.ScheduleID {
	return enginecore.ScheduleIDFor(enginecore.Namespace(s.Namespace), s.Name)
}

func (s *ScheduleSpec) Timetable() (*timetable.Timetable, error) {
	return timetable.New(timetable.Spec{
		Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.EveryMS) * time.Millisecond, Start: UnixTime(s.StartMS),
		End: UnixTime(s.EndMS), Jitter: time.Duration(s.JitterMS) * time.Millisecond,
	})
}

// sameTimes tells whether two specs fire at the same times but for the jitter.
func (s *ScheduleSpec) sameTimes(as *ScheduleSpec) bool {
	return s.Cron == as.Cron && s.Zone == as.Zone && s.EveryMS == as.EveryMS && s.StartMS == as.StartMS && s.EndMS == as.EndMS
}

func (s *ScheduleSpec) CatchUp() time.Duration { return time.Duration(s.CatchUpMS) * time.Millisecond }

// unixTime reads a stored time; 0 is none.
func UnixTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// scheduleState is how far a schedule has come, as it is stored. Times are Unix ms of the engine's clock.
type ScheduleState struct {
	CreatedAt int64 `json:"created_at"`
	UpdatedAt int64 `json:"updated_at"`
	// Plan is the revision under which definition and input are stored, Plans are all revisions that are.
	Plan  int   `json:"plan"`
	Plans []int `json:"plans"`
	// Due is the next time of the timetable; 0 when there is none.
	Due         int64  `json:"due,omitempty"`
	PausedAt    int64  `json:"paused_at,omitempty"`
	PauseReason string `json:"pause_reason,omitempty"`
	// Serial counts fires that were to start a run. It never goes back.
	Serial int64 `json:"serial"`
	// Waiting are the fires that have no run yet, in order.
	Waiting []PendingFire `json:"waiting,omitempty"`
	// Last is the run that was started last.
	Last *StartedRun `json:"last,omitempty"`
	// LastFire is the time of the last fire, whatever became of it.
	LastFire int64 `json:"last_fire,omitempty"`
	// Fired are the times of the timetable that have been fired: the latest stretches of them.
	Fired   []FiredSpan `json:"fired,omitempty"`
	Started int64       `json:"started,omitempty"`
	Skipped int64       `json:"skipped,omitempty"`
	Missed  int64       `json:"missed,omitempty"`
	Failed  int64       `json:"failed,omitempty"`
	// Deleting: it starts what it has begun to start, and is removed then.
	Deleting bool `json:"deleting,omitempty"`
}

// pendingFire is a fire without a run.
type PendingFire struct {
	At        int64 `json:"at"`
	Serial    int64 `json:"serial"`
	Triggered bool  `json:"triggered,omitempty"`
	// StartBefore is set while a keeper starts the run, with what it read under Plan. No run comes of it later, so then
	// another keeper may begin.
	StartBefore int64 `json:"start_before,omitempty"`
	Plan        int   `json:"plan,omitempty"`
}

// startedRun is a run of a schedule.
type StartedRun struct {
	Flow      string `json:"flow"`
	Run       string `json:"run"`
	At        int64  `json:"at"`
	Cancelled bool   `json:"cancelled,omitempty"`
}

// storedFire is an entry of the history: one fire, or several that were missed.
type storedFire struct {
	At      int64       `json:"at"`
	Until   int64       `json:"until,omitempty"`
	Count   int64       `json:"count,omitempty"`
	Done    int64       `json:"done"`
	Outcome fireOutcome `json:"outcome"`
	Flow    string      `json:"flow,omitempty"`
	Run     string      `json:"run,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Manual  bool        `json:"triggered,omitempty"`
}

// readFire decodes an entry of the history.
func ReadFire(text string) (storedFire, error) {
	var entry storedFire
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return entry, fmt.Errorf("history: %w", err)
	}
	return entry, nil
}

// runOf is the id of a fire's run: the same whoever starts it. That of a trigger cannot be that of a time of the timetable.
func RunOf(schedule string, fire PendingFire) string {
	at := UnixTime(fire.At)
	if fire.Triggered {
		return schedule + "@" + at.Format("2006-01-02T15:04:05.000Z07:00") + "#" + strconv.FormatInt(fire.Serial, 10)
	}
	return schedule + "@" + at.Format(time.RFC3339Nano)
}

// errScheduleVersion: the schedule was made by a later release.
var ErrScheduleVersion = errors.New("the schedule is of a later release")

// scheduleRecord is a schedule as it was read. Methods change it in memory; save writes it if nobody else has.
type ScheduleRecord struct {
	id      enginecore.ScheduleID
	part    enginecore.Partition
	version int64
	Spec    ScheduleSpec
	State   ScheduleState
	// now is the engine's clock when it was read.
	now     time.Time
	times   *timetable.Timetable
	history []string // entries to be added
	// urgent: a keeper is to look at it at once.
	urgent bool
}

func readSpec(id enginecore.ScheduleID, stored []byte) (ScheduleSpec, error) {
	var spec ScheduleSpec
	if err := json.Unmarshal(stored, &spec); err != nil {
		return spec, fmt.Errorf("schedule %s: %w", id, err)
	}
	if spec.Version > ScheduleVersion {
		return spec, fmt.Errorf("schedule %s: %w: its form is %d, this program reads %d", spec.Name, ErrScheduleVersion, spec.Version, ScheduleVersion)
	}
	return spec, nil
}

func ReadRecord(p enginecore.Partition, now time.Time, stored enginerpc.ScheduleRecord) (*ScheduleRecord, error) {
	r := &ScheduleRecord{id: stored.ScheduleID, part: p, version: stored.Version, now: now}
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

// note adds an entry to the history, to be written with the record.
func (r *ScheduleRecord) note(entry storedFire) {
	entry.Done = r.now.UnixMilli()
	text, _ := json.Marshal(entry) // of texts and numbers only
	r.history = append(r.history, string(text))
}

// usedPlans are the revisions that something may still start.
func (s *ScheduleState) usedPlans() []int {
	used := map[int]bool{s.Plan: true}
	for _, fire := range s.Waiting {
		if fire.StartBefore > 0 {
			used[fire.Plan] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// dropPlans forgets revisions that nothing starts any more, and gives them as the call wants them.
func (s *ScheduleState) dropPlans() string {
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

// withFireTime is the input with the time of the fire in a field.
func WithFireTime(input []byte, field string, at time.Time) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(input, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("the input is no JSON object, so it has no field %q for the fire time", field)
	}
	fields[field], _ = json.Marshal(at.UTC().Format(time.RFC3339Nano))
	return json.Marshal(fields)
}

// decodeStrictly refuses fields that the target does not have.
func DecodeStrictly(data []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}
