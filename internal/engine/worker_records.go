package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Directory is the partition that has the records of workers and the catalogue of flows.
func Directory() keyspace.Partition { return keyspace.Partition{Family: keyspace.FlowFamily} }

// WorkerAbout is the JSON part of a worker's record, in addition to its lanes and activities.
type WorkerAbout struct {
	Name string `json:"name"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	fabrictype.Build
	Capabilities []string  `json:"capabilities,omitempty"`
	Slots        int       `json:"slots"`
	Since        time.Time `json:"since"`
	// Types has for activities a hash of the input, followed by a hash of the result; see valueschema.Hash. It is empty
	// for an activity whose types have no JSON.
	Types map[string]string `json:"types,omitempty"`
}

// ReadWorkerAbout reads the JSON part of a worker's record, without fields of another form by another version.
func ReadWorkerAbout(text []byte) (about WorkerAbout) {
	_ = json.Unmarshal(text, &about)
	return about
}

// buildIDBytes is the length of the id of a build in the id of a worker instance.
const buildIDBytes = 6

// BuildID returns the id under which the engine keeps a build, and the build in the form in which it does.
func BuildID(b fabrictype.Build) (id string, stored []byte) {
	stored, _ = json.Marshal(b) // texts have a JSON form
	sum := sha256.Sum256(stored)
	return hex.EncodeToString(sum[:buildIDBytes]), stored
}

// NewWorkerInstance returns an id for a run of a worker: its name and a UUID of version 8, of which the first 48 bits
// are the id of the build and the others are random. So an attempt, which names its instance, names the build as well.
func NewWorkerInstance(name string, b fabrictype.Build) enginecore.WorkerInstanceID {
	id := uuid.New()
	build, _ := BuildID(b)
	_, _ = hex.Decode(id[:buildIDBytes], []byte(build)) // it has just been encoded
	id[6] = id[6]&0x0f | 8<<4
	return enginecore.WorkerInstanceID(name + "-" + id.String())
}

// BuildIDOf returns the id of the build of a worker; empty for one that does not name it.
func BuildIDOf(instance enginecore.WorkerInstanceID) string {
	const size = 36
	if len(instance) <= size {
		return ""
	}
	id, err := uuid.Parse(string(instance[len(instance)-size:]))
	if err != nil || id.Version() != 8 {
		return ""
	}
	return hex.EncodeToString(id[:buildIDBytes])
}
