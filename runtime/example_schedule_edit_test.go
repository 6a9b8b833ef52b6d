package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The times of a timetable are known before it is scheduled, and a schedule is changed without its flow.
func ExampleScheduleRef_Edit() {
	report := activity.New("report", func(_ context.Context, customer string) (string, error) { return customer, nil })
	f := flow.New[string, string]("report")
	flow.Return(f, flow.Node(f, "report", report, f.Input()))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	config := runtime.ScheduleConfig{Cron: "0 3 * * 1", TimeZone: "Europe/Berlin"}
	times, err := config.Times(time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC), 2)
	fmt.Println(times, err)
	if _, err := runtime.Schedule(ctx, local.Client(), "weekly", def, "acme", config); err != nil {
		fmt.Println(err)
		return
	}
	s, err := local.Client().Schedule("weekly").Edit(ctx, func(e *runtime.ScheduleEdit) error {
		e.Config.Cron = "0 4 * * 1"
		e.Input = []byte(`"acme inc"`)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	next, err := local.Client().Schedule("weekly").Next(ctx, 5)
	fmt.Println(s.Cron, s.TimeZone, len(next), err)
	// Output:
	// [2026-10-26 02:00:00 +0000 UTC 2026-11-02 02:00:00 +0000 UTC] <nil>
	// 0 4 * * 1 Europe/Berlin 5 <nil>
}
