package engine

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// WorkerRecords keeps what workers say of themselves.
type WorkerRecords interface {
	ReportWorker(context.Context, enginerpc.ReportWorkerCall) (enginerpc.ReportWorkerReply, error)
	DrainWorker(context.Context, enginerpc.DrainWorkerCall) (enginerpc.DrainWorkerReply, error)
	ListWorkers(context.Context, enginerpc.ListWorkersCall) (enginerpc.ListWorkersReply, error)
	FindWorkers(context.Context, enginerpc.FindWorkersCall) (enginerpc.FindWorkersReply, error)
}

// FlowCatalogue keeps what programs publish of flows.
type FlowCatalogue interface {
	PublishFlow(context.Context, enginerpc.PublishFlowCall) (enginerpc.PublishFlowReply, error)
	ReadPublished(context.Context, enginerpc.ReadPublishedCall) (enginerpc.ReadPublishedReply, error)
	ListPublished(context.Context, enginerpc.ListPublishedCall) (enginerpc.ListPublishedReply, error)
	WithdrawFlow(context.Context, enginerpc.WithdrawFlowCall) (enginerpc.WithdrawFlowReply, error)
}

// Directory is the partition that has the records of workers and the catalogue of flows.
func Directory() enginecore.Partition { return enginecore.Partition{Family: enginecore.FlowFamily} }

// WorkerAbout is what the record of a worker says of it in JSON, beside lanes and activities.
type WorkerAbout struct {
	Name         string    `json:"name"`
	Host         string    `json:"host,omitempty"`
	PID          int       `json:"pid,omitempty"`
	Path         string    `json:"path,omitempty"`
	Version      string    `json:"version,omitempty"`
	Revision     string    `json:"revision,omitempty"`
	Modified     bool      `json:"modified,omitempty"`
	Library      string    `json:"library,omitempty"`
	Capabilities []string  `json:"capabilities,omitempty"`
	Slots        int       `json:"slots"`
	Since        time.Time `json:"since"`
}
