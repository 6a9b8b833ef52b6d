package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A report every night at three, by the clock of Berlin. To declare the schedule again changes nothing.
func ExampleSchedule() {
	ctx := context.Background()
	report := activity.New("report", func(_ context.Context, customer string) (string, error) { return "report for " + customer, nil })
	f := flow.New[string, string]("report")
	flow.Return(f, flow.Node(f, "report", report, f.Input()))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	client := local.Client()
	for range 2 {
		s, err := runtime.Schedule(ctx, client, "nightly", def, "acme", runtime.ScheduleConfig{
			Cron: "0 3 * * *", TimeZone: "Europe/Berlin", Overlap: fabrictype.OverlapQueue,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Name, "starts", s.Flow, "by", s.Cron, "in", s.TimeZone)
	}
	// Not before three o'clock, but now.
	id, err := client.Schedule("nightly").Trigger(ctx)
	if err != nil {
		log.Fatal(err)
	}
	run, err := runtime.Attach(client.Run(def.Name(), id), def)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// nightly starts report by 0 3 * * * in Europe/Berlin
	// nightly starts report by 0 3 * * * in Europe/Berlin
	// report for acme <nil>
}
