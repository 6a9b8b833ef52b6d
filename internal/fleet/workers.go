package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Workers returns the live workers, sorted by host and instance. In contract mode the error is
// [engine.ErrNotInContract].
func Workers(ctx context.Context, s *engine.Session) ([]fabrictype.Worker, error) {
	records, err := liveRecords(ctx, s)
	if err != nil {
		return nil, err
	}
	list := make([]fabrictype.Worker, 0, len(records))
	for _, r := range records {
		list = append(list, readWorker(r))
	}
	slices.SortFunc(list, func(a, b fabrictype.Worker) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Instance, b.Instance))
	})
	return list, nil
}

// liveRecords returns the records of the live workers, in no order.
func liveRecords(
	ctx context.Context, s *engine.Session,
) (map[enginecore.WorkerInstanceID]enginerpc.WorkerRecord, error) {
	store, err := s.Library("records of workers")
	if err != nil {
		return nil, err
	}
	found := make(map[enginecore.WorkerInstanceID]enginerpc.WorkerRecord)
	call := enginerpc.ListWorkersCall{Partition: engine.Directory()}
	for {
		reply, err := store.ListWorkers(ctx, call)
		if err != nil {
			return nil, err
		}
		for _, r := range reply.Workers {
			found[r.WorkerInstanceID] = r
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return found, nil
		}
	}
}

// FirstPage returns the live workers that one call lists, in no order, and whether these are all.
func FirstPage(ctx context.Context, store engine.Library) (list []fabrictype.Worker, all bool, err error) {
	reply, err := store.ListWorkers(ctx, enginerpc.ListWorkersCall{Partition: engine.Directory()})
	if err != nil {
		return nil, false, err
	}
	for _, r := range reply.Workers {
		list = append(list, readWorker(r))
	}
	return list, reply.NextCursor == "", nil
}

// Drain makes a live worker take no more work. The error matches enginecore.ErrWorkerNotFound if no live worker has
// that instance.
func Drain(ctx context.Context, store engine.Library, instance, actor string) error {
	_, err := store.DrainWorker(ctx, enginerpc.DrainWorkerCall{
		Partition: engine.Directory(), WorkerInstanceID: enginecore.WorkerInstanceID(instance), Actor: actor,
	})
	if errors.Is(err, enginecore.ErrWorkerNotFound) {
		return engine.Reworded(err, "there is no live worker of this instance")
	}
	return err
}

func readWorker(r enginerpc.WorkerRecord) fabrictype.Worker {
	about := engine.ReadWorkerAbout(r.About)
	var started map[string]int64
	_ = json.Unmarshal(r.Started, &started)
	w := fabrictype.Worker{
		Instance: string(r.WorkerInstanceID), Name: about.Name, State: string(r.State),
		Host: about.Host, PID: about.PID, Build: about.Build,
		Lanes: elementsOf(r.Lanes), Capabilities: about.Capabilities, Slots: about.Slots, Used: int(r.Used),
		Started: started,
		Since:   about.Since, ReportedAt: r.ReportedAt, DrainRequestedAt: r.DrainRequestedAt,
		DrainRequestedBy: r.DrainBy,
	}
	for _, name := range elementsOf(r.Kinds) {
		if name != submit.MapKind && name != submit.SubKind {
			w.Activities = append(w.Activities, name)
		}
	}
	return w
}

// elementsOf returns the elements of a set, sorted.
func elementsOf(set string) []string { return slices.Sorted(strings.FieldsFuncSeq(set, isLineFeed)) }

func isLineFeed(r rune) bool { return r == '\n' }
