package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Order is the input of the flow demo-order.
type Order struct {
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
}

// Shipment is an order that is shipped.
type Shipment struct {
	Order   Order  `json:"order"`
	Total   int    `json:"total"`
	Receipt string `json:"receipt"`
}

// File is the input of the flow demo-import.
type File struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
}

// Mail is the input of the flow demo-mail.
type Mail struct {
	To string `json:"to"`
}

// Release is the input of the flow demo-release.
type Release struct {
	Version string `json:"version"`
}

// Question is the input of the flow demo-answer.
type Question struct {
	Customer string `json:"customer"`
	Words    int64  `json:"words"`
}

// Lanes of the demo. No worker serves the lane of videos.
const (
	mailLane  = "demo-mail"
	videoLane = "demo-video"
)

// once is the policy of activities that fail for good at their first error.
func once() activity.ExecutionOption { return activity.Retry(activity.RetryPolicy{Attempts: 1}) }

// soon retries a few times without a long wait.
func soon() activity.ExecutionOption {
	return activity.Retry(activity.RetryPolicy{Attempts: 3, First: 50 * time.Millisecond, Factor: 1})
}

// flows are the definitions of the demo.
type flows struct {
	hello             *flow.Definition[string, string]
	oldOrder, order   *flow.Definition[Order, string]
	load              *flow.Definition[File, int]
	mail, video       *flow.Definition[Mail, string]
	release           *flow.Definition[Release, string]
	partner, answered *flow.Definition[Question, string]
}

func build() (flows, error) {
	var f flows
	var faults []error
	collect := func(err error) { faults = append(faults, err) }
	var err error
	f.hello, err = hello()
	collect(err)
	f.oldOrder, err = order(false)
	collect(err)
	f.order, err = order(true)
	collect(err)
	f.load, err = load()
	collect(err)
	f.mail, err = mail()
	collect(err)
	f.video, err = video()
	collect(err)
	f.release, err = release()
	collect(err)
	f.partner, err = partner()
	collect(err)
	f.answered, err = answer()
	collect(err)
	return f, errors.Join(faults...)
}

func hello() (*flow.Definition[string, string], error) {
	say := activity.New("demo.hello", func(_ context.Context, name string) (string, error) {
		return "Hello, " + strings.TrimSpace(name) + "!", nil
	})
	f := flow.New[string, string]("demo-hello", flow.Describe("Greets a person."))
	flow.Return(f, flow.Node(f, "say", say, f.Input()))
	return f.Build()
}

// order is the flow demo-order: the version of today, or the one before, which had no payment.
func order(today bool) (*flow.Definition[Order, string], error) {
	items := activity.New("demo.items", func(_ context.Context, o Order) ([]string, error) { return o.Items, nil })
	price := activity.New("demo.price", func(ctx context.Context, item string) (int, error) {
		activity.Logger(ctx).Info("looking up the price", "item", item)
		return 5 * len(item), activity.Progress(ctx, 100, "found")
	})
	total := activity.New("demo.total", func(_ context.Context, prices []int) (int, error) {
		sum := 0
		for _, price := range prices {
			sum += price
		}
		return sum, nil
	})
	ship := activity.New("demo.ship", func(_ context.Context, in Shipment) (string, error) {
		if in.Order.Customer == "Nemo" {
			return "", activity.Category(activity.NonRetryable(errors.New("no carrier delivers to Nemo")), "delivery")
		}
		return fmt.Sprintf("sent to %s for %d", in.Order.Customer, in.Total), nil
	}, once())
	tell := activity.New("demo.tell", func(_ context.Context, text string) (string, error) { return text, nil })

	f := flow.New[Order, string]("demo-order", flow.Describe("Prices the items of an order, asks a person, takes the money and ships."),
		flow.Tag("demo.shop", "berlin"))
	prices := flow.Map(f, "price", price, flow.Node(f, "items", items, f.Input()))
	sum := flow.Node(f, "total", total, prices)
	approved := flow.Approval(f, "approve", activity.Title("Ship this order?"), activity.Audience("shop"),
		activity.Timeout(24*time.Hour, activity.Escalate), flow.After(sum))
	receipt := flow.Const("paid on delivery")
	fields := []flow.FieldBinding{flow.Field("order", f.Input()), flow.Field("total", sum)}
	if today {
		payment, err := payment()
		if err != nil {
			return nil, err
		}
		fields = append(fields, flow.Field("receipt", flow.Sub(f, "pay", payment, sum, flow.After(approved))))
	} else {
		fields = append(fields, flow.Field("receipt", receipt))
	}
	shipped := flow.Node(f, "ship", ship, flow.Struct[Shipment](fields...), flow.After(approved))
	flow.Node(f, "refund", tell, flow.Const("the money is back"), flow.OnFailure(shipped))
	flow.Return(f, shipped)
	return f.Build()
}

// payment is a flow of its own, which orders run as a child. Its bank is busy at first.
func payment() (*flow.Definition[int, string], error) {
	reserve := activity.New("demo.reserve", func(ctx context.Context, amount int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, errors.New("503 from the bank: try again")
		}
		return amount, nil
	}, soon())
	book := activity.New("demo.book", func(_ context.Context, amount int) (string, error) {
		return fmt.Sprintf("receipt of %d", amount), nil
	})
	f := flow.New[int, string]("demo-payment", flow.Describe("Takes the money for an order."))
	flow.Return(f, flow.Node(f, "book", book, flow.Node(f, "reserve", reserve, f.Input())))
	return f.Build()
}

// load is the flow demo-import, which fails for some files: at a bad row, and by a fault of the program.
func load() (*flow.Definition[File, int], error) {
	fetch := activity.New("demo.fetch", func(ctx context.Context, file File) (File, error) {
		activity.Logger(ctx).Info("fetching", "file", file.Name)
		if strings.HasPrefix(file.Name, "lost") {
			return file, fmt.Errorf("fetch %s: 504 gateway timeout", file.Name)
		}
		return file, activity.ReportUsage(ctx, "rows", int64(file.Rows))
	}, soon())
	parse := activity.New("demo.parse", func(_ context.Context, file File) ([]int, error) {
		if strings.HasPrefix(file.Name, "broken") {
			return nil, activity.Category(activity.NonRetryable(fmt.Errorf("%s: row 17: amount \"12,50\" is not a number", file.Name)), "format")
		}
		return columnsOf(file), nil
	}, once())
	store := activity.New("demo.store", func(_ context.Context, columns []int) (int, error) { return len(columns), nil })
	f := flow.New[File, int]("demo-import", flow.Describe("Fetches, parses and stores a file."),
		flow.Budget("rows", flow.BudgetConfig{Hard: map[string]int64{"rows": 5000}, Soft: map[string]int64{"rows": 2000}}))
	fetched := flow.Node(f, "fetch", fetch, f.Input())
	flow.Return(f, flow.Node(f, "store", store, flow.Node(f, "parse", parse, fetched)))
	return f.Build()
}

// columnsOf has a fault for files without rows, which panics.
func columnsOf(file File) []int {
	columns := make([]int, file.Rows)
	columns[0] = 1
	return columns
}

// mail is the flow demo-mail, whose lane an operator has paused.
func mail() (*flow.Definition[Mail, string], error) {
	send := activity.New("demo.send", func(_ context.Context, m Mail) (string, error) { return "sent to " + m.To, nil },
		activity.Lane(mailLane))
	f := flow.New[Mail, string]("demo-mail", flow.Describe("Sends a mail. Its lane is paused."))
	flow.Return(f, flow.Node(f, "send", send, f.Input()))
	return f.Build()
}

// video is the flow demo-video, which waits for a worker.
func video() (*flow.Definition[Mail, string], error) {
	encode := activity.New("demo.encode", func(_ context.Context, m Mail) (string, error) { return m.To, nil },
		activity.Lane(videoLane))
	f := flow.New[Mail, string]("demo-video", flow.Describe("Encodes a video. No worker serves its lane."))
	flow.Return(f, flow.Node(f, "encode", encode, f.Input()))
	return f.Build()
}

// release is the flow demo-release, which two different people have to approve.
func release() (*flow.Definition[Release, string], error) {
	test := activity.New("demo.test", func(_ context.Context, r Release) (string, error) { return r.Version + " passes", nil })
	deploy := activity.New("demo.deploy", func(_ context.Context, r Release) (string, error) { return r.Version + " is live", nil })
	f := flow.New[Release, string]("demo-release", flow.Describe("Deploys a version when two different people approve."))
	tested := flow.Node(f, "test", test, f.Input())
	approved := flow.Approval(f, "go-live", activity.Approvers(2), activity.Title("Deploy this version?"),
		activity.Question("All tests have passed. Two different people have to approve."), activity.Audience("release managers"),
		activity.Timeout(2*time.Hour, activity.Escalate), flow.After(tested))
	flow.Return(f, flow.Node(f, "deploy", deploy, f.Input(), flow.After(approved)))
	return f.Build()
}

// partner is the flow demo-partner, which calls a slow service of which two calls may run at a time.
func partner() (*flow.Definition[Question, string], error) {
	call := activity.New("demo.call", hold, once(), activity.Limit("demo-partner-api", activity.LimitConfig{AtOnce: 2}))
	f := flow.New[Question, string]("demo-partner", flow.Describe("Calls a slow partner, two calls at a time."), flow.FairBy("customer"))
	flow.Return(f, flow.Node(f, "call", call, f.Input()))
	return f.Build()
}

// answer is the flow demo-answer, whose runs share budgets: one for all of them, and one for each customer.
func answer() (*flow.Definition[Question, string], error) {
	write := activity.New("demo.write", func(ctx context.Context, q Question) (string, error) {
		reserved, err := activity.Reserve(ctx, "words", q.Words)
		if err != nil {
			return "", err
		}
		if q.Words > 100 {
			if _, err := hold(ctx, q); err != nil {
				return "", err
			}
		}
		return "answered " + q.Customer, reserved.Settle(ctx, q.Words/2)
	}, once())
	f := flow.New[Question, string]("demo-answer", flow.Describe("Answers questions within budgets of words."),
		flow.Budget("demo-words", flow.BudgetConfig{Hard: map[string]int64{"words": 500}, Shared: true, OnExceeded: flow.BlockNodes}),
		flow.Budget("demo-customer", flow.BudgetConfig{Hard: map[string]int64{"words": 400}, PerKey: []string{"customer"}}))
	flow.Return(f, flow.Node(f, "write", write, f.Input()))
	return f.Build()
}

// hold works until the worker stops.
func hold(ctx context.Context, q Question) (string, error) {
	if err := activity.Progress(ctx, 40, "waiting for the partner"); err != nil {
		return "", err
	}
	<-ctx.Done()
	return q.Customer, context.Cause(ctx)
}
