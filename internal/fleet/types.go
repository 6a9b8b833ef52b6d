package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// Conflict is an activity whose types differ between workers that take work.
type Conflict struct {
	Activity string
	// Groups are the workers with equal types, each as text with its build: the largest group first.
	Groups [][]string
	// Input and Result report which of the types differ.
	Input, Result bool
}

// Conflicts returns the activities whose types differ between live workers on a common lane, by name. Workers that
// drain do not count. In contract mode the error is [engine.ErrNotInContract].
func Conflicts(ctx context.Context, s *engine.Session) ([]Conflict, error) {
	records, err := liveRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	serving := make(map[string][]server)
	for _, r := range records {
		if w := readWorker(r); !w.Drains() {
			for name, hash := range engine.ReadWorkerAbout(r.About).Types {
				serving[name] = append(serving[name], server{w, hash})
			}
		}
	}
	var found []Conflict
	for _, name := range slices.Sorted(maps.Keys(serving)) {
		if c := conflictOf(name, serving[name]); len(c.Groups) > 1 {
			found = append(found, c)
		}
	}
	return found, nil
}

// server is a worker that serves an activity, with the hash of its types.
type server struct {
	fabrictype.Worker
	hash string
}

func conflictOf(name string, servers []server) Conflict {
	groups := make(map[string][]server)
	for i := range servers {
		s := servers[i]
		if slices.ContainsFunc(servers, func(o server) bool { return o.hash != s.hash && sharesLane(o, s) }) {
			groups[s.hash] = append(groups[s.hash], s)
		}
	}
	hashes := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b))
	})
	c := Conflict{Activity: name}
	for _, hash := range hashes {
		var texts []string
		for _, s := range groups[hash] {
			texts = append(texts, Text(s.Worker))
		}
		slices.Sort(texts)
		c.Groups = append(c.Groups, texts)
		c.Input = c.Input || inputHash(hash) != inputHash(hashes[0])
		c.Result = c.Result || hash[len(inputHash(hash)):] != hashes[0][len(inputHash(hashes[0])):]
	}
	return c
}

func sharesLane(a, b server) bool {
	return slices.ContainsFunc(a.Lanes, func(lane string) bool { return slices.Contains(b.Lanes, lane) })
}

func inputHash(hash string) string { return hash[:min(len(hash), valueschema.HashBytes)] }

// Text names a worker with its build.
func Text(w fabrictype.Worker) string {
	text := cmp.Or(w.Name, w.Instance)
	if w.Host != "" {
		text += " on " + w.Host
	}
	build := strings.TrimSpace(cmp.Or(w.Build.Package, w.Build.Path) + " " + w.Build.Version)
	if w.Build.Revision != "" {
		build = strings.TrimSpace(build + " " + w.Build.Revision[:min(12, len(w.Build.Revision))])
	}
	if build != "" {
		text += fmt.Sprintf(" (%s)", build)
	}
	return text
}

// Decoder finds a live worker that serves the lane, does not drain, and has the activity with another input type; own
// is the hash of the caller's. Of several it returns the first by instance. In contract mode the error is
// [engine.ErrNotInContract].
func Decoder(
	ctx context.Context, s *engine.Session, activity, lane, own string,
) (w fabrictype.Worker, found bool, err error) {
	records, err := liveRecords(ctx, s)
	if err != nil {
		return w, false, err
	}
	for _, r := range records {
		hash, known := engine.ReadWorkerAbout(r.About).Types[activity]
		if !known || inputHash(hash) == inputHash(own) {
			continue
		}
		other := readWorker(r)
		if slices.Contains(other.Lanes, lane) && !other.Drains() && (!found || other.Instance < w.Instance) {
			w, found = other, true
		}
	}
	return w, found, nil
}
